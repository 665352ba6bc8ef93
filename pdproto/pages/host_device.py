"""A simulated device: a processor does the work of its streams, late and step by step.

A real device rarely shows that a program reads a result too early. This one shows it in most runs.
It does one step of its work each time that it is asked whether the work is done. A copy takes two
steps. So a program that does not ask reads no copy, or half of one. The same seed gives the same
delays.
"""

from collections import Counter, deque
from collections.abc import Callable
from random import Random
from threading import RLock
from typing import Any, Final

import torch

from pdproto.kernels.arguments import Launch
from pdproto.pages.device import DeviceError, DeviceEvent, never_recorded, no_memory, not_pinned
from pdproto.pages.tensors import host_tensor

LAG: Final = 3  # questions for a step, on average


class HostDevice:
    """The device. kernels: "interpreter" for Triton's interpreter, None to copy without kernels.

    passes: the stream of the engine, whose work computes pages. Faults are put in by attributes:
    elsewhere: addresses of another device, by its name. bytes_max, pinned_max: of the memory on the
    device, and of the host memory that it pins. fault: raised by the next kernel. calls: how often
    each call of the port was made, on all streams.
    """

    name: Final = "the late device"

    def __init__(self, seed: int = 0, kernels: str | None = None) -> None:
        self.kernels: Final = kernels
        self.chance: Final = Random(seed)  # noqa: S311 - delays
        self.lock: Final = RLock()
        self.failure: str | None = None
        self.stands_still = False  # it does no step
        self.calls: Final[Counter[str]] = Counter()
        self.elsewhere: Final[dict[int, str]] = {}
        self.bytes = self.pinned = 0
        self.bytes_max = self.pinned_max = 1 << 62
        self.fault: Exception | None = None
        self.passes: Final = self.stream()

    def stream(self) -> "HostStream":
        """See Device."""
        return HostStream(self)

    def compute(self, work: Callable[[], object]) -> None:
        """See Device."""
        self.passes.run(lambda _: work())

    def passed(self) -> DeviceEvent:
        """See Device."""
        return self.passes.record()

    def at(self, address: int, length: int) -> Any:
        """See Device."""
        if address in self.elsewhere:
            raise ValueError(f"address {address:#x} is memory of {self.elsewhere[address]}")
        return host_tensor(address, length)

    def memory(self, length: int) -> Any:
        """See Device."""
        if self.bytes + length > self.bytes_max:
            raise no_memory(self.name, length, f"it has {self.bytes_max:,} bytes")
        self.bytes += length
        self.calls["memory"] += 1
        return torch.zeros(length, dtype=torch.uint8)

    def host_memory(self, length: int) -> Any:
        """See Device."""
        if self.pinned + length > self.pinned_max:
            raise DeviceError(not_pinned(self.name, length, f"at most {self.pinned_max:,}"))
        self.pinned += length
        self.calls["host_memory"] += 1
        return torch.zeros(length, dtype=torch.uint8)

    def pin(self, memory: Any) -> Callable[[], None]:
        """See Device."""
        length = memory.nbytes
        if self.pinned + length > self.pinned_max:
            raise OSError(not_pinned(self.name, length, f"at most {self.pinned_max:,}"))
        self.pinned += length
        self.calls["pin"] += 1

        def unpin() -> None:
            self.pinned -= length
            self.calls["unpin"] += 1

        return unpin

    def lost(self) -> bool:
        """See Device."""
        return self.failure is not None

    def fail(self, reason: str) -> None:
        """Fail for good, as a GPU does after an access out of range."""
        self.failure = reason


class HostStream:
    """See DeviceStream."""

    def __init__(self, device: HostDevice) -> None:
        self._device: Final = device
        self._steps: Final[deque[Callable[[], bool]]] = deque()
        self._given = self._done = 0  # steps

    def wait(self, event: DeviceEvent) -> None:
        """See DeviceStream."""
        if event is NEVER:
            raise DeviceError(never_recorded(self._device.name))
        self._give("wait", event.query)

    def run(self, work: Callable[[Launch], object]) -> None:
        """See DeviceStream."""
        fault, self._device.fault = self._device.fault, None
        if fault is not None:
            raise fault
        self._give("run", lambda: (work(Launch()), True)[1])

    def copy(self, target: Any, source: Any) -> None:
        """See DeviceStream."""
        half = len(target) // 2
        self._give("copy", lambda: (target[:half].copy_(source[:half]), True)[1])
        self._give("", lambda: (target[half:].copy_(source[half:]), True)[1])

    def record(self) -> DeviceEvent:
        """See DeviceStream."""
        self._device.calls["record"] += 1
        return _Point(self, self._given)

    def reached(self, step: int) -> bool:
        """Do a step, perhaps. Returns whether all steps before this number have been done."""
        with self._device.lock:
            if self._device.failure is not None:
                raise RuntimeError(self._device.failure)
            device = self._device
            if self._done < step and not device.stands_still and not device.chance.randrange(LAG):
                self._do_one()
            return self._done >= step

    def _do_one(self) -> None:
        """Do the next step. A step that raises is over."""
        is_over = True
        try:
            is_over = self._steps[0]()
        finally:
            if is_over:
                self._steps.popleft()
                self._done += 1

    def _give(self, call: str, step: Callable[[], bool]) -> None:
        with self._device.lock:
            self._device.calls[call] += 1
            self._steps.append(step)
            self._given += 1


class _Never:
    """An event that was never recorded. As on a real device, it says that it has happened."""

    def query(self) -> bool:
        """See DeviceEvent."""
        return True


NEVER: Final = _Never()


class _Point:
    """See DeviceEvent."""

    def __init__(self, stream: HostStream, step: int) -> None:
        self._stream: Final = stream
        self._step: Final = step

    def query(self) -> bool:
        """See DeviceEvent."""
        return self._stream.reached(self._step)
