"""Bytes that a device carries into the sink's memory: it cannot be stopped, so all wait for it."""

import gc
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any, Final

import numpy as np
import pytest

from pdproto.engine.board import WITHDRAWN
from pdproto.engine.contract import Address, EngineError, Lease, Result
from pdproto.engine.device_pieces import GRANULE_BYTES
from pdproto.engine.device_shared import DeviceSharedSink, DeviceSharedSource
from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.engine.tcp_sink import TcpSink
from pdproto.engine.tcp_source import TcpSource
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from tests.engine.engines import finished
from tests.node.leftovers import opened
from tests.waiting import PATIENCE_S, until

torch = pytest.importorskip("torch")

from pdproto.pages.host_device import HostDevice  # noqa: E402 - needs torch

LENGTH: Final = 1 << 16


class Held:
    """Bytes whose device copies them when it is told to, and fails when it is told to."""

    def __init__(self, byte: int, length: int = LENGTH) -> None:
        self.byte: Final = byte
        self.nbytes: Final = length
        self.extents: Final = ()  # these engines read none
        self.pins: Final[list[int]] = []
        self.place: Any = None
        self.is_done = False
        self.failure: str | None = None

    def pin(self, memory: Any) -> Callable[[], None]:
        """See DeviceBytes."""
        size = memory.size
        self.pins.append(size)
        return lambda: self.pins.remove(size)

    def copy_to(self, place: Any) -> Callable[[], bool]:
        """See DeviceBytes."""
        self.place = place
        return self._is_over

    def finish(self) -> None:
        self.place[:] = self.byte
        self.place = None
        self.is_done = True

    def _is_over(self) -> bool:
        if self.failure is not None:
            raise RuntimeError(self.failure)
        return self.is_done


class Both:
    """Shared memory, a lease, and a write that a device has begun to carry there."""

    def __init__(self) -> None:
        self.sink, self.source = SharedSink(), SharedSource()
        self.lease: Final = leased(self.sink)
        self.held: Final = Held(7)
        self.write: Final = self.source.post(self.lease.address, 0, (), self.held)
        until(lambda: self.held.place is not None, "the device to begin")


def leased(sink: SharedSink, length: int = LENGTH) -> Lease:
    lease = sink.lease("life", "source", length)
    assert lease is not None
    return lease


@pytest.fixture
def both() -> Iterator[Both]:
    made = Both()
    yield made
    made.held.is_done, made.held.place = True, None
    made.source.close()
    made.sink.close()


def mapped() -> int:
    """Pieces of a sink's memory that this process has open."""
    return sum("memfd:pdproto" in path for path in opened().values())


def nothing_ends(source: SharedSource, seconds: float = 0.1) -> bool:
    with pytest.raises(AssertionError), short(seconds):
        finished(source)
    return True


@contextmanager
def short(seconds: float) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tests.waiting.PATIENCE_S", seconds)
        yield


def test_a_write_has_landed_when_its_device_says_so(both: Both) -> None:
    assert nothing_ends(both.source)
    assert both.sink.counts().landed_writes == 0
    both.held.finish()
    assert [(end.write, end.result) for end in finished(both.source)] == [
        (both.write, Result.LANDED)]
    assert set(both.sink.view(both.lease)) == {7}
    assert both.held.pins == [both.sink.counts().leased_bytes]


def test_memory_is_pinned_once(both: Both) -> None:
    both.held.finish()
    finished(both.source)
    again = Held(8)
    both.source.post(both.lease.address, 0, (), again)
    until(lambda: again.place is not None, "the device to begin")
    again.finish()
    finished(both.source)
    assert (len(both.held.pins), again.pins) == (1, [])


def test_a_fenced_write_ends_when_its_device_has_stopped(both: Both) -> None:
    """The buffer of the write is used again after its outcome, and the device still reads it."""
    ticket = both.sink.fence(both.lease)
    until(lambda: both.sink.fenced(ticket), "the fence, which waits for no device")
    until(lambda: both.sink.counts().refused_writes, "the refusal")
    assert nothing_ends(both.source)
    both.held.finish()
    (end,) = finished(both.source)
    assert (end.result, end.reason) == (Result.REFUSED, WITHDRAWN)


