"""Variables that start with any value, and `init=`, which says which of them."""

from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from pdproto.check.bmc import BoundedResult, bounded
from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import DUCKDB, PORTABLE, EngineChoice
from pdproto.check.interpret import Interpreter
from pdproto.check.lint.subject import LintSubject
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED, ProofSettings, prove
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.report import github
from pdproto.check.result import CheckResult, Finding, Verdict
from pdproto.check.stepping.random_walks import random_walks
from pdproto.check.stepping.walk import PathError, nth_walker
from pdproto.check.tables import document
from pdproto.cli.main import main
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import TooLargeError
from pdproto.ground.structure import Structure
from pdproto.runtime.automaton import Automaton
from pdproto.runtime.store import Shared
from pdproto.spec.language import (
    ANY,
    Always,
    Call,
    Configuration,
    Int,
    Machine,
    Refines,
    Row,
    Sort,
    SpecError,
    System,
    Table,
    all_of,
    count,
    each,
    exists,
    forall,
)
from tests.check import starting
from tests.check.report.test_every_format import shown_in_each_format
from tests.check.starting import SYSTEM, Node


def asked(system: System, sizes: dict[type[Sort], int], **settings: Any) -> CheckResult:
    return check(system, Configuration(sizes), CheckSettings(keep_going=True, **settings))


def finding(result: CheckResult, name: str) -> Finding:
    return next(one for one in result.findings if one.name == name)


@pytest.mark.parametrize(("size", "states"), [(3, 302), (4, 1_566)])
@pytest.mark.parametrize("engine", [None, PORTABLE, DUCKDB])
def test_the_published_counts_of_ewd840(
    size: int, states: int, engine: EngineChoice | None
) -> None:
    """Seen red: with the first initial state alone."""
    result = asked(SYSTEM, {Node: size}, **({} if engine is None else {"engine": engine}))
    assert result.states == states
    assert {one.name: one.verdict for one in result.findings} == {
        "detected_is_terminated": Verdict.HOLDS, "never_detected": Verdict.VIOLATED,
        "is_detected": Verdict.HOLDS, "always_terminates": Verdict.VIOLATED,
        "deadlock": Verdict.HOLDS}


def test_the_interpreter_finds_the_same_states() -> None:
    ground = Ground(SYSTEM, {Node: 3})
    plain = Interpreter(SYSTEM, {Node: 3})
    assert len(ground.initial) == len(list(plain.initial())) == 3 * 8 * 8
    assert len(plain.explore().depth) == 302


class Worker(Sort):
    """One of some that are alike."""


v, w = Worker("v"), Worker("w")
hall = Machine("hall")
busy = hall.relation("busy", Worker, init=ANY)
tired = hall.relation("tired", Worker)
tries = hall.function("tries", Int(0, 3), init=ANY)
chief = hall.function("chief", Worker, init=ANY)
HALL = Table(hall, rows=(
    Row("rest", choose=w, when=busy(w), do=[busy(w).to(False), tired(w).to(True)]),
    Row("elect", choose=w, when=chief().unset, do=chief().to(w)),
))
BEGUN = all_of(count(w, busy(w)) <= 1, tries() == 2)
PLACE = System("hall", "Some workers.", (HALL,), (
    Always("one_is_busy", count(w, busy(w)) <= 1),
    Always("nobody_is_busy", ~busy(w)),
    Always("two_tries", tries() == 2),
    Always("no_tries", tries() == 0),
), final=forall(w, ~busy(w)), init=BEGUN,
    configurations={"default": Configuration({Worker: 2})})


def test_the_formula_and_each_kind_of_variable() -> None:
    """Three choices of busy, three of chief. The steps: rest clears one, elect sets one."""
    ground = Ground(PLACE, {Worker: 2})
    assert len(ground.initial) == 3 * 3
    result = asked(PLACE, {Worker: 2})
    assert {one.name: one.verdict for one in result.findings if one.trace} == {
        "nobody_is_busy": Verdict.VIOLATED, "no_tries": Verdict.VIOLATED}
    shown = finding(result, "nobody_is_busy").trace
    assert shown is not None
    assert not shown.steps
    told = {change.variable: change.after for change in shown.start}
    assert "true" in (told["busy(w0)"], told["busy(w1)"])
    assert told["tries"] == "2"


