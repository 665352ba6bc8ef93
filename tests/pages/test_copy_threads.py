"""Several threads copy a large chunk of pages in host memory: the same bytes, no more threads."""

from collections.abc import Callable
from threading import current_thread
from typing import Any, Final

import numpy as np
import pytest

from pdproto.engine.engines import open_sink, open_source
from pdproto.items.components import Component
from pdproto.items.data_path import SinkItems, SourceItems
from pdproto.items.direct import DirectItems
from pdproto.items.shares import TpRank
from pdproto.kernels import native
from pdproto.kernels.chunk import register
from pdproto.pages.host_copies import HostCopies
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages

THREADS: Final = 3
POOLS: Final = 4
PAGES: Final = [5, 0, 3]


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """The calls of copy.c, each with the name of its thread. Every chunk is large."""
    if not native.available():
        pytest.skip("copy.c is not compiled")
    library: Any = native._library()
    found: list[tuple[str, str]] = []

    def seen(name: str) -> Callable[..., None]:
        real: Callable[..., None] = getattr(library, name)

        def call(*of: object) -> None:
            found.append((name, current_thread().name))
            real(*of)

        return call

    for name in ("kv_gather_parts", "kv_scatter_parts"):
        monkeypatch.setattr(library, name, seen(name))
    monkeypatch.setattr(native, "SHARED_BYTES_MIN", 0)
    return found


def test_threads_pack_and_unpack_the_same_bytes(taken: list[tuple[str, str]]) -> None:
    random = np.random.default_rng(1)
    pools = [random.integers(0, 256, (8, 4, 2, 64), np.uint8) for _ in range(POOLS)]
    layout = register(pools)
    one, several = HostCopies(), HostCopies(threads=THREADS)
    alone = one.pack(layout, PAGES, 7, b"head")
    taken.clear()
    staged = several.pack(layout, PAGES, 7, b"head")
    assert [name for name, _ in taken] == ["kv_gather_parts"] * THREADS
    assert sum(thread.startswith("pdproto-copy") for _, thread in taken) == THREADS - 1
    assert bytes(staged.views[0]) == bytes(alone.views[0])
    sinks = [np.zeros_like(pool) for pool in pools]
    landed: Any = np.frombuffer(bytes(staged.views[0])[4:], np.uint8)
    taken.clear()
    assert several.unpack(register(sinks), landed, PAGES, 7).clean()
    assert [name for name, _ in taken] == ["kv_scatter_parts"] * THREADS
    for pool, sink in zip(pools, sinks, strict=True):
        assert np.array_equal(pool[PAGES], sink[PAGES])
    damaged = landed.copy()
    damaged[9] ^= 1
    assert not several.unpack(register(sinks), damaged, PAGES, 7).clean()


def pools() -> list[Any]:
    return [np.zeros((8, 1, 1, 4_096), np.uint8)]


def components() -> list[Component]:
    return [Component("kv", (np.zeros((8, 4_096), np.uint8),), (0,))]


@pytest.mark.parametrize("open_", [
    lambda: SourcePages(pools(), open_source("tcp"), threads=THREADS),
    lambda: SinkPages(pools(), open_sink("tcp"), threads=THREADS),
    lambda: SourceItems(components(), TpRank(1, 0), open_source("tcp"), threads=THREADS),
    lambda: SinkItems(components(), TpRank(1, 0), open_sink("tcp"), threads=THREADS),
    lambda: DirectItems(components(), TpRank(1, 0), open_sink("tcp"), threads=THREADS),
], ids=["SourcePages", "SinkPages", "SourceItems", "SinkItems", "DirectItems"])
def test_every_data_path_takes_threads(open_: Callable[[], Any]) -> None:
    made = open_()
    try:
        assert made._copies._launch.threads == THREADS
    finally:
        made.close()
