"""What copies need is made once, by whichever thread asks first, and never amid a copy."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Barrier
from typing import Any, Final

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from lab.casts import cast as casts  # noqa: E402
from lab.casts.cast import pack_cast  # noqa: E402
from lab.casts.device import bound_cast  # noqa: E402
from lab.casts.table import cast_table_of  # noqa: E402
from pdproto.kernels import device_launch, device_memory  # noqa: E402
from pdproto.kernels.chunk import (  # noqa: E402
    HeadRange,
    KVLayout,
    pack_chunk,
    pack_slices,
    plan_for,
    warmup,
)
from pdproto.kernels.device_memory import Binding, binding_of, bound_table  # noqa: E402
from pdproto.kernels.plan import Scale  # noqa: E402
from pdproto.kernels.table import table_of  # noqa: E402
from pdproto.kernels.uplink import Uplink  # noqa: E402
from tests.kernels.paths import PATHS  # noqa: E402
from tests.kernels.pools import POISON, Geometry, new_pools  # noqa: E402
from tests.skips import INTERPRETED  # noqa: E402

THREADS: Final = 8
PEERS: Final = (HeadRange(0, 1), HeadRange(1, 1))

pytestmark = pytest.mark.skipif(
    torch.cuda.is_available(), reason=INTERPRETED
)


def _layout(element: Any = np.uint8) -> KVLayout:
    pools = new_pools(Geometry(entries=2, pages=6, tokens=2, heads=2, row_bytes=64))
    return PATHS["interpreter"].layout([pool.view(element) for pool in pools])


@dataclass
class _Read:
    """The event after a kernel, on a stream that is behind."""

    done: bool = True

    def query(self) -> bool:
        return self.done

    def record(self, stream: object) -> None:
        del stream
        self.done = False


def _sent_until_refused(binding: Binding) -> int:
    """How many chunks can be under way at once, with what is under way already."""
    for turn in binding.uplink.turns:
        turn.read = turn.read or _Read()
    events = binding.uplink.events
    events[:] = [event or _Read() for event in events]
    for sent in range(100):
        try:
            binding.uplink.launched(binding.uplink.send([np.arange(3)])[1], None)
        except BlockingIOError:
            return sent
    raise AssertionError("nothing bounds what is under way")


@pytest.mark.parametrize("first", [None, 3])
def test_a_later_warmup_makes_room_for_more_in_flight(first: int | None) -> None:
    """Whether a copy or a smaller warmup came before, and while chunks are under way."""
    layout = _layout()
    if first is None:
        first = 32
        pack_chunk(layout, [0], _chunk(layout, 1))
    else:
        warmup(layout, in_flight=first)
    binding = binding_of(layout)
    assert _sent_until_refused(binding) == first
    warmup(layout, in_flight=first + 2)
    assert _sent_until_refused(binding) == 2
    for fewer in (None, 1):
        warmup(layout, in_flight=fewer)
        for turn in binding.uplink.turns:
            turn.read.done = True
        assert _sent_until_refused(binding) == first + 2
    with pytest.raises(ValueError, match="in_flight: want at least 1, got 0"):
        warmup(layout, in_flight=0)


def _chunk(layout: KVLayout, pages: int) -> Any:
    """Room for the chunk of `pages` pages, 16-byte aligned as torch's memory is."""
    return torch.full((plan_for(layout, pages).only.bytes,), POISON, dtype=torch.uint8)


def test_after_a_warmup_nothing_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = _layout()
    warmup(layout, peers=[PEERS], in_flight=5)
    chunks = [_chunk(layout, 3) for _ in PEERS]

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("made while a chunk was copied")

    for maker in ("empty", "zeros", "full", "tensor", "from_numpy"):
        monkeypatch.setattr(torch, maker, refuse)
    for turn in range(7):
        pack_chunk(layout, [turn % 6], chunks[0])
        pack_slices(layout, [5, 0, 2], chunks, PEERS)
    assert binding_of(layout).uplink.in_flight == 5


def _together(work: Callable[[], Any]) -> list[Any]:
    """What `work` returns to each of some threads that start at once."""
    barrier = Barrier(THREADS)

    def start(_: int) -> Any:
        barrier.wait(10)
        return work()

    with ThreadPoolExecutor(THREADS) as pool:
        return list(pool.map(start, range(THREADS)))


def _slowly(make: Callable[..., Any]) -> Callable[..., Any]:
    def made(*arguments: Any, **named: Any) -> Any:
        time.sleep(0.02)  # so that without a lock every thread gets here
        return make(*arguments, **named)

    return made