def test_revoked_memory_is_given_back_when_the_device_has_stopped(both: Both) -> None:
    both.sink.release(both.lease)
    until(lambda: both.sink.counts().abandoned_bytes, "the memory to be given up")
    assert nothing_ends(both.source)
    assert both.sink.counts().abandoned_bytes, "the sink was told that nobody writes there"
    both.held.finish()
    until(lambda: not both.sink.counts().abandoned_bytes, "the source to unmap it")


def test_memory_stays_mapped_when_the_connection_ends(both: Both) -> None:
    place = both.held.place
    both.sink.close()
    (end,) = finished(both.source)
    assert end.result is Result.ERROR
    place[:] = 9  # a store to unmapped memory would kill this process
    both.held.finish()


def test_a_source_that_is_closed_waits_for_its_device(both: Both) -> None:
    asked = 0

    def is_over() -> bool:
        nonlocal asked
        asked += 1
        return asked > 200

    both.source._carries[both.write].is_over = is_over
    both.source.close()
    assert asked > 200
    assert not both.source._carries


def test_a_device_that_fails_ends_its_write_with_an_error(both: Both) -> None:
    both.held.failure = "cuda:0: an illegal memory access was encountered"
    (end,) = finished(both.source)
    assert (end.result, end.reason) == (Result.ERROR, both.held.failure)
    both.sink.fence(both.lease)
    again, other = Held(8), leased(both.sink)
    both.source.post(other.address, 0, (), again)
    until(lambda: again.place is not None, "another write of the same connection")
    again.finish()
    (end,) = finished(both.source)
    assert end.result is Result.LANDED
    assert both.source.counts().failed_writes == 1


def test_a_failed_write_has_one_outcome(both: Both) -> None:
    both.held.failure = "cuda:0: an illegal memory access was encountered"
    finished(both.source)
    both.sink.close()
    until(lambda: not both.source.counts().connections, "the end of the connection")
    assert both.source.completed() == []
    assert both.source.counts().failed_writes == 1
    assert both.source.counts().writes == 0


def test_an_engine_without_devices_takes_no_bytes_of_one() -> None:
    with closing(TcpSink()) as sink, closing(TcpSource()) as source:
        lease = sink.lease("life", "source", LENGTH)
        assert lease is not None
        with pytest.raises(TypeError, match="engine 'tcp' has no device copy bytes: pass views"):
            source.post(lease.address, 0, (), Held(7))


class OnDevices:
    """A sink whose memory is on a device, and a source with a device of its own."""

    def __init__(self) -> None:
        self.here, self.there = HostDevice(), HostDevice()
        self.sink, self.source = DeviceSharedSink(), DeviceSharedSource()
        self.sink.use(self.here)
        self.source.use(self.there)

    def write(self, lease: Lease) -> Held:
        """A write that has begun."""
        held = Held(7, lease.length)
        self.source.post(lease.address, 0, (), held)
        until(lambda: held.place is not None, "the device to begin")
        return held

    def close(self) -> None:
        self.source.close()
        self.sink.close()


def test_a_chunk_goes_from_device_to_device() -> None:
    with closing(OnDevices()) as both:
        lease = leased(both.sink)
        held = both.write(lease)
        held.finish()
        assert finished(both.source)[0].result is Result.LANDED
        view = both.sink.view(lease)
        assert isinstance(view, torch.Tensor)
        assert bool((view == 7).all())
        assert held.pins == []
        assert both.here.calls["export"] == both.there.calls["map"] == 1
        assert both.sink.counts().leased_bytes == GRANULE_BYTES


def test_memory_of_a_device_is_freed_when_no_process_has_it_mapped() -> None:
    with closing(OnDevices()) as both:
        lease = leased(both.sink)
        held = both.write(lease)
        both.sink.fence(lease)
        both.sink.release(lease)
        until(lambda: both.sink.counts().refused_writes, "the refusal")
        assert nothing_ends(both.source)
        assert both.here.calls["free"] == 0
        held.finish()
        until(lambda: both.here.calls["free"], "the device to have its memory back")
        assert both.sink.counts().abandoned_bytes == 0


