"""The search in Spark finds what the native engine finds, loses nothing, and goes on after a crash.

`make test-spark` installs PySpark and runs this. Sizes are small: a level is two jobs of Spark.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import pdproto
from pdproto.check.checking import CheckSettings, check
from pdproto.check.engine import Engine, StoppedError
from pdproto.check.explore import NATIVE, SPARK, EngineChoice
from pdproto.check.levels import FORMAT, KeptStatesError, name_of
from pdproto.check.native import NativeEngine
from pdproto.check.result import CheckResult, Verdict
from pdproto.cli.systems import expected, load
from pdproto.ground.program import Program
from pdproto.spec.language.system import System
from tests import skips
from tests.check.engines import depth, explored, stored
from tests.check.programs import two_phase_commit
from tests.check.spark.plans import Killed

pytest.importorskip("pyspark", reason=skips.SPARK)

from pdproto.check.spark import table
from pdproto.check.spark.table import SparkEngine

OWN_MOUNT: Final = ("unshare", "--mount", *([] if os.geteuid() == 0 else ["--map-root-user"]))


def in_spark(program: Program, folder: Path | None = None) -> SparkEngine:
    return SparkEngine(program, workers=2, folder=None if folder is None else str(folder))


def counts(engine: Engine) -> object:
    return engine.states, engine.levels, engine.stuck[0], engine.fired.tolist()


def native(program: Program) -> NativeEngine:
    engine = NativeEngine(program, workers=1)
    explored(engine)
    return engine


def told(result: CheckResult) -> object:
    return (result.states, result.transitions, result.depth, result.deadlocks, result.complete,
            result.row_counts, [(f.name, f.verdict, f.trace_length) for f in result.findings])


def checked(system: System, size: str, engine: EngineChoice) -> CheckResult:
    return check(system, system.configurations[size], CheckSettings(keep_going=True, engine=engine))


def graph(engine: Engine, states: list[int]) -> set[tuple[int, int, int]]:
    """The edges as (state, row, target). states: by position."""
    edges = engine.edges()
    sources = np.repeat(np.arange(len(states)), np.diff(edges.starts))
    return {(states[source], row, states[target]) for source, row, target in zip(
        sources.tolist(), edges.rows.tolist(), edges.targets.tolist(), strict=True)}


def test_it_finds_what_the_native_engine_finds(tmp_path: Path) -> None:
    """With the same edges and shortest traces; and it takes up a search that has ended."""
    program = two_phase_commit(3)
    whole = native(program)
    engine = explored(in_spark(program, tmp_path))
    assert counts(engine) == counts(whole)
    engine.close()
    engine = explored(in_spark(program, tmp_path))
    assert counts(engine) == counts(whole)
    states = engine._table.read(0, engine.states)[:, 0].tolist()  # type: ignore[attr-defined]
    assert sorted(states) == sorted(stored(whole))
    assert graph(engine, states) == graph(whole, stored(whole))
    last = engine.states - 1
    assert depth(engine, last) == len(whole.levels) - 1
    assert (engine.state(last), engine.find(states[last])) == (states[last], last)
    engine.close()


SMALL: Final = [key for key, pinned in expected().items() if pinned.states <= 250]


@pytest.mark.parametrize(("name", "size"), [
    ("lock-server-broken", "default"),
    *(pytest.param(*one, marks=pytest.mark.nightly) for one in SMALL),
])
def test_counts_verdicts_and_lengths_of_traces_are_ours(name: str, size: str) -> None:
    system = load(name)
    assert told(checked(system, size, SPARK)) == told(checked(system, size, NATIVE))


KILLED: Final = """
import os, signal, sys
from pdproto.check.spark import table
from tests.check.programs import two_phase_commit

engine = table.SparkEngine(two_phase_commit(3), workers=2, folder=sys.argv[1])
level = int(sys.argv[2])
while len(engine.levels) < level:
    engine.step(1)
commit = engine._table._files.commit
engine._table._files.commit = lambda level, text: os.kill(os.getpid(), signal.SIGKILL)
engine.step(1)
"""


@pytest.mark.parametrize("level", [
    4, *(pytest.param(level, marks=pytest.mark.nightly) for level in (0, 1, 7, 10))])
def test_a_killed_driver_goes_on(level: int, tmp_path: Path) -> None:
    """It is killed when a level is written and not yet committed: the level is done again."""
    run = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), str(level)], check=False)
    assert run.returncode == -signal.SIGKILL
    assert len(list(tmp_path.glob("*.spark/level-*.json"))) == level + 1
    assert list(tmp_path.glob(f"*.spark/states/level={level + 1}/*.parquet")) or level == 10
    program = two_phase_commit(3)
    engine = in_spark(program, tmp_path)
    assert len(engine.levels) == level
    explored(engine)
    assert counts(engine) == counts(native(program))
    engine.close()


@pytest.fixture
def marks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder: each file in it kills a worker."""
    folder = tmp_path / "marks"
    folder.mkdir()
    monkeypatch.setattr(table, "Reach", lambda program: Killed(program, str(folder)))
    return folder