def test_threads_that_start_together_share_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two bindings would be two sets of turns, of which one is forgotten under its kernels."""
    layout = _layout(np.float16)
    monkeypatch.setattr("pdproto.kernels.device_memory.Uplink", _slowly(Uplink))
    monkeypatch.setattr("pdproto.kernels.device_memory.table_of", _slowly(table_of))
    monkeypatch.setattr("lab.casts.device.cast_table_of", _slowly(cast_table_of))
    binding, *others = _together(lambda: binding_of(layout))
    assert all(other is binding for other in others)
    plan = plan_for(layout, 1, peers=PEERS)
    (_, rows), *tables = _together(lambda: bound_table(binding, layout, plan, PEERS))
    assert all(other is rows for _, other in tables)
    cast = plan_for(layout, 1, scale=Scale.PAGE)
    (_, rows), *tables = _together(lambda: bound_cast(binding, layout, cast, True, True))
    assert all(other is rows for _, other in tables)


def test_made_kernels_are_found_without_a_lock() -> None:
    layout = _layout(np.float16)
    warmup(layout)
    casts.warmup(layout, [Scale.PAGE])
    binding, plan = binding_of(layout), plan_for(layout, 1)
    cast = plan_for(layout, 1, scale=Scale.PAGE)

    def warm() -> bool:
        return (
            binding_of(layout) is binding
            and bound_table(binding, layout, plan, None)[1] is not None
            and bound_cast(binding, layout, cast, True, True)[1] is not None
        )

    # The pool waits for its thread last, when that one can have the locks.
    with ThreadPoolExecutor(1) as pool, device_memory.BINDING, binding.lock:
        assert pool.submit(warm).result(10)


@pytest.mark.parametrize("key", [None, "life", 1.0])
def test_a_call_that_fails_leaves_its_room_to_the_next(key: Any) -> None:
    """Each would have kept a turn of the uplink for good: after as many, nothing was packed."""
    layout = _layout()
    warmup(layout, in_flight=2)
    chunk = _chunk(layout, 1)
    for _ in range(4):
        with pytest.raises(TypeError, match="key: want an integer, got"):
            pack_chunk(layout, [0], chunk, key=key)
    pack_chunk(layout, [0], chunk, key=np.uint64(5))  # type: ignore[arg-type]


def test_a_launch_that_fails_leaves_its_room_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    layout = _layout(np.float16)
    warmup(layout, in_flight=2)

    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("out of memory")

    with monkeypatch.context() as patch:
        patch.setattr("pdproto.kernels.device.run", fail)
        patch.setattr("lab.casts.device.run", fail)
        for _ in range(4):
            with pytest.raises(RuntimeError, match="out of memory"):
                pack_chunk(layout, [0], _chunk(layout, 1))
            with pytest.raises(RuntimeError, match="out of memory"):
                pack_cast(layout, [0], _chunk(layout, 1), scale=Scale.PAGE)
    pack_chunk(layout, [0], _chunk(layout, 1))


def _capture(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it look as if a graph was being captured."""
    for module in (device_launch, device_memory):
        monkeypatch.setattr(module, "capturing", lambda _: True)


def test_a_graph_takes_page_numbers_on_the_device_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory that host numbers go through is the next chunk's by the time of a replay."""
    layout = _layout()
    warmup(layout, peers=[PEERS, PEERS[:1]])
    chunks = [_chunk(layout, 2) for _ in PEERS]
    numbers = torch.tensor([4, 1])
    _capture(monkeypatch)
    with pytest.raises(ValueError, match="pages: want them on the device while a graph"):
        pack_chunk(layout, [4, 1], chunks[0])
    with pytest.raises(ValueError, match="chunks: one peer a call while a graph"):
        pack_slices(layout, numbers, chunks, PEERS)
    assert all((chunk == POISON).all() for chunk in chunks)
    pack_chunk(layout, numbers, chunks[0])
    want = np.concatenate([pool[numbers].reshape(-1) for pool in layout.pools])
    assert np.array_equal(chunks[0][: want.size].numpy(), want)
    pack_slices(layout, numbers, chunks[1:], PEERS[:1])
    want = np.concatenate([pool[numbers, :, :1].reshape(-1) for pool in layout.pools])
    assert np.array_equal(chunks[1][: want.size].numpy(), want)


def test_a_graph_is_captured_after_a_warmup_that_covers_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """What has to be made would be made in the graph, or not at all."""
    layout, numbers = _layout(np.float16), torch.tensor([4])
    chunk = _chunk(layout, 1)
    _capture(monkeypatch)
    with pytest.raises(RuntimeError, match="warmup: must have made the buffers of this layout"):
        pack_chunk(layout, numbers, chunk)
    monkeypatch.undo()
    warmup(layout)
    _capture(monkeypatch)
    with pytest.raises(RuntimeError, match="warmup: must have made the table of these peers"):
        pack_slices(layout, numbers, [chunk], PEERS[:1])
    with pytest.raises(RuntimeError, match="warmup: must have made the table of this scale"):
        pack_cast(layout, numbers, chunk, scale=Scale.PAGE)
    pack_chunk(layout, numbers, chunk)
