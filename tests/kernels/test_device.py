"""What surrounds a launch: turns of the uplink, and on a GPU, streams, races and hidden waits."""

from __future__ import annotations

import warnings
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from pdproto.kernels.chunk import (  # noqa: E402
    Launch,
    digests_in,
    new_report,
    pack_chunk,
    plan_for,
    register,
    unpack_chunk,
    warmup,
)
from pdproto.kernels.device_memory import DeviceReport  # noqa: E402
from pdproto.kernels.uplink import ROOM, Uplink  # noqa: E402
from tests.skips import NO_GPU  # noqa: E402

needs_gpu = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU),
]


class _Read:
    """An event that happens when told."""

    def __init__(self) -> None:
        self.done = True

    def query(self) -> bool:
        return self.done

    def record(self, stream: object) -> None:
        assert stream == "a stream"
        self.done = False


def _uplink(chunk_max: int, in_flight: int) -> tuple[Uplink, list[_Read]]:
    """An uplink whose turns end when their events are told to happen, the first one first."""
    uplink, events = Uplink(chunk_max, torch.device("cpu"), in_flight), []
    for _ in range(in_flight):
        events.append(_Read())
    uplink.events[:] = reversed(events)
    return uplink, events


def test_the_uplink_takes_turns_and_refuses_to_overtake() -> None:
    uplink, events = _uplink(8, 2)
    first, turn = uplink.send([np.arange(3), np.array([9])])
    uplink.launched(turn, "a stream")
    second, turn = uplink.send([np.array([5])])
    assert (first.tolist(), second.tolist()) == ([0, 1, 2, 9], [5])
    with pytest.raises(BlockingIOError, match="2 chunks are under way: let"):
        uplink.send([np.array([7])])
    assert first.tolist() == [0, 1, 2, 9], "overwrote numbers that a kernel has yet to read"
    events[0].done = True
    assert uplink.send([np.array([7])])[0].tolist() == [7]
    # The second is not launched yet, so there is nothing that its event could stand for.
    with pytest.raises(BlockingIOError):
        uplink.send([np.array([8])])
    uplink.launched(turn, "a stream")
    events[1].done = True
    assert uplink.send([np.array([8])])[0].tolist() == [8]


def test_a_turn_that_could_not_be_sent_is_free_again() -> None:
    uplink, _ = _uplink(4, 1)
    with pytest.raises(ValueError, match="pages: 5 numbers to send, room for 4"):
        uplink.send([np.arange(5)])
    for _ in range(2):
        with pytest.raises(ValueError, match="invalid literal"):
            uplink.send([np.array(["page"])])
    assert uplink.send([np.arange(4)])[0].tolist() == [0, 1, 2, 3]


@given(sizes=st.lists(st.integers(1, 40), max_size=60), data=st.data())
def test_numbers_under_way_stay_as_they_are(sizes: list[int], data: st.DataObject) -> None:
    """Chunks of any size, ending in any order, in a ring that is too small for all of them."""
    with mock.patch("pdproto.kernels.uplink.ROOM", 90):
        uplink, _ = _uplink(40, 6)
    assert uplink.memory.size == 90
    under_way: list[tuple[Any, list[int], Any]] = []
    for number, size in enumerate(sizes):
        numbers = np.arange(size) + 1000 * number
        try:
            placed, turn = uplink.send([numbers])
        except BlockingIOError:
            assert under_way, "there is always room for one"
        else:
            uplink.launched(turn, "a stream")
            under_way.append((placed, numbers.tolist(), turn))
        for placed, sent, _ in under_way:
            assert placed.tolist() == sent, "overwrote numbers that a kernel has yet to read"
        for done in data.draw(st.sets(st.integers(0, 7))):
            if done < len(under_way):
                under_way[done][2].read.done = True
        under_way = [one for one in under_way if not one[2].read.done]


def test_a_ring_has_room_for_as_many_of_the_largest_chunks_as_were_asked_for() -> None:
    uplink, _ = _uplink(100, 5)
    assert uplink.memory.size <= ROOM
    for number in range(40):
        if number >= 5:
            uplink.turns[0].read.done = True
        uplink.launched(uplink.send([np.arange(100 - 7 * (number % 3))])[1], "a stream")
    assert len(uplink.turns) == 5


def test_pinned_memory_does_not_grow_with_the_pools() -> None:
    """A pool of a million pages took 257 MB on either side: 32 times its page numbers."""
    uplink = Uplink(1_000_000, torch.device("cpu"), 32)
    assert uplink.memory.pinned.nbytes == uplink.memory.placed.nbytes == 16_000_000
    assert Uplink(16_000, torch.device("cpu"), 1000).memory.pinned.nbytes == 8 * ROOM


def test_a_report_is_ready_once_it_was_fetched() -> None:
    report = DeviceReport(40, "interpreter")
    assert not report.ready()
    report.words[2] = 1 << 3
    report.fetch()
    assert report.ready()
    report.words[2] = 0
    assert report.read().mismatched == (35,), "what was fetched, not what came later"
    assert not report.ready()
    assert report.read().clean


