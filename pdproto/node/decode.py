"""A decode rank's node: it opens receivers, leases memory to their sources, and commits the pages.

Rule 1: the tables of the sink and of its pool decide (spec/handoff/sink.py). This module makes
        their events, and carries out the effects of their steps.
Rule 2: memory is granted and freed in sink_memory.py, chunks are verified in verification.py.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pdproto.ground.layout import Indices
from pdproto.node.data_path import Fenced, Idle, SinkDataPath, Verified
from pdproto.node.faults import BOOTSTRAP
from pdproto.node.generations import Generations
from pdproto.node.handle import handles_of, room_number
from pdproto.node.link import Link
from pdproto.node.node import Node
from pdproto.node.peer import Peer
from pdproto.node.pool import Pool
from pdproto.node.ports import Transport
from pdproto.node.receiver import Addressed, Receiver
from pdproto.node.sides import DECODE
from pdproto.node.sink_memory import SinkMemory
from pdproto.node.verification import Verification
from pdproto.runtime.batches import Batch
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import EARLIER_LIVES_MAX
from pdproto.runtime.role import RUNS_ROLE, SINK_ROLE, SinkRole
from pdproto.runtime.trace import StepObserver
from pdproto.runtime.wire import (
    Abort,
    AbortAck,
    AnyFrame,
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
from pdproto.spec.handoff.poll import SINK_IS_NAMED, SINK_IS_OVER
from pdproto.spec.language.symbols import State

log = logging.getLogger("pdproto.node")

OF_SOURCES: Final = Expecting, Done, Failed, AbortAck, Drained  # the frames that a sink takes


class Decode(Node):
    """See the rules above. incarnation: the same for all ranks of a group."""

    def __init__(
        self, name: str, data_path: SinkDataPath, *,
        link: Link, incarnation: int,
        waits: Mapping[str, float] | None = None,
        trace: StepObserver | None = None,
        role: SinkRole = SINK_ROLE, pool: Pool | None = None,
    ) -> None:
        super().__init__(name, link, side=DECODE, data_path=data_path, incarnation=incarnation,
                         waits=waits, trace=trace)
        self.role: SinkRole = role
        self.data_path: Final = data_path
        self._generations: Final = Generations()
        self._of_peer: Final[dict[str, dict[Life, Endpoint]]] = {}
        self._of_room: Final[dict[int, list[Receiver]]] = {}  # those without a name, in order
        self._memory: Final = SinkMemory(
            self, data_path, pool or Pool(), lambda: self._now, self._conclude)
        self._verification: Final = Verification(self, data_path, self._hear)
        self.plans.writers.update({
            ends.introduce: lambda e, i: Introduce(self.life(e), e.owner.sinks, *self.of(e, i),
                                                   self._earlier(e, i)),
            ends.publish: self._publish,
            ends.abort: self._abort,
        })
        self.plans.reactions.update({
            (ends.claim, Claim.FENCING): self._fence,
            (ends.lease, False): self._memory.release_lease,
            (ends.page, False): self._memory.release_pages,
        })

    # For the application

    def open(  # noqa: PLR0913 - as many as DecodeNode.open takes
        self, room: int, sources: Mapping[str, str], *,
        sinks: Sequence[str] = (), generation: int | None = None,
        on_released: Callable[[], None] | None = None,
        watcher: Callable[[Receiver], None] | None = None,
        pages: Sequence[int] | Mapping[str, Sequence[int]] | None = None,
        slot: int | None = None, addressed: Addressed | None = None, use: int | None = None,
        soon: bool = True,
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
        ask = self.ask if soon else self.transport.ask_later
        ask(lambda: self._begin(receiver, sources, placed=pages is not None))
        return receiver

    def new(
        self, room: int, sources: tuple[str, ...], sinks: tuple[str, ...],
        generation: int | None, use: int | None,
    ) -> Receiver:
        """A receiver for the next life, or for the one of this number."""
        number = self._generations.next(generation)
        life = Life(room_number(room), self.incarnation, number, use)
        return Receiver(self, life, sources, sinks)

    def begin(self, transport: Transport) -> None:
        """See Node.begin."""
        super().begin(transport)
        RUNS_ROLE.prepare()

    def problem(self) -> str | None:
        """See Core.problem. A decode node also needs staging memory."""
        if self._memory.is_starved:
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
        if receiver.life.use is None:
            self._of_room.setdefault(receiver.room, []).append(receiver)
        self.stages.register(receiver)

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
        self.draw(BOOTSTRAP, endpoint)
        self._memory.meet(receiver)
        for name, why in nowhere.items():
            self._on_peer_lost(endpoint, name, why)
        if why_not:
            self.give_up(receiver, why_not)
        elif placed:
            self.want_memory(receiver)

    def want_memory(self, receiver: Receiver) -> None:
        """Queue the request for staging memory; it has its pages now."""
        self._memory.want(receiver)

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
        self._memory.greet(peer)
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
        receiver: Receiver = endpoint.owner
        if not receiver.runs.counts(peer.name, peer.incarnation):
            self.metrics.add("stale_frames")
            return
        if isinstance(frame, Failed):
            receiver.blame = f"{peer.name}: {frame.reason}"
        elif isinstance(frame, Done) and self._verification.is_due(receiver, peer.name):
            self._verification.begin(receiver, peer.name, frame)
            return
        self._hear(endpoint, frame, peer.name)

    def _hear(self, endpoint: Endpoint, frame: AnyFrame, source: str) -> None:
        index = endpoint.peers.index(source)
        self.take(endpoint, endpoint.automaton.message(frame.message, (index, 0, 0)))
        self._conclude(endpoint)

    def on_device(self) -> None:
        """See Node.on_device."""
        for report in self.data_path.reports():
            life = report.life
            match report:
                case Idle():
                    self._memory.end_copies(life)
                case Verified():
                    self._verification.end(self.lives[life].owner, report,
                                           is_settling=self._memory.is_settling(life))
                case Fenced():
                    self._fenced(self.lives.get(life), report.source)
            if self.is_late():
                return

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
        self._memory.part(peer)  # its receivers fail below
        for endpoint in list(self._of_peer.get(peer.name, {}).values()):
            self._on_peer_lost(endpoint, peer.name, why)

    def _on_peer_lost(self, endpoint: Endpoint, source: str, why: str) -> None:
        """Give a life the event that one of its sources is gone."""
        endpoint.owner.blame = f"lost connection to {source}: {why}"
        index = endpoint.peers.index(source)
        self.take(endpoint, endpoint.automaton.noted_message(ends.gone, (index, 0, 0)))

    def on_returned(self, peer: Peer) -> None:
        """See Core.on_returned. Messages in both directions may be lost, so repeat ours at once."""
        for endpoint in self._of_peer.get(peer.name, {}).values():
            self._timers.fire_now(endpoint, self._now)

    def on_timer(self, name: str, endpoint: Endpoint) -> None:
        """See Node.on_timer. The reason also names sources that have sent nothing yet."""
        if name != "heartbeat":
            silent = [peer for peer in endpoint.peers if not self._memory.has_spoken(peer)]
            of = f"; nothing was heard of {', '.join(silent)}" if silent else ""
            endpoint.owner.blame = self.blame(name) + of

    # In the loop: effects of steps

    def on_room(self) -> None:
        """See Node.on_room."""
        self._memory.serve()

    def wants_room(self) -> bool:
        """See Node.wants_room."""
        return self._memory.queue.was_cut

    def say(self, peer: Peer, frame: AnyFrame) -> None:
        """See Core.say. An address makes its source know all that an introduction does (the row
        `learn`). So it takes the place of one that waits for the same batch (decision 078).
        """
        kind = type(frame)
        if kind is Introduce:
            peer.introduced[frame.life] = len(peer.out)
        elif kind is Publish and peer.introduced:
            place = peer.introduced.pop(frame.life, None)
            if place is not None and place < len(peer.out):
                peer.out[place] = frame
                self.connections.dirty[peer.name] = peer
                return
        self.connections.say(peer, frame)

    def _publish(self, endpoint: Endpoint, index: int) -> Publish:
        life, receiver, source = self.life(endpoint), endpoint.owner, endpoint.peers[index]
        return Publish(life, self._memory.address(life, source), len(receiver.pages[source]),
                       receiver.sinks, *self.of(endpoint, index), self._earlier(endpoint, index))

    def _earlier(self, endpoint: Endpoint, index: int) -> tuple[int, ...]:
        """The lives that a life names to this source, by their generations, the first one first."""
        receiver, source = endpoint.owner, endpoint.peers[index]
        of_room = self._of_room.get(receiver.room, [])
        if len(of_room) < 2 or receiver not in of_room:
            return ()
        before = of_room[:of_room.index(receiver)]
        named = [one.life.generation for one in before if source in one.endpoint.peers
                 and one.endpoint.automaton.holds(SINK_IS_NAMED, one.endpoint.state)]
        return tuple(named[-EARLIER_LIVES_MAX:])

    def _abort(self, endpoint: Endpoint, index: int) -> Abort:
        self.metrics.add("aborts_sent")
        return Abort(self.life(endpoint), self.why(endpoint), self.of(endpoint, index)[0])

    def _fence(self, endpoint: Endpoint, indices: Indices) -> None:
        self.metrics.add("fences_started")
        log.info("node %s: fencing %s out of the memory of %s", self.name,
                 endpoint.peers[indices[2]], endpoint.life, extra=self.fields(endpoint.life))
        self.data_path.fence(self.life(endpoint), endpoint.peers[indices[2]])

    def _conclude(self, endpoint: Endpoint) -> None:
        """Drop a life that is over for the table; raise the floor if it was the oldest."""
        life = self.life(endpoint)
        if (endpoint.owner.is_verifying or self._memory.is_settling(life) or life not in self.lives
                or not endpoint.automaton.holds(SINK_IS_OVER, endpoint.state)):
            return
        self.forget(endpoint)
        self._leave_room(endpoint.owner)
        self._generations.end(life.generation)
        self._memory.forget(life)
        for source in endpoint.peers:
            del self._of_peer[source][life]

    def _leave_room(self, receiver: Receiver) -> None:
        of_room = self._of_room.get(receiver.room, [])
        if receiver in of_room:
            of_room.remove(receiver)
            if not of_room:
                del self._of_room[receiver.room]

    def floor(self) -> int:
        """See Core.floor."""
        return self._generations.floor

    def on_failed(self, endpoint: Endpoint, _: State) -> None:
        """See Node.on_failed. Without a grant, no copy can reach the pages: free them now."""
        if not self._memory.is_granted(endpoint.owner.life):
            self._memory.free_pages(endpoint.owner)

    def open_ends(self) -> Iterable[Receiver]:
        """See Node.open_ends."""
        return handles_of(self.lives)

    def is_awaited(self, owner: Receiver) -> bool:
        """See Node.is_awaited."""
        peers = [self.peers.get(name) for name in owner.endpoint.peers]
        return owner.life in self.lives and any(
            peer is not None and not peer.lost for peer in peers)
