"""Engines for the tests: each test runs once for each of them, and ends with nothing left over."""

import os
import threading
from collections.abc import Iterator
from contextlib import suppress

import psutil
import pytest

from tests.engine.engines import ENGINES, Engine, Pair, until


@pytest.fixture(params=sorted(ENGINES))
def engine(request: pytest.FixtureRequest) -> Engine:
    return ENGINES[request.param]


@pytest.fixture
def pair(engine: Engine) -> Iterator[Pair]:
    pair = Pair(engine)
    yield pair
    pair.close()


def mapped() -> set[str]:
    """The shared landing memory that this process has mapped, and what has a name at all."""
    maps = psutil.Process().memory_maps(grouped=False)
    names = os.listdir("/dev/shm")  # noqa: S108 - only looked at
    named = {name for name in names if "pdproto" in name}
    return {one.path for one in maps if one.path.startswith("/memfd:pdproto")} | named


def opened() -> dict[int, str]:
    """This process's open files, and what each is."""
    found: dict[int, str] = {}
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):  # that of the list itself is closed again
            found[int(name)] = os.readlink(f"/proc/self/fd/{name}")
    return found


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """No thread, no socket or other file, and no shared memory, once both ends are closed."""
    threads, files = threading.active_count(), opened()
    assert not mapped()
    yield
    until(lambda: threading.active_count() <= threads, "threads to end")
    until(lambda: len(opened()) <= len(files),
          lambda: f"{opened().items() - files.items()} to be closed")
    until(lambda: not mapped(), "memory to be unmapped")
