"""Engines for the tests: each test runs once for each of them, and ends with nothing left over."""

import gc
import threading
from collections.abc import Iterator

import pytest

from pdproto.engine.one_sided import KEPT
from tests.engine.engines import ENGINES, Engine, Pair
from tests.node.leftovers import mapped, opened
from tests.waiting import until


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]


@pytest.fixture
def pair(engine: Engine) -> Iterator[Pair]:
    pair = Pair(engine)
    yield pair
    pair.close()


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No thread, no socket or other file, and no shared memory, once both ends are closed; and
    none of it waits for the collector of cycles.
    """
    if mapped():
        gc.collect()  # an earlier test has left it to that
    threads, files = threading.active_count(), opened()
    assert not mapped()
    gc.disable()
    try:
        yield
        until(lambda: threading.active_count() <= threads, "threads to end")
        for piece in KEPT.copy():  # these tests know that no writer goes on
            piece.holders.clear()
            piece.unheld()
        until(lambda: len(opened()) <= len(files),
              lambda: f"{opened().items() - files.items()} to be closed")
        until(lambda: not mapped(), "memory to be unmapped")
    finally:
        gc.enable()
