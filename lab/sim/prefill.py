"""A simulated prefill server, which computes a request after its bootstrap.

A request begins when every rank's sender knows the destination of its pages. Its chunks are
computed one after the other, and each is handed over when it is computed. One process decides for
all ranks of a server: the agreement of ranks is not simulated here.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from lab.sim.event_queue import EventQueue
from lab.sim.fabric import Pages
from lab.sim.plan import PlannedRequest, Shape
from lab.sim.server import RankedServer
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll

# Used after every step; the look-up in the class would take long.
FAILED: Final = KVPoll.FAILED
READY: Final = KVPoll.WAITING_FOR_INPUT


@dataclass(slots=True, eq=False)
class Job:
    """A request at a prefill server. held: senders that have not released its pages."""

    request: PlannedRequest
    senders: list[Sender] = field(default_factory=list)
    held: int = 0
    pages: tuple[int, ...] = ()
    computed: int = 0
    computing: bool = False
    ready: bool = False
    failed: bool = False
    ended: bool = False


class PrefillServer(RankedServer):
    """A server that computes requests after their bootstrap, first come first served."""

    def __init__(
        self, name: str, event_queue: EventQueue, shape: Shape, pages: Pages,
        ended: Callable[[PlannedRequest, bool], None],
    ) -> None:
        super().__init__(name, event_queue, shape, pages, ended)
        self.jobs: Final[dict[int, Job]] = {}
        self._queue: Final[deque[Job]] = deque()

    def arrive(self, request: PlannedRequest) -> None:
        """See RankedServer."""
        job = self.jobs[request.room] = Job(request, held=len(self.ranks))
        for rank in self.ranks:
            sender = rank.node.open(request.room, partial(self._released, job), use=0)
            sender.watchers = (partial(self._stepped, job, sender),)
            job.senders.append(sender)

    def abort(self, room: int) -> None:
        """See RankedServer."""
        job = self.jobs.get(room)
        if job is not None:
            self._give_up(job, "the client has left")

    def open_requests(self) -> Iterator[PlannedRequest]:
        """See RankedServer."""
        return (job.request for job in self.jobs.values())

    def _stepped(self, job: Job, sender: Sender) -> None:
        if self.dead or job.ended:
            return
        status = sender.status
        if status is FAILED:
            if not job.failed:
                self._give_up(job, "another rank has failed")
        elif not job.ready and status >= READY and all(s.status >= READY for s in job.senders):
            job.ready = True
            self._queue.append(job)
            self._admit()

    def _give_up(self, job: Job, reason: str) -> None:
        job.failed = True
        for sender in job.senders:
            if sender.status is not FAILED:
                sender.abort(reason)

    def _admit(self) -> None:
        while self._queue:
            job = self._queue[0]
            if not (job.ended or job.failed):
                pages = self.pages.take(job.request.pages, job.request.room)
                if pages is None:
                    return
                job.pages = pages
                self._compute(job)
            self._queue.popleft()

    def _compute(self, job: Job) -> None:
        job.computing = True
        self.compute(self._computed, job)

    def _computed(self, job: Job) -> None:
        """Hand over a computed chunk, and compute the next one."""
        if self.dead:
            return
        job.computing = False
        if job.failed:
            self._end(job)
            return
        chunks = job.request.chunks
        first = sum(chunks[:job.computed])
        pages = job.pages[first:first + chunks[job.computed]]
        job.computed += 1
        last = job.computed == len(chunks)
        for sender in job.senders:
            sender.send(pages, last=last, metadata=b"token" if last else b"")
        if not last:
            self._compute(job)

    def _released(self, job: Job) -> None:
        job.held -= 1
        self._end(job)

    def _end(self, job: Job) -> None:
        """Give the pages back when neither a sender nor the device uses them."""
        if job.held or job.computing or job.ended:
            return
        job.ended = True
        for sender in job.senders:
            sender.watchers = ()
        self.pages.give(job.pages)
        del self.jobs[job.request.room]
        self.ended(job.request, all(s.status is KVPoll.SUCCESS for s in job.senders))
        self._admit()
