"""A simulated device: a processor does the work of its streams, late and step by step.

A real device rarely shows that a program reads a result too early, or that nothing orders two of
its streams. This one shows both in most runs. It does a step of its work only when it is asked
whether some work is done, and chance says of which stream. So work of different streams is done in
any order, and work of one stream in the order in which it was given. Now and then a stream stalls
for a while. A copy takes several steps, and copies its pieces in any order. So a program that does
not ask reads no copy, or parts of one. In one thread, the same seed gives the same run.
"""

import os
from collections import Counter, deque
from collections.abc import Callable
from mmap import mmap
from random import Random
from threading import RLock
from typing import Any, Final
from weakref import ref

import torch

from pdproto.engine.contract import Extent
from pdproto.kernels.arguments import Launch
from pdproto.pages.device import (
    DeviceError,
    DeviceEvent,
    never_recorded,
    no_memory,
    not_pinned,
    not_reached,
)
from pdproto.pages.tensors import host_tensor

LAG: Final = 2  # questions for a step of any stream, on average
STALLS: Final = 8  # steps between two stalls of a stream, on average
STALL: Final = 12  # steps of other streams, at most, for which a stream stalls
PIECES: Final = 4  # of a copy


class HostDevice:
    """The device. kernels: "interpreter" for Triton's interpreter, None to copy without kernels.

    passes: the stream of the engine, whose work computes pages. Faults are put in by attributes:
    faults: raised by the next call of this name. fails_at: the call at which the device fails for
    good. elsewhere: addresses of another device, by its name. bytes_max, pinned_max: of the memory
    on the device, and of the host memory that it pins. has_access: to memory of other devices.
    stands_still: no stream does a step. calls: how often each call of the port was made, on all
    streams.
    """

    name: Final = "the late device"
    gpu: Final = None

    def __init__(self, seed: int = 0, kernels: str | None = None) -> None:
        self.kernels: Final = kernels
        self.chance: Final = Random(seed)  # noqa: S311 - delays
        self.lock: Final = RLock()
        self.failure: str | None = None
        self.fails_at = ""
        self.stands_still = False
        self.has_access = True
        self.calls: Final[Counter[str]] = Counter()
        self.faults: Final[dict[str, Exception]] = {}
        self.elsewhere: Final[dict[int, str]] = {}
        self.bytes = self.pinned = 0
        self.bytes_max = self.pinned_max = 1 << 62
        self.streams: Final[list[HostStream]] = []
        self.passes: Final = self.stream()

    def stream(self) -> "HostStream":
        """See Device."""
        made = HostStream(self)
        self.streams.append(made)
        return made

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
        self.called("memory")
        self.bytes += length
        return torch.zeros(length, dtype=torch.uint8)

    def host_memory(self, length: int) -> Any:
        """See Device."""
        if self.pinned + length > self.pinned_max:
            raise DeviceError(not_pinned(self.name, length, f"at most {self.pinned_max:,}"))
        self.called("host_memory")
        self.pinned += length
        return torch.zeros(length, dtype=torch.uint8)

    def pin(self, memory: Any) -> Callable[[], None]:
        """See Device."""
        length = memory.nbytes
        if self.pinned + length > self.pinned_max:
            raise OSError(not_pinned(self.name, length, f"at most {self.pinned_max:,}"))
        try:
            self.called("pin")
        except RuntimeError as error:
            raise OSError(not_pinned(self.name, length, error)) from error
        self.pinned += length
        pinned_by = ref(self)  # work that a failed device never does would keep the memory for ever

        def unpin() -> None:
            device = pinned_by()
            if device is not None:
                device.pinned -= length
                device.calls["unpin"] += 1

        return unpin

    def export(self, length: int) -> "HostExport":
        """See Device."""
        if self.bytes + length > self.bytes_max:
            raise no_memory(self.name, length, f"it has {self.bytes_max:,} bytes")
        self.called("export")
        exported = HostExport(self, length)
        self.bytes += length
        return exported

    def map(self, description: bytes) -> Any:
        """See Device."""
        if not self.has_access:
            raise OSError(not_reached(self.name, int(description.split(b"/")[2]), "no access"))
        self.called("map")
        with open(description, "r+b") as file:
            return torch.frombuffer(mmap(file.fileno(), 0), dtype=torch.uint8)

    def lost(self) -> bool:
        """See Device."""
        return self.failure is not None

    def fail(self, reason: str) -> None:
        """Fail for good, as a GPU does after an access out of range: every later call fails."""
        self.failure = reason

    def called(self, call: str) -> None:
        """Count a call. Raises the fault that was put in for it."""
        self.calls[call] += 1
        fault = self.faults.pop(call, None)
        if fault is not None:
            raise fault
        if call == self.fails_at:
            self.fail("an illegal memory access was encountered")
        if self.failure is not None:
            raise RuntimeError(self.failure)

    def go_on(self) -> None:
        """Do a step of one stream, perhaps."""
        if self.stands_still or self.chance.randrange(LAG):
            return
        able = [stream for stream in self.streams if stream.is_able()]
        if able:
            self.chance.choice(able).step()


