"""The search out of core finds what the native engine finds, and goes on after a crash."""

import json
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from pdproto.check.checking import CheckSettings, check
from pdproto.check.engine import Engine
from pdproto.check.explore import DUCKDB, NATIVE
from pdproto.check.levels import name_of
from pdproto.check.native import NativeEngine
from pdproto.check.out_of_core import DuckDbEngine
from pdproto.check.result import CheckResult
from pdproto.cli.main import main
from pdproto.cli.systems import expected, load
from pdproto.ground.program import Program
from tests.check.engines import depth, explored, steps, stored
from tests.check.programs import TWO_PHASE_COMMIT_STATES, counters, programs, two_phase_commit
from tests.tiers import examples

pytest.importorskip("duckdb", reason="duckdb is not installed: pip install 'pdproto[duckdb]'")

Output = pytest.CaptureFixture[str]


def out_of_core(program: Program, folder: Path | None = None) -> DuckDbEngine:
    return DuckDbEngine(program, workers=1, folder=None if folder is None else str(folder))


def assert_same(fast: Engine, disk: Engine, program: Program) -> None:
    """The two engines agree on all that does not depend on ids."""
    assert (disk.states, disk.levels, disk.stuck[0]) == (fast.states, fast.levels, fast.stuck[0])
    assert disk.fired.tolist() == fast.fired.tolist()
    assert sorted(stored(disk)) == sorted(stored(fast))
    assert steps(disk) == steps(fast)
    depths = [{p: depth(e, i) for p, i in e.hits.items()} for e in (fast, disk)]
    assert depths[0] == depths[1]
    for pattern, identity in disk.hits.items():
        assert program.patterns[pattern].holds(disk.state(identity))


@given(programs())
@settings(max_examples=examples(8, 25))
def test_it_finds_what_the_native_engine_finds(program: Program) -> None:
    disk = explored(out_of_core(program))
    assert_same(explored(NativeEngine(program, workers=1)), disk, program)
    disk.close()


def test_a_search_in_small_steps(tmp_path: Path) -> None:
    program = two_phase_commit(3)
    engine = out_of_core(program, tmp_path)
    inside = 0
    while engine.step(7):
        inside += not engine.at_level_end
    assert inside
    assert engine.states == TWO_PHASE_COMMIT_STATES[3]
    assert not engine.step(7)
    assert_same(explored(NativeEngine(program, workers=1)), engine, program)


def test_ids_do_not_depend_on_threads_or_steps() -> None:
    program = counters([6, 6, 6], bits_each=3)
    found = []
    for workers, states_max in ((1, 1 << 20), (2, 1 << 20), (1, 5)):
        engine = explored(DuckDbEngine(program, workers=workers), states_max)
        found.append(([engine.state(i) for i in range(engine.states)],
                      [engine.parent(i) for i in range(engine.states)], engine.hits))
    assert found[0] == found[1] == found[2]


@pytest.mark.parametrize("level", [
    pytest.param(level, marks=() if level == 5 else pytest.mark.nightly)
    for level in range(11)])
def test_it_goes_on_from_any_level(level: int, tmp_path: Path) -> None:
    """With all counts, whichever level an earlier run has ended after, or in."""
    program = two_phase_commit(3)
    whole = explored(NativeEngine(program, workers=1))
    assert len(whole.levels) == 11
    first = out_of_core(program, tmp_path)
    while len(first.levels) <= level:
        first.step(3)
    first.close()
    again = out_of_core(program, tmp_path)
    assert level <= len(again.levels) <= level + 1
    assert_same(whole, explored(again), program)
    again.close()


