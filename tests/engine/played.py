"""The engines of devices for the contract's tests: a processor plays the devices of both ends.

The tests write bytes of host memory, and read the memory of a lease. So the source's device gets
these bytes first, and the sink shows the memory of its device as that of the host.
"""

from collections.abc import Callable, Sequence
from itertools import count
from typing import Any, Final
from unittest.mock import patch

import numpy as np
import torch

from pdproto.engine.contract import Address, Buffer, DeviceBytes, Extent, Lease
from pdproto.engine.device_pieces import DeviceSource, NeedsDevice
from pdproto.engine.device_shared import DeviceSharedSink, DeviceSharedSource
from pdproto.engine.nixl import NixlGpuSink, NixlGpuSource
from pdproto.engine.sink import Sink
from pdproto.engine.source import bytes_of
from pdproto.pages.host_device import HostDevice, HostStream


class ShowsMemory(NeedsDevice, Sink[Any]):
    """The sink's side, before the engine's class."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self.use(HostDevice())

    def view(self, lease: Lease) -> memoryview:
        """See contract.SinkEngine."""
        return memoryview(super().view(lease).numpy()).toreadonly()


class PlayedBytes:
    """Bytes of a write that are on the device; see DeviceBytes."""

    def __init__(self, device: HostDevice, stream: HostStream, views: Sequence[Buffer]) -> None:
        self._bytes: Final = torch.tensor(
            np.frombuffer(b"".join(bytes_of(views)), np.uint8).copy())
        self._stream: Final = stream
        self.nbytes: Final = len(self._bytes)
        self.pin: Final = device.pin
        self.extents: Final = (Extent(self._bytes.data_ptr(), self.nbytes, device.gpu),)

    def copy_to(self, place: Any) -> Callable[[], bool]:
        """See DeviceBytes."""
        self._stream.copy(place, self._bytes)
        return self._stream.record().query


class TakesViews(DeviceSource):
    """The source's side, before the engine's class."""

    def __init__(self, **arguments: Any) -> None:
        super().__init__(**arguments)
        self._played: Final = HostDevice()
        self._copies_of: Final = self._played.stream()
        self.use(self._played)

    def post(
        self, address: Address, offset: int, views: Sequence[Buffer],
        carried: DeviceBytes | None = None,
    ) -> int:
        """See contract.SourceEngine."""
        if carried is None:
            carried = PlayedBytes(self._played, self._copies_of, views)
        return super().post(address, offset, (), carried)


class SharedPlayedSink(ShowsMemory, DeviceSharedSink):
    """Of `cuda-ipc`."""


class SharedPlayedSource(TakesViews, DeviceSharedSource):
    """Of `cuda-ipc`."""


class NixlPlayedSink(ShowsMemory, NixlGpuSink):
    """Of `nixl-gpu`."""


class NixlPlayedSource(TakesViews, NixlGpuSource):
    """Of `nixl-gpu`."""


def before_a_piece(stop: Callable[[], None]) -> None:
    """Call this in the middle of a copy, when some of its pieces are in place."""
    step, calls = HostStream.step, count()

    def stopping(stream: HostStream) -> None:
        if next(calls) == 1:
            stop()
        step(stream)

    patch.object(HostStream, "step", stopping).start()
