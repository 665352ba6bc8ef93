"""Hand-overs, soaks and studies that are ended before their time: quietly, and tidily."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from tests.waiting import until

PATIENCE_S = 60.0
FAR_TOO_MANY = "1000000"
DRILLS = {"handoff": ("--requests", FAR_TOO_MANY), "soak": ("--seconds", FAR_TOO_MANY),
          "study": ("force-query", "--requests", FAR_TOO_MANY)}
PROGRAMS = {"handoff": "pdproto.cli.main", "soak": "lab", "study": "lab"}


@pytest.fixture
def folder() -> Iterator[Path]:
    """One with a short path: where it is too long for a socket, processes start in another way."""
    with TemporaryDirectory() as name:
        yield Path(name)


@pytest.fixture(autouse=True)
def _interrupts_reach_children() -> Iterator[None]:
    """A shell's background job ignores SIGINT, and so would each process that it starts."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def ranks_of(drill: psutil.Process) -> list[psutil.Process]:
    """The processes that it has started: copies of a process of Python's own, which it starts."""
    own = drill.children()
    return [child for child in drill.children(recursive=True) if child not in own]


def wait_for_hand_overs(verb: str, traces: Path) -> None:
    """Wait until every rank has taken rows; only `handoff` keeps traces, others get two seconds."""
    if verb != "handoff":
        time.sleep(2.0)
        return

    def have_rows() -> bool:
        sizes = [path.stat().st_size for path in traces.glob("*.jsonl")]
        return len(sizes) >= 2 and all(sizes)

    until(have_rows, within_s=PATIENCE_S)


@pytest.mark.parametrize(("verb", "when", "how"), [
    ("handoff", "starting", "Ctrl-C"), ("handoff", "starting", "SIGTERM"),
    ("handoff", "running", "Ctrl-C"), ("handoff", "running", "SIGTERM"),
    ("handoff", "running", "SIGKILL"),
    *(pytest.param("soak", *end, marks=pytest.mark.nightly) for end in (
        ("running", "SIGTERM"), ("starting", "Ctrl-C"), ("starting", "SIGTERM"),
        ("running", "Ctrl-C"),
        ("running", "SIGKILL"))),
    ("study", "running", "Ctrl-C"),
    *(pytest.param("study", *end, marks=pytest.mark.nightly) for end in (
        ("starting", "Ctrl-C"), ("running", "SIGTERM"), ("running", "SIGKILL"))),
])
def test_b7_a_drill_ends_without_tracebacks_and_leaves_nothing(
    tmp_path: Path, folder: Path, verb: str, when: str, how: str
) -> None:
    """Ctrl-C goes to all processes of the terminal, SIGTERM and SIGKILL to the drill alone."""
    errors, traces = tmp_path / "errors", tmp_path / "traces"
    told = ("--trace", str(traces)) if verb == "handoff" else ()
    with errors.open("wb") as log, subprocess.Popen(
        [sys.executable, "-m", PROGRAMS[verb], verb, "--quiet", *DRILLS[verb], *told],
        stdout=log, stderr=log, start_new_session=True, env=os.environ | {"TMPDIR": str(folder)},
    ) as drill:
        try:
            seen = psutil.Process(drill.pid)
            until(lambda: len(ranks_of(seen)) >= 3, within_s=PATIENCE_S)
            if when == "running":
                wait_for_hand_overs(verb, traces)
            ranks = ranks_of(seen)
            assert len(ranks) >= 3
            if how == "Ctrl-C":
                os.killpg(drill.pid, signal.SIGINT)
            else:
                drill.send_signal(getattr(signal, how))
            status = drill.wait(PATIENCE_S)
            _, alive = psutil.wait_procs(ranks, PATIENCE_S)
            assert alive == []
        finally:
            drill.kill()
    said = errors.read_text()
    if how == "SIGKILL":
        assert "Traceback" not in said
        return
    assert (status, said) == (3, "pdproto: interrupted before the answer was complete\n")
    assert list(folder.iterdir()) == []
