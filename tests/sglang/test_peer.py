"""What SGLang's own managers do is what the tables of lab/peers say that they do."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lab.peers.sglang import SYSTEM
from lab.sglang_0_5_23.plugin import plugin
from pdproto.check.result import Verdict
from pdproto.check.trace.verdict import ReplayResult
from pdproto.check.trace.verify import verify
from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

ROOT = Path(__file__).resolve().parents[2]


def traced(script: str, *options: str, status: int = 0) -> tuple[str, list[Path]]:
    """What a script of lab/peer_defects prints, and the traces that it leaves."""
    done = subprocess.run(
        [sys.executable, "-m", f"lab.peer_defects.{script}", *options],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )
    assert done.returncode == status, done.stdout[-2000:] + done.stderr[-4000:]
    folder = Path(next(line for line in done.stdout.splitlines() if line.startswith("traces: "))
                  .removeprefix("traces: "))
    return done.stdout, sorted(folder.glob("*-*.jsonl"))  # those of the ranks


def conforming(paths: list[Path]) -> ReplayResult:
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


INSTALLED = """
import sys
from lab.peer_defects.pair import Decode, Prefill, World, leave
from lab.peer_defects.steps import hand_over
from lab.sglang_0_5_23.install import install
install(sys.argv[1])
install(sys.argv[1])  # a second time changes nothing
world = World(sys.argv[2], traced=False)
prefill, decode = Prefill(world), Decode(world)
for room in (1, 2, 1):
    hand_over(prefill, decode, room, room, pages=2)
leave(0)
"""


@pytest.mark.parametrize("backend", ["mooncake", "nixl"])
def test_whoever_installs_it_gets_a_file_for_each_manager(tmp_path: Path, backend: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", INSTALLED, str(tmp_path / "traces"), backend],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    paths = sorted((tmp_path / "traces").iterdir())
    assert [path.name.split("-")[0] for path in paths] == ["decode", "prefill"]
    verified = conforming(paths)
    assert verified.rows["succeed"] == verified.rows["take_last_part"] == 3


def test_two_processes_are_traced_by_a_plug_in(tmp_path: Path) -> None:
    """Neither SGLang nor the program that drives it knows of the trace."""
    plugin()  # nothing is asked for in this process
    folder = tmp_path / "traces"
    done = subprocess.run(
        [sys.executable, "-m", "examples.sglang_handoff", "--backend", "mooncake",
         "--requests", "40", "--in-flight", "8", "--chunks", "2"],
        cwd=ROOT, capture_output=True, text=True, timeout=280, check=False,
        env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "SGLANG_HOST_IP": "127.0.0.1",
             "MOONCAKE_PROTOCOL": "tcp", "MC_FORCE_TCP": "1", "PDPROTO_PEER_TRACE": str(folder)},
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    rows = conforming(sorted(folder.iterdir())).rows
    assert rows["succeed"] == rows["take_last_part"] == 40


def test_a_trace_in_which_a_step_is_left_out_is_rejected(tmp_path: Path) -> None:
    """As if decode had taken its KV without ever having said where it should go."""
    _, paths = traced("plain")
    decode = next(path for path in paths if path.name.startswith("decode"))
    lines = [json.loads(line) for line in decode.read_text().splitlines()]
    lines.remove(next(line for line in lines if line.get("row") == "publish"))
    cut = tmp_path / decode.name
    cut.write_text("".join(json.dumps(line | {"n": n}) + "\n" for n, line in enumerate(lines, 1)))
    verified = verify(SYSTEM, [cut, *(path for path in paths if path != decode)])
    assert verified.verdict is Verdict.VIOLATED
