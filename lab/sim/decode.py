"""A simulated decode server: a queue, a pool of pages, metadata slots, and one rank's node.

Requests get pages and a slot, first come first served. A request publishes them, generates for the
time in the plan, and frees them.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Final

from lab.sim.event_queue import EventQueue
from lab.sim.fabric import COMPLETE, Blame, Pages, SinkSide
from lab.sim.host import Host
from lab.sim.plan import PlannedRequest
from pdproto.node.decode.node import Decode
from pdproto.node.decode.receiver import Receiver
from pdproto.spec.handoff.poll import KVPoll

SUCCESS: Final = KVPoll.SUCCESS  # used after every step; the look-up in the class would take long
Addresses = Callable[[PlannedRequest], Mapping[str, str]]  # where a request's prefill ranks listen


@dataclass(slots=True, eq=False)
class Job:
    """A request at a decode server."""

    request: PlannedRequest
    receiver: Receiver
    pages: tuple[int, ...] = ()
    slot: int | None = None
    generating: bool = False
    released: bool = False


class DecodeServer:
    """A server from its start to its end.

    answered: called with each request whose KV and first token have arrived. ended: called with
    each request that is over, and whether it succeeded.
    """

    def __init__(
        self, name: str, event_queue: EventQueue, pages: Pages, slots: int, *, addresses: Addresses,
        blame: Blame, answered: Callable[[PlannedRequest], None],
        ended: Callable[[PlannedRequest, bool], None],
    ) -> None:
        self.name: Final = name
        self.pages: Final = pages
        self.slots: Final = list(range(slots - 1, -1, -1))
        self.jobs: Final[dict[int, Job]] = {}
        self._slot_count: Final = slots
        self.dead = False
        self._event_queue: Final = event_queue
        self._addresses: Final = addresses
        self._blame: Final = blame
        self._answered: Final = answered
        self._ended: Final = ended
        self._queue: Final[deque[Job]] = deque()

    def run(self, host: Host, node: Decode, engine: SinkSide) -> None:
        """Set the rank of this server."""
        self.host, self.node, self.engine = host, node, engine

    @property
    def hosts(self) -> list[Host]:
        """The processes of this server: one."""
        return [self.host]

    @property
    def nodes(self) -> list[Decode]:
        """The nodes of this server: one."""
        return [self.node]

    def held(self) -> str:
        """The resources that are not free, as text; "" if all are."""
        held = {"pages": len(self.pages.owner), "staging buffers": self.engine.leased,
                "slots": self._slot_count - len(self.slots)}
        return next((f"{count} {what}" for what, count in held.items() if count), "")

    def arrive(self, request: PlannedRequest) -> None:
        """Take a client's request."""
        receiver = self.node.open(request.room, self._addresses(request), use=0)
        job = self.jobs[request.room] = Job(request, receiver)
        receiver.on_released = partial(self._released, job)
        receiver.watchers = (partial(self._stepped, job),)
        self._event_queue.after(request.allocation_s, self._allocate, job)

    def abort(self, room: int) -> None:
        """Abort the request, because the client has left."""
        job = self.jobs.get(room)
        if job is not None:
            job.receiver.abort("the client has left")

    def die(self) -> None:
        """End the server. Its open requests count as failed."""
        self.dead = True
        self.engine.die()
        for job in list(self.jobs.values()):
            self._ended(job.request, False)

    def _allocate(self, job: Job) -> None:
        self._queue.append(job)
        self._admit()

    def _admit(self) -> None:
        """Give the first requests in line their pages and slots, while there are enough."""
        while self._queue and not self.dead:
            job = self._queue[0]
            if not job.released and job.receiver.status is not KVPoll.FAILED:
                if not self.slots:
                    return
                pages = self.pages.take(job.request.pages, job.request.room)
                if pages is None:
                    return
                job.pages, job.slot = pages, self.slots.pop()
                job.receiver.publish(pages, job.slot)
            self._queue.popleft()

    def _stepped(self, job: Job) -> None:
        if job.receiver.status is not SUCCESS or job.generating or self.dead:
            return
        job.generating = True
        self._answered(job.request)
        receiver = job.receiver
        if not self.engine.complete(receiver.life, receiver.endpoint.peers, job.pages):
            self._blame(COMPLETE, f"{receiver.life} has succeeded, but its pages hold other bytes",
                        job.request.room)
        self._event_queue.after(job.request.generates_s, self._generated, job)

    def _generated(self, job: Job) -> None:
        if not self.dead:
            job.receiver.close()

    def _released(self, job: Job) -> None:
        if job.released:
            raise AssertionError(f"{job.receiver.life} gives its memory back twice")
        job.released = True
        job.receiver.watchers = ()
        self.pages.give(job.pages)
        if job.slot is not None:
            self.slots.append(job.slot)
        del self.jobs[job.request.room]
        self._ended(job.request, job.generating)
        self._admit()
