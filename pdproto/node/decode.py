"""A decode rank's node: it opens receivers, leases memory to their sources, and commits the pages.

Rule 1: the tables of the sink and of its pool decide (spec/handoff/sink.py). This module makes
        their events, and carries out the effects of their steps.
Rule 2: the *done* of a source becomes an event only after its chunks have been copied into the
        pages and their digests compared. So the table can rely on the content of the pages.
Rule 3: pages and staging memory are freed when no copy from the memory into the pages is under way.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pdproto.ground.layout import Indices
from pdproto.node.data_path import Idle, SinkDataPath, Verified
from pdproto.node.generations import Generations
from pdproto.node.handle import handles_of, room_number
from pdproto.node.link import Link
from pdproto.node.memory_queue import MemoryQueue
from pdproto.node.node import Node
from pdproto.node.peer import Peer
from pdproto.node.pool import Pool
from pdproto.node.receiver import Addressed, Receiver
from pdproto.node.sides import DECODE
from pdproto.node.uses import mixed
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.role import SINK_ROLE, SinkRole
from pdproto.runtime.trace import TraceWriter
from pdproto.runtime.wire import (
    Abort,
    AbortAck,
    AnyFrame,
    Batch,
    Done,
    Drained,
    Expecting,
    Failed,
    Introduce,
    Life,
    Publish,
)
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Claim
from pdproto.spec.handoff.poll import SINK_IS_OVER, KVPoll
from pdproto.spec.language.symbols import State

log = logging.getLogger("pdproto.node")

OF_SOURCES: Final = Expecting, Done, Failed, AbortAck, Drained  # the frames that a sink takes


class Decode(Node):
    """See the rules above. incarnation: the same for all ranks of a group."""

    def __init__(
        self, name: str, data_path: SinkDataPath, *,
        link: Link, incarnation: int,
        waits: Mapping[str, float] | None = None,
        trace: TraceWriter | None = None,
        role: SinkRole = SINK_ROLE, pool: Pool | None = None,
    ) -> None:
        super().__init__(name, link, side=DECODE, data_path=data_path, incarnation=incarnation,
                         waits=waits, trace=trace)
        self.role: SinkRole = role
        self.data_path: Final = data_path
        self._generations: Final = Generations()
        self._of_peer: Final[dict[str, dict[Life, Endpoint]]] = {}
        self._wanting: Final = MemoryQueue(
            self.metrics, lambda: self.clock())  # noqa: PLW0108 - it has no clock yet
        self._starved = False  # hand-overs wait for memory, and no lease will be given back
        self._unmet: Final[dict[str, list[Receiver]]] = {}  # by a source that is still silent
        self._pool: Final = pool or Pool()
        self._granted: Final[set[Life]] = set()
        self._leased: Final[dict[Life, float]] = {}
        self._addresses: Final[dict[Life, dict[str, bytes]]] = {}
        self._settling: Final[dict[Life, Receiver]] = {}
        self.metrics.gauge("num_decode_leases", "Lives with a lease of staging memory",
                           lambda: len(self._leased))
        self.metrics.gauge("num_decode_pages", "Pages that hand-overs hold",
                           lambda: len(self._pool.pages))
        self.writers.update({
            ends.introduce: lambda e, i: Introduce(self.life(e), e.owner.sinks, *self.of(e, i)),
            ends.publish: self._publish,
            ends.abort: self._abort,
        })
        self.reactions.update({
            (ends.claim, Claim.FENCING): self._fence,
            (ends.lease, False): self._release_lease,
            (ends.page, False): self._release_pages,
        })

    # For the application

    def open(  # noqa: PLR0913 - as many as DecodeNode.open takes
        self, room: int, sources: Mapping[str, str], *,
        sinks: Sequence[str] = (), generation: int | None = None,
        on_released: Callable[[], None] | None = None,
        watcher: Callable[[Receiver], None] | None = None,
        pages: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
        slot: int | None = None, addressed: Addressed | None = None, use: int | None = None,
    ) -> Receiver:
        """Open a receiver for a room; see DecodeNode.open. One thread at a time, so that lives
        begin in the order of their numbers.
        """
        if not sources:
            raise ValueError(f"room {room}: a hand-over needs a source")
        receiver = self.new(room, tuple(sources), tuple(sinks) or (self.name,), generation, use)
        receiver.watch(on_released, watcher)
        receiver.addressed = addressed
        if pages is not None:
            receiver.hold(pages, slot)
        self._generations.use(receiver.life.generation)
        self.ask(lambda: self._begin(receiver, sources, placed=pages is not None))
        return receiver

    def new(
        self, room: int, sources: tuple[str, ...], sinks: tuple[str, ...],
        generation: int | None, use: int | None,
    ) -> Receiver:
        """A receiver for the next life, or for the one of this number."""
        number = self._generations.next(generation)
        life = Life(room_number(room), self.incarnation, number, use)
        return Receiver(self, life, sources, sinks)

    def problem(self) -> str | None:
        """See Core.problem. A decode node also needs staging memory."""
        if self._starved:
            return (f"node {self.name}: hand-overs wait for staging memory, none holds any, and "
                    f"none is free: fenced writers may still reach it")
        return super().problem()

    # In the loop: requests of the application

    def _begin(self, receiver: Receiver, sources: Mapping[str, str], *, placed: bool) -> None:
        self.enlist(receiver)
        self.introduce(receiver, sources, placed=placed)

    def enlist(self, receiver: Receiver) -> None:
        """Count a life, in the order of their numbers."""
        self.metrics.add("handoffs_opened")
        self._generations.begin(receiver.life.generation)
        self.lives[receiver.life] = receiver.endpoint
        self.register(receiver)

    def introduce(self, receiver: Receiver, sources: Mapping[str, str], *, placed: bool) -> None:
        """Begin a life with these sources."""
        endpoint, life = receiver.endpoint, receiver.life
        nowhere, why_not = dict[str, str](), ""
        for name, where in sources.items():
            try:  # first, because an older peer of this name elsewhere is lost by that
                why_not = self.connect(name, where).barred or why_not
            except RemoteProtocolError as error:
                nowhere[name] = str(error)
            self._of_peer.setdefault(name, {})[life] = endpoint
        self.take(endpoint, endpoint.automaton.call("open_receiver"))
        for name, why in nowhere.items():
            self._on_peer_lost(endpoint, name, why)
        if why_not:
            self.give_up(receiver, why_not)
        elif placed:
            self.want_memory(receiver)

    def want_memory(self, receiver: Receiver) -> None:
        """Queue the request for staging memory; it has its pages now.

        Each source must first tell its incarnation. Otherwise its restart would go unnoticed, and
        the DRAINED of its successor would count as the end of its writes.
        """
        for name in receiver.endpoint.peers:
            if not self._has_spoken(name):
                self._unmet.setdefault(name, []).append(receiver)
                return
        self._wanting.add(receiver, self._now)

    def _has_spoken(self, source: str) -> bool:
        return bool(source in self.peers and self.peers[source].incarnation)

    def give_up(self, receiver: Receiver, reason: str) -> None:
        """See Node.give_up."""
        receiver.blame = reason
        self.take(receiver.endpoint, receiver.endpoint.automaton.call("abort_receiver"))

    def finish(self, receiver: Receiver) -> None:
        """See Node.finish."""
        self.take(receiver.endpoint, receiver.endpoint.automaton.call("finish"))

    # In the loop: messages of sources

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        """See Core.on_batch. Receivers that waited for the peer's first batch get in line now."""
        for receiver in self._unmet.pop(peer.name, ()):
            self.want_memory(receiver)
        super().on_batch(peer, batch)

    def on_frame(self, peer: Peer, frame: AnyFrame) -> None:
        """See Node.on_frame."""
        if not isinstance(frame, OF_SOURCES):
            raise RemoteProtocolError(f"{frame.message}: a source must not send this message")
        life = frame.life
        endpoint = self.lives.get(life)
        if endpoint is None:
            self.metrics.add("stale_frames")
            return
        if peer.name not in endpoint.peers:
            raise RemoteProtocolError(f"{peer.name} is no source of this life")
        if endpoint.value(ends.gone, (endpoint.peers.index(peer.name), 0, 0)):
            # The peer has restarted since the life began. It does not know about late writes of
            # the old process, so its DRAINED must not end a lease.
            self.metrics.add("stale_frames")
            return
        receiver: Receiver = endpoint.owner
        if isinstance(frame, Failed):
            receiver.blame = f"{peer.name}: {frame.reason}"
        elif isinstance(frame, Done) and self._must_verify(receiver, peer.name):
            self._verify(receiver, peer.name, frame)
            return
        self._hear(endpoint, frame, peer.name)

    def _hear(self, endpoint: Endpoint, frame: AnyFrame, source: str) -> None:
        index = endpoint.peers.index(source)
        self.take(endpoint, endpoint.automaton.message(frame.message, (index, 0, 0)))
        self._conclude(endpoint)

    def _must_verify(self, receiver: Receiver, source: str) -> bool:
        index = receiver.endpoint.peers.index(source)
        return (receiver.endpoint.value(ends.claim, (0, 0, index)) is Claim.OUT
                and receiver.poll() in (KVPoll.WAITING_FOR_INPUT, KVPoll.TRANSFERRING))

    def _verify(self, receiver: Receiver, source: str, done: Done) -> None:
        """Have the source's chunks copied and compared; its *done* becomes an event later (rule 2).
        """
        if source in receiver.unverified:
            return
        receiver.unverified[source] = done
        pages = receiver.pages_of(source)
        problem = done.problem(len(pages)) or mixed(receiver.uses, done.use)
        if not problem:
            receiver.uses[source] = done.use
            self.data_path.verify(receiver.life, source, done.chunks, pages)
            return
        del receiver.unverified[source]
        receiver.blame = f"{source} {problem}"
        self._hear(receiver.endpoint, done, source)

    def on_device(self) -> None:
        """See Node.on_device."""
        for report in self.data_path.reports():
            if isinstance(report, Idle):
                self._free_pages(self._settling.pop(report.life))
            elif isinstance(report, Verified):
                self._verified(self.lives[report.life].owner, report)
            else:
                self._fenced(self.lives.get(report.life), report.source)
            if self.is_late():
                return

    def _verified(self, receiver: Receiver, report: Verified) -> None:
        endpoint, source = receiver.endpoint, report.source
        done = receiver.unverified.pop(source)
        receiver.metadata[source] = done.metadata
        if report.clean:
            receiver.landed_chunks += len(done.chunks)
            receiver.landed_bytes += self.bytes_of(source, done.chunks, receiver.pages_of(source))
            index = endpoint.peers.index(source)
            self.take(endpoint, endpoint.automaton.device(
                (ends.content, (0, 0, 0, index, 0), True)))
        elif report.life not in self._settling:  # else it has failed, and no digest was compared
            self.metrics.add("spoilt_chunks")
            receiver.blame = report.reason or f"the digests of the bytes of {source} do not agree"
        self._hear(endpoint, done, source)

    def _fenced(self, endpoint: Endpoint | None, source: str) -> None:
        self.metrics.add("fences_done")
        if endpoint is None:
            return  # the source answered before the fence was complete, and the life is over
        place = 0, 0, endpoint.peers.index(source)
        if endpoint.value(ends.claim, place) is Claim.FENCING:
            self.take(endpoint, endpoint.automaton.device((ends.claim, place, Claim.FENCED)))
        self._conclude(endpoint)

    def on_lost(self, peer: Peer, why: str) -> None:
        """See Core.on_lost. All lives of this peer are told at once."""
        self.metrics.add("lost_peers")
        self._unmet.pop(peer.name, None)  # these receivers fail below
        for endpoint in list(self._of_peer.get(peer.name, {}).values()):
            self._on_peer_lost(endpoint, peer.name, why)

    def _on_peer_lost(self, endpoint: Endpoint, source: str, why: str) -> None:
        """Give a life the event that one of its sources is gone."""
        endpoint.owner.blame = f"lost connection to {source}: {why}"
        index = endpoint.peers.index(source)
        self.take(endpoint, endpoint.automaton.noted_message(ends.gone, (index, 0, 0)))

    def on_returned(self, peer: Peer) -> None:
        """See Core.on_returned. Messages in both directions may be lost, so repeat ours at once."""
        for endpoint in list(self._of_peer.get(peer.name, {}).values()):
            for name in self._timers.fire_now(endpoint):
                self.take(endpoint, endpoint.automaton.timer(name))

    def on_timer(self, name: str, endpoint: Endpoint) -> None:
        """See Node.on_timer. The reason also names sources that have sent nothing yet."""
        if name != "heartbeat":
            silent = [peer for peer in endpoint.peers if not self._has_spoken(peer)]
            of = f"; nothing was heard of {', '.join(silent)}" if silent else ""
            endpoint.owner.blame = self.blame(name) + of

    # In the loop: effects of steps

    def on_room(self) -> None:
        """See Node.on_room."""
        is_waiting = self._wanting.serve(self._grant, lambda: self.pace.has_time)
        self._starved = is_waiting and not self._leased

    def wants_room(self) -> bool:
        """See Node.wants_room."""
        return self._wanting.was_cut

    def _grant(self, receiver: Receiver) -> bool:
        """Grant memory to the request, if there is enough. Returns whether its wait is over."""
        life, endpoint, pages = receiver.life, receiver.endpoint, receiver.every_page
        try:
            addresses = self.data_path.lease(life, receiver.pages or {})
        except ValueError as error:
            self.give_up(receiver, str(error))
            return True
        if addresses is None:
            return False
        granted = self._pool.grant(life, pages, receiver.slot)
        if not granted:
            self.data_path.release(life)
            self.give_up(receiver, self._pool.blame(pages, receiver.slot))
            return True
        self._granted.add(life)
        self._leased[life] = receiver.began = self._now
        self._addresses[life] = addresses
        self.take(endpoint, endpoint.automaton.device(*granted))
        return True

    def _publish(self, endpoint: Endpoint, index: int) -> Publish:
        life, receiver, source = self.life(endpoint), endpoint.owner, endpoint.peers[index]
        return Publish(life, self._addresses[life][source], len(receiver.pages[source]),
                       receiver.sinks, *self.of(endpoint, index))

    def _abort(self, endpoint: Endpoint, index: int) -> Abort:
        self.metrics.add("aborts_sent")
        return Abort(self.life(endpoint), self.why(endpoint), self.of(endpoint, index)[0])

    def _fence(self, endpoint: Endpoint, indices: Indices) -> None:
        self.metrics.add("fences_started")
        log.info("node %s: fencing %s out of the memory of %s", self.name,
                 endpoint.peers[indices[2]], endpoint.life, extra=self.fields(endpoint.life))
        self.data_path.fence(self.life(endpoint), endpoint.peers[indices[2]])

    def _release_lease(self, endpoint: Endpoint, _: Indices) -> None:
        life = self.life(endpoint)
        self.metrics.add("held_chunk_seconds", self._now - self._leased.pop(life))
        self.data_path.release(life)

    def _release_pages(self, endpoint: Endpoint, _: Indices) -> None:
        life, receiver = self.life(endpoint), endpoint.owner
        self._pool.free_slot(receiver.slot)
        self._settling[life] = receiver
        self.data_path.settle(life)

    def _free_pages(self, receiver: Receiver) -> None:
        if receiver.life in self._granted:
            self._granted.remove(receiver.life)
            self._pool.free_pages(receiver.every_page)
        receiver.tell_released()
        if receiver.life in self.lives:
            self._conclude(receiver.endpoint)
        else:
            self.release(receiver.endpoint)

    def _conclude(self, endpoint: Endpoint) -> None:
        """Drop a life that is over for the table; raise the floor if it was the oldest."""
        life = self.life(endpoint)
        if (endpoint.owner.unverified or life in self._settling or life not in self.lives
                or not endpoint.automaton.holds(SINK_IS_OVER, endpoint.state)):
            return
        self.forget(endpoint)
        self._generations.end(life.generation)
        self._addresses.pop(life, None)
        for source in endpoint.peers:
            del self._of_peer[source][life]

    def floor(self) -> int:
        """See Core.floor."""
        return self._generations.floor

    def on_failed(self, endpoint: Endpoint, _: State) -> None:
        """See Node.on_failed. Without a grant, no copy can reach the pages: free them now."""
        if endpoint.owner.life not in self._granted:
            self._free_pages(endpoint.owner)

    def open_ends(self) -> Iterable[Receiver]:
        """See Node.open_ends."""
        return handles_of(self.lives)
