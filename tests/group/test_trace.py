"""What a group has done is replayed against its tables; what it cannot have done is found."""

import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from pdproto.check.load import LoadError
from pdproto.check.result import Verdict
from pdproto.check.trace.verdict import ReplayResult
from pdproto.check.trace.verify import verify
from pdproto.group.group import Group
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.spec.handoff.agreement import SYSTEM
from pdproto.spec.language import DropProperty, DropRow, edited
from tests.group.groups import LINK, NEVER, Ranks, Scheduler

Lines = list[dict[str, Any]]


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> list[Lines]:
    """Of an entry and another rank: ten requests, one of which fails and one of which breaks."""
    folder = tmp_path_factory.mktemp("group")
    endpoints = {index: f"ipc://{folder}/{index}" for index in range(2)}
    told = [io.BytesIO() for _ in endpoints]
    groups = [Group("prefill", endpoints, me=index, slots=2, stop=lambda _: True, link=LINK,
                    waits=NEVER, trace=SharedTrace(f"prefill.{index}", told[index]))
              for index in endpoints]
    try:
        both = Ranks([Scheduler(group) for group in groups])
        both.schedulers[1].dead.add(3)
        both.schedulers[1].breaks.add(5)
        both.until_answered(*[both.submit(room) for room in range(10)])
        both.until_idle()
    finally:
        for group in groups:
            group.close()
    return [[line for line in map(json.loads, of.getvalue().splitlines())
             if line.get("on") != "left(peer, r)" and line.get("on") != "lost(r)"] for of in told]


def replayed(folder: Path, *files: Lines, system: Any = SYSTEM) -> ReplayResult:
    """Write the lines, numbered anew, and replay them."""
    paths = []
    for index, lines in enumerate(files):
        paths.append(folder / f"{index}.jsonl")
        numbered = ({**line, "n": number} for number, line in enumerate(lines, start=1))
        paths[-1].write_text("".join(json.dumps(line) + "\n" for line in numbered))
    return verify(system, paths)


def first(lines: Lines, row: str) -> int:
    return next(i for i, line in enumerate(lines) if line.get("row") == row)


def test_it_conforms_and_every_message_was_sent(traces: list[Lines], tmp_path: Path) -> None:
    verified = replayed(tmp_path, *traces)
    assert verified.verdict is Verdict.HOLDS
    assert verified.assumed == {}
    assert verified.lines == sum(map(len, traces))
    assert verified.rows["submit"] == 10
    assert verified.rows["decide_fail"] == verified.rows["decide_drop"] == 1
    assert verified.rows["decide_release"] == 8


def test_one_side_alone_is_taken_at_its_word(traces: list[Lines], tmp_path: Path) -> None:
    verified = replayed(tmp_path, traces[1])
    assert verified.is_explained
    assert verified.assumes == (
        "entry did what others tell of it: no trace of it is given",
        "rank 0 did what others tell of it: no trace of it is given")
    assert verified.assumed["entry"] >= 10


def swapped(lines: Lines, one: int, other: int) -> Lines:
    return [lines[other if i == one else one if i == other else i] for i in range(len(lines))]


def applying(lines: Lines) -> Iterator[int]:
    return (i for i, line in enumerate(lines) if "n" in line.get("with", {}))


SPOILT: dict[str, tuple[Callable[[Lines], Lines], str]] = {
    "a decision before its turn": (
        lambda lines: swapped(lines, *list(applying(lines))[:2]),
        "cannot fire here|no line sends ready"),  # by what the other side has told before
    "a vote that nobody was asked for": (
        lambda lines: [line for line in lines if line.get("row") != "arrive"], "cannot fire here"),
    "a row twice": (
        lambda lines: [*lines, lines[first(lines, "free")]], "cannot fire here"),
    "a row of another machine": (
        lambda lines: [{**line, "row": "submit"} if line.get("row") == "start" else line
                       for line in lines], "has no row 'submit'"),
    "a message that nobody has sent": (
        lambda lines: [*lines, {**lines[first(lines, "arrive")],
                                "with": {"h": [99, 1, 99]}}], r"no line sends request\(1, "),
    "an answer to another message": (
        lambda lines: [{**line, "on": "fail(k, n, h)"} if line.get("row") == "start" else line
                       for line in lines], "start answers admit"),
    "a parameter that the row does not take": (
        lambda lines: [{**line, "with": {**line["with"], "m": 0}}
                       if line.get("row") == "prepare" else line for line in lines],
        "prepare takes h"),
    "a machine that has not begun": (lambda lines: lines[1:], "no line says that machine 1 begins"),
    "a word of no device": (
        lambda lines: [*lines, {"node": "prefill.1", "machine": "rank", "end": 1,
                                "device": [["stage", [1, [0, 0, 0]], "running"]]}],
        "neither a device nor the world"),
}


@pytest.mark.parametrize("what", SPOILT)
def test_an_impossible_trace_is_found(what: str, traces: list[Lines], tmp_path: Path) -> None:
    spoil, why = SPOILT[what]
    verified = replayed(tmp_path, traces[0], spoil(traces[1]))
    assert verified.verdict is Verdict.VIOLATED
    assert verified.rejection is not None
    assert re.search(why, verified.rejection.why)


def test_the_row_is_shown_with_its_missing_guard(traces: list[Lines], tmp_path: Path) -> None:
    lines = [line for line in traces[1] if line.get("row") != "vote_ready"]
    rejection = replayed(tmp_path, lines).rejection
    assert rejection is not None
    assert rejection.file.endswith("0.jsonl")
    (nearest,) = rejection.nearest
    assert nearest.failing == ("stage(r, h) = ready",)


def test_a_line_that_is_missing_is_found(traces: list[Lines], tmp_path: Path) -> None:
    path = tmp_path / "gap.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in traces[1] if line["n"] != 7))
    rejection = verify(SYSTEM, [path]).rejection
    assert rejection is not None
    assert rejection.why == "line 8 of the process follows its line 6"


def test_a_killed_process_leaves_the_rest_to_be_believed(
    traces: list[Lines], tmp_path: Path
) -> None:
    """Its last line is cut, and what it has sent after that was received."""
    whole = [json.dumps(line) + "\n" for line in traces[0]]
    cut, other = tmp_path / "cut.jsonl", tmp_path / "other.jsonl"
    cut.write_text("".join(whole[:len(whole) // 2]) + whole[-1][:30])
    other.write_text("".join(json.dumps(line) + "\n" for line in traces[1]))
    verified = verify(SYSTEM, [cut, other])
    assert verified.verdict is Verdict.UNKNOWN
    assert verified.assumed["entry"] > 0


def test_other_tables_explain_less(traces: list[Lines], tmp_path: Path) -> None:
    without = edited(SYSTEM, "agreement-without-drain", DropRow("drain"), DropRow("turn_away"),
                     DropProperty("S7_drain_follows_its_decision"))
    with pytest.raises(LoadError, match="it is of other tables"):
        replayed(tmp_path, *traces, system=without)
    undigested = [[{key: value for key, value in line.items() if key != "tables"} for line in trace]
                  for trace in traces]
    verified = replayed(tmp_path, *undigested, system=without)
    assert verified.verdict is Verdict.VIOLATED
