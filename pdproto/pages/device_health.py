"""The errors of a device, with its name; and memory that processes share, as long as it works.

All parts of a data path that use a device report its errors here. So each of them notices that the
device has failed for good, and the node says that its process is not healthy.
"""

from collections.abc import Callable
from typing import Any, Final

from numpy.typing import NDArray

from pdproto.engine.contract import Exported
from pdproto.pages.device import Device, DeviceError


class DeviceHealth:
    """See SharesMemory. broken: why this process can use the device no more; None while it can.

    Any thread may call.
    """

    def __init__(self, device: Device) -> None:
        self.broken: str | None = None
        self._device: Final = device

    def failed(self, error: Exception) -> DeviceError:
        """The error with the device's name; the first one, if the device has failed for good."""
        told, name = str(error), self._device.name
        told = told if told.startswith(name) else f"{name}: {told}"
        if self.broken is None and self._device.lost():
            self.broken = f"{told}: the device has failed for good: restart this process"
        return DeviceError(self.broken or told)

    def pin(self, memory: NDArray[Any]) -> Callable[[], None]:
        """See Device. Raises OSError."""
        try:
            return self._device.pin(memory)
        except OSError as error:
            raise OSError(str(self.failed(error))) from error

    def export(self, length: int) -> Exported:
        """See SharesMemory. Raises DeviceError."""
        try:
            return self._device.export(length)
        except (OSError, RuntimeError) as error:
            raise self.failed(error) from error

    def map(self, description: bytes) -> Any:
        """See SharesMemory. Raises OSError, and ValueError for other bytes."""
        try:
            return self._device.map(description)
        except (OSError, RuntimeError) as error:
            raise OSError(str(self.failed(error))) from error
