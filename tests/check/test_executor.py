"""Tasks in an executor: a lost worker loses no task, and a task without an answer never holds."""

import json
import os
import pickle
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack
from pathlib import Path
from threading import Thread
from typing import Any

import distributed
import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lab.__main__ import main
from pdproto.check import executor, executor_tasks, suite, task_process
from pdproto.check.cache import Cache
from pdproto.check.checking import CheckSettings
from pdproto.check.executor_tasks import ATTEMPTS, ExecutorMaker, UnansweredError, WorkerError
from pdproto.check.explore import silent
from pdproto.check.load import LoadError
from pdproto.check.mutate.processes import chosen, judged, prepared
from pdproto.check.mutate.trials import MutantOutcome
from pdproto.check.result import Verdict
from pdproto.check.task_process import ChildLostError, called, run_call
from pdproto.check.worker_pool import run_tasks
from pdproto.cli import check_all
from pdproto.cli.systems import BUILT_IN, subject
from tests.check.executor_work import (
    Losing,
    dawdle,
    die,
    kill_the_worker_once,
    parent,
    square,
    stumble,
    two_forks,
    two_processes,
)
from tests.cli.test_mutate import SMALL as LAMP
from tests.waiting import until

Output = pytest.CaptureFixture[str]
SMALL = ("two-phase-commit", "lock-server", "ring-election", "lock-server-broken")
ENDS_S = 60.0  # in which a process must start or end


def missing(task: object, why: str) -> str:
    return f"{task} {why}"


@given(st.lists(st.integers(0, ATTEMPTS), max_size=6))
def test_a_lost_task_is_asked_again_and_at_last_given_up(losses: list[int]) -> None:
    """losses: how many times each task loses its worker."""
    left = Counter(dict(enumerate(losses)))

    def loses(task: int) -> bool:
        left[task] -= 1
        return left[task] >= 0

    losing = Losing(loses)
    made = ExecutorMaker(lambda: losing)
    found = dict(run_tasks(range(len(losses)), square, made, silent, missing))
    told = f"its worker was lost {ATTEMPTS} times, at last by ConnectionError: the worker is gone"
    assert found == {
        task: task * task if lost < ATTEMPTS else f"{task} {told}"
        for task, lost in enumerate(losses)
    }
    assert losing.begun == sum(min(lost + 1, ATTEMPTS) for lost in losses)


def test_a_task_without_an_answer_of_its_own_is_told() -> None:
    with pytest.raises(UnansweredError, match=r"1: its worker was lost 3 times"):
        list(run_tasks([1], square, ExecutorMaker(lambda: Losing(lambda _: True)), silent))


def test_an_executor_without_workers_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    class Empty(Losing):
        def submit(self, _: Any, /, *__: Any, **___: Any) -> Future[Any]:
            return Future()

        def workers(self) -> int:
            return 0

    monkeypatch.setattr(executor_tasks, "LOOK_S", 0.01)
    empty = ExecutorMaker(lambda: Empty(lambda _: False), empty_s=0.1)
    found = dict(run_tasks([5, 6], square, empty, silent, missing))
    assert found == {n: f"{n + 5} no worker for 0.1 s, 2 tasks were left" for n in (0, 1)}


ABANDONED = """
import sys
from pathlib import Path
from pdproto.check.task_process import called, run_call
from tests.check.executor_work import dawdle

run_call(called(dawdle, Path(sys.argv[1])), None)
"""


def _lives(pid: int) -> bool:
    """Whether the process runs; one that has ended may still wait for its parent."""
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


