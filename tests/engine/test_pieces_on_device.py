"""Staging memory of a device that a library writes to: when the device has it back, and when not.

The library is obedient (obedient.py), and a processor plays the device.
"""

from collections.abc import Iterator
from contextlib import closing
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from pdproto.engine.contract import (  # noqa: E402 - needs torch
    Address,
    EngineBusy,
    EngineError,
    Extent,
    Lease,
    Result,
)
from pdproto.engine.device_pieces import GRANULE_BYTES  # noqa: E402 - needs torch
from pdproto.engine.memory import Backing  # noqa: E402 - needs torch
from pdproto.engine.nixl import (  # noqa: E402 - needs torch
    NO_GPU,
    ON_GPU,
    NixlGpuSink,
    NixlGpuSource,
    NixlTransport,
)
from pdproto.engine.one_sided import KEPT, Description, PieceOnDevice  # noqa: E402 - needs torch
from pdproto.engine.one_sided_sink import OneSidedSink  # noqa: E402 - needs torch
from pdproto.engine.one_sided_source import Move  # noqa: E402 - needs torch
from pdproto.engine.source import Posted  # noqa: E402 - needs torch
from pdproto.net.hosts import LOOPBACK  # noqa: E402 - needs torch
from pdproto.pages.host_device import HostDevice  # noqa: E402 - needs torch
from pdproto.pages.sink_pages import SinkPages  # noqa: E402 - needs torch
from pdproto.pages.source_pages import SourcePages  # noqa: E402 - needs torch
from tests.engine.engines import MISSING, finished, write  # noqa: E402 - needs torch
from tests.engine.obedient import Fault, Obedient, ObedientSource  # noqa: E402 - needs torch
from tests.waiting import until  # noqa: E402 - needs torch

NEEDS_NIXL: Final = pytest.mark.skipif(bool(MISSING["nixl"]), reason=MISSING["nixl"] or "there")
LENGTH: Final = 4096
OLD, NEW = 0xAB, 0x5C


class SinkOnDevice(OneSidedSink):
    """Over an obedient library."""

    granule = GRANULE_BYTES

    def __init__(self, device: HostDevice) -> None:
        self._device: Final = device
        super().__init__(Obedient(), capacity_bytes=8 * GRANULE_BYTES)

    def _make(self, region: int, length: int) -> Backing:
        return PieceOnDevice(self.transport, self._device, region, length)


class Ends:
    """Both ends; the sink's memory is on a device."""

    def __init__(self) -> None:
        self.device: Final = HostDevice()
        self.sink: Final = SinkOnDevice(self.device)
        self.source: Final = ObedientSource()
        self.rule: Final = Fault()

    def lease(self, life: str = "life") -> Lease:
        lease = self.sink.lease(life, "source", LENGTH)
        assert lease is not None
        return lease

    def close(self) -> None:
        self.source.close()
        self.sink.close()


@pytest.fixture
def ends() -> Iterator[Ends]:
    with closing(Ends()) as ends:
        yield ends


def test_a_fenced_writer_that_reports_gives_the_memory_back_to_the_device(ends: Ends) -> None:
    lease = ends.lease()
    ends.source.obedient.rule = ends.rule.hangs
    ends.source.post(lease.address, 0, [bytes(LENGTH)])
    until(lambda: ends.rule.late, "the transfer to begin")
    assert ends.sink.fenced(ends.sink.fence(lease))
    ends.sink.release(lease)
    assert ends.sink.counts().abandoned_bytes == GRANULE_BYTES
    assert ends.device.bytes == GRANULE_BYTES, "a writer may still reach it"
    ends.source.obedient.transfers[0].well = True
    (outcome,) = finished(ends.source)
    assert outcome.result is Result.REFUSED
    until(lambda: not ends.sink.counts().abandoned_bytes, "the report")
    assert not ends.device.bytes
    assert not KEPT


def test_memory_whose_writer_is_gone_without_a_report_is_never_given_back(ends: Ends) -> None:
    """The bytes of that write land in it later. The device would have lent it to somebody else."""
    lease = ends.lease()
    ends.source.obedient.rule = ends.rule.is_late
    data = bytes([OLD]) * LENGTH
    assert write(ends.source, lease.address, data).result is Result.ERROR
    until(lambda: not ends.sink.counts().connections, "the connection to end")
    assert ends.sink.fenced(ends.sink.fence(lease))
    ends.sink.release(lease)
    assert ends.sink.counts().abandoned_bytes == GRANULE_BYTES
    (piece,) = KEPT
    ends.source.obedient.rule = None
    following = ends.lease("following")
    assert write(ends.source, following.address, bytes([NEW]) * LENGTH).result is Result.LANDED
    ends.rule.land()
    assert set(ends.sink.view(following).tolist()) == {NEW}
    assert set(piece.view(LENGTH)[0:LENGTH].tolist()) == {OLD}
    ends.close()
    assert piece in KEPT
    assert ends.device.bytes == GRANULE_BYTES


