"""Sorts of numbers: states against a plain search, proofs, ends, mistakes, processes, traces."""

import json
import operator
from collections.abc import Callable, Iterator
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import NATIVE, PORTABLE
from pdproto.check.result import Verdict
from pdproto.cli.main import main
from pdproto.ground.grounding import Ground
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.process import Name, Process
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.language import (
    TRUE,
    Always,
    Call,
    Configuration,
    Ignore,
    Int,
    Machine,
    Message,
    Numbers,
    Row,
    Seq,
    Sort,
    SpecError,
    System,
    Table,
    count,
    if_then_else,
    implies,
    sum_of,
)
from tests.collection.model import reached


class Node(Sort):
    """A process."""


class Step(Numbers, values=Int(-1, 3)):
    """A number that travels."""


n, m = Node("n"), Node("m")
s, t = Step("s"), Step("t")
LOW, HIGH = Step.values.low, Step.values.high


def steps(*, guarded: bool = True, claimed: bool = False) -> System:
    """Nodes tell the hub numbers; it answers with the next one, and each keeps the largest."""
    node, hub = Machine("node", n), Machine("hub")
    kept = node.function("kept", Step, init=0)
    told = hub.relation("told", Step)
    tell = Message("tell", n, s, sender=node, receiver=hub)
    answer = Message("answer", n, s, sender=hub, receiver=node)
    return System("steps", "Numbers that travel.", (
        Table(node, rows=(
            Row("begin", on=Call("begin", s), when=(kept(n) == s) & (s % 2 == 0), send=tell(n, s)),
            Row("keep", on=answer(n, s), when=s > kept(n), do=kept(n).to(s), send=tell(n, s)),
            Ignore(answer(n, s), when=s <= kept(n), why="it keeps a larger one"))),
        Table(hub, rows=(
            Row("next", on=tell(n, s), when=[~told(s), *([s < HIGH] if guarded else [])],
                do=told(s).to(True), send=answer(n, Step(s + 1))),
            Ignore(tell(n, s), when=told(s) | (s == HIGH), why="it is answered"))),
    ), (
        Always("one_more", implies(answer(n, s), s > LOW)),
        Always("not_less", kept(n) >= 0),
        *((Always("few", count(s, told(s)) <= HIGH),
           Always("small", sum_of(s, s, where=told(s)) < HIGH, "false")) if claimed else ()),
    ), final=TRUE, configurations={"default": Configuration({Node: 2})})


# The numbers that are kept, those that are told, the messages to the hub, and its answers.
Messages = frozenset[tuple[int, int]]
State = tuple[tuple[int, ...], frozenset[int], Messages, Messages]


def _after(state: State) -> Iterator[State]:
    kept, told, sent, answered = state
    for node, own in enumerate(kept):
        if own % 2 == 0:
            yield kept, told, sent | {(node, own)}, answered
    for node, number in sent:
        if number not in told and number < HIGH:
            yield kept, told | {number}, sent, answered | {(node, number + 1)}
    for node, number in answered:
        if number > kept[node]:
            after = tuple(number if one == node else of for one, of in enumerate(kept))
            yield after, told, sent | {(node, number)}, answered


def test_the_states_are_those_of_a_plain_search() -> None:
    states = reached([((0, 0), frozenset(), frozenset(), frozenset())], _after)
    system = CLAIMED
    for engine in (NATIVE, PORTABLE):
        found = check(system, system.configurations["default"],
                      CheckSettings(keep_going=True, engine=engine))
        assert found.states == states
        broken = [one for one in found.findings if one.verdict is Verdict.VIOLATED]
        assert [one.name for one in broken] == ["small"]
        assert broken[0].trace is not None
        assert broken[0].trace.steps[1].parameters == "n0, 0, 1"  # with the number that it answers


def test_a_proof_knows_numbers() -> None:
    names = [part for name in ("one_more", "not_less", "next_stays_in_range")
             for part in ("--property", name)]
    assert main(["prove", f"{SPEC}:SYSTEM", *names]) == 0
    assert main(["prove", f"{SPEC}:UNGUARDED", "--property", "next_stays_in_range"]) == 1


def test_an_argument_past_the_range_is_an_error_with_its_row() -> None:
    system = steps(guarded=False)
    found = check(system, system.configurations["default"], CheckSettings(keep_going=True))
    broken = {one.name: one for one in found.findings if one.verdict is Verdict.VIOLATED}
    assert "next_stays_in_range" in broken
    assert broken["next_stays_in_range"].trace is not None


def _told(numbers: Any) -> Message[*tuple[Any, ...]]:
    return Message("told", n, numbers, sender=Machine("node", n), receiver=Machine("hub"))


