"""A GPU, through torch; see device.py."""

from collections.abc import Callable
from typing import Any, Final

import torch

from pdproto.kernels.arguments import Launch
from pdproto.pages.device import DeviceEvent
from pdproto.pages.tensors import cuda_tensor


class CudaDevice:
    """A GPU. name: as torch names it, "cuda:0". Raises RuntimeError if there is no such GPU, or if
    torch was built without CUDA.
    """

    kernels: Final = None

    def __init__(self, name: str) -> None:
        self._device: Final = torch.device(name if ":" in name else f"{name}:0")
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
        made = torch.zeros(length, dtype=torch.uint8, device=self._device)
        torch.cuda.current_stream(self._device).synchronize()
        return made

    def host_memory(self, length: int) -> Any:
        """See Device."""
        return torch.zeros(length, dtype=torch.uint8, pin_memory=True)


class CudaStream:
    """See DeviceStream."""

    def __init__(self, stream: Any) -> None:
        self._stream: Final = stream

    def wait(self, event: Any) -> None:
        """See DeviceStream."""
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
