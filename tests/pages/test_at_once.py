"""Few bytes are copied in the thread of the node, in the order in which the node asked."""

from collections.abc import Iterator
from threading import Event, Thread, current_thread

import pytest

from pdproto.pages.copies import CopyWorker
from pdproto.pages.direct import DirectPages
from pdproto.pages.sink_pages import SinkPages

MOST = 100


@pytest.fixture
def worker() -> Iterator[CopyWorker]:
    made = CopyWorker("worker", lambda: None, MOST)
    yield made
    made.close()


def threads_of(worker: CopyWorker, *sizes: int) -> list[bool]:
    """Whether each of so many bytes is copied in this thread; when all are."""
    where: list[Thread] = []
    ends = [Event() for _ in sizes]

    def copy(end: Event) -> None:
        where.append(current_thread())
        end.set()

    for size, end in zip(sizes, ends, strict=True):
        worker.take(size, copy, end)
    for end in ends:
        assert end.wait(20)
    return [thread is current_thread() for thread in where]


def test_few_bytes_of_a_turn_are_copied_at_once_and_no_more(worker: CopyWorker) -> None:
    assert threads_of(worker, 60, 30, 9, 9) == [True, True, True, False]
    worker.submit(int).result()
    assert threads_of(worker, 60) == [False]
    worker.submit(int).result()
    worker.refill()
    assert threads_of(worker, MOST - 1) == [True]


def test_what_comes_behind_a_large_copy_waits_for_it(worker: CopyWorker) -> None:
    """Memory is given back by a call of no bytes, and a copy before it may still use it."""
    goes_on = Event()
    done: list[str] = []

    def copy() -> None:
        goes_on.wait(20)
        done.append("large")

    worker.take(MOST, copy)
    worker.take(0, done.append, "small")
    assert done == []
    goes_on.set()
    worker.submit(int).result()
    assert done == ["large", "small"]


def test_where_threads_of_the_engine_ask_the_worker_too_nothing_is_done_at_once() -> None:
    """They ask beside the node's, so that no order is known."""
    assert DirectPages.at_once_bytes == 0 < SinkPages.at_once_bytes
    worker = CopyWorker("worker", lambda: None)
    assert threads_of(worker, 0, 1) == [False, False]
    worker.close()
