"""Axioms that contradict each other prove everything: so they are checked first."""

import json
from pathlib import Path

import pytest

from pdproto.check.prove import axioms, proving
from pdproto.check.prove.axioms import ENGINES, require_possible
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import claims, obligations
from pdproto.check.prove.proving import QUANTIFIED, Proof, ProofSettings, prove
from pdproto.check.prove.suggest import suggest
from pdproto.cli.main import main
from pdproto.cli.systems import BUILT_IN, load, subject
from pdproto.spec.catalogue import CATALOGUE
from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Call,
    Formula,
    Machine,
    Row,
    Sort,
    SpecError,
    State,
    System,
    Table,
    auto,
    exists,
    forall,
)
from tests.prove import quorums

PROVED = [entry.name for entry in CATALOGUE if entry.lemmas]
WORDS = "proved for every size from 1 on with one_vote_each, a_quorum_chose, assuming quorums_meet"
ORDERED = ["binding-ordered-no-timers", "binding-prompts-no-timers", "binding-prompts-no-timeouts",
           "binding-prompts-loss"]  # explored only
HERE = "tests.prove.quorums"
LIMIT_S = 10.0
SHORT_S = 0.5
Output = pytest.CaptureFixture[str]


class Phase(State):
    FIRST = auto()
    SECOND = auto()


class Node(Sort):
    """A process."""


host = Machine("host")
phase = host.function("phase", Phase, edges={Phase.FIRST: (Phase.SECOND,), Phase.SECOND: ()})
GO_ON = Row("go_on", on=Call("go_on"), at=Phase.FIRST, to=Phase.SECOND)
GO_BACK = Row("go_back", on=Call("go_back"), at=Phase.SECOND, to=Phase.FIRST)
STILL = System("still", "", (Table(host, state=phase),), final=phase() == Phase.FIRST)
STILL_ENDLESS = System("still-endless", "", STILL.tables, final=STILL.final,
                       axioms=quorums.ENDLESS.axioms)
BACK = System("back", "", (Table(host, state=phase, rows=(GO_ON, GO_BACK)),), final=STILL.final)


def proof_of(system: System, engine: str) -> Proof:
    lemmas = () if system.name == "starting" else quorums.LEMMAS
    found = obligations(system, claims(system, lemmas))
    return prove(system, found, ProofSettings(engines=(engine,), timeout_s=LIMIT_S))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("system", [quorums.CONTRADICTORY, quorums.IN_ONE], ids=str)
def test_no_property_is_proved_from_a_contradiction(system: System, engine: str) -> None:
    with pytest.raises(SpecError, match="the axioms contradict each other"):
        proof_of(system, engine)


x, y = Node("x"), Node("y")
starting = Machine("starting")
on = starting.relation("on", Node, init=ANY)
value = starting.function("value", Phase, init=ANY)
leader = starting.function("leader", Node, init=ANY)
TWO = {"two": exists((x, y), x.differs(y))}
NO_START: dict[str, tuple[Formula, dict[str, Formula], str]] = {
    "a relation": (exists(x, on(x)) & forall(x, ~on(x)), {}, "init= contradicts itself"),
    "two values": (value().among(Phase.FIRST) & value().among(Phase.SECOND), {},
                   "init= contradicts itself"),
    "two elements": (exists((x, y), x.differs(y) & (leader() == x) & (leader() == y)), {},
                     "init= contradicts itself"),
    "with an axiom": (leader() == x, TWO, "the axioms and init= contradict each other"),
}


def with_start(init: Formula, axioms: dict[str, Formula]) -> System:
    never = Always("never", value() == Phase.SECOND)
    return System("starting", "Starts.", (Table(starting),), (never,), init=init, axioms=axioms,
                  final=TRUE)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("start", NO_START)
def test_nothing_is_proved_where_there_is_no_initial_state(start: str, engine: str) -> None:
    init, axioms, told = NO_START[start]
    with pytest.raises(SpecError, match=told):
        proof_of(with_start(init, axioms), engine)
    right = with_start((value() == Phase.SECOND) & exists(x, leader() == x), TWO)
    proof = proof_of(right, engine)
    assert {proof.status(one) for one in proof.obligations} == {Status.PROVED}


@pytest.mark.parametrize("engine", ENGINES)
def test_the_axioms_to_blame_are_named(engine: str) -> None:
    """Axioms without a part in the contradiction are not named."""
    with pytest.raises(SpecError) as error:
        require_possible(quorums.CONTRADICTORY, [engine], LIMIT_S)
    assert "quorums_meet: for all q, r: for some n: member(q, n) and member(r, n)" in str(
        error.value)
    assert "no_members: not member(q, n)" in str(error.value)
    assert "idle" not in str(error.value)


@pytest.mark.parametrize("more", [[], ["--engine", "cutoff"], ["--engine", "quantified"],
                                  ["--engine", "both"], ["--suggest"]], ids=str)
