"""`pdproto trace`: what it answers, to whom, and what it makes of traces that are not whole."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from pdproto.check.result import Verdict
from pdproto.check.trace.verify import verify
from pdproto.cli.main import main
from pdproto.cli.systems import load
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.language import DropRow, edited
from tests.check.trace.alterations import GOLDEN, Line, golden, renumbered, write

GOLDEN_FILES = [str(path) for path in sorted(GOLDEN.glob("*.jsonl"))]
SINK, SOURCE = 0, 1  # files of the golden trace
WITHOUT_MEETING = edited(SYSTEM, "transfer-without-meeting", DropRow("meet"))


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """The golden trace, to be spoilt."""
    return [write(lines, tmp_path / f"{lines[0]['node']}.jsonl") for lines in golden()]


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str]:
    status = main(["trace", *map(str, arguments)])
    captured = capsys.readouterr()
    return status, " ".join((captured.out + captured.err).split())


def first(lines: Sequence[Line], row: str) -> int:
    return next(i for i, line in enumerate(lines) if line.get("row") == row)


def test_it_conforms(capsys: pytest.CaptureFixture[str]) -> None:
    status, told = run(capsys, *GOLDEN_FILES)
    assert status == 0
    lines = sum(len(of) for of in golden())
    assert told.startswith(f"CONFORMS {lines} lines of 3 files: 18 endpoints,")


@pytest.mark.parametrize("line", [
    golden()[SOURCE][0],
    {"n": 1, "node": "p0", "machine": "rank", "end": 1, "begins": {"Rank": [0, 1]},
     "own": {"r": 0}},
], ids=lambda line: line["machine"])
def test_without_a_row_nothing_conforms(
    line: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "p0.jsonl"
    trace.write_text(json.dumps(line) + "\n")
    system = "transfer" if line["machine"] == "source" else "agreement"
    status, told = run(capsys, trace, "--system", system)
    assert (status, told.split()[0]) == (3, "INCOMPLETE")
    assert "no line tells of a row, so no row was judged" in told


def test_one_side_alone_is_taken_at_its_word(capsys: pytest.CaptureFixture[str]) -> None:
    """What the other side has sent is assumed, and counted. The answer names the other side."""
    status, told = run(capsys, GOLDEN_FILES[SOURCE])
    assert status == 3
    assert "assumed: decode-0 did what others tell of it: no trace of it is given" in told
    received = sum(line.get("on") in ("introduce(d, h, p)", "publish(d, h, p)", "abort(d, h, p)")
                   for line in golden()[SOURCE])
    assert f"assumed: {received} messages of decode-0, which no line sends" in told


def test_a_line_that_no_row_explains_is_shown(
    files: list[Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The line, the row that it names and what that lacks, its nearest, and what led to it."""
    lines = golden()[SINK]
    place = first(lines, "commit")
    device = max(i for i, line in enumerate(lines[:place])
                 if "device" in line and line["end"] == lines[place]["end"])
    write(renumbered([*lines[:device], *lines[device + 1:]]), files[SINK])
    page, result = tmp_path / "page.html", tmp_path / "result.json"
    status, told = run(capsys, *files, "--html", page, "--json", result)
    assert status == 1
    assert f"decode-0.jsonl, line {place}: commit cannot fire here" in told
    assert "commit(d0, h0, b0) needs for all q, part: feeds(q, d0) implies content(" in told
    assert "find_spoilt(d0, h0, b0) could fire here" in told
    assert "p0 is prefill-0-0-0" in told
    assert "begin_receive(d0, h0)" in told
    answer = json.loads(result.read_text())
    assert answer["verdict"] == "rejected"
    assert answer["rejection"]["line"] == place
    assert answer["rejection"]["nearest"][0]["row"] == "commit"
    steps = answer["rejection"]["finding"]["trace"]
    assert [step["holds"]["conforms"] for step in steps] == [True] * (len(steps) - 1) + [False]
    assert "commit cannot fire here" in page.read_text()


