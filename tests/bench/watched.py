"""A device that notes its kernels and copies: when each began, and how long the device took.

Everything else it leaves to the device that it is given. Times of processes of one host compare.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any

from pdproto.pages.device import Device, DeviceEvent, DeviceStream


@dataclass(slots=True)
class Work:
    """The work of a stream until an event. begun, seen: in seconds, when the first of it was given
    to the device, and when somebody saw the event. device_s: of the device. kernels, copies: how
    many.
    """

    begun: float
    seen: float = 0.0
    device_s: float = 0.0
    kernels: int = 0
    copies: int = 0
    events: list[tuple[Any, Any]] = field(default_factory=list)


class WatchedDevice:
    """See the module. event: makes an event that has a time, or None if the device has none."""

    def __init__(self, device: Device, event: Callable[[], Any]) -> None:
        self._device = device
        self._event = event
        self._works: list[Work] = []
        self.is_watching = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._device, name)

    def stream(self) -> "WatchedStream":
        """See Device."""
        return WatchedStream(self, self._device.stream())

    def mark(self, stream: DeviceStream) -> Any:
        """An event with a time, recorded on the stream."""
        event = self._event()
        if event is not None:
            stream.run(lambda launch: event.record(launch.stream))
        return event

    def note(self, work: Work) -> None:
        """The work is over, and somebody has seen it."""
        self._works.append(work)

    def taken(self) -> list[Work]:
        """The works since the last call. The device must have done them."""
        works, self._works = self._works, []
        for work in works:
            work.device_s = sum(first.elapsed_time(last) / 1000
                                for first, last in work.events if first is not None)
            work.events.clear()
        return works


class WatchedStream:
    """See DeviceStream."""

    def __init__(self, device: WatchedDevice, stream: DeviceStream) -> None:
        self._device = device
        self._stream = stream
        self._work: Work | None = None

    def adopt(self) -> None:
        """See DeviceStream."""
        self._stream.adopt()

    def wait(self, event: DeviceEvent) -> None:
        """See DeviceStream."""
        self._stream.wait(event)

    def run(self, work: Callable[[Any], object]) -> None:
        """See DeviceStream."""
        self._watch(lambda: self._stream.run(work), kernels=1)

    def copy(self, target: Any, source: Any) -> None:
        """See DeviceStream."""
        self._watch(lambda: self._stream.copy(target, source), copies=1)

    def record(self) -> DeviceEvent:
        """See DeviceStream."""
        event, work, self._work = self._stream.record(), self._work, None
        return event if work is None else Seen(self._device, event, work)

    def _watch(self, give: Callable[[], None], *, kernels: int = 0, copies: int = 0) -> None:
        if not self._device.is_watching:
            give()
            return
        if self._work is None:
            self._work = Work(perf_counter())
        first = self._device.mark(self._stream)
        give()
        self._work.events.append((first, self._device.mark(self._stream)))
        self._work.kernels += kernels
        self._work.copies += copies


@dataclass(slots=True)
class Seen:
    """See DeviceEvent. It notes when somebody sees that it has happened."""

    device: WatchedDevice
    event: DeviceEvent
    work: Work

    def query(self) -> bool:
        """See DeviceEvent."""
        is_over = self.event.query()
        if is_over and not self.work.seen:
            self.work.seen = perf_counter()
            self.device.note(self.work)
        return is_over


@dataclass(frozen=True, slots=True)
class Told:
    """Hand-overs that have ended. begun, ended: in seconds. packs, unpacks: the work of prefill's
    device and of decode's, where it was watched.
    """

    begun: float
    ended: float
    packs: list[Work]
    unpacks: list[Work]

    @property
    def seconds(self) -> float:
        """From the first chunk to the last Success."""
        return self.ended - self.begun

    def parts(self) -> dict[str, float]:
        """The parts of the time of hand-overs that a device carries, in seconds.

        Those of one hand-over add up to all of it. Of several, only what the device took is told.
        """
        packs = [work for work in self.packs if work.kernels]
        copies = [work for work in self.packs if not work.kernels]
        device = {"pack": sum(work.device_s for work in packs),
                  "copy": sum(work.device_s for work in copies),
                  "unpack": sum(work.device_s for work in self.unpacks)}
        if not len(packs) == len(copies) == len(self.unpacks) == 1:
            return {f"{name} on the device": took for name, took in device.items()}
        (pack,), (copy,), (unpack,) = packs, copies, self.unpacks
        found = {
            "until it packs": pack.begun - self.begun, "pack": pack.seen - pack.begun,
            "until it copies": copy.begun - pack.seen, "copy": copy.seen - copy.begun,
            "until it unpacks": unpack.begun - copy.seen, "unpack": unpack.seen - unpack.begun,
            "until Success": self.ended - unpack.seen,
        }  # fmt: skip
        of_device = {f"{name} on the device": took for name, took in device.items()}
        return found | of_device | {"control": self.seconds - sum(device.values())}