class _Stream:
    """A stream that notes what it waits for."""

    def __init__(self) -> None:
        self.waited: list[object] = []

    def wait_stream(self, other: object) -> None:
        self.waited.append(other)


def test_a_report_keeps_its_order_from_stream_to_stream() -> None:
    """Were it cleared on one stream after a kernel on another, damage would look clean."""
    report = DeviceReport(40, "interpreter")
    first, second = _Stream(), _Stream()
    for stream in (first, first, second, None, first):
        report.follow(stream)
    assert (first.waited, second.waited) == ([second], [first])
    assert report.stream is first


@pytest.fixture
def cache() -> tuple[Any, Any]:
    """A layout of a small cache on the GPU, and its pools."""
    pools = [torch.randint(0, 256, (256, 16, 8, 256), dtype=torch.uint8, device="cuda")
             for _ in range(8)]  # fmt: skip
    layout = register(pools)
    warmup(layout)
    return layout, pools


class TestOnAGpu:
    """Skipped, saying so, where there is none."""

    pytestmark = needs_gpu

    def test_beside_other_work_a_hundred_times(self, cache: tuple[Any, Any]) -> None:
        layout, pools = cache
        pages = np.random.default_rng(1).permutation(256)[:64]
        plan = plan_for(layout, 64)
        index = torch.from_numpy(pages).cuda()
        want = torch.cat([pool[index].reshape(-1) for pool in pools])
        stream, other = torch.cuda.Stream(priority=-1), torch.cuda.Stream()
        left = torch.randn(2048, 2048, device="cuda", dtype=torch.bfloat16)
        torch.cuda.synchronize()
        for _ in range(100):
            with torch.cuda.stream(other):
                left @ left
            with torch.cuda.stream(stream):
                chunk = torch.full((plan.only.bytes,), 0xA5, dtype=torch.uint8, device="cuda")
            sums = digests_in(plan.only, chunk)
            report = new_report(layout)
            launch = Launch(stream=stream, ctas_max=8)
            pack_chunk(layout, pages, chunk, digests=sums, launch=launch)
            unpack_chunk(layout, pages, chunk, expected=sums, report=report, launch=launch)
            assert report.read().clean
            assert torch.equal(chunk[: want.numel()], want)

    def test_nothing_waits_or_allocates(self, cache: tuple[Any, Any]) -> None:
        layout, _ = cache
        plan = plan_for(layout, 4)
        chunk = torch.zeros(plan.only.bytes, dtype=torch.uint8, device="cuda")
        on_device = torch.arange(4, dtype=torch.int32, device="cuda")
        report = new_report(layout)
        sums = digests_in(plan.only, chunk)
        torch.cuda.synchronize()
        before = torch.cuda.memory_stats()["allocation.all.allocated"]
        try:
            with warnings.catch_warnings():  # torch calls the mode a prototype
                warnings.simplefilter("ignore")
                torch.cuda.set_sync_debug_mode("error")
            for pages in (np.arange(4), on_device):
                pack_chunk(layout, pages, chunk, digests=sums)
                unpack_chunk(layout, pages, chunk, expected=sums, report=report)
                report.fetch()
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert torch.cuda.memory_stats()["allocation.all.allocated"] == before
        assert report.read().clean

    def test_a_copy_can_be_part_of_a_graph(self, cache: tuple[Any, Any]) -> None:
        layout, pools = cache
        plan = plan_for(layout, 4)
        chunk = torch.zeros(plan.only.bytes, dtype=torch.uint8, device="cuda")
        pages = torch.tensor([3, 1, 4, 2], device="cuda")
        graph, report = torch.cuda.CUDAGraph(), new_report(layout)
        with torch.cuda.graph(graph):
            pack_chunk(layout, pages, chunk, report=report)
        pages.copy_(torch.tensor([9, 8, 7, 6], device="cuda"))
        graph.replay()
        want = torch.cat([pool[[9, 8, 7, 6]].reshape(-1) for pool in pools])
        assert torch.equal(chunk[: want.numel()], want)
        assert report.read().clean
        pages[2] = 256
        graph.replay()
        assert report.read().bad_index == 2

    def test_a_graph_refuses_page_numbers_in_host_memory(self, cache: tuple[Any, Any]) -> None:
        layout, _ = cache
        chunk = torch.zeros(plan_for(layout, 2).only.bytes, dtype=torch.uint8, device="cuda")
        pages = torch.tensor([3, 1], device="cuda")
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            with pytest.raises(ValueError, match="pages: want them on the device"):
                pack_chunk(layout, [3, 1], chunk)
            pack_chunk(layout, pages, chunk)
        graph.replay()
        assert chunk.any()

    def test_pools_beyond_32_bits(self) -> None:
        pool = torch.empty((9, 1 << 20, 8, 64), dtype=torch.uint8, device="cuda")
        pages = torch.tensor([8, 0, 5], device="cuda")
        for page in pages.tolist():
            pool[page].random_(0, 256)
        layout = register([pool])
        plan = plan_for(layout, 3)
        chunk = torch.zeros(plan.only.payload_bytes, dtype=torch.uint8, device="cuda")
        pack_chunk(layout, pages, chunk)
        assert torch.equal(chunk, pool[pages].reshape(-1))