def test_the_command_line_refuses_it(more: list[str], capsys: Output) -> None:
    assert main(["prove", f"{HERE}:CONTRADICTORY", "--quiet", "--no-cache", *more]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "contradict each other" in err
    assert "no contradiction" not in err


def test_lemmas_are_not_suggested_from_a_contradiction() -> None:
    with pytest.raises(SpecError, match="contradict each other"):
        suggest(quorums.CONTRADICTORY, ProofSettings(timeout_s=LIMIT_S))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", PROVED)
def test_the_axioms_of_our_own_systems_can_hold(name: str, engine: str) -> None:
    one = subject(name)
    assert require_possible(one.system, [engine], LIMIT_S).status is Status.PROVED
    for ranking in one.every_ranking:
        found = require_possible(one.system, [engine], LIMIT_S, beside=ranking.assumed)
        assert found.status is Status.PROVED, ranking.leads_to


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("name", ORDERED)
def test_the_axioms_of_the_order_of_lives_can_hold(name: str, engine: str) -> None:
    assert require_possible(load(name), [engine], LIMIT_S).status is Status.PROVED


def test_every_system_with_axioms_has_been_asked_about() -> None:
    with_axioms = {name for name in BUILT_IN if load(name).axioms}
    assert with_axioms
    assert with_axioms <= {*PROVED, *ORDERED} | {
        "ring-election", "dp-rank-no-timers", "paxos", "paxos-broken",
        "alternating-bit-broken", "snapshot-broken"}


def test_an_unknown_answer_proves_nothing(capsys: Output, tmp_path: Path) -> None:
    """An order without a last element has no finite instance, and no contradiction is found."""
    target = tmp_path / "result.json"
    status = main(["prove", f"{HERE}:ENDLESS", "--quiet", "--no-cache", "--timeout", "1",
                   "--json", str(target)])
    assert status == 3
    out = capsys.readouterr().out
    assert "unknown   whether the assumptions can hold together" in out
    assert "proved    " not in out
    assert ": 0 of " in out.partition("\n")[0]
    assert json.loads(target.read_text())["proved"] == 0


def test_unknown_axioms_make_every_verdict_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    unknown = Judgement(Status.UNKNOWN, "nobody knows")
    monkeypatch.setattr(axioms, "ENGINES", dict.fromkeys(ENGINES, lambda *_: unknown))
    proof = proof_of(quorums.SYSTEM, QUANTIFIED)
    assert {proof.status(o) for o in proof.obligations} == {Status.UNKNOWN}


def test_assumptions_of_a_ranking_are_checked_too(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    """A sort without elements: no run has one."""
    monkeypatch.setattr(quorums, "RANKINGS", (quorums.RANKED,), raising=False)
    assert main(["prove", f"{HERE}:SYSTEM", "--lemmas", HERE, "--quiet", "--no-cache"]) == 2
    assert "nobody: for all n: n != n" in capsys.readouterr().err


def test_the_other_engine_is_asked_where_one_does_not_decide(capsys: Output) -> None:
    """`for some` under `for all`, in an axiom and in a lemma: no need to know the engines."""
    arguments = ["prove", f"{HERE}:SYSTEM", "--lemmas", HERE, "--quiet", "--no-cache"]
    assert main(arguments) == 0
    out = capsys.readouterr().out
    assert "7 of 7 obligations proved" in out
    assert "Z3 with quantifiers answered 3 obligations that the cut-off left open" in out
    assert "nothing counts as proved" not in out
    assert main([*arguments, "--engine", "cutoff"]) == 3
    assert "use Z3 with quantifiers (--engine quantified)" in capsys.readouterr().out


def test_both_reasons_are_printed_where_neither_decides(
    monkeypatch: pytest.MonkeyPatch, capsys: Output
) -> None:
    def never(_: System, found: list[object], __: float) -> list[Judgement]:
        return [Judgement(Status.UNKNOWN, "Z3 gave up: timeout") for _ in found]

    monkeypatch.setitem(proving.ENGINES, QUANTIFIED, never)
    arguments = ["prove", f"{HERE}:SYSTEM", "--lemmas", HERE, "--quiet", "--no-cache"]
    assert main(arguments) == 3
    out = capsys.readouterr().out
    assert "`for some` under `for all`" in out
    assert "Z3 gave up: timeout" in out


def test_a_proved_property_is_printed_with_its_axioms(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Output
) -> None:
    """By `check` too, in its table and in every report."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert main(["prove", f"{HERE}:SYSTEM", "--lemmas", HERE, "--quiet"]) == 0
    capsys.readouterr()
    targets = {kind: tmp_path / f"page.{kind}" for kind in ("json", "html", "junit")}
    reports = [part for kind, path in targets.items() for part in (f"--{kind}", str(path))]
    assert main(["check", f"{HERE}:SYSTEM", "--quiet", *reports]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert f"{WORDS}: for all q, r:" in told
    for kind, path in targets.items():
        assert WORDS in path.read_text(), kind


@pytest.mark.parametrize(("system", "status", "line"), [
    ("STILL", 0, "proved    phase_edges: for all sizes (no row can break it)"),
    ("STILL_ENDLESS", 3, "unknown   phase_edges: Z3 gave up on whether"),
    ("BACK", 1, "failed    phase_edges: at go_back"),
])
def test_a_claim_that_no_row_can_break_is_proved_from_possible_axioms_only(
    system: str, status: int, line: str, capsys: Output
) -> None:
    """It has no obligation, whose verdict would be unknown."""
    asked = ["prove", f"{__name__}:{system}", "--quiet", "--no-cache", "--timeout", "1"]
    assert main(asked) == status
    out = capsys.readouterr().out
    assert line in out
    assert ("  proved " in out) == (status == 0)
    assert main([*asked, "--json", "-"]) == status
    assert json.loads(capsys.readouterr().out)["verdict"] == line.split(maxsplit=1)[0]