KILLED = """
import os, signal, sys
from pdproto.check.out_of_core import DuckDbEngine
from tests.check.programs import two_phase_commit

engine = DuckDbEngine(two_phase_commit(3), workers=1, folder=sys.argv[1])
while len(engine.levels) < 6:
    engine.step(1 << 20)
engine._table._do("BEGIN")
engine._table._do("DELETE FROM states WHERE id > 5")
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_killed_search_goes_on(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path)], check=False)
    assert done.returncode == -signal.SIGKILL
    program = two_phase_commit(3)
    engine = out_of_core(program, tmp_path)
    assert len(engine.levels) >= 5
    assert_same(explored(NativeEngine(program, workers=1)), explored(engine), program)


def test_another_program_has_another_file(tmp_path: Path) -> None:
    assert name_of(two_phase_commit(3)) != name_of(two_phase_commit(5))
    for participants in (3, 5, 3):
        engine = explored(out_of_core(two_phase_commit(participants), tmp_path))
        assert engine.states == TWO_PHASE_COMMIT_STATES[participants]
        engine.close()
    assert len(list(tmp_path.glob("*.duckdb"))) == 2


def test_more_states_than_memory(tmp_path: Path) -> None:
    """2^17 states of 16 words are 16 MiB, and the candidates of a level many more."""
    program = counters([1] * 17, bits_each=60)
    engine = DuckDbEngine(program, workers=1, bytes_max=64 << 20, folder=str(tmp_path))
    assert explored(engine).states == 1 << 17
    assert engine.bytes <= 64 << 20


def sizes(least: int, most: int) -> list[tuple[str, str]]:
    """The pinned sizes of the catalogue with so many states."""
    return [key for key, counts in expected().items() if least <= counts.states <= most]


@pytest.mark.parametrize(("name", "size"), [
    *sizes(1, 250),
    *(pytest.param(*one, marks=pytest.mark.nightly) for one in sizes(251, 10_000_000)),
])
def test_counts_and_verdicts_are_ours(name: str, size: str) -> None:
    """Liveness too, whose edges are in memory."""
    system = load(name)
    chosen = system.configurations[size]
    native, disk = (check(system, chosen, CheckSettings(keep_going=True, engine=engine))
                    for engine in (NATIVE, DUCKDB))
    assert _told(disk) == _told(native)


def _told(result: CheckResult) -> object:
    return (result.states, result.transitions, result.depth, result.deadlocks, result.complete,
            result.row_counts, [(f.name, f.verdict, f.trace_length) for f in result.findings])


class TestCommandLine:
    def answer(self, capsys: Output, *options: str) -> tuple[int, Any]:
        status = main(["check", "lock-server-broken", "--quiet", "--json", "-", *options])
        return status, json.loads(capsys.readouterr().out)

    def test_the_answer_is_that_of_our_engine(self, capsys: Output, tmp_path: Path) -> None:
        answers = [self.answer(capsys, *options) for options in (
            ["--no-cache"], ["--engine", "duckdb"],
            ["--engine", "duckdb", "--states", str(tmp_path)],
            ["--engine", "duckdb", "--states", str(tmp_path)],
        )]
        for status, answer in answers:
            assert status == 1
            assert answer["states"] == answers[0][1]["states"]
            assert [(p["name"], p["verdict"], p["trace_length"]) for p in answer["properties"]] == [
                (p["name"], p["verdict"], p["trace_length"]) for p in answers[0][1]["properties"]]
        assert list(tmp_path.glob("*.duckdb"))

    def test_a_full_disk_leaves_the_answer_unknown(self, tmp_path: Path) -> None:
        def full() -> None:
            resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, 1 << 16))

        done = subprocess.run(
            [sys.executable, "-m", "pdproto.cli.main", "check", "lock-server", "--quiet",
             "--engine", "duckdb", "--states", str(tmp_path)],
            text=True, capture_output=True, check=False, preexec_fn=full)
        assert (done.returncode, done.stderr) == (3, "")
        assert "HOLDS" not in done.stdout
        assert "stopped: DuckDB: " in done.stdout

    @pytest.mark.parametrize(("options", "told"), [
        (["--states", "x"], "--states keeps the states of --engine duckdb or spark: give both"),
        (["--master", "local"], "--master is for --engine spark: give both"),
    ])
    def test_usage(self, options: list[str], told: str, capsys: Output) -> None:
        assert main(["check", "lock-server", "--quiet", *options]) == 2
        assert told in capsys.readouterr().err

    def test_without_duckdb(self, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "duckdb", None)
        assert main(["check", "lock-server", "--quiet", "--engine", "duckdb"]) == 2
        assert "duckdb is not installed: pip install 'pdproto[duckdb]'" in capsys.readouterr().err