def test_reductions_keep_the_verdicts() -> None:
    plain = asked(PLACE, {Worker: 3})
    for symmetry, dead_bits in ((True, False), (False, True), (True, True)):
        reduced = check(PLACE, Configuration({Worker: 3}, symmetry=symmetry, dead_bits=dead_bits),
                        CheckSettings(keep_going=True))
        assert [one.verdict for one in reduced.findings] == [
            one.verdict for one in plain.findings]
        assert reduced.states < plain.states or not symmetry


@pytest.mark.parametrize("engine", [CUTOFF, QUANTIFIED])
def test_a_proof_starts_there(engine: str) -> None:
    """Seen red: with the first values, `no_tries at the start` was proved."""
    subject = ProofSubject(PLACE, (), {}).without_counts()
    found = subject.obligations()
    proof = prove(subject.system, found, ProofSettings(engines=(engine,)))
    start = {o.claim.name: proof.status(o) for o in found if o.scope == "the start"}
    assert {name for name, status in start.items() if status is not Status.PROVED} == {
        "nobody_is_busy", "no_tries"}
    assert "chief_has_one_value" in start


@pytest.mark.parametrize(("claim", "steps"), [
    (~busy(w), 0), (~(tired(w) & tired(v)) | v.same(w), None), (~tired(w), 1)])
def test_bounded_model_checking_starts_there(claim: Any, steps: int | None) -> None:
    """No row sets `busy`: seen red, where its bits were thought to be always false."""
    system = replace(PLACE, properties=(Always("claim", claim),), like=PLACE)
    found = bounded(system, Configuration({Worker: 2}), 4)
    told = next(one for one in found.findings if one.name == "claim")
    assert told.trace_length == steps
    assert (told.verdict is Verdict.VIOLATED) == (steps is not None)


def test_lint_knows_that_a_row_can_fire_from_the_start() -> None:
    subject = LintSubject(PLACE, {Worker: 2}, {})
    assert {row.row.name for _, row in subject.live_rows} == {"rest", "elect"}


above = Machine("above", host=True)
left = above.function("left", Int(0, 2), init=ANY)
LEFT = System("left", "How many are left.", (Table(above, rows=(
    Row("one_less", when=left() > 0, do=left().to(left() - 1)),)),), init=left() < 2)


@pytest.mark.parametrize(("init", "verdict", "told"), [
    (BEGUN, Verdict.HOLDS, ""),
    (tries() == 2, Verdict.VIOLATED, "left goes from 0 to 2, which is no initial state"),
])
def test_an_initial_state_is_one_of_the_abstract_system(
    init: Any, verdict: Verdict, told: str
) -> None:
    claim = Refines("refines", LEFT, mapping=(left().to(count(w, busy(w))),))
    system = replace(PLACE, properties=(claim,), init=init, like=PLACE)
    found = finding(asked(system, {Worker: 2}), "refines")
    assert found.verdict is verdict
    assert told in found.note


doors = Machine("doors", host=True)
open_ = doors.relation("open", Worker, init=ANY)
OPEN = System("open", "Who is open.", (Table(doors, rows=(
    Row("close", choose=w, do=open_(w).to(False)),)),),
    init=forall((v, w), ~(open_(v) & open_(w)) | v.same(w)))


@pytest.mark.parametrize(("init", "status"), [
    (forall((v, w), ~(busy(v) & busy(w)) | v.same(w)), Status.PROVED), (None, Status.FAILED)])
def test_a_proof_of_a_refinement_starts_there(init: Any, status: Status) -> None:
    claim = Refines("refines", OPEN, mapping=(open_(w).to(busy(w)),))
    system = replace(PLACE, properties=(claim,), init=init, like=PLACE)
    found = [o for o in obligations(system, claims(system)) if o.claim.name == "refines"]
    proof = prove(system, found, ProofSettings())
    assert {o.scope: proof.status(o) for o in found} == {
        "the start": status, "rest": Status.PROVED}


