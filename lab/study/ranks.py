"""The processes of a study: a prefill rank and a decode rank, each with its scheduler.

They differ in four points from those of `pdproto handoff --optimistic`. Requests come when they are
due, and not when there is room. The forward pass takes its time on the scheduler's own loop, one
chunk after another, as the steps of a GPU do. Messages can be delayed, as between distant hosts.
And a registry runs only if the study is about it.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from heapq import heappop, heappush
from itertools import count
from queue import SimpleQueue
from random import Random
from threading import Event
from time import monotonic, sleep
from typing import Final

import numpy as np

from lab.sim.plan import PlannedRequest
from lab.sim.study import Setting
from lab.study.distant import DistantDecode, DistantPrefill
from lab.study.plan import PAGES, SLOTS
from lab.study.rooms import RANKS, PublishedRooms, Routing, SoughtRooms
from pdproto.drill.children import Pipe
from pdproto.drill.handoff.load import Load, Pages, Topology
from pdproto.drill.handoff.load import LoadRequest as Carried
from pdproto.drill.handoff.optimistic import OptimisticRequest, OptimisticSenders
from pdproto.drill.handoff.pools import layers_of
from pdproto.drill.handoff.rank import Pool, RankTask, Report, Work
from pdproto.engine.engines import open_sink, open_source
from pdproto.node.decode.receiver import Receiver
from pdproto.node.optimistic.record import OptimisticSettings, Ordered
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.spec.handoff.poll import KVPoll
from pdproto.testing.chance import Stream

PREFILL: Final = "prefill-0-0-0"
DECODE: Final = "decode-0"
ENGINE: Final = "shm"
TICK_S: Final = 0.5  # after which a scheduler turns though nobody has woken it
ASK_AGAIN_S: Final = 0.001  # for a room that prefill has not published yet
LOAD: Final = Load(
    seed=0, requests=0, layers=2, page_bytes=4096, request_pages_max=PAGES, pool_pages=PAGES,
    abort_rate=0.0, abort_within_s=0.0, in_flight=SLOTS)


@dataclass(frozen=True, slots=True)
class Job:
    """The task of both processes: the requests, their start, and the way to run them.

    begins: on the clock of this machine that all its processes share. rooms: the number of the
    first room. where: the endpoint of the prefill rank.
    """

    setting: Setting
    overlapped: bool
    requests: tuple[PlannedRequest, ...]
    retries: int
    begins: float
    rooms: int
    where: str

    def room(self, request: PlannedRequest) -> int:
        """The number of its room: the rule puts all on the first of several data-parallel ranks.
        """
        return self.rooms + RANKS * request.room


@dataclass(frozen=True, slots=True)
class Computed:
    """The results of a job at prefill. reruns: the number of dropped passes.

    first_sent_s: by room, from when the request was due until its first chunk was handed over.
    late_s: the longest time from the end of a step to the next action. told: the number of calls to
    the registry.
    """

    reruns: int
    reasons: Mapping[int, str]
    first_sent_s: Mapping[int, float]
    late_s: float
    told: int = 0


@dataclass(frozen=True, slots=True)
class Answered:
    """The results of a job at decode.

    first_token_s: by room, since the request was due at prefill. late_s: the longest delay of this
    process with its own work. corrupt: rooms whose pages hold other bytes than were sent. asked:
    the number of queries to the registry.
    """

    first_token_s: Mapping[int, float]
    late_s: float
    reasons: Mapping[int, str]
    corrupt: tuple[int, ...]
    asked: int = 0


def prefill_process(routing: Routing | None, pipe: Pipe) -> None:
    """Run the process of a prefill rank: job after job, until None arrives."""
    pools = np.zeros((LOAD.layers, PAGES, LOAD.page_bytes), np.uint8)
    node = DistantPrefill(PREFILL, SourcePages(layers_of(pools), open_source(ENGINE)))
    rooms = None if routing is None else PublishedRooms(routing)
    pipe.send(node.endpoint)
    rank = RankTask(PREFILL, Topology(1, 1, 1), LOAD, ENGINE, "", 0)
    while (job := pipe.recv()) is not None:
        node.distance.delay_s = _delay(job, "prefill")
        report = Report(PREFILL)
        senders = TimedSenders(Work(rank, node, pools, Pool(PAGES), report), job, rooms)
        for _ in senders.run():
            pass
        pipe.send(senders.computed())
    node.close()
    if rooms is not None:
        rooms.close()


def decode_process(routing: Routing | None, pipe: Pipe) -> None:
    """Run the process of a decode rank: job after job, until None arrives."""
    pools = np.zeros((LOAD.layers, PAGES, LOAD.page_bytes), np.uint8)
    node = DistantDecode(DECODE, SinkPages({PREFILL: layers_of(pools)}, open_sink(ENGINE)))
    rooms = None if routing is None else SoughtRooms(routing)
    pipe.send(node.endpoint)
    while (job := pipe.recv()) is not None:
        node.distance.delay_s = _delay(job, "decode")
        receivers = TimedReceivers(node, pools, job, rooms)
        receivers.run()
        pipe.send(receivers.answered())
    node.close()
    if rooms is not None:
        rooms.close()


def _delay(job: Job, side: str) -> Callable[[], float]:
    stream = Stream(Random, f"{job.rooms}/{side}")
    return lambda: job.setting.delay(stream, job.setting.latency_s)


class TimedSenders(OptimisticSenders):
    """The scheduler of a prefill rank to which requests come at their times."""

    def __init__(self, work: Work, job: Job, rooms: PublishedRooms | None) -> None:
        super().__init__(work, OptimisticSettings(
            slots=SLOTS, running_slots=job.setting.running_slots, retries=job.retries))
        self._job: Final = job
        self._rooms: Final = rooms
        self._told = 0
        self._late_s = 0.0
        self._first_sent: Final[dict[int, float]] = {}
        self._queue: Final[deque[Ordered]] = deque()
        self._step_ends: float | None = None
        self._woken: Final = Event()

    def run(self) -> Iterator[None]:
        upcoming = deque(self._job.requests)
        while upcoming or self.held:
            self._woken.clear()
            now = monotonic()
            while upcoming and self._job.begins + upcoming[0].prefill_at <= now:
                self._arrive(upcoming.popleft())
            self._turn(now)
            yield
            if not self._step():
                due = self._job.begins + upcoming[0].prefill_at if upcoming else now + TICK_S
                self._woken.wait(max(0.0, min(due, self._step_ends or due) - monotonic()))

    def computed(self) -> Computed:
        """The results of the job."""
        due = {self._job.room(r): self._job.begins + r.prefill_at for r in self._job.requests}
        return Computed(
            int(self.prefill.metrics.read()["prefill_retries"]), self.report.reasons,
            {room: at - due[room] for room, at in self._first_sent.items()}, self._late_s,
            self._told)

    def _arrive(self, request: PlannedRequest) -> None:
        room = self._job.room(request)
        if self._rooms is not None:
            self._told += self._rooms.put(room)
        carried = Carried(room, request.pages, len(request.chunks), None, 0.0)
        self._begin(carried).watchers = (self._woken.set,)

    def _send(self, held: OptimisticRequest, chunks: Sequence[int], *, last: bool) -> None:
        super()._send(held, chunks, last=last)
        self._first_sent.setdefault(held.request.room, monotonic())

    def _launch(self, ordered: Ordered) -> None:
        self._queue.append(ordered)

    def _step(self) -> bool:
        """Begin the next step of the device, and end it when its time is over. Whether it ended."""
        if self._step_ends is None:
            if not self._queue:
                return False
            forward_s = self._job.setting.forward_s
            self._step_ends = monotonic() + forward_s / self._queue[0].request.chunks
        if not self._job.overlapped:
            sleep(max(0.0, self._step_ends - monotonic()))
        late_s = monotonic() - self._step_ends
        if late_s < 0.0:
            return False
        self._late_s = max(self._late_s, late_s)
        self._step_ends = None
        self._finish(self._queue.popleft())
        return True


@dataclass(slots=True, eq=False)
class Awaited:
    """A request at decode. answered: the time when its KV and first token were complete."""

    request: PlannedRequest
    receiver: Receiver
    pages: tuple[int, ...] = ()
    answered: float | None = None
    ended: bool = False


@dataclass(order=True, slots=True)
class Due:
    """A timed action of a scheduler. Actions of one time are run in the order of their requests."""

    at: float
    number: int
    act: Callable[[], None] = field(compare=False)


class TimedReceivers:
    """The scheduler of a decode rank to which requests come at their times. It takes its time to
    allocate pages, compares every byte that it gets, and keeps them while it generates.
    """

    def __init__(
        self, node: DistantDecode, pools: Pages, job: Job, rooms: SoughtRooms | None
    ) -> None:
        self._node: Final = node
        self._pools: Final = pools
        self._job: Final = job
        self._rooms: Final = rooms
        self._asked = 0 if rooms is None else rooms.asked
        self._pool: Final = Pool(PAGES)
        self._event_queue: Final[list[Due]] = []
        self._numbers: Final = count()
        self._ended: Final[SimpleQueue[Awaited]] = SimpleQueue()
        self._woken: Final = Event()
        self._left = len(job.requests)  # that hold anything, or will
        self._first_token_s: Final[dict[int, float]] = {}
        self._late_s = 0.0
        self._reasons: Final[dict[int, str]] = {}
        self._corrupt: Final[list[int]] = []

    def run(self) -> None:
        """Run until everything has been given back."""
        for request in self._job.requests:
            self._at(self._job.begins + request.decode_at, partial(self._arrive, request))
        while self._left:
            self._woken.clear()
            while not self._ended.empty():
                self._look(self._ended.get())
            while self._event_queue and self._event_queue[0].at <= monotonic():
                due = heappop(self._event_queue)
                self._late_s = max(self._late_s, monotonic() - due.at)
                due.act()
            wait = self._event_queue[0].at - monotonic() if self._event_queue else TICK_S
            self._woken.wait(max(0.0, wait))

    def answered(self) -> Answered:
        """The results of the job."""
        asked = 0 if self._rooms is None else self._rooms.asked - self._asked
        return Answered(self._first_token_s, self._late_s, self._reasons, tuple(self._corrupt),
                        asked)

    def _at(self, when: float, act: Callable[[], None]) -> None:
        heappush(self._event_queue, Due(when, next(self._numbers), act))

    def _arrive(self, request: PlannedRequest) -> None:
        room = self._job.room(request)
        if self._rooms is not None and not self._rooms.found(room):
            self._at(monotonic() + ASK_AGAIN_S, partial(self._arrive, request))
            return
        receiver = self._node.open(room, {PREFILL: self._job.where})
        held = Awaited(request, receiver)
        receiver.watchers = (partial(self._stepped, held),)
        receiver.on_released = partial(self._released, held)
        self._at(self._job.begins + request.decode_at + request.allocation_s,
                 partial(self._publish, held))

    def _publish(self, held: Awaited) -> None:
        pages = self._pool.take(held.request.pages)
        if pages is None:
            raise RuntimeError(f"room {held.receiver.room}: the pool of {PAGES:,} pages is empty")
        held.pages = pages
        held.receiver.publish(pages, slot=held.receiver.room)

    def _stepped(self, held: Awaited) -> None:
        """In the node's loop: note the time of the answer first."""
        if not held.ended and held.receiver.status in (KVPoll.SUCCESS, KVPoll.FAILED):
            held.ended = True
            if held.receiver.status is KVPoll.SUCCESS:
                held.answered = monotonic()
            self._ended.put(held)
            self._woken.set()

    def _look(self, held: Awaited) -> None:
        if held.answered is None:
            self._reasons[held.request.room] = held.receiver.failure or ""
            return
        due = self._job.begins + held.request.prefill_at
        self._first_token_s[held.request.room] = held.answered - due
        room = held.receiver.room
        if held.receiver.metadata[PREFILL] != LOAD.metadata(room, PREFILL) or not all(
                np.array_equal(self._pools[:, page], LOAD.page(room, PREFILL, index))
                for index, page in enumerate(held.pages)):
            self._corrupt.append(held.request.room)
        self._at(held.answered + held.request.generates_s, held.receiver.close)

    def _released(self, held: Awaited) -> None:
        """In the node's loop."""
        self._pool.give(held.pages)
        self._left -= 1
        self._woken.set()
