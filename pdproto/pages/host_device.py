"""A device that a processor plays: it does the work of its streams late, and piece by piece.

A real device rarely shows that a program reads a result too early. This one shows it in most runs:
work is done only while somebody asks whether it is done, one step for each question, and a copy is
two steps. Whoever does not ask finds nothing, or half a copy. The same seed gives the same delays.
"""

from collections import deque
from collections.abc import Callable
from random import Random
from threading import RLock
from typing import Any, Final

import torch

from pdproto.kernels.arguments import Launch
from pdproto.pages.device import DeviceEvent
from pdproto.pages.tensors import host_tensor

LAG: Final = 3  # questions for a step, on average


class HostDevice:
    """See above. kernels: "interpreter" for Triton's interpreter, None for the copies of a host.

    passes: the stream of the engine, whose work computes pages.
    """

    def __init__(self, seed: int = 0, kernels: str | None = None) -> None:
        self.kernels: Final = kernels
        self.chance: Final = Random(seed)  # noqa: S311 - delays
        self.lock: Final = RLock()
        self.failure: str | None = None
        self.stands_still = False  # it does no step
        self.allocations = 0
        self.elsewhere: dict[int, str] = {}  # addresses of another device, by its name
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
        self.allocations += 1
        return torch.zeros(length, dtype=torch.uint8)

    def host_memory(self, length: int) -> Any:
        """See Device."""
        return self.memory(length)

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
        self._give(event.query)

    def run(self, work: Callable[[Launch], object]) -> None:
        """See DeviceStream."""
        self._give(lambda: (work(Launch()), True)[1])

    def copy(self, target: Any, source: Any) -> None:
        """See DeviceStream."""
        half = len(target) // 2
        self.run(lambda _: target[:half].copy_(source[:half]))
        self.run(lambda _: target[half:].copy_(source[half:]))

    def record(self) -> DeviceEvent:
        """See DeviceStream."""
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

    def _give(self, step: Callable[[], bool]) -> None:
        with self._device.lock:
            self._steps.append(step)
            self._given += 1


class _Point:
    """See DeviceEvent."""

    def __init__(self, stream: HostStream, step: int) -> None:
        self._stream: Final = stream
        self._step: Final = step

    def query(self) -> bool:
        """See DeviceEvent."""
        return self._stream.reached(self._step)
