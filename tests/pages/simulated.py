"""Simulated clusters whose nodes have the data paths of real ones, on devices that are late.

Nodes and servers are those of lab/sim, and so are the clients, who abort and use pages again at
once. The copies of pages (pdproto/pages) run on a simulated device of each rank. Their thread and
their engine run in virtual time. So a seed decides everything, also in which order streams work.

Rule 1: a page holds the bytes of its request and of its place, and decode compares them when the
        hand-over has succeeded.
Rule 2: a kernel notes whose pages it reads or writes when it is enqueued, and they must be of the
        same request when it runs.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from random import Random
from typing import Any, Final
from unittest import mock

import numpy as np
import torch

from lab.sim.cluster import Cluster
from lab.sim.event_queue import EventQueue
from lab.sim.fabric import ONE_LIFE_A_PAGE, SOURCE_PAGES, Pages, SinkSide
from lab.sim.host import Host
from lab.sim.outcome import RunOutcome
from lab.sim.plan import Kind, Plan, Shape, planned
from pdproto.engine.contract import (
    Address,
    Buffer,
    Departed,
    DeviceBytes,
    EndedWrite,
    Lease,
    Pin,
    Result,
    Scope,
    SinkCounts,
    SourceCounts,
    Target,
    Ticket,
)
from pdproto.kernels.arguments import Launch
from pdproto.kernels.chunk import KVLayout
from pdproto.node.data_path import SourceDataPath
from pdproto.pages import copies, sink_pages, source_pages
from pdproto.pages.copies import Computed, CopyWorker, Staged, Unpacked
from pdproto.pages.device import Device
from pdproto.pages.device_copies import DeviceCopies
from pdproto.pages.host_device import HostDevice, HostStream
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime.wire import Life
from pdproto.testing.chance import Stream

PAGE_BYTES: Final = 48  # padding follows the payload
LAYERS: Final = 2
WORKER_S: Final = 0.000_2  # of one act of the thread that copies
POLL_S: Final = 0.004
STALLS_S: Final = (0.01, 30.0)  # longer than a hand-over waits for its bytes
STALLED: Final = 0.5  # of the devices, one stream
STREAMS: Final = 3  # of passes, of packing or unpacking, and of carried copies
CARRIES: Final = 0.5  # of the engines
OVER_LINK: Final = 0.5  # of the others: a kernel packs to host memory


def bytes_of(room: int, place: int) -> Any:
    """The bytes of a page, uint8 [layer, byte]. place: of the page in its request."""
    first = 7 * room + 101 * place
    return (torch.arange(LAYERS * PAGE_BYTES) * 5 + first).to(torch.uint8).reshape(LAYERS, -1)


class World(Cluster):
    """A cluster of nodes whose pools are on devices. memory: the engines of decode, by name."""

    def __init__(self, plan: Plan) -> None:
        super().__init__(plan, Random)
        self.memory: Final[dict[str, VirtualSink]] = {}

    def source_side(self, host: Host, pages: Pages) -> SourceDataPath:
        """See Cluster."""
        return Prefilled(self, host, pages)

    def sink_side(self, host: Host, pages: Pages) -> SinkSide:
        """See Cluster."""
        return Decoded(self, host, pages)

    def blame(self, name: str, about: str, room: int) -> None:
        """End the run with this violation."""
        self._blame(name, about, room)


def simulated(seed: int, *faults: Kind, **shape: Any) -> RunOutcome:
    """The outcome of a seed, the same every time."""
    asked: dict[str, Any] = {"requests": 12, "rate": 400.0, "pages": 12} | shape
    world = World(planned(seed, Shape(faults=faults, **asked), Random))
    with in_virtual_time(world.event_queue):
        return world.run()


class VirtualWorker(CopyWorker):
    """The thread of a data path, in virtual time: an act after the other."""

    def __init__(
        self, event_queue: EventQueue, name: str, begin: Callable[[], None], _at_once: int = 0
    ) -> None:
        super().__init__(name, begin)  # nothing at once: an act takes its time
        self._queue: Final = event_queue
        self._free_at = 0.0

    def submit(self, act: Callable[..., Any], /, *given: Any, **_: Any) -> Future[Any]:
        """See Executor."""
        if act == self._poll:
            self._queue.after(POLL_S, act)
        else:
            self._free_at = max(self._free_at, self._queue.now) + WORKER_S
            self._queue.at(self._free_at, act, *given)
        return Future()

    def close(self) -> None:
        """See CopyWorker. The device does nothing more."""
        self.is_closing = True


@contextmanager
def in_virtual_time(event_queue: EventQueue) -> Iterator[None]:
    """Data paths that are made meanwhile have no thread of their own."""
    worker = partial(VirtualWorker, event_queue)
    with (mock.patch.object(source_pages, "CopyWorker", worker),
          mock.patch.object(sink_pages, "CopyWorker", worker),
          mock.patch.object(source_pages, "copies_for", watched),
          mock.patch.object(sink_pages, "copies_for", watched),
          mock.patch.object(copies, "sleep")):
        yield


class WatchedDevice(HostDevice):
    """A device that looks whose pages its kernels use. uses: those of the next kernels."""

    def __init__(self, seed: int, pages: Pages, blame: Callable[[str, int], None]) -> None:
        self.pages: Final = pages
        self.blame: Final = blame
        self.uses: Sequence[int] = ()
        super().__init__(seed)

    def stream(self) -> HostStream:
        """See Device."""
        made = WatchedStream(self)
        self.streams.append(made)
        return made


class WatchedStream(HostStream):
    """See WatchedDevice."""

    def __init__(self, device: WatchedDevice) -> None:
        super().__init__(device)
        self._watched: Final = device

    def run(self, work: Callable[[Launch], object]) -> None:
        """See DeviceStream."""
        device, uses = self._watched, self._watched.uses
        rooms = [device.pages.owner.get(page) for page in uses]

        def watched_work(launch: Launch) -> None:
            for page, room in zip(uses, rooms, strict=True):
                now = device.pages.owner.get(page)
                if now != room:
                    device.blame(f"a kernel for room {room} uses page {page} of room {now}",
                                 room or 0)
            work(launch)

        super().run(watched_work)


class WatchedCopies(DeviceCopies):
    """Copies that tell their device which pages they use."""

    def __init__(
        self, device: WatchedDevice, pools: str, *, carries: bool, over_link: bool
    ) -> None:
        super().__init__(device, pools, carries=carries)
        if not over_link:
            self.over_link_max = 0
        self._watched: Final = device

    def pack(self, layout: KVLayout, pages: Sequence[int], *given: Any, **named: Any) -> Staged:
        """See Copies."""
        self._watched.uses = tuple(pages)
        try:
            return super().pack(layout, pages, *given, **named)
        finally:
            self._watched.uses = ()

    def unpack(
        self, layout: KVLayout, landed: Any, pages: Sequence[int], *given: Any, **named: Any
    ) -> Unpacked:
        """See Copies."""
        self._watched.uses = tuple(pages)
        try:
            return super().unpack(layout, landed, pages, *given, **named)
        finally:
            self._watched.uses = ()


def watched(
    layout: KVLayout, device: Device | None, engine: Any, threads: int
) -> WatchedCopies:
    """See copies_for."""
    assert isinstance(device, WatchedDevice)
    assert threads == 1
    return WatchedCopies(
        device, layout.device, carries=getattr(engine, "carries", False),
        over_link=getattr(engine, "over_link", False))


def device_of(world: World, host: Host, pages: Pages, name: str) -> WatchedDevice:
    """The device of a process. Some of its streams stand still for a while."""
    chance = world.stream_of(host, "device")
    device = WatchedDevice(chance.whole(0, 1 << 30), pages, partial(world.blame, name))

    def stall(place: int, stands_still: bool) -> None:
        device.streams[place].stands_still = stands_still

    if chance.happens(STALLED):
        place, begins = chance.whole(0, STREAMS - 1), chance.between(0.0, 0.1)
        world.event_queue.after(begins, stall, place, True)
        world.event_queue.after(begins + chance.between(*STALLS_S), stall, place, False)
    return device


def pools_of(world: World) -> list[Any]:
    """The pools of a rank: one of each layer."""
    return [torch.zeros((world.plan.shape.pages, 1, 1, PAGE_BYTES), dtype=torch.uint8)
            for _ in range(LAYERS)]


class Prefilled(SourcePages):
    """The data path of a prefill rank. Its engine computes pages when they are handed over."""

    def __init__(self, world: World, host: Host, pages: Pages) -> None:
        self.pools: Final = pools_of(world)
        self._owned: Final = pages
        self._handed: Final[dict[int, int]] = {}  # pages, by room
        self.device: Final = device_of(world, host, pages, SOURCE_PAGES)
        super().__init__(self.pools, VirtualSource(world, world.stream_of(host, "engine")),
                         device=self.device)

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """See MarksPages."""
        room = self._owned.owner[pages[0]]
        first = self._handed.get(room, 0)
        self._handed[room] = first + len(pages)
        for place, page in enumerate(pages, first):
            self.device.compute(partial(self._fill, page, bytes_of(room, place)))
        return super().mark(pages)

    def _fill(self, page: int, of: Any) -> None:
        for pool, bytes_ in zip(self.pools, of, strict=True):
            pool[page, 0, 0] = bytes_


class Decoded(SinkPages):
    """The data path of a decode rank. Its engine has work left on pages that it hands over."""

    def __init__(self, world: World, host: Host, pages: Pages) -> None:
        self.pools: Final = pools_of(world)
        self.device: Final = device_of(world, host, pages, ONE_LIFE_A_PAGE)
        self.memory: Final = VirtualSink(world, host)
        super().__init__(self.pools, self.memory, device=self.device)

    def mark(self, pages: Sequence[int]) -> tuple[int, ...]:
        """See MarksPages. The step of an earlier request still writes to its page."""
        for page in () if isinstance(pages, Computed) else pages:
            self.device.compute(partial(self._wipe, page))
        return super().mark(pages)

    def _wipe(self, page: int) -> None:
        for pool in self.pools:
            pool[page] = 0xEE

    @property
    def leased(self) -> int:
        """See SinkSide."""
        return self.memory.held

    def die(self) -> None:
        """See SinkSide."""
        raise AssertionError("no process ends here")

    def complete(self, life: Life, sources: Iterable[str], pages: Sequence[int]) -> bool:
        """See SinkSide."""
        del sources
        return all(torch.equal(torch.stack([pool[page, 0, 0] for pool in self.pools]),
                               bytes_of(life.room, place)) for place, page in enumerate(pages))


class VirtualSink:
    """The engine of a decode rank. Memory that was released last is leased first."""

    scope: Final = Scope.PAGE
    target_scope: Final = Scope.NONE

    def __init__(self, world: World, host: Host) -> None:
        self.held = 0
        self.bytes_of: Final[dict[int, Any]] = {}  # of leases that no fence has closed
        self._name: Final = host.name
        self._free: Final[list[Any]] = []
        self._fence: Final = partial(world.event_queue.after, world.plan.shape.fence_s)
        self._fenced: Final[set[int]] = set()
        self._carried: Final[Counter[int]] = Counter()  # copies under way, by lease
        self._leases = 0
        self._wake: Callable[[], None] = lambda: None
        world.memory[host.name] = self

    def out_of_reach(self, host: str) -> str | None:
        """See SinkEngine."""

    def attach(self, wake: Callable[[], None]) -> None:
        """See SinkEngine."""
        self._wake = wake

    def lease(
        self, life: Any, source: str, length: int, target: Target | None = None
    ) -> Lease | None:
        """See SinkEngine."""
        assert target is None
        self._leases += 1
        self.held += 1
        memory = self._free.pop() if self._free else np.zeros(1 << 13, np.uint8)
        assert length <= memory.size
        self.bytes_of[self._leases] = memory
        return Lease(self._leases, life, source, length,
                     Address("virtual", self._name, self._leases, 0, length, b""))

    def view(self, lease: Lease) -> memoryview:
        """See SinkEngine."""
        return memoryview(self.bytes_of[lease.number]).toreadonly()

    def pin(self, lease: Lease, pin: Pin) -> None:
        """See PinsMemory."""
        del lease, pin

    def fence(self, lease: Lease) -> Ticket:
        """See SinkEngine."""
        self._fence(self._end_fence, lease.number)
        return Ticket(lease.number)

    def _end_fence(self, number: int) -> None:
        self._fenced.add(number)
        self._wake()

    def fenced(self, ticket: Ticket) -> bool:
        """See SinkEngine."""
        return ticket.lease in self._fenced

    def release(self, lease: Lease) -> None:
        """See SinkEngine."""
        self.held -= 1
        memory = self.bytes_of.pop(lease.number)
        if not self._carried[lease.number]:  # memory that a device writes to is given up
            self._free.append(memory)
        self._wake()

    def enter(self, number: int) -> None:
        """A device begins to write to the memory of this lease."""
        self._carried[number] += 1

    def leave(self, number: int) -> None:
        """It has written."""
        self._carried[number] -= 1

    def open_to(self, number: int) -> Any:
        """The memory of a lease; None if a write can reach it no more."""
        return None if number in self._fenced else self.bytes_of.get(number)

    def departed(self) -> list[Departed]:
        """See SinkEngine."""
        return []

    def counts(self) -> SinkCounts:
        """See SinkEngine."""
        return SinkCounts()

    def close(self) -> None:
        """See SinkEngine."""


class VirtualSource:
    """The engine of a prefill rank. It reads a half of the bytes at once, and the others later; or
    it has the device carry them, so that nothing stops them and they are written late. over_link:
    a kernel packs what it reads.
    """

    has_room: Final = True

    def __init__(self, world: World, chance: Stream) -> None:
        self._queue: Final = world.event_queue
        self._sinks: Final = world.memory
        self._typical: Final = world.plan.shape.write_s
        self._chance: Final = chance
        self.carries: Final = chance.happens(CARRIES)
        self.over_link: Final = chance.happens(OVER_LINK)
        self._ended: Final[list[EndedWrite]] = []
        self._writes = 0
        self._wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        """See SourceEngine."""
        self._wake = wake

    def connect(self, address: Address) -> None:
        """See SourceEngine."""

    def post(
        self, address: Address, offset: int, views: Sequence[Buffer],
        carried: DeviceBytes | None = None,
    ) -> int:
        """See SourceEngine."""
        self._writes += 1
        if carried is not None:
            self._queue.after(self._chance.delay(self._typical), self._carry, self._writes, address,
                              offset, carried)
            return self._writes
        (view,) = views
        half = len(view) // 2
        sent = bytes(view[:half])
        self._queue.after(self._chance.delay(self._typical), self._land, self._writes, address,
                          offset, sent, view[half:])
        return self._writes

    def _land(self, number: int, address: Address, offset: int, sent: bytes, rest: Any) -> None:
        memory = self._sinks[address.endpoint].open_to(address.region)
        data = np.frombuffer(sent + bytes(rest), np.uint8)
        if memory is not None:
            memory[offset:offset + data.size] = data
        self._end(number, memory is not None)

    def _end(self, number: int, landed: bool) -> None:
        self._ended.append(EndedWrite(number, Result.LANDED if landed else Result.REFUSED))
        self._wake()

    def _carry(self, number: int, address: Address, offset: int, carried: DeviceBytes) -> None:
        sink = self._sinks[address.endpoint]
        memory = sink.open_to(address.region)
        if memory is None:
            self._end(number, landed=False)
            return
        sink.enter(address.region)
        is_over = carried.copy_to(memory[offset:offset + carried.nbytes])

        def ask() -> None:
            if is_over():
                sink.leave(address.region)
                self._end(number, sink.open_to(address.region) is not None)
            else:
                self._queue.after(POLL_S, ask)

        ask()

    def completed(self) -> list[EndedWrite]:
        """See SourceEngine."""
        ended = self._ended[:]
        self._ended.clear()
        return ended

    def counts(self) -> SourceCounts:
        """See SourceEngine."""
        return SourceCounts()

    def close(self) -> None:
        """See SourceEngine."""
