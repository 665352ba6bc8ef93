"""The data path on a GPU: `make test-gpu` runs this. Everything else about it runs without one."""

import gc
import os
from collections.abc import Iterator
from importlib.util import find_spec
from mmap import mmap

import msgspec
import numpy as np
import pytest

from pdproto.engine.engines import open_sink, open_source
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.pages.copies import Computed
from pdproto.pages.device import DeviceError
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.e2e.pairs import ENDED, until
from tests.skips import NO_GPU

torch = pytest.importorskip("torch")

from pdproto.pages.cuda import EXPORTED, RUN, CudaDevice, Shared  # noqa: E402 - needs torch
from pdproto.pages.tensors import gpu_of  # noqa: E402 - needs torch

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason=NO_GPU)]

NEEDS_NIXL = pytest.mark.skipif(not any(map(find_spec, ("nixl_cu12", "nixl_cu13"))),
                                reason="NIXL is not installed")
SHAPE = (64, 16, 8, 64)
SPIN_CYCLES = 200_000_000  # of a kernel that does nothing: about 0.1 s


class OnGpu:
    """Prefill and decode on one GPU."""

    def __init__(self, engine: str) -> None:
        self.theirs, self.ours = ([torch.zeros(SHAPE, dtype=torch.uint8, device="cuda:0")
                                   for _ in range(2)] for _ in range(2))
        self.prefill = PrefillNode("p", SourcePages(self.theirs, open_source(engine)))
        self.decode = DecodeNode("d", SinkPages(self.ours, open_sink(engine)))

    def begin(self, room: int, pages: list[int]) -> tuple[Sender, Receiver]:
        sender = self.prefill.open(room)
        receiver = self.decode.open(room, {"p": self.prefill.endpoint})
        receiver.publish(pages)
        until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
        return sender, receiver


@pytest.fixture(params=["shm", "tcp", "cuda-ipc", pytest.param("nixl-gpu", marks=NEEDS_NIXL)])
def both(request: pytest.FixtureRequest) -> Iterator[OnGpu]:
    found = OnGpu(request.param)
    yield found
    found.decode.close()
    found.prefill.close()


def test_pages_of_a_pass_that_still_runs_arrive_whole(both: OnGpu) -> None:
    """Property S15, with a kernel that holds the stream up."""
    passes = torch.cuda.Stream()
    for room in range(8):
        sender, receiver = both.begin(room, [9, 40])
        with torch.cuda.stream(passes):
            torch.cuda._sleep(SPIN_CYCLES)
            for pool in both.theirs:
                pool[[3, 5]] = room + 1
            sender.send([3, 5])
        until(lambda of=receiver: of.poll() in ENDED)  # type: ignore[misc]
        assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
        for pool in both.ours:
            assert bool((pool[[9, 40]] == room + 1).all())
            assert not bool(pool[8].any())
        receiver.close()
        until(lambda s=sender, r=receiver: s.released and r.released)  # type: ignore[misc]


def test_an_event_that_was_never_recorded_is_refused(both: OnGpu) -> None:
    sender, receiver = both.begin(1, [9])
    sender.send(Computed.by([3], torch.cuda.Event()))
    until(lambda: receiver.poll() in ENDED)
    assert "cuda:0: the event of the pass was never recorded" in (receiver.failure or "")


def test_a_pointer_is_told_by_its_device() -> None:
    device, pool = CudaDevice("cuda:0"), torch.arange(64, dtype=torch.uint8, device="cuda:0")
    found = device.at(pool.data_ptr(), 64)
    assert found.data_ptr() == pool.data_ptr()
    assert torch.equal(found, pool)
    host = np.zeros(64, np.uint8)
    assert gpu_of(host.ctypes.data) is None
    with pytest.raises(ValueError, match=r"is host memory, not of cuda:0"):
        device.at(host.ctypes.data, 64)


def test_memory_that_the_gpu_has_not_is_refused_with_the_setting() -> None:
    with pytest.raises(DeviceError, match=r"cuda:0 has no .* bytes for staging: .*--mem-fraction"):
        CudaDevice("cuda:0").memory(1 << 50)


def test_leased_memory_is_pinned_and_unpinned() -> None:
    device = CudaDevice("cuda:0")
    memory = np.frombuffer(mmap(-1, 1 << 20), np.uint8)
    for _ in range(2):  # a second time only after the first has been undone
        undo = device.pin(memory)
        assert torch.from_numpy(memory).is_pinned()
        with pytest.raises(OSError, match=r"staging_bytes, or free .*_ALREADY_REGISTERED"):
            device.pin(memory)
        assert bool(torch.ones(1, device="cuda").all()), "that error is over"
        undo()


def test_memory_that_no_process_exports_is_refused() -> None:
    told = msgspec.msgpack.encode(Shared(os.getpid(), RUN ^ 1, 0, 64, bytes(64)))
    with pytest.raises(OSError, match=r"cuda:0 does not reach the memory of process \d+: cuIpc"):
        CudaDevice("cuda:0").map(told)


def test_exported_memory_lives_as_long_as_its_last_view() -> None:
    device = CudaDevice("cuda:0")
    exported = device.export(2 << 20)
    view = device.map(exported.description)[100:]
    exported.memory.fill_(7)
    exported.free()
    assert bool((view == 7).all())
    (address,) = EXPORTED
    del view
    gc.collect()
    assert address not in EXPORTED
