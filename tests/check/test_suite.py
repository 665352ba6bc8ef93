"""`pdproto check` without SYSTEM: what is run, what it comes to, and what is said of it."""

import json
import os
import re
import signal
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from pdproto.check import suite
from pdproto.check.checking import CheckSettings
from pdproto.check.executor_tasks import ExecutorMaker, UnansweredError, WorkerError
from pdproto.check.explore import Monitor, Progress, SearchLimits, silent
from pdproto.check.report import suite as suite_report
from pdproto.check.result import Checked, Suite, Task, Verdict
from pdproto.check.suite import perform, run, tasks
from pdproto.check.worker_pool import Workers, run_tasks
from pdproto.cli.main import main
from pdproto.cli.systems import BUILT_IN, load
from pdproto.spec.catalogue import HANDOFF
from pdproto.spec.language.place import Place, SpecError
from tests.check.report.page_reader import read_xml

Output = pytest.CaptureFixture[str]

ALL = CheckSettings()
QUICK = CheckSettings(properties=("deadlock",))
SMALL = ("agreement-once", "optimistic-loss")


def task(name: str) -> Task:
    return Task(name, BUILT_IN[name], "default")


def named(*names: str) -> dict[str, str]:
    return {name: BUILT_IN[name] for name in names}


BROKEN = task("lock-server-broken")
HOLDING = task("two-phase-commit")


