"""Which thread copies, and in which order: the node's loop only while the worker is idle."""

from collections.abc import Callable, Iterator
from threading import Event, get_ident

import pytest

from pdproto.pages.copies import LOOP_BYTES
from pdproto.pages.copy_worker import CopyWorker
from tests.node.data_paths import until

Done = list[tuple[str, int]]


@pytest.fixture
def done() -> Done:
    """The names of the tasks that have run, and the threads that have run them."""
    return []


@pytest.fixture
def task(done: Done) -> Callable[[str], None]:
    return lambda name: done.append((name, get_ident()))


@pytest.fixture
def worker() -> Iterator[CopyWorker]:
    worker = CopyWorker("copies", LOOP_BYTES)
    yield worker
    worker.close()


def test_the_loop_runs_a_small_task_of_an_idle_worker(
    worker: CopyWorker, task: Callable[[str], None], done: Done
) -> None:
    for name in ("a", "b"):
        worker.run(LOOP_BYTES, task, name)
        assert done[-1] == (name, get_ident())


def test_the_worker_runs_a_large_task(
    worker: CopyWorker, task: Callable[[str], None], done: Done
) -> None:
    worker.run(LOOP_BYTES + 1, task, "large")
    until(lambda: done)
    assert done[0][1] != get_ident()


def test_a_small_task_waits_for_those_before_it(
    worker: CopyWorker, task: Callable[[str], None], done: Done
) -> None:
    """Memory would else be given back before a large copy has read it."""
    go_on = Event()
    worker.submit(go_on.wait, 10)
    worker.run(LOOP_BYTES + 1, task, "large")
    worker.run(0, task, "small")
    assert not done
    go_on.set()
    until(lambda: len(done) == 2)
    assert [name for name, _ in done] == ["large", "small"]
    until(lambda: not worker.busy)
    worker.run(0, task, "later")
    assert done[-1] == ("later", get_ident())


def test_the_loop_copies_nothing_of_a_device(task: Callable[[str], None], done: Done) -> None:
    worker = CopyWorker("copies", None)
    worker.run(0, task, "small")
    worker.close()
    assert [thread == get_ident() for _, thread in done] == [False]


def test_an_act_that_is_not_done_holds_back_what_follows(
    worker: CopyWorker, task: Callable[[str], None], done: Done
) -> None:
    ready = Event()
    worker.run(0, worker.in_order, ready.is_set)
    worker.run(0, task, "small")
    assert [thread for _, thread in done] != [get_ident()], "the worker still has an act to do"
    ready.set()
    until(lambda: not worker.busy)