def test_memory_that_a_device_cannot_map_refuses_its_write_alone() -> None:
    """Another write of the same connection lands, and the memory can be mapped later."""
    with closing(OnDevices()) as both:
        first, second = leased(both.sink), leased(both.sink)
        held = both.write(first)
        both.there.has_access = False
        refused = Held(8)
        number = both.source.post(second.address, 0, (), refused)
        (end,) = finished(both.source)
        assert (end.write, end.result) == (number, Result.REFUSED)
        assert end.reason.startswith("region 2: the late device does not reach the memory of "
                                     "process ")
        assert (refused.place, refused.pins) == (None, [])
        held.finish()
        assert finished(both.source)[0].result is Result.LANDED
        both.there.has_access = True
        third = leased(both.sink)
        both.write(third).finish()
        assert finished(both.source)[0].result is Result.LANDED
        for lease in (first, second, third):
            both.sink.fence(lease)
            both.sink.release(lease)
        counts = both.sink.counts()
        assert (counts.pooled_bytes, counts.abandoned_bytes) == (3 * GRANULE_BYTES, 0)


def carry_and_close(address: str) -> None:
    """In a process of its own: a write that lands, and a source that is closed."""
    source = DeviceSharedSource()
    begun(source, address).finish()
    finished(source)
    source.close()
    signal.pause()


def carry_for_ever(address: str) -> None:
    """In a process of its own: a write whose device never ends it, and the connection closed."""
    source = DeviceSharedSource()
    _held = begun(source, address)
    for line in source._lines.values():
        line.sock.shutdown(socket.SHUT_RDWR)
    signal.pause()


def carry_beyond_the_end(address: str) -> None:
    """The same, and the source is closed."""
    source = DeviceSharedSource()
    _held = begun(source, address)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("pdproto.engine.shared_source.CLOSE_S", 0.05)
        source.close()
    signal.pause()


def begun(source: DeviceSharedSource, address: str) -> Held:
    """A write that the device has begun to copy."""
    held = Held(7)
    source.use(HostDevice())
    source.post(Address.decode(bytes.fromhex(address)), 0, (), held)
    until(lambda: held.place is not None, "the device to begin")
    return held


def process_of(begin: Callable[[str], None], lease: Lease) -> subprocess.Popen[bytes]:
    """A process that does this with a lease."""
    return subprocess.Popen([sys.executable, "-c", (
        f"from tests.engine.test_carried import {begin.__name__} as begin\n"
        f"begin('{lease.address.encode().hex()}')")])


def carrying_for_ever(
    both: OnDevices, lease: Lease, begin: Callable[[str], None] = carry_for_ever
) -> subprocess.Popen[bytes]:
    """A process that copies into this lease, and whose connection has ended."""
    process = process_of(begin, lease)
    backing = both.sink.leases._held[lease.number].backing
    assert backing is not None
    until(lambda: backing.is_left, "the end of the connection in the middle of a write")
    until(lambda: not both.sink.counts().connections, "the end of the connection")
    return process


def test_memory_is_not_freed_while_the_process_of_a_closed_connection_lives() -> None:
    """Its device may still write there, and CUDA would give the memory to somebody else."""
    with closing(OnDevices()) as both:
        lease = leased(both.sink)
        process = carrying_for_ever(both, lease)
        both.sink.fence(lease)
        both.sink.release(lease)
        assert both.here.calls["free"] == 0
        assert both.sink.counts().abandoned_bytes == GRANULE_BYTES
        process.kill()
        process.wait(PATIENCE_S)
        until(lambda: both.here.calls["free"], "the device to have its memory back")
        until(lambda: not both.sink.counts().abandoned_bytes, "no bytes to be given up")
        assert not both.sink.processes


def test_a_closed_sink_frees_memory_when_the_source_has_unmapped_it() -> None:
    """The source lives, and nothing is in flight: `close` waits that long."""
    with closing(OnDevices()) as both:
        both.write(leased(both.sink)).finish()
        finished(both.source)
        threads = threading.active_count()
        both.sink.close()
        assert both.here.calls["free"] == 1
        assert threading.active_count() == threads - 1
        assert not both.sink.processes
        until(lambda: not both.source.counts().connections, "the end of the connection")


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> None:
    """A sink that is closed does not wait for long."""
    monkeypatch.setattr("pdproto.engine.device_shared.CLOSE_S", 0.1)


