"""What SGLang's own managers do is what the tables of spec/peers say that they do."""

import subprocess
import sys
from pathlib import Path

import pytest

from pdproto.check.result import Verdict
from pdproto.check.trace_story import verify
from pdproto.check.trace_verdict import Verified
from pdproto.spec.peers.sglang import SYSTEM

pytest.importorskip("sglang", reason="make test-sglang installs SGLang, 2.3 GB, and runs this")

ROOT = Path(__file__).resolve().parents[2]


def traced(script: str, *options: str, status: int = 0) -> tuple[str, list[Path]]:
    """What a script of examples/peer_defects prints, and the traces that it leaves."""
    done = subprocess.run(
        [sys.executable, "-m", f"examples.peer_defects.{script}", *options],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-4000:]
    folder = Path(next(line for line in done.stdout.splitlines() if line.startswith("traces: "))
                  .removeprefix("traces: "))
    return done.stdout, sorted(folder.glob("*.jsonl"))


def conforming(paths: list[Path]) -> Verified:
    verified = verify(SYSTEM, paths)
    assert verified.verdict is Verdict.HOLDS, verified.rejection or verified.missing
    return verified


@pytest.mark.parametrize("backend", ["mooncake", "nixl"])
def test_plain_runs_and_aborts_conform(backend: str) -> None:
    """Hand-overs in chunks, a room that is used again, and an abort from either side."""
    _, paths = traced("plain", "--backend", backend)
    rows = conforming(paths).rows
    assert {"open_sender", "reopen_sender", "send", "post", "finish", "succeed", "keep_pages",
            "abort_published", "abort_unpublished", "hear_abort", "hear_early_abort", "skip",
            "say_ack", "note_ack", "release_drained", "abort_sender", "clear"} <= set(rows)
    assert ("mark_transferring" in rows) == (backend == "nixl")