def suite_of(monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    monkeypatch.setattr("pdproto.cli.check_all.HANDOFF", names)


def test_every_named_size_is_run_and_deep_ones_apart() -> None:
    for name in HANDOFF:
        sizes = set(load(name).configurations)
        plain, deep = ({task.configuration for task in tasks(named(name), deep=deep)}
                       for deep in (False, True))
        assert plain == sizes - {"deep"}
        assert sizes - deep <= {"default"}
        assert (sizes - deep == set()) or "deep" in sizes


def test_in_a_deep_run_no_fault_is_left_out() -> None:
    for name in HANDOFF:
        found = load(name).configurations
        run_deep = {task.configuration for task in tasks(named(name), deep=True)}
        assert {fault for size in found.values() for fault in size.faults} == {
            fault for size in run_deep for fault in found[size].faults}


def answers(found: Suite) -> list[tuple[str, int, int, Verdict]]:
    return [
        (c.task.title, c.result.states, c.result.transitions, c.result.verdict)
        for c in found.checked
    ]


def test_processes_come_to_the_same_as_one() -> None:
    wanted = tasks(named(*SMALL), deep=False)
    alone, shared = (run(wanted, ALL, workers, silent) for workers in (1, 2))
    assert answers(alone) == answers(shared)
    assert [title for title, *_ in answers(alone)] == [task.title for task in wanted]
    assert (alone.rows, alone.never_fired) == (shared.rows, shared.never_fired)


def test_a_row_that_fires_nowhere_fails_the_run() -> None:
    """Two systems that share their tables, of which neither loses a rank without the other."""
    both = tasks(named("agreement", "agreement-loss"), deep=False)
    found = run([task for task in both if task.title == "agreement two-slots"], QUICK, 1, silent)
    assert {c.result.verdict for c in found.checked} == {Verdict.HOLDS}
    assert found.verdict is Verdict.VIOLATED
    assert {"crash", "follow", "end"} <= {name for name, _ in found.never_fired}
    whole = run(both, QUICK, 1, silent)
    assert (whole.never_fired, whole.verdict) == ((), Verdict.HOLDS)
    assert whole.rows > 50


def test_the_verdict_is_the_worst() -> None:
    wrong = perform(ALL, BROKEN, silent)
    fine = perform(ALL, HOLDING, silent)
    limited = perform(CheckSettings(limits=SearchLimits(10)), HOLDING, silent)
    assert Suite((), (fine,)).verdict is Verdict.HOLDS
    assert Suite((), (fine, limited)).verdict is Verdict.UNKNOWN
    assert Suite((), (fine, wrong, limited)).verdict is Verdict.VIOLATED
    assert Suite((HOLDING,), (), stopped="interrupted").verdict is Verdict.UNKNOWN


class TestCommand:
    def test_what_it_says(self, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
        suite_of(monkeypatch, "two-phase-commit")
        monkeypatch.setenv("COLUMNS", "80")
        assert main(["check", "--workers", "1", "--quiet", "--no-cache"]) == 0
        rows = sum(row.kind != "reject" for _, row in load("two-phase-commit").rows())
        lines = capsys.readouterr().out.splitlines()
        assert lines[0].split() == [
            "verdict", "system,", "sizes", "states", "transitions", "depth", "seconds",
        ]  # fmt: skip
        assert lines[2].split()[:5] == ["holds", "two-phase-commit", "288", "1,145", "10"]
        assert lines[-2] == f"each of {rows} rows fires in some system"
        assert lines[-1].startswith("HOLDS  1 checks of 1 systems, 7 verdicts, 288 states, ")
        assert max(map(len, lines)) <= 80

    def test_a_violation_is_drawn(self, capsys: Output, monkeypatch: pytest.MonkeyPatch) -> None:
        suite_of(monkeypatch, "two-phase-commit", "lock-server-broken")
        assert main(["check", "--workers", "1", "--quiet", "--no-cache"]) == 1
        out = capsys.readouterr().out
        assert re.search(r"\nviolated +lock-server-broken .*\n +mutual_exclusion +\n", out)
        assert "fire" not in out.splitlines()[-2]  # what has not fired so far proves nothing
        assert "mutual_exclusion violated for c=c0, d=c1 after 7 steps" in out
        assert out.splitlines()[-1].startswith("VIOLATED  2 checks")

    def test_reports(
        self, capsys: Output, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        suite_of(monkeypatch, "two-phase-commit", "lock-server-broken")
        files = {kind: str(tmp_path / kind) for kind in suite_report.FORMATS}
        options = [part for kind, file in files.items() for part in (f"--{kind}", file)]
        assert main(["check", "--workers", "1", "--quiet", "--no-cache", *options]) == 1
        assert "VIOLATED" in capsys.readouterr().out
        text = {kind: Path(file).read_text(encoding="utf-8") for kind, file in files.items()}
        told = json.loads(text["json"])
        assert told["verdict"] == "violated"
        assert [(c["system"], c["configuration"], c["verdict"]) for c in told["checks"]] == [
            ("two-phase-commit", "default", "holds"),
            ("lock-server-broken", "default", "violated"),
        ]
        runs = json.loads(text["sarif"])["runs"]
        assert [bool(run["results"]) for run in runs] == [False, True]
        suites = read_xml(text["junit"])
        assert [found.get("name") for found in suites][:2] == ["two-phase-commit",
                                                              "lock-server-broken"]
        assert len(suites.findall(".//failure")) >= 1

    def test_a_row_that_fires_nowhere_is_a_failing_case(
        self, capsys: Output, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        lost = load("agreement-once")
        calm = replace(lost, configurations={
            "default": replace(lost.configurations["default"], faults=())})
        monkeypatch.setattr(suite, "load", lambda _: calm)
        monkeypatch.setitem(BUILT_IN, "calm", "wherever:SYSTEM")
        suite_of(monkeypatch, "calm")
        arguments = ["check", "--workers", "1", "--quiet", "--no-cache"]
        assert main([*arguments, "--junit", "-"]) == 1
        failures = read_xml(capsys.readouterr().out).findall(".//failure")
        assert failures
        assert all(re.search(r"\.py:\d+", str(one.text)) for one in failures)
        assert main(arguments) == 1
        out = capsys.readouterr().out
        assert " rows fire in no system:\n" in out
        assert "  crash  " in out

    def test_ctrl_c_shows_the_finished_systems(
        self, capsys: Output, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        suite_of(monkeypatch, "two-phase-commit", "lock-server-broken")
        after_one = iter([False, True])

        def work(settings: CheckSettings, task: Task, monitor: Monitor) -> Checked:
            if next(after_one):
                raise KeyboardInterrupt
            return perform(settings, task, monitor)

        monkeypatch.setattr(suite, "perform", work)
        assert main(["check", "--workers", "1", "--quiet", "--no-cache"]) == 3
        last = capsys.readouterr().out.splitlines()[-2:]
        assert last[0].startswith("UNKNOWN  1 checks of 1 systems")
        assert last[1] == "stopped: interrupted; 1 not checked"

    def test_a_search_that_is_interrupted_ends_the_run(self) -> None:
        def interrupt(progress: Progress) -> None:
            if not progress.done:
                raise KeyboardInterrupt

        found = run([HOLDING, HOLDING], ALL, 1, interrupt)
        assert [c.result.stopped for c in found.checked] == ["interrupted"]
        assert (found.stopped, found.rows) == ("interrupted", 0)


# What workers do; they import this module.
def square(number: int, monitor: Monitor) -> int:
    monitor(Progress(f"square {number}", number, 0, 0, 1.0))
    return number * number


def die(number: int, _: Monitor) -> int:
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def process_id(_: int, __: Monitor) -> Any:
    return os.getpid()


def swell(number: int, _: Monitor) -> Any:
    if number == 2:
        raise MemoryError
    return number


def reason(number: int, why: str) -> Any:
    return f"{number}: {why}"


def stumble(number: int, _: Monitor) -> int:
    raise ValueError(f"{number} is too much")


def mistake(_: int, __: Monitor) -> int:
    raise SpecError(Place("spec.py", 7), "a row is wrong")


class TestWorkerPool:
    @pytest.mark.parametrize("workers", [1, 2, pytest.param(9, marks=pytest.mark.nightly)])
    def test_each_task_is_done_once(self, workers: int) -> None:
        seen: list[Progress] = []
        numbers: Sequence[int] = range(5)
        found = list(run_tasks(numbers, square, workers, seen.append))
        assert sorted(found) == [(n, n * n) for n in numbers]
        assert {progress.what for progress in seen} <= {f"square {n}" for n in numbers}
        assert seen

    def test_no_task(self) -> None:
        assert list(run_tasks([], square, 2, silent)) == []

    def test_a_worker_that_dies(self) -> None:
        """The system kills one where memory runs out: its task has no answer, the others have."""
        found = dict(run_tasks([1, 2, 3, 4, 5], die, 2, silent, reason))
        why = found.pop(2)
        assert found == {0: 1, 1: 2, 3: 4, 4: 5}
        assert why == ("3: its worker process was ended by signal 9: run it again, with fewer "
                       "--workers where memory is short")

    def test_a_worker_that_dies_for_a_caller_without_an_answer(self) -> None:
        with pytest.raises(UnansweredError, match=r"3: its worker process was ended by signal 9"):
            list(run_tasks([3, 4], die, 2, silent))

    def test_a_worker_that_dies_before_its_next_task(self) -> None:
        """It is ended between an answer and the task after it, which is then lost with it."""
        found: dict[int, Any] = {}
        for number, answer in run_tasks([1, 2, 3, 4], process_id, 2, silent, reason):
            if not found:
                os.kill(answer, signal.SIGKILL)
            found[number] = answer
        assert sorted(found) == [0, 1, 2, 3]
        lost = [answer for answer in found.values() if isinstance(answer, str)]
        assert len(lost) == 1
        assert "ended by signal 9" in lost[0]

    def test_a_worker_without_memory(self) -> None:
        found = dict(run_tasks([1, 2, 3], swell, 2, silent, reason))
        assert found == {0: 1, 1: "2: memory ran out: run it again, with fewer --workers", 2: 3}

    def test_a_worker_that_raises(self) -> None:
        with pytest.raises(WorkerError, match=r"(?s)in a worker:.*ValueError: \d is too much"):
            list(run_tasks([1, 2], stumble, 2, silent))

    @pytest.mark.parametrize("workers", [2, ExecutorMaker(partial(ThreadPoolExecutor, 1))])
    def test_an_error_of_the_user_comes_as_it_is(self, workers: Workers) -> None:
        with pytest.raises(SpecError, match=r"^spec.py:7: a row is wrong$") as told:
            list(run_tasks([1, 2], mistake, workers, silent))
        assert told.value.place == Place("spec.py", 7)