def test_memory_that_the_library_does_not_register_is_given_back(
    ends: Ends, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_self: Obedient, memory: Extent) -> None:
        raise EngineError(f"no room for {memory.length} bytes")

    monkeypatch.setattr(Obedient, "register", refuse)
    with pytest.raises(EngineError, match=f"no room for {GRANULE_BYTES} bytes"):
        ends.lease()
    assert not ends.device.bytes
    monkeypatch.undo()
    assert ends.lease().length == LENGTH


def test_a_device_without_memory_is_named(ends: Ends) -> None:
    ends.device.bytes_max = GRANULE_BYTES - 1
    with pytest.raises(EngineBusy, match="no staging memory of 2097152 bytes: the late device"):
        ends.lease()
    assert not Obedient.registered


def test_a_transfer_from_a_gpu_is_larger_and_every_byte_is_in_one() -> None:
    address = Address("nixl-gpu", "here:1", 1, 0, 1 << 30, b"")
    parts = (Extent(0x1000, 8), Extent(0x2000_0000, (100 << 20) + 1, 0))
    carried: Any = SimpleNamespace(nbytes=sum(part.length for part in parts), extents=parts)
    move = Move(Posted(1, address, 0, (), carried.nbytes, carried), "peer", None, 0x5000, ())
    assert [*move.segments] == [
        (Extent(0x1000, 8), 0x5000),
        (Extent(0x2000_0000, 64 << 20, 0), 0x5008),
        (Extent(0x2400_0000, (36 << 20) + 1, 0), 0x5008 + (64 << 20)),
    ]


@NEEDS_NIXL
@pytest.mark.parametrize(("pages", "engine"), [(SinkPages, NixlGpuSink),
                                               (SourcePages, NixlGpuSource)])
def test_pools_in_host_memory_are_refused(pages: Any, engine: Any) -> None:
    why = ("engine nixl-gpu writes to memory of a GPU, and these pools are in host memory: open "
           "both sides with nixl")
    with closing(engine()) as opened_engine, pytest.raises(EngineError, match=why):
        pages([np.zeros((4, 1, 1, 64), np.uint8)], opened_engine)


class Recorder:
    """An agent of NIXL that notes which memory it is told of."""

    def __init__(self) -> None:
        self.told: Final[list[Any]] = []

    def register_memory(self, memory: Any, kind: str) -> str:
        self.told.append((kind, memory))
        return "registered"

    def get_partial_agent_metadata(self, memory: str, **_: Any) -> bytes:
        assert memory == "registered"
        return b"metadata"

    def add_remote_agent(self, data: bytes) -> str:
        assert data == b"metadata"
        return "peer"

    def get_xfer_descs(self, memory: Any, kind: str) -> Any:
        return kind, memory

    def initialize_xfer(self, _kind: str, here: Any, there: Any, _peer: str) -> Any:
        self.told.append((here, there))

    def transfer(self, _handle: Any) -> None: ...


@NEEDS_NIXL
@pytest.mark.parametrize(("gpu", "kind", "number"), [(None, "DRAM", 0), (0, "VRAM", 0),
                                                     (3, "VRAM", 3)])
def test_nixl_is_told_which_gpu_has_the_memory(gpu: int | None, kind: str, number: int) -> None:
    """The sink's own GPU has another number on another host: its description says which."""
    transport = NixlTransport(LOOPBACK, ON_GPU)
    agent = transport._agent = Recorder()
    transport.register(Extent(0x1000, 16, gpu))
    assert agent.told.pop() == (kind, [(0x1000, 16, number, "")])
    described = transport.describe(Extent(0x1000, 16, gpu))
    assert described.data == bytes([NO_GPU if gpu is None else gpu]) + b"metadata"
    transport.meet(Description(described.version, "peer", described.data))
    transport.begin("peer", Extent(0x5000, 8, 1), 0x1008)
    assert agent.told.pop() == (("VRAM", [(0x5000, 8, 1)]), (kind, [(0x1008, 8, number)]))
    transport.close()
