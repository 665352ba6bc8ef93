"""The port between the copies of pages and a device: streams, events and memory.

A stream runs the work that it is given, in order. No call waits for the device. CudaDevice
(cuda.py) is a GPU; HostDevice (host_device.py) runs the same work on a processor, late.
"""

from collections.abc import Callable
from typing import Any, Protocol

from pdproto.engine.contract import Exported
from pdproto.kernels.arguments import Launch


class DeviceError(RuntimeError):
    """The device refuses or has failed; the message names it, and says what to do."""


class DeviceEvent(Protocol):
    """A point in the work of a device."""

    def query(self) -> bool:
        """Whether all work before it has been done. Raises RuntimeError if the device has failed.
        """


class DeviceStream(Protocol):
    """A queue of work, done in order. Before it uses memory that another stream writes, it must
    `wait` for an event of that stream.
    """

    def adopt(self) -> None:
        """In a thread that gives work to this stream only: say so, which makes that cheaper."""

    def wait(self, event: DeviceEvent) -> None:
        """Do nothing more before the event has happened.

        Raises DeviceError for an event that was never recorded: it would count as happened.
        """

    def run(self, work: Callable[[Launch], object]) -> None:
        """Do this work: kernels and fetches of reports, on the stream of the launch.

        Raises BlockingIOError if the device is too far behind to take it.
        """

    def copy(self, target: Any, source: Any) -> None:
        """Copy a tensor of bytes to another one; one of them may be in host memory."""

    def record(self) -> DeviceEvent:
        """An event that happens when all work that the stream has been given is done."""


class Device(Protocol):
    """A device with pools. name: as torch writes it. gpu: its number for CUDA; None if its memory
    is the host's.
    """

    @property
    def name(self) -> str: ...

    @property
    def gpu(self) -> int | None: ...

    @property
    def kernels(self) -> str | None:
        """The device that layouts name, if it is not that of the pools' tensors: "interpreter"."""

    def stream(self) -> DeviceStream:
        """A new stream, for copies only."""

    def passed(self) -> DeviceEvent:
        """An event that happens when all work that the caller's thread has given is done."""

    def compute(self, work: Callable[[], object]) -> None:
        """Do this work on the stream of the caller's thread: a later `passed` happens after it."""

    def at(self, address: int, length: int) -> Any:
        """A tensor over `length` bytes of the device, uint8 [byte]. The caller keeps them alive.

        Raises ValueError for memory that is not the device's.
        """

    def memory(self, length: int) -> Any:
        """A tensor of `length` bytes on the device, all 0. Raises DeviceError without memory."""

    def host_memory(self, length: int) -> Any:
        """A tensor of `length` bytes in host memory that the device copies to by itself, all 0.

        Raises DeviceError without memory.
        """

    def pin(self, memory: Any) -> Callable[[], None]:
        """Pin an array of host memory, so that the device copies from it by itself. Returns the
        call that ends that. Raises OSError if it cannot be pinned.
        """

    def export(self, length: int) -> Exported:
        """See SharesMemory: memory of this device for other processes of this host, not cleared.

        Raises DeviceError without memory.
        """

    def map(self, description: bytes) -> Any:
        """See SharesMemory: a tensor over the memory that another process exported, uint8 [byte].
        Raises OSError if this device cannot reach it, ValueError for other bytes.
        """

    def lost(self) -> bool:
        """Whether the device has failed for good, so that this process can use it no more."""


def no_memory(name: str, length: int, why: object) -> DeviceError:
    """The error of a device without memory for staging."""
    return DeviceError(
        f"{name} has no {length:,} bytes for staging: leave it more memory (--mem-fraction-static "
        f"of SGLang, --gpu-memory-utilization of vLLM): {why}")


def never_recorded(name: str) -> str:
    """The error text of an event that would count as happened."""
    return (f"{name}: the event of the pass was never recorded: record it behind the work that "
            f"computes the pages, before the pages are handed over")


def not_reached(name: str, process: int, why: object) -> str:
    """The error text of memory of another process that a device cannot map."""
    return (f"{name} does not reach the memory of process {process}: {why}: it must be a GPU of "
            f"this host with access to the other one (nvidia-smi topo -p2p r); or use engine shm")


def not_pinned(name: str, length: int, why: object) -> str:
    """The error text of host memory that a device cannot pin."""
    return (f"{name} pins no {length:,} bytes of host memory: lower the setting staging_bytes, or "
            f"free memory of this host: {why}")
