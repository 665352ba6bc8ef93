"""A rejected trace of a user's own tables: the page shows what led there, and what fails."""

import json
from pathlib import Path

import pytest

from pdproto.check.result import Verdict
from pdproto.check.trace.verify import to_result, verify
from pdproto.cli.main import main
from pdproto.spec.examples.two_phase_commit import SYSTEM, abort
from tests.check.trace.two_phase_traces import record

Output = pytest.CaptureFixture[str]


@pytest.fixture
def traces(tmp_path: Path) -> list[Path]:
    assert abort.name == "abort"
    return record(tmp_path)


def without(path: Path, text: str) -> int:
    """Take the lines with this text out of a trace, and number the others anew."""
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    kept = [line for line in lines if text not in json.dumps(line)]
    path.write_text("".join(
        json.dumps({**line, "n": n}, separators=(",", ":")) + "\n"
        for n, line in enumerate(kept, 1)))
    return len(lines) - len(kept)


def test_the_trace_conforms(traces: list[Path]) -> None:
    assert verify(SYSTEM, traces).verdict is Verdict.HOLDS


def test_the_steps_that_lead_there_are_told(traces: list[Path]) -> None:
    assert without(traces[0], '"with": {"p": "bob"}') == 1
    rejection = verify(SYSTEM, traces).rejection
    assert rejection is not None
    assert rejection.trace is not None
    told = [(step.row, step.lane) for step in rejection.trace.steps]
    assert told[-1] == ("decide_commit", "coordinator")
    note = to_result(verify(SYSTEM, traces)).findings[0].note
    assert note.endswith("decide_commit cannot fire here; "
                         "decide_commit() needs for all p: heard(p)")
    assert {("prepare", "participant ann"), ("prepare", "participant bob"),
            ("hear", "coordinator")} == {*told[:-1]}
    heard = next(step for step in rejection.trace.steps if step.row == "hear")
    assert heard.received is not None
    assert heard.received.message == "prepared(ann)"
    assert heard.received.sender == "participant ann"
    assert [(c.variable, c.before, c.after) for c in heard.changes] == [
        ("heard(ann)", "false", "true")]
    assert [lane.name for lane in rejection.trace.lanes] == [
        "participant ann", "participant bob", "coordinator"]


def test_the_page_shows_the_steps_and_the_failing_guard(
    traces: list[Path], tmp_path: Path, capsys: Output
) -> None:
    without(traces[0], '"with": {"p": "bob"}')
    page = tmp_path / "page.html"
    assert main(["trace", "--system", "two-phase-commit", *map(str, traces),
                 "--html", str(page)]) == 1
    text = page.read_text(encoding="utf-8")
    assert "No single run shows this" not in text
    assert "prepared(ann)" in text
    assert "decide_commit() needs for all p: heard(p)" in text
    assert "<dt>states</dt>" not in text
    out = " ".join(capsys.readouterr().out.split())
    assert "decide_commit() needs for all p: heard(p)" in out
    assert "hear(ann)" in out


def test_a_line_of_no_machine_is_told_too(traces: list[Path]) -> None:
    text = traces[0].read_text().replace('"machine":"coordinator"', '"machine":"nobody"')
    traces[0].write_text(text)
    rejection = verify(SYSTEM, traces).rejection
    assert rejection is not None
    assert rejection.trace is not None
    assert rejection.trace.steps[-1].row.startswith("line ")
