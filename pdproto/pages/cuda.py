"""A GPU, through torch; see device.py."""

from collections.abc import Callable
from typing import Any, Final

import torch

from pdproto.kernels.arguments import Launch
from pdproto.pages.device import DeviceError, DeviceEvent, never_recorded, no_memory, not_pinned
from pdproto.pages.tensors import cuda_tensor

PORTABLE: Final = 1  # cudaHostRegisterPortable: pinned for all devices


class CudaDevice:
    """A GPU. name: as torch names it, "cuda:0". Raises RuntimeError if there is no such GPU, or if
    torch was built without CUDA.
    """

    kernels: Final = None

    def __init__(self, name: str) -> None:
        self._device: Final = torch.device(name if ":" in name else f"{name}:0")
        self.name: Final = str(self._device)
        if self._device.index >= torch.cuda.device_count():
            raise RuntimeError(f"{name}: torch {torch.__version__} finds "
                               f"{torch.cuda.device_count()} GPUs here")

    def stream(self) -> "CudaStream":
        """See Device."""
        return CudaStream(torch.cuda.Stream(self._device))  # type: ignore[no-untyped-call]

    def compute(self, work: Callable[[], object]) -> None:
        """See Device: the work enqueues itself on the current stream."""
        work()

    def passed(self) -> DeviceEvent:
        """See Device."""
        return _recorded(torch.cuda.current_stream(self._device))

    def at(self, address: int, length: int) -> Any:
        """See Device."""
        return cuda_tensor(address, length, self._device)

    def memory(self, length: int) -> Any:
        """See Device. It waits for the zeros, because other streams do not."""
        try:
            made = torch.zeros(length, dtype=torch.uint8, device=self._device)
        except torch.OutOfMemoryError as error:
            raise no_memory(self.name, length, error) from error
        torch.cuda.current_stream(self._device).synchronize()
        return made

    def host_memory(self, length: int) -> Any:
        """See Device."""
        try:
            return torch.zeros(length, dtype=torch.uint8, pin_memory=True)
        except RuntimeError as error:
            raise DeviceError(not_pinned(self.name, length, error)) from error

    def pin(self, memory: Any) -> Callable[[], None]:
        """See Device."""
        cuda: Any = torch.cuda.cudart()  # type: ignore[no-untyped-call]
        address, length = memory.ctypes.data, memory.nbytes
        with torch.cuda.device(self._device):
            failed = cuda.cudaHostRegister(address, length, PORTABLE)
        if int(failed):
            raise OSError(not_pinned(self.name, length, f"cudaHostRegister fails with {failed}"))
        return lambda: cuda.cudaHostUnregister(address)

    def lost(self) -> bool:
        """See Device: after an access out of range, every call fails."""
        try:
            _recorded(torch.cuda.current_stream(self._device)).query()
        except RuntimeError:
            return True
        return False


class CudaStream:
    """See DeviceStream."""

    def __init__(self, stream: Any) -> None:
        self._stream: Final = stream

    def wait(self, event: Any) -> None:
        """See DeviceStream."""
        if not event.cuda_event:
            raise DeviceError(never_recorded(str(self._stream.device)))
        self._stream.wait_event(event)

    def run(self, work: Callable[[Launch], object]) -> None:
        """See DeviceStream."""
        with torch.cuda.stream(self._stream):
            work(Launch(stream=self._stream))

    def copy(self, target: Any, source: Any) -> None:
        """See DeviceStream. A copy from memory that is not pinned returns when that was read."""
        with torch.cuda.stream(self._stream):
            target.copy_(source, non_blocking=True)

    def record(self) -> DeviceEvent:
        """See DeviceStream."""
        return _recorded(self._stream)


def _recorded(stream: Any) -> DeviceEvent:
    event: DeviceEvent = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(stream)  # type: ignore[attr-defined]
    return event