def _named(claim: Any) -> System:
    node = Machine("node", n)
    done = node.relation("done", Step)
    last = node.function("last", Step)
    return System("named", "Numbers.", (Table(node, rows=(
        Row("do", on=Call("do", s), do=done(n, s).to(True)),)),), (
            Always("claimed", claim(done, last)),))


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "no range": (lambda: type("Wrong", (Numbers,), {}), "Wrong: values=None: want the range"),
    "a size": (lambda: type("Wrong", (Numbers,), {}, values=Int(0, 1), ordered=True),
               "ordered= is for other sorts"),
    "a constant past the end": (lambda: Step(4), "4 is no Step: it has the range Int(-1,"),
    "another sort": (lambda: s < n, "want a number"),
    "an argument of a claim": (
        lambda: _named(lambda done, last: done(n, Step(last(n) + 1))),
        "property 'claimed': last(n) + 1 is an argument: only a row computes one"),
    "a number where an element belongs": (lambda: _told(s)(1, s), "want variables of Node, Step"),
    "a number that is no variable": (
        lambda: _told(s)(n, s + 1), "write Step(s + 1) for the number"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_told_in_one_line(mistake: str) -> None:
    make, told = MISTAKES[mistake]
    with pytest.raises(SpecError) as refused:
        make()
    assert told in refused.value.problem
    assert "\n" not in str(refused.value)


def test_a_sort_of_numbers_is_a_range_of_values_too() -> None:
    node = Machine("node", n)
    own, log = node.function("own", Step), node.function("log", Seq(Step, most=2))
    system = System("values", "Values.", (Table(node, rows=(
        Row("note", on=Call("note", s), when=~log(n).full & (s > own(n)),
            do=[log(n).append(s), own(n).to(if_then_else(s > 1, s, own(n) + 1))]),)),),
        (Always("in_order", implies(log(n).full, log(n).head <= log(n).last)),), final=TRUE,
        configurations={"default": Configuration({Node: 1})})
    found = check(system, system.configurations["default"], CheckSettings())
    assert found.findings[0].verdict is Verdict.HOLDS

    def after(state: tuple[int, tuple[int, ...]]) -> Iterator[tuple[int, tuple[int, ...]]]:
        last, noted = state
        for one in range(LOW, HIGH + 1):
            if len(noted) < 2 and one > last:
                yield one if one > 1 else last + 1, (*noted, one)

    assert found.states == reached([(LOW, ())], after)


SPEC = Path(__file__)
AMONG: tuple[Name, ...] = (("hub",), ("node", "x"), ("node", "y"))


def _run(folder: Path) -> list[Path]:
    """A run of three processes, and the files with their traces."""
    files = {name: BytesIO() for name in AMONG}
    processes = {name: Process(SYSTEM, str(name[0]), *name[1:], among=AMONG,
                               trace=SharedTrace(str(name[-1]), file))
                 for name, file in files.items()}
    with pytest.raises(LocalProtocolError, match="7 is no Step here"):
        processes["node", "x"].call("begin", 7, now=0.0)
    processes["node", "x"].call("begin", 0, now=0.0)
    moved = True
    while moved:
        moved = False
        for process in processes.values():
            for to, frame in process.outgoing():
                moved = True
                assert processes[to].take(frame, 0.0) is not None
    found = []
    for name, file in files.items():
        found.append(folder / f"{name[-1]}.jsonl")
        found[-1].write_bytes(file.getvalue())
    return found


SYSTEM, UNGUARDED, CLAIMED = steps(), steps(guarded=False), steps(claimed=True)
TRACE = ["trace", "--system", f"{SPEC}:SYSTEM"]


def test_the_trace_of_a_run_conforms(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdin", StringIO(""))
    files = _run(tmp_path)
    assert main([*TRACE, *map(str, files)]) == 0
    assert "CONFORMS" in capsys.readouterr().out
    false = ["trace", "--system", f"{SPEC}:CLAIMED", *map(str, files)]
    assert main(false) == 1
    assert "small is violated" in capsys.readouterr().out
    assert main(["explore", f"{SPEC}:SYSTEM", "--text", "--trace", *map(str, files)]) == 0


@pytest.mark.parametrize(("file", "row", "other"), [
    ("hub", "next", {"s": 7}), ("hub", "next", {"s": "0"}), ("hub", "next", {"s": 1}),
    ("hub", "next", {"s_plus_1": 2}), ("x", "keep", {"s": 2}), ("x", "keep", {"s": -1})])
def test_a_number_that_is_changed_is_rejected(
    tmp_path: Path, file: str, row: str, other: dict[str, object]
) -> None:
    files = _run(tmp_path)
    lines = (tmp_path / f"{file}.jsonl").read_text(encoding="utf-8").splitlines()
    place = next(k for k, line in enumerate(lines) if json.loads(line).get("row") == row)
    line = json.loads(lines[place])
    line["with"] |= other
    lines[place] = json.dumps(line)
    (tmp_path / f"{file}.jsonl").write_text("\n".join([*lines, ""]), encoding="utf-8")
    assert main([*TRACE, *map(str, files)]) == 1


hub = Machine("hub")
follows = hub.relation("follows", Step, Step)
PAIRS = System("pairs", "Pairs of numbers.", (Table(hub, rows=(
    Row("note", on=Call("note", s, t), when=s + 1 == t, do=follows(s, t).to(True)),)),))


@pytest.mark.parametrize("sign", ["<", "<=", ">", ">=", "==", "!="])
def test_two_variables_compare_as_their_numbers(sign: str) -> None:
    compare = getattr(operator, {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq",
                                 "!=": "ne"}[sign])
    system = System("compared", "Numbers.", (Table(hub, rows=(
        Row("note", on=Call("note", s, t), when=compare(s.number, t),
            do=follows(s, t).to(True)),)),))
    ground = Ground(system, {})
    found = {(row.environment[s] + LOW, row.environment[t] + LOW) for row in ground.rows}
    numbers = range(LOW, HIGH + 1)
    assert found == {(one, two) for one in numbers for two in numbers if compare(one, two)}


@pytest.mark.parametrize(("given", "status"), [
    ((0, 1), 0), ((0, 2), 1), ((1, 0), 1), ((5, 6), 1), ((-2, -1), 1)])
def test_a_line_is_of_numbers_that_the_row_takes(
    given: tuple[int, int], status: int, tmp_path: Path
) -> None:
    file = BytesIO()
    process = Process(PAIRS, "hub", among=[("hub",)], trace=SharedTrace("hub", file))
    process.call("note", 0, 1, now=0.0)
    told = file.getvalue().replace(b'"s":0,"t":1', b'"s":%d,"t":%d' % given)
    (tmp_path / "hub.jsonl").write_bytes(told)
    assert main(["trace", "--system", f"{SPEC}:PAIRS", str(tmp_path / "hub.jsonl")]) == status