def test_a_killed_worker_changes_no_count(marks: Path) -> None:
    program = two_phase_commit(3)
    engine = in_spark(program)
    for number in range(3):
        assert engine.step(1)
        (marks / str(number)).touch()
    explored(engine)
    assert not list(marks.iterdir())
    assert counts(engine) == counts(native(program))
    engine.close()


def test_a_level_whose_workers_all_die_is_unknown_and_can_be_done_again(marks: Path) -> None:
    for number in range(50):
        (marks / str(number)).touch()
    result = checked(load("two-phase-commit"), "default", SPARK)
    assert result.stopped.startswith("Spark lost a part of the level: ")
    assert "\n" not in result.stopped
    assert {finding.verdict for finding in result.findings} == {Verdict.UNKNOWN}
    program = two_phase_commit(3)
    engine = in_spark(program)
    with pytest.raises(StoppedError):
        explored(engine)
    for file in marks.iterdir():
        file.unlink()
    explored(engine)
    assert counts(engine) == counts(native(program))
    engine.close()


def test_a_lost_file_is_unknown_and_never_more_states(tmp_path: Path) -> None:
    engine = in_spark(two_phase_commit(3), tmp_path)
    for _ in range(3):
        assert engine.step(1)
    next(iter(sorted(tmp_path.glob("*.spark/states/level=1/*.parquet")))).unlink()
    with pytest.raises(StoppedError, match=r"a part of the states is lost: \S+ has no level=1/"):
        engine.step(1)
    engine.close()


def test_a_part_that_is_there_twice_is_unknown(tmp_path: Path) -> None:
    """Two runs that go on with the same search could write it."""
    program = two_phase_commit(3)
    first = in_spark(program, tmp_path)
    assert first.step(1)
    first.close()
    part = next(iter(tmp_path.glob("*.spark/states/level=1/*.parquet")))
    shutil.copy(part, part.with_name(part.name.replace("part-0", "part-9", 1)))
    again = in_spark(program, tmp_path)
    with pytest.raises(StoppedError, match=r"a part of level 1 in .* is lost, or there twice"):
        again.step(1)
    again.close()


EXECUTORS_KILLED: Final = """
import sys
import psutil
from pdproto.check.spark.table import SparkEngine
from tests.check.programs import two_phase_commit

engine = SparkEngine(two_phase_commit(3), workers=2, folder=sys.argv[1],
                     master="local-cluster[2,1,512]")
killed = 0
while engine.step(1):
    if len(engine.levels) in (3, 6):
        executor = next(child for child in psutil.Process().children(recursive=True)
                        if "CoarseGrainedExecutorBackend" in " ".join(child.cmdline()))
        executor.kill()
        killed += 1
print(killed, engine.states, list(engine.levels), engine.stuck[0], engine.fired.tolist())
"""


@pytest.mark.nightly
def test_killed_executors_change_no_count(tmp_path: Path) -> None:
    """Of a cluster whose executors are processes: each time another one takes over its tasks."""
    run = subprocess.run(
        [sys.executable, "-c", EXECUTORS_KILLED, str(tmp_path)], capture_output=True, text=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable}, timeout=900, check=False)
    whole = native(two_phase_commit(3))
    assert run.stdout.split(maxsplit=1) == ["2", f"{whole.states} {list(whole.levels)} "
                                            f"{whole.stuck[0]} {whole.fired.tolist()}\n"]


@pytest.mark.parametrize("change", [
    {"format": 0}, {"version": "0.0.9"}, {"program": "another"}])
def test_an_older_checkpoint_is_refused_and_stays(change: dict[str, Any], tmp_path: Path) -> None:
    program = two_phase_commit(3)
    kept = tmp_path / f"{name_of(program)}.spark"
    kept.mkdir()
    head = {"format": FORMAT, "version": pdproto.__version__, "program": name_of(program)}
    text = json.dumps({"search": json.dumps(head | change), "sizes": [1, 0], "files": []})
    (kept / "level-000000.json").write_text(text)
    with pytest.raises(KeptStatesError, match="the kept states are of "):
        in_spark(program, tmp_path)
    assert [path.name for path in kept.iterdir()] == ["level-000000.json"]
    assert (kept / "level-000000.json").read_text() == text


def test_a_full_disk_is_one_line_and_the_levels_before_it_stay(tmp_path: Path) -> None:
    command = ('mount -t tmpfs -o size=128k none "$1" && "$0" -m pdproto.cli.main check '
               'two-phase-commit --size Participant=5 --quiet --engine spark --states "$1"; '
               'status=$?; cp -r "$1"/*.spark "$2"; exit $status')
    kept = tmp_path / "kept"
    full = tmp_path / "full"
    full.mkdir()
    try:
        run = subprocess.run(
            [*OWN_MOUNT, "sh", "-c", command, sys.executable, str(full), str(kept)],
            capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip(skips.NO_MOUNT)
    if "mount:" in run.stderr:
        pytest.skip(skips.NO_MOUNT)
    assert run.returncode == 3, run.stderr
    assert "No space left on device" in run.stdout + run.stderr
    assert "Traceback" not in run.stderr
    assert len(list(kept.glob("level-*.json"))) >= 1
    shutil.rmtree(kept)