class TestChild:
    def test_a_task_is_ended_at_its_time_limit(self, tmp_path: Path) -> None:
        note = tmp_path / "pid"
        found = list(run_tasks([note], dawdle, ExecutorMaker(two_processes), silent,
                               lambda _, why: why, lambda _: 10.0))
        assert found == [(0, "it was ended: out of time")]
        assert not Path("/proc", note.read_text().strip()).exists()

    def test_one_that_dies_counts_as_lost(self) -> None:
        with pytest.raises(ChildLostError, match=r"died \(status 9\)"):
            run_call(called(die, 1), None)
        assert run_call(called(square, 3), None)

    def test_one_is_not_shared_with_a_forked_worker(self) -> None:
        """Otherwise two processes would use one connection, and each get replies of the other."""
        for _ in range(3):
            ours = pickle.loads(run_call(called(parent, 0), None))  # noqa: S301 - our own
            assert ours.answer == os.getpid()
        found = dict(run_tasks([0] * 4, parent, ExecutorMaker(two_forks), silent, missing))
        assert os.getpid() not in found.values()

    def test_one_ends_with_its_worker(self, tmp_path: Path) -> None:
        """Also in a task that never ends, and hears no signal."""
        note = tmp_path / "pid"
        worker = subprocess.Popen([sys.executable, "-c", ABANDONED, str(note)])
        try:
            child = int(_content(note, "\n"))
            assert _lives(child)
        finally:
            worker.kill()
            worker.wait()
        until(lambda: not _lives(child), within_s=ENDS_S)

    def test_one_that_raises(self) -> None:
        with pytest.raises(WorkerError, match=r"(?s)in a worker:.*ValueError: 1 is too much"):
            list(run_tasks([1], stumble, ExecutorMaker(two_processes), silent))

    def test_another_version_is_refused(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(task_process, "code", lambda: "another")
        with pytest.raises(LoadError, match=r"pdproto in .* is not the one that asks"):
            list(run_tasks([1], square, ExecutorMaker(two_processes), silent))


def test_a_broken_executor_is_made_anew(tmp_path: Path) -> None:
    """One killed worker breaks a ProcessPoolExecutor, with the tasks of the other one."""
    made = []

    def make() -> Any:
        made.append(two_processes())
        return made[-1]

    notes = [tmp_path / name for name in "abcd"]
    notes[0].touch()
    notes[2].touch()
    notes[3].touch()
    found = run_tasks(notes, kill_the_worker_once, ExecutorMaker(make), silent, missing)
    assert dict(found) == dict(enumerate("abcd"))
    assert len(made) == 2


class TestNothingLostHolds:
    """The answer of each verb about a task whose workers were all lost."""

    LOST = ExecutorMaker(lambda: Losing(lambda _: True))

    def test_a_check(self, tmp_path: Path) -> None:
        wanted = suite.tasks({name: BUILT_IN[name] for name in SMALL}, deep=False)
        cache = Cache(tmp_path)
        found = suite.run(wanted, CheckSettings(), self.LOST, silent, cache)
        verdicts = {f.verdict for checked in found.checked for f in checked.result.findings}
        assert verdicts == {Verdict.UNKNOWN}
        assert {c.result.stopped[:21] for c in found.checked} == {"its worker was lost 3"}
        assert not list(tmp_path.iterdir())

    def test_mutants(self) -> None:
        names = ("two-phase-commit",)
        (trials,) = prepared([names], subject, 1, lambda _: None)
        (picked,) = chosen([trials.mutants], 5, 0)
        found = list(judged(names, trials, picked, subject, self.LOST))
        assert {end.outcome for end in found} == {MutantOutcome.UNDECIDED}
        assert len(found) == 5

    @pytest.mark.parametrize(("verb", "told"), [
        (["prove", "two-phase-commit"], "unknown "),
        (["bugs", "B22"], ""),
        (["cluster", "--seeds", "2"], ""),
        (["cluster", "--study", "optimistic"], ""),
        (["cluster", "--study", "release-at-once"], ""),
        (["mutate", "two-phase-commit"], ""),
    ])
    def test_other_verbs(
        self, verb: list[str], told: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("pdproto.check.executor.maker_of", lambda _: self.LOST)
        elsewhere = ["--executor", "its.module:factory"]
        assert main([*verb, *elsewhere, *([] if verb[0] == "cluster" else ["--no-cache"])]) == 3
        said = capsys.readouterr()
        assert "HOLDS" not in said.out
        assert "  proved " not in said.out
        assert told in said.out


@pytest.mark.parametrize("verb", ["prove", "mutate"])
def test_a_worker_with_other_tables_is_refused(
    verb: str, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The spec changes after this process has read it, and before the workers do."""
    file = tmp_path / "lamp_of_two_tables.py"
    file.write_text(LAMP, encoding="utf-8")

    def make() -> Any:
        file.write_text(LAMP.replace("nobody_dreams", "all_are_awake"), encoding="utf-8")
        return two_processes()

    monkeypatch.setattr("pdproto.check.executor.maker_of", lambda _: ExecutorMaker(make))
    elsewhere = ["--executor", "its.module:factory"]
    assert main([verb, f"{file}:SYSTEM", *elsewhere, "--no-cache", "--quiet"]) == 2
    said = capsys.readouterr()
    (line,) = said.err.splitlines()
    assert line.startswith("pdproto: in a worker: ")
    assert line.endswith("are others than those of the task")
    assert not said.out


class Cluster:
    """A real Dask scheduler on loopback, and its workers by the address of each."""

    def __init__(self, folder: Path, ends: ExitStack) -> None:
        self.file = folder / "scheduler.json"
        self.folder = folder
        self.ends = ends
        self.workers: list[subprocess.Popen[bytes]] = []
        # The scheduler itself asks no task again: only we do.
        self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-dashboard",
                    "--scheduler-file", str(self.file))
        self.address = json.loads(_content(self.file))["address"]
        client: Any = distributed.Client
        self.client = self.ends.enter_context(client(self.address, set_as_default=False))

    def add_workers(self, count: int) -> None:
        for _ in range(count):
            self.workers.append(self._start(
                "worker", self.address, "--no-nanny", "--nthreads", "1", "--no-dashboard",
                "--memory-limit", "0", "--local-directory", str(self.folder)))
        self.client.wait_for_workers(count, timeout=ENDS_S)

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-m", "dask", *arguments], stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES": "0"},
        )
        self.ends.callback(process.wait)
        self.ends.callback(process.kill)
        return process

    def kill_a_busy_worker(self) -> None:
        """Kill the first worker once it has a task, and while it runs it."""
        first = self.workers[0].pid

        def is_busy() -> bool:
            pids = self.client.run(os.getpid)
            return first in {pids.get(address) for address, tasks
                             in self.client.processing().items() if tasks}

        until(is_busy, "the first worker is busy", within_s=ENDS_S, look_s=0.05)
        self.workers[0].kill()
        self.workers[0].wait()


def _content(file: Path, end: str = "}") -> str:
    until(lambda: file.exists() and file.read_text().endswith(end), within_s=ENDS_S)
    return file.read_text()


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with ExitStack() as ends:
        yield Cluster(tmp_path, ends)


@pytest.mark.slow
def test_a_dask_worker_is_killed_in_mid_run(
    cluster: Cluster, tmp_path: Path, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check_all, "HANDOFF", SMALL)
    cluster.add_workers(2)
    killer = Thread(target=cluster.kill_a_busy_worker)
    killer.start()
    answers = []
    for where in (f"dask:{cluster.address}", "local"):
        file = tmp_path / "answers"
        options = ["--workers", "1", "--no-cache", "--quiet", "--json", str(file)]
        assert main(["check", "--executor", where, *options]) == 1
        # A path is relative to the folder in which its module was imported.
        told = file.read_text().replace(f"{Path.cwd()}/", "")
        text = re.sub(r'"(seconds|memory_bytes)": [\d.e-]+', "", told)
        answers.append(json.loads(re.sub(r",\s*(?=[,}])|(?<={)\s*,", "", text)))
    killer.join(ENDS_S)
    assert cluster.workers[0].returncode == -9
    assert answers[0] == answers[1]
    capsys.readouterr()


@pytest.mark.slow
def test_a_cluster_that_is_not_there(
    cluster: Cluster, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(executor, "CONNECT_S", 0.5)
    for address, told in (
        ("tcp://127.0.0.1:1", "no Dask scheduler answers at tcp://127.0.0.1:1: start one with"),
        (cluster.address, f"the Dask scheduler at {cluster.address} has no worker: start some"),
    ):
        assert main(["check", "--executor", f"dask:{address}", "--no-cache", "--quiet"]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(f"pdproto: {told}")


@pytest.mark.parametrize(("where", "told"), [
    ("nonsense", "--executor: want local, dask:tcp://HOST:PORT or MODULE:FACTORY, not"),
    ("dask:", "--executor: 'dask:' names no scheduler"),
    ("no_such_module:make", "there is no module 'no_such_module'"),
    ("os:path", "--executor: os has no callable 'path' that returns an executor"),
    ("os:getpid", "--executor: os:getpid returned a int"),
])
def test_a_wrong_executor_is_one_line(where: str, told: str, capsys: Output) -> None:
    assert main(["check", "--executor", where, "--no-cache", "--quiet"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"pdproto: {told}")