@pytest.mark.usefixtures("brief")
def test_a_closed_sink_frees_no_memory_while_a_device_copies_into_it() -> None:
    with closing(OnDevices()) as both:
        held = both.write(leased(both.sink))
        both.sink.close()
        assert nothing_ends(both.source)
        gc.collect()  # nothing but the thread of the sink keeps the memory
        assert both.here.calls["free"] == 0
        held.place[:] = 9
        held.finish()
        (end,) = finished(both.source)
        assert end.result is Result.REFUSED
        until(lambda: both.here.calls["free"], "the device to have its memory back")
        until(lambda: not both.sink.processes, "the descriptor of the process to be closed")


@pytest.mark.slow
@pytest.mark.usefixtures("brief")
@pytest.mark.parametrize("begin", [carry_for_ever, carry_beyond_the_end])
def test_a_closed_sink_frees_memory_when_the_process_of_a_closed_connection_has_ended(
    begin: Callable[[str], None]
) -> None:
    with closing(OnDevices()) as both:
        lease = leased(both.sink)
        process = carrying_for_ever(both, lease, begin)
        both.sink.close()
        both.sink.close()
        assert both.here.calls["free"] == 0
        process.kill()
        process.wait(PATIENCE_S)
        until(lambda: both.here.calls["free"], "the device to have its memory back")
        until(lambda: not both.sink.processes, "the descriptor of the process to be closed")


@pytest.mark.slow
def test_the_process_of_a_closed_source_need_not_end() -> None:
    """It has said that it has unmapped the memory, and then ended the connection."""
    with closing(OnDevices()) as both:
        lease = leased(both.sink)
        process = process_of(carry_and_close, lease)
        until(lambda: both.sink.counts().landed_writes, "the write")
        until(lambda: not both.sink.counts().connections, "the end of the connection")
        both.sink.close()
        assert both.here.calls["free"] == 1
        assert process.poll() is None
        process.kill()
        process.wait(PATIENCE_S)


@pytest.mark.usefixtures("brief")
def test_a_write_to_a_closed_sink_is_refused_while_the_connection_lasts() -> None:
    with closing(OnDevices()) as both:
        lease, other = leased(both.sink), leased(both.sink)
        held = both.write(lease)
        both.sink.close()
        both.source.post(other.address, 0, (), Held(8))
        (end,) = finished(both.source)
        assert end.result is Result.REFUSED
        held.finish()
        assert finished(both.source)[0].result is Result.REFUSED


def test_no_descriptor_of_a_process_is_left() -> None:
    before = len(opened())
    with closing(OnDevices()) as both:
        held = both.write(leased(both.sink))
        held.finish()
        finished(both.source)
    gc.collect()
    assert len(opened()) <= before


IN_HOST_MEMORY: Final = ("engine cuda-ipc writes to memory of a GPU, and these pools are in host "
                         "memory: open both sides with shm")


@pytest.mark.parametrize(("pages", "engine"), [
    (SinkPages, DeviceSharedSink), (SourcePages, DeviceSharedSource)])
def test_pools_in_host_memory_are_refused(pages: Any, engine: Any) -> None:
    with closing(engine()) as opened_engine, pytest.raises(EngineError, match=IN_HOST_MEMORY):
        pages([np.zeros((4, 1, 1, 64), np.uint8)], opened_engine)


def test_a_lease_and_a_write_without_a_device_are_refused() -> None:
    with closing(DeviceSharedSink()) as sink, pytest.raises(EngineError, match=IN_HOST_MEMORY):
        sink.lease("life", "source", LENGTH)
    with closing(OnDevices()) as both, closing(DeviceSharedSource()) as source, pytest.raises(
            EngineError, match=IN_HOST_MEMORY):
        source.post(leased(both.sink).address, 0, (), Held(7))


def test_bytes_in_host_memory_are_refused() -> None:
    """They would end the engine's thread: only a device copies to the memory of a device."""
    with closing(OnDevices()) as both:
        lease = leased(both.sink)
        with pytest.raises(TypeError, match="'cuda-ipc' sends no bytes of host memory"):
            both.source.post(lease.address, 0, [bytes(9)])
        both.write(lease).finish()
        assert finished(both.source)[0].result is Result.LANDED


def test_a_device_without_memory_is_named() -> None:
    with closing(OnDevices()) as both:
        both.here.bytes_max = 0
        with pytest.raises(EngineError, match="the late device has no 2,097,152 bytes"):
            leased(both.sink)