def test_a_lasso_begins_in_any_initial_state() -> None:
    result = asked(SYSTEM, {Node: 2})
    shown = finding(result, "always_terminates").trace
    assert shown is not None
    assert "true" in {one.after for one in shown.start if one.variable.startswith("active")}


def test_a_number_names_an_initial_state_to_explore() -> None:
    configuration = Configuration({Worker: 2})
    every = [nth_walker(PLACE, configuration, number) for number in range(1, 10)]
    assert len({one.initial for one in every}) == 9
    with pytest.raises(PathError, match="has 9 initial states at these sizes"):
        nth_walker(PLACE, configuration, 10)


def test_random_walks_begin_in_any_initial_state() -> None:
    seen = random_walks(nth_walker(PLACE, Configuration({Worker: 2}), 1), 1, 100, 1)
    assert seen.violations.keys() == {"nobody_is_busy", "no_tries"}


def test_explore_begins_at_the_start_of_the_violation(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen red: in the first initial state nobody is busy."""
    monkeypatch.setattr("sys.stdin", StringIO("p\n"))
    assert main(["explore", "tests.check.test_starts:PLACE", "--text", "--violation",
                 "nobody_is_busy"]) == 0
    assert "✗ nobody_is_busy  violated" in capsys.readouterr().out


WRONG: Any = "x"


@pytest.mark.parametrize(("make", "problem"), [
    (lambda: replace(PLACE, init=tired(w), like=PLACE),
     "init: tired starts with one value, so init= says nothing of it: declare it with init=ANY"),
    (lambda: replace(PLACE, init=WRONG, like=PLACE), "is no formula"),
    (lambda: hall.function("boss", Worker, init=WRONG), "with init=ANY any element or unset"),
    (lambda: hall.relation("late", init=WRONG), "want True, where it holds"),
])
def test_a_mistake_is_told_in_one_line(make: Callable[[], object], problem: str) -> None:
    with pytest.raises(SpecError, match=problem) as told:
        make()
    assert "test_starts.py:" in str(told.value)
    assert "\n" not in str(told.value)


def test_a_formula_without_a_state_is_told() -> None:
    system = replace(PLACE, init=exists(w, busy(w) & ~busy(w)), like=PLACE)
    with pytest.raises(SpecError, match=r"init: no state satisfies it at Worker=2: drop a part"):
        asked(system, {Worker: 2})


IMPOSSIBLE = '''
from pdproto.spec.language import *

class Node(Sort):
    """A node."""

n, k = Node("n"), Node("k")
room = Machine("room")
on = room.relation("on", Node, init=ANY)
SYSTEM = System("room", "A room.", (Table(room, rows=(
    Row("off", choose=n, when=on(n), do=on(n).to(False)),)),), (Always("never", ~on(n)),),
    init=INIT, final=TRUE, configurations={"default": Configuration({Node: 3})})
'''


@pytest.mark.parametrize("verb", [
    "check", "lint", "prove", "run", "export --tla", "mutate", "explore --text"])
def test_each_verb_tells_a_formula_without_a_state(
    verb: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    spec = tmp_path / "room.py"
    spec.write_text(IMPOSSIBLE.replace("INIT", "on(n) & exists(k, ~on(k))"))
    name, *options = verb.split()
    assert main([name, f"{spec}:SYSTEM", *options]) == (1 if verb == "lint" else 2)
    told = capsys.readouterr()
    (line,) = [one for one in (told.out + told.err).splitlines() if "init" in one]
    assert f"{spec}:10: " in line
    assert "no state satisfies it at Node=3" in line or "contradicts itself" in line
    assert "drop a part of init=" in line
    assert "Traceback" not in told.err


def test_lint_judges_a_formula_at_the_sizes_of_the_system(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """At two of each sort, where lint looks at rows, no state satisfies this one."""
    spec = tmp_path / "room.py"
    spec.write_text(IMPOSSIBLE.replace("INIT", "count(n, on(n)) == 3"))
    assert main(["lint", f"{spec}:SYSTEM"]) == 0
    assert "error" not in capsys.readouterr().out


def test_too_many_initial_states_are_told() -> None:
    with pytest.raises(TooLargeError, match="over 1,000,000 initial states at Worker=20"):
        _ = Ground(replace(PLACE, init=None, like=PLACE), {Worker: 20}).initial


@pytest.mark.parametrize("run", [
    lambda: Automaton(HALL, {Worker: 2}), lambda: Shared(HALL, scans=True)])
def test_a_machine_that_runs_needs_one_value(run: Callable[[], object]) -> None:
    with pytest.raises(SpecError, match=r"busy of hall starts with any value \(init=ANY\)"):
        run()


@pytest.mark.parametrize("verb", [["fuzz"], ["sim"], ["trace", "--system"]])
def test_what_runs_machines_says_so_in_one_line(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "trace.jsonl"
    file.write_text("", encoding="utf-8")
    files = [str(file)] if verb[0] == "trace" else []
    assert main([*verb, "tests.check.test_starts:PLACE", *files]) == 2
    told = capsys.readouterr().err.strip()
    assert "busy of hall starts with any value (init=ANY)" in told
    assert told.count("\n") == 0


def test_the_page_has_the_initial_states() -> None:
    page = document(PLACE)
    assert "any at the start" in page
    assert "A state is initial where" in page


def test_a_digest_has_every_field_of_a_system() -> None:
    """Seen red for `init`, as long as it was no field: caches then gave another system's answer."""

    def digest(system: System) -> bytes:
        return Structure({Worker: 2}).of(system)

    assert digest(replace(PLACE, init=None, like=PLACE)) != digest(PLACE)
    other = Machine("hall")
    fixed = other.relation("busy", Worker)
    free = Machine("hall").relation("busy", Worker, init=ANY)
    assert Structure().of(fixed) != Structure().of(free)


def test_an_edit_keeps_the_initial_states() -> None:
    edited = replace(PLACE, tables=(HALL.without("elect"),), like=PLACE)
    assert Ground(edited, {Worker: 2}).initial == Ground(PLACE, {Worker: 2}).initial


def test_each_sets_what_started_free() -> None:
    row = Row("all_rest", on=Call("all_rest"), do=each(w, busy(w).to(False)))
    system = replace(PLACE, tables=(Table(hall, rows=(row,)),), like=PLACE, properties=())
    assert asked(system, {Worker: 2}).states == 9


def test_the_example_module_is_a_system() -> None:
    assert starting.SYSTEM.init is not None


WAYS: dict[str, Callable[[Configuration], CheckResult | BoundedResult]] = {
    "plain": lambda one: check(PLACE, one, CheckSettings(keep_going=True)),
    "portable": lambda one: check(PLACE, one, CheckSettings(keep_going=True, engine=PORTABLE)),
    "reduced": lambda one: check(PLACE, replace(one, symmetry=True, dead_bits=True),
                                 CheckSettings(keep_going=True)),
    "bmc": lambda one: bounded(PLACE, one, 4, keep_going=True),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_drawing_tells_which_initial_state_it_begins_in(way: str) -> None:
    """Seen red: SARIF and the lines for GitHub had the rows alone."""
    told = WAYS[way](Configuration({Worker: 2}))
    result = asked(PLACE, {Worker: 2})
    drawn = [one for one in told.findings if one.trace is not None]
    assert len(drawn) >= 2
    for one in drawn:
        assert one.trace is not None
        values = {change.variable: change.after for change in one.trace.start}
        assert values.keys() == {"busy(w0)", "busy(w1)", "tries", "chief"}
        alone = replace(result, findings=(one,))
        shown = shown_in_each_format(alone) | {"github": "\n".join(github.of_check(alone))}
        for name, text in shown.items():
            assert all(cell in text for cell in values), name