class HostExport:
    """See Exported: a file without a name, which other processes find by this process."""

    def __init__(self, device: HostDevice, length: int) -> None:
        self._device: Final = device
        self._length: Final = length
        self._file: Final = os.memfd_create("pdproto-late-device", os.MFD_CLOEXEC)
        try:
            os.ftruncate(self._file, length)
        except OSError:
            os.close(self._file)
            raise
        self.memory: Any = torch.frombuffer(mmap(self._file, length), dtype=torch.uint8)
        self.extent: Final = Extent(self.memory.data_ptr(), length, device.gpu)
        self.description: Final = f"/proc/{os.getpid()}/fd/{self._file}".encode()

    def free(self) -> None:
        """See Exported."""
        self._device.bytes -= self._length
        self._device.calls["free"] += 1
        self.memory = None
        os.close(self._file)


class HostStream:
    """See DeviceStream. stands_still: it does no step."""

    def __init__(self, device: HostDevice) -> None:
        self.stands_still = False
        self._device: Final = device
        self._steps: Final[deque[Callable[[], bool]]] = deque()
        self._given = self._done = self._stall = 0  # steps

    def adopt(self) -> None:
        """See DeviceStream."""

    def wait(self, event: DeviceEvent) -> None:
        """See DeviceStream."""
        if event is NEVER:
            raise DeviceError(never_recorded(self._device.name))
        self._give("wait", event.has_happened if isinstance(event, _Point) else event.query)

    def run(self, work: Callable[[Launch], object]) -> None:
        """See DeviceStream."""
        self._give("run", lambda: (work(Launch()), True)[1])

    def copy(self, target: Any, source: Any) -> None:
        """See DeviceStream."""
        ends = [len(target) * piece // PIECES for piece in range(PIECES + 1)]
        pieces = [*map(slice, ends, ends[1:])]
        self._device.chance.shuffle(pieces)
        self._give("copy", *(lambda at=at: (target[at].copy_(source[at]), True)[1]
                             for at in pieces))

    def record(self) -> DeviceEvent:
        """See DeviceStream."""
        with self._device.lock:
            self._device.called("record")
            return _Point(self, self._given)

    def asked(self, step: int) -> bool:
        """Have the device go on. Returns whether all steps before this number have been done."""
        with self._device.lock:
            self._device.called("query")
            if self._done < step:
                self._device.go_on()
            return self.has_done(step)

    def has_done(self, step: int) -> bool:
        """Whether all steps before this number have been done."""
        return self._done >= step

    def is_able(self) -> bool:
        """Whether it has work and does not stall."""
        self._stall = max(0, self._stall - 1)
        return bool(self._steps) and not (self._stall or self.stands_still)

    def step(self) -> None:
        """Do the next step. A step that raises is over."""
        is_over = True
        try:
            is_over = self._steps[0]()
        finally:
            if is_over:
                self._steps.popleft()
                self._done += 1
                if not self._device.chance.randrange(STALLS):
                    self._stall = self._device.chance.randrange(STALL)

    def _give(self, call: str, *steps: Callable[[], bool]) -> None:
        with self._device.lock:
            self._device.called(call)
            self._steps.extend(steps)
            self._given += len(steps)


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
        return self._stream.asked(self._step)

    def has_happened(self) -> bool:
        """Whether all work before it has been done. The device does not go on."""
        return self._stream.has_done(self._step)