def test_json_of_a_conforming_trace(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", *GOLDEN_FILES, "--json", "-"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["verdict"] == "conforms"
    assert answer["rejection"] is None
    assert "S1_one_life_a_page, for two hand-overs: each is examined alone" in answer["not_judged"]
    assert sum(answer["rows"].values()) == sum("row" in line for of in golden() for line in of)


def test_another_system(capsys: pytest.CaptureFixture[str]) -> None:
    """The same run is none of tables that lack a row."""
    name = f"{__name__}:WITHOUT_MEETING"
    status, told = run(capsys, *GOLDEN_FILES, "--system", name)
    assert status == 1
    assert "the table of source has no row 'meet'" in told


@pytest.mark.parametrize("cut", [1, 30, 100])
def test_a_last_line_that_was_never_finished(
    files: list[Path], capsys: pytest.CaptureFixture[str], cut: int
) -> None:
    """Then what its process had sent is believed, and the answer is not that it conforms."""
    files[SINK].write_bytes(files[SINK].read_bytes()[:-cut])
    status, told = run(capsys, *files)
    if cut == 1:  # the line is whole
        assert status == 0
    else:
        assert (status, told.split()[0]) == (3, "INCOMPLETE")
        assert "decode-0.jsonl: process 1, up to its line" in told


def test_a_process_that_is_stopped_early(files: list[Path]) -> None:
    """Anywhere: what the trace lacks is assumed, and never called wrong."""
    whole = files[SOURCE].read_bytes()
    for end in range(40, len(whole), len(whole) // 12):
        files[SOURCE].write_bytes(whole[:end])
        verified = verify(SYSTEM, files)
        assert verified.verdict is Verdict.UNKNOWN, verified.rejection


def test_a_process_in_the_place_of_a_killed_one(files: list[Path]) -> None:
    """It goes on in the same file, behind a line that was never finished."""
    files[SOURCE].write_bytes(files[SOURCE].read_bytes()[:-30])
    renamed = [line for line in golden()[SOURCE][:2] if line["end"] == 1]
    with files[SOURCE].open("a") as file:
        file.write("".join(json.dumps(line, separators=(",", ":")) + "\n" for line in renamed))
    verified = verify(SYSTEM, files)
    assert verified.verdict is Verdict.UNKNOWN, verified.rejection
    assert any("process 1" in line for line in verified.missing)


def test_a_trace_that_begins_in_the_middle(
    files: list[Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Only where one says so; what had begun before is not judged, and the answer says that."""
    lines = golden()[SOURCE]
    begun = [i for i, line in enumerate(lines) if "begins" in line]
    write(lines[begun[2]:], files[SOURCE])
    status, told = run(capsys, *files)
    assert status == 1
    assert "use --from-middle" in told
    status, told = run(capsys, *files, "--from-middle")
    passed = sum(line["end"] < lines[begun[2]]["end"] for line in lines[begun[2]:])
    assert status == 3
    assert f"passed over: {passed} lines of endpoints that had begun before" in told


def test_rows_that_can_still_fire(files: list[Path]) -> None:
    """A trace that stops while something is still to be done does not tell everything."""
    lines = golden()[SOURCE]
    last = max(i for i, line in enumerate(lines) if line.get("row") == "release_kv")
    end = lines[last]["end"]
    kept = [line for i, line in enumerate(lines) if i < last or line["end"] != end]
    write(renumbered(kept), files[SOURCE])
    verified = verify(SYSTEM, [files[SOURCE]])
    assert verified.verdict is Verdict.UNKNOWN
    assert "release_kv could still fire at source" in verified.missing[0]


@pytest.mark.parametrize(("change", "why"), [
    ({"n": 7}, "line 7 of the process follows its line"),
    ({"node": "prefill-9"}, "the file is of node"),
    ({"machine": "sink"}, "this endpoint is a source, not a sink"),
    ({"end": 99}, "no line says that endpoint 99 begins"),
    ({"row": "meat"}, "the table of source has no row 'meat'"),
    ({"on": "abort(d, h, p)"}, "meet answers introduce(d, h, p), and not abort(d, h, p)"),
    ({"with": {"p": "prefill-0-0-0"}}, "meet takes p, h, d, but the line gives p"),
    ({"with": {"d": "decode-7"}}, "d is decode-7, but this endpoint counts decode-0"),
    ({"with": {"d": 5}}, "d is 5, but this endpoint counts decode-0"),
    ({"with": {"h": [1, 2, 3, 4]}}, ""),
    ({"state": "failed"}, "meet leads to bootstrapping, and not to failed"),
    ({"row": None}, "the line has no row"),
    ({"row": None, "device": [["sending", [], "failed"]]}, "no device may write sending := failed"),
    ({"row": None, "device": [["write", [1], "landed"]]}, "the line gives 1 arguments"),
    ({"row": None, "heard": "done", "of": []}, "no row of source reads 'done'"),
    ({"row": None, "elements": {"Sink": ["decode-0"]}}, "it lacks the number of elements of"),
    ({"row": None, "elements": {"Sink": ["x"], "Chunk": 2, "Buffer": 1}},
     "it counted other elements of Sink before: decode-0"),
    ({"row": None, "elements": {"Sink": ["decode-0", "decode-0"], "Chunk": 2, "Buffer": 1}},
     "an element of Sink is counted twice"),
    ({"row": None, "elements": {"Chunk": 1 << 40}}, "want 0 to 4,096"),
    ({"row": None, "elements": {"Cheese": 1}}, "source counts no elements of 'Cheese'"),
    ({"extra": 1}, "this is not a line of a trace"),
])
def test_every_mistake_has_its_words(
    files: list[Path], change: dict[str, Any], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [dict(line) for line in golden()[SOURCE]]
    place = next(i for i, line in enumerate(lines) if line.get("row") == "meet"
                 and line.get("state") == "bootstrapping")
    if "with" in change and len(change["with"]) == 1 and "p" not in change["with"]:
        change = {"with": {**lines[place]["with"], **change["with"]}}
    lines[place] |= change
    write(lines, files[SOURCE])
    status, told = run(capsys, *files)
    assert status == 1
    assert why in told
    assert f"line {place + 1}" in told


def test_no_line_at_all(files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    files[SOURCE].write_bytes(b"\xff\xfe nothing\n")
    status, told = run(capsys, *files)
    assert status == 1
    assert "this is not a line of a trace" in told
    files[SOURCE].write_bytes(b"")
    assert verify(load("transfer"), [files[SOURCE]]).missing == (f"{files[SOURCE]} has no lines",)


def test_bad_arguments_are_refused(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for arguments, why in (
        ([tmp_path / "none.jsonl"], "No such file"),
        ([tmp_path], "is a folder"),
        ([GOLDEN_FILES[0], GOLDEN_FILES[0]], "is given twice"),
        ([GOLDEN_FILES[0], "--system", "nonsense"], "nonsense"),
    ):
        status, told = run(capsys, *arguments)
        assert status == 2
        assert why in told
