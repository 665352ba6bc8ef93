"""Staging memory on a device, and the engines of it.

A sink of such an engine leases memory of its device, and a source writes bytes that lie on a device
of its own. So both sides need pools on a device; copies_for.py tells the engine which.
"""

import os
from collections.abc import Sequence
from typing import Any, ClassVar, Final

from pdproto.engine.contract import (
    Address,
    Buffer,
    DeviceBytes,
    EngineError,
    Exported,
    Extent,
    SharesMemory,
)
from pdproto.engine.memory import Backing
from pdproto.engine.source import Source

CARRIED_BYTES_MAX: Final = 256 << 20
"""In flight from a device: as much as a node has packed at one time, at most. With 64 MiB,
hand-overs of 84 MB went one after the other.
"""
GRANULE_BYTES: Final = 2 << 20
"""CUDA shares memory in pieces of this size; a smaller one would show the process its neighbours.
"""


class NeedsDevice:
    """An engine of memory of a device; see OnDevice. engine: its name. instead: the engine for
    pools in host memory.
    """

    engine: ClassVar[str]
    instead: ClassVar[str]

    def __init__(self, **arguments: Any) -> None:
        self._device: SharesMemory | None = None
        super().__init__(**arguments)

    def use(self, device: SharesMemory | None) -> None:
        """See OnDevice."""
        self._device = device
        self.needed()

    def needed(self) -> SharesMemory:
        """The device of the pools. Raises EngineError without one."""
        if self._device is None:
            raise EngineError(f"engine {self.engine} writes to memory of a GPU, and these pools "
                              f"are in host memory: open both sides with {self.instead}")
        return self._device


class DeviceSource(NeedsDevice, Source):
    """Writes bytes that lie on a device; see OnDevice."""

    carries = True

    def __init__(self, *, bytes_max: int = CARRIED_BYTES_MAX, **arguments: Any) -> None:
        super().__init__(bytes_max=bytes_max, **arguments)

    def post(
        self, address: Address, offset: int, views: Sequence[Buffer],
        carried: DeviceBytes | None = None,
    ) -> int:
        """See SourceEngine. Raises EngineError without a device, and TypeError for bytes in host
        memory.
        """
        self.needed()
        if len(views):
            raise TypeError(f"post: engine {self.engine!r} sends no bytes of host memory: pass "
                            f"carried")
        return super().post(address, offset, (), carried)


class DeviceView:
    """The memory of a lease; see memory.View."""

    def __init__(self, memory: Any) -> None:
        self._memory = memory

    def __getitem__(self, at: slice) -> Any:
        return self._memory[at]

    def toreadonly(self) -> Any:
        """The device's own memory, which it cannot protect."""
        return self._memory

    def release(self) -> None:
        """See memory.View. Whoever still has this object, such as an error that is logged, keeps no
        memory of the device.
        """
        self._memory = None


class DevicePiece(Backing):
    """A piece of staging memory on a device. Raises OSError if the device has none."""

    __slots__ = ("_exported", "_is_closed")

    def __init__(self, region: int, length: int, device: SharesMemory) -> None:
        super().__init__(region, length)
        try:
            self._exported: Exported | None = device.export(length)
        except RuntimeError as error:
            raise OSError(str(error)) from error
        self._is_closed = False

    @property
    def extent(self) -> Extent:
        """Where it is."""
        assert self._exported is not None  # noqa: S101 - it is not given up
        return self._exported.extent

    def view(self, length: int) -> DeviceView:
        """See Backing."""
        assert self._exported is not None  # noqa: S101 - it is not given up
        return DeviceView(self._exported.memory[:length])

    def handle(self) -> int:
        """A file with the description of the memory."""
        if self._exported is None or self._is_closed:
            raise ValueError(f"region {self.region} is given up")
        file = os.memfd_create(f"pdproto-device-{self.region}", os.MFD_CLOEXEC)
        os.write(file, self._exported.description)
        return file

    def close(self) -> None:
        """See Backing: the memory is given back once no other process has it mapped."""
        self._is_closed = True
        if not self.holders:
            self.unheld()

    def unheld(self) -> None:
        """See Backing."""
        if self._is_closed and self._exported is not None:
            self._exported.free()
            self._exported = None
