"""A GPU, through torch; see device.py."""

import os
from collections.abc import Callable
from secrets import randbits
from typing import Any, Final
from weakref import WeakValueDictionary, finalize

import msgspec
import torch

from pdproto.engine.contract import Extent
from pdproto.kernels.arguments import Launch
from pdproto.kernels.device_memory import on_stream
from pdproto.pages.cuda_driver import Driver
from pdproto.pages.device import (
    DeviceError,
    DeviceEvent,
    never_recorded,
    no_memory,
    not_pinned,
    not_reached,
)
from pdproto.pages.tensors import Span, cuda_tensor, gpu_of

RUN: Final = randbits(63)
"""This run of the process."""
EXPORTED: Final[WeakValueDictionary[int, Span]] = WeakValueDictionary()
"""The memory that this process exports, by address."""


class Shared(msgspec.Struct, frozen=True, array_like=True):
    """The description of memory that a process exports: the process, and where it has the memory;
    for other processes, the handle of CUDA. run: of the process, drawn by chance: containers may
    have processes of one number.
    """

    process: int
    run: int
    address: int
    length: int
    handle: bytes


class CudaDevice:
    """A GPU. name: as torch names it, "cuda:0". Raises RuntimeError if there is no such GPU, or if
    torch was built without CUDA.
    """

    kernels: Final = None

    def __init__(self, name: str) -> None:
        self._device: Final = torch.device(name if ":" in name else f"{name}:0")
        self.name: Final = str(self._device)
        self.gpu: Final = self._device.index
        if self._device.index >= torch.cuda.device_count():
            raise RuntimeError(f"{name}: torch {torch.__version__} finds "
                               f"{torch.cuda.device_count()} GPUs here")
        self._driver: Final = Driver(self._device.index)

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
        address, length = memory.ctypes.data, memory.nbytes
        try:
            self._driver.register(address, length)
        except OSError as error:
            raise OSError(not_pinned(self.name, length, error)) from error
        return lambda: self._driver.unregister(address)

    def export(self, length: int) -> "CudaExport":
        """See Device."""
        try:
            address = self._driver.allocate(length)
        except OSError as error:
            raise no_memory(self.name, length, error) from error
        return CudaExport(self._driver, Extent(address, length, self.gpu))

    def map(self, description: bytes) -> Any:
        """See Device. A GPU reaches memory of another one if they are peers (P2P access)."""
        try:
            told = msgspec.msgpack.decode(description, type=Shared)
        except msgspec.MsgspecError as error:
            raise ValueError(f"a description of memory: {error}") from None
        if told.run == RUN:
            return _memory(_exported(told.address))
        try:
            span = Span(self._driver.open(told.handle), told.length)
        except OSError as error:
            raise OSError(not_reached(self.name, told.process, error)) from error
        finalize(span, self._driver.close, span.address).atexit = False
        return _memory(span)

    def lost(self) -> bool:
        """See Device: after an access out of range, every call fails."""
        try:
            _recorded(torch.cuda.current_stream(self._device)).query()
        except RuntimeError:
            return True
        return False


class CudaExport:
    """See Exported."""

    def __init__(self, driver: Driver, extent: Extent) -> None:
        address, length, _ = self.extent = extent
        EXPORTED[address] = span = Span(address, length)
        finalize(span, driver.free, address).atexit = False
        self.memory: Any = _memory(span)
        self.description: Final = msgspec.msgpack.encode(
            Shared(os.getpid(), RUN, address, length, driver.handle(address)))

    def free(self) -> None:
        """See Exported."""
        self.memory = None


class CudaStream:
    """See DeviceStream."""

    def __init__(self, stream: Any) -> None:
        self._stream: Final = stream
        self._launch: Final = Launch(stream=stream)

    def adopt(self) -> None:
        """See DeviceStream: it becomes the current stream of the thread."""
        torch.cuda.set_stream(self._stream)

    def wait(self, event: Any) -> None:
        """See DeviceStream."""
        if not event.cuda_event:
            raise DeviceError(never_recorded(str(self._stream.device)))
        self._stream.wait_event(event)

    def run(self, work: Callable[[Launch], object]) -> None:
        """See DeviceStream."""
        with on_stream(self._stream):
            work(self._launch)

    def copy(self, target: Any, source: Any) -> None:
        """See DeviceStream. A copy from memory that is not pinned returns when that was read."""
        with on_stream(self._stream):
            target.copy_(source, non_blocking=True)

    def record(self) -> DeviceEvent:
        """See DeviceStream."""
        return _recorded(self._stream)


def _exported(address: int) -> Span:
    span = EXPORTED.get(address)
    if span is None:
        raise ValueError(f"this process exports no memory at {address:#x}")
    return span


def _memory(span: Span) -> Any:
    """A tensor over memory of a GPU, of this process or of another, uint8 [byte]."""
    return torch.as_tensor(span, device=f"cuda:{gpu_of(span.address)}")


def _recorded(stream: Any) -> DeviceEvent:
    event: DeviceEvent = torch.cuda.Event()  # type: ignore[no-untyped-call]
    event.record(stream)  # type: ignore[attr-defined]
    return event
