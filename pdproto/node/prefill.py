"""A prefill rank's node: it opens senders, and writes their pages into the memory of sinks.

Rule 1: the table of the source decides (spec/handoff/source.py). This module makes its events, and
        carries out the effects of its steps.
Rule 2: a sender belongs to a room. The table of the rank binds it to a life that a sink introduces
        (binding.py). A sender without a life waits for one, and a life for a sender.
Rule 3: a life that has ended is remembered until all its sinks are done with it
        (remembered_lives.py).
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pdproto.ground.layout import Indices
from pdproto.node.binding import Bindings
from pdproto.node.data_path import SourceDataPath
from pdproto.node.faults import BOOTSTRAP, TRANSFER
from pdproto.node.fit import misfit
from pdproto.node.handle import handles_of, room_number
from pdproto.node.in_doubt import InDoubtAtSink
from pdproto.node.link import Link
from pdproto.node.node import Node
from pdproto.node.peer import Peer
from pdproto.node.plans import Reaction
from pdproto.node.remembered_lives import NEVER, RememberedLives
from pdproto.node.sender import Sender
from pdproto.node.sides import PREFILL
from pdproto.node.source_writes import SourceWrites
from pdproto.node.uses import Uses
from pdproto.node.waiting_senders import ByRoom, EarlyLives
from pdproto.runtime.automaton import Automaton
from pdproto.runtime.batches import Batch
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.role import SOURCE_ROLE, SourceRole
from pdproto.runtime.trace import StepObserver
from pdproto.runtime.wire import (
    Abort,
    AbortAck,
    AnyFrame,
    Drained,
    Expecting,
    Failed,
    Frame,
    Introduce,
    Life,
    PageLayout,
    Publish,
)
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Sending, Write
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.language.symbols import State

log = logging.getLogger("pdproto.node")

OF_SINKS: Final = Introduce, Publish, Abort  # the frames that a source takes


class Prefill(Node):
    """See the rules above.

    data_path: moves the bytes. waits: seconds by name of timer. refuses: called in the loop for a
    room that a sink introduces and that no sender has opened. It returns why no sender will open
    it, or None if one may. A refused sink fails at once, with that reason. role: the tables to run,
    if not those of the hand-over.
    """

    def __init__(
        self,
        name: str,
        data_path: SourceDataPath,
        *,
        link: Link,
        incarnation: int,
        waits: Mapping[str, float] | None = None,
        trace: StepObserver | None = None,
        refuses: Callable[[int], str | None] = lambda _: None,
        role: SourceRole = SOURCE_ROLE,
    ) -> None:
        super().__init__(name, link, side=PREFILL, data_path=data_path, incarnation=incarnation,
                         waits=waits, trace=trace)
        self.role: SourceRole = role
        self.data_path: Final = data_path
        self._refuses: Final = refuses
        self._uses: Final = Uses()
        self._unbound: Final = ByRoom()
        self._early: Final = EarlyLives()
        self._bindings: Final = Bindings(self._bind, lambda: self._now, waits)
        self._alone: Final[deque[tuple[float, Sender]]] = deque()  # failed before a sink came
        self._remembered: Final = RememberedLives(self.lives, self.forget, self.metrics, link)
        self._writes: Final = SourceWrites(self, data_path, self._remembered.settle)
        self.plans.writers.update({
            ends.expecting: lambda e, _: Expecting(self.life(e)),
            ends.done: lambda e, _: e.owner.done(self.life(e)),
            ends.failed: lambda e, _: Failed(self.life(e), self.why(e)),
            ends.abort_ack: lambda e, _: AbortAck(self.life(e)),
            ends.drained: lambda e, _: Drained(self.life(e)),
        })
        self.plans.reactions.update({
            (ends.write, Write.POSTED): self._writes.post,
            (ends.kv, False): self._release,
        })

    # For the application

    def open(
        self, room: int, on_released: Callable[[], None] | None = None,
        watcher: Callable[[Sender], None] | None = None, named: int | None = None,
        use: int | None = None,
    ) -> Sender:
        """Open a sender for a room; see PrefillNode.open. For any thread."""
        sender = Sender(self, room_number(room), use)
        sender.watch(on_released, watcher)
        self.ask(lambda: self._put(sender, named))
        return sender

    def in_doubt(self) -> tuple[InDoubtAtSink, ...]:
        """See PrefillNode.in_doubt. For any thread."""
        return self._writes.in_doubt.all()

    # In the loop: requests of the application

    def _put(self, sender: Sender, _named: int | None) -> None:
        """Begin a hand-over that the router has put here. The name of a data-parallel rank in its
        request means nothing on the only one.
        """
        self.metrics.add("handoffs_opened")
        if sender.given_use is None:
            sender.use = self._uses.next(sender.room)
        self._bindings.open(sender)
        if sender.endpoint.life is None:
            self._unbound.add(sender)
            self.stages.register(sender)
        self.take(sender.endpoint, sender.endpoint.automaton.call("open_sender"))
        if sender.endpoint.value(ends.kv, (0, 0)) is False:
            self._release(sender.endpoint, ())  # the sink aborted first: no page was read
        elif sender.misfit:
            self.give_up(sender, sender.misfit)

    def hand_over(
        self, sender: Sender, pages: tuple[int, ...], last: bool, metadata: bytes
    ) -> None:
        """Give the table one more chunk. See Sender.send."""
        endpoint = sender.endpoint
        self.take(endpoint, endpoint.hand_over(last=last))
        endpoint.handed_over()
        sender.chunks.append(pages)
        sender.metadata = metadata
        if not sender.began:
            sender.began = self._now
            self.draw(TRANSFER, endpoint)

    def give_up(self, sender: Sender, reason: str) -> None:
        """See Node.give_up."""
        sender.blame = reason
        self.take(sender.endpoint, sender.endpoint.automaton.call("abort_sender"))

    # In the loop: messages of sinks

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        """See Core.on_batch. A batch of a new incarnation proves that the older ones have ended."""
        in_doubt = self._writes.in_doubt
        if in_doubt:
            for incarnation in in_doubt.incarnations(peer.name) - {peer.incarnation}:
                self._writes.cannot_land(peer.name, incarnation, NEVER)
        self._remembered.hear(peer.name, peer.incarnation)
        super().on_batch(peer, batch)

    def on_frame(self, peer: Peer, frame: AnyFrame) -> None:
        """See Node.on_frame."""
        if not isinstance(frame, OF_SINKS):
            raise RemoteProtocolError(f"{frame.message}: a sink must not send this message")
        if not isinstance(frame, Abort) and frame.earlier:
            self._meet_earlier(peer, frame)
        endpoint = self.endpoint_of(peer, frame.life, type(frame))
        if endpoint is None:
            return
        named = (peer.name,) if isinstance(frame, Abort) else frame.sinks
        if peer.name not in named:
            named = *named, peer.name
        if named != endpoint.peers:
            endpoint.owner.endpoint.meet(named)
        automaton, index = endpoint.automaton, endpoint.peers.index(peer.name)
        carried = 0
        if isinstance(frame, Publish):
            endpoint.owner.addresses.setdefault(index, frame.address)
            carried = automaton.bits(ends.address, (index, 0, 0))
        elif isinstance(frame, Abort):
            endpoint.owner.blame = f"{peer.name}: {frame.reason}"
        self.take(endpoint, automaton.message(frame.message, (index, 0, 0), carried))
        if not isinstance(frame, Abort):
            self._compare(endpoint.owner, peer.name, frame.layout)

    def endpoint_of(
        self, peer: Peer, life: Life, by: type[Frame] = Introduce
    ) -> Endpoint | None:
        """The endpoint of a life of which this sink speaks; None if it has said that nothing more
        would come of it. by: the kind of its frame.
        Raises RemoteProtocolError for a life of another process.
        """
        if life.incarnation != peer.incarnation:
            raise RemoteProtocolError("the life belongs to another incarnation")
        endpoint = self.lives.get(life)
        if endpoint is None and self._remembered.forgotten(peer.name, life):
            self.metrics.add("stale_frames")
            return None
        if endpoint is None or life in self._bindings:
            self._bindings.hear(life, peer.name, by)
            endpoint = self.lives.get(life)
        return endpoint or self._meet(life)

    def _meet_earlier(self, peer: Peer, frame: Introduce | Publish) -> None:
        """Meet the lives that this one names, if their own introductions have not come. These are
        rows of the table (spec/handoff/binding_ordered.py).
        """
        of = frame.life
        for generation in frame.earlier:
            life = Life(of.room, of.incarnation, generation)
            if life not in self.lives and (met := self.endpoint_of(peer, life, Frame)) is not None:
                met.owner.endpoint.meet((peer.name,))

    def _compare(self, sender: Sender, sink: str, layout: PageLayout | None) -> None:
        """Fail the hand-over if the page layouts of both ends differ, once its sender is open."""
        sender.misfit = misfit(self.layout_for(sink), self.name, sink, layout,
                               self.conversion) or sender.misfit
        if sender.misfit and sender.stage is not Sending.UNKNOWN:
            self.give_up(sender, sender.misfit)

    def _meet(self, life: Life) -> Endpoint:
        """The endpoint of a life that has no sender yet."""
        full = self._early.full_for(life)
        if full is not None:
            self._bindings.forget_life(life)
            raise RemoteProtocolError(full)
        early = Sender(self, life.room, life.use)
        early.endpoint.life = life
        self._early.add(early)
        self.stages.register(early)
        self._remembered.add(life, early.endpoint)
        why = self._refuses(life.room)
        if why is not None:
            # So that decode need not wait for a timeout.
            self.open(life.room, use=life.use).abort(why)
        return early.endpoint

    def _bind(self, life: Life, sender: Sender) -> None:
        """The table has bound the life to this sender."""
        early = self._early.of_life(life)
        self._unbound.drop(sender)
        if early is None:
            sender.endpoint.life = life
            self._remembered.add(life, sender.endpoint)
        elif sender.stage is Sending.UNKNOWN:  # it is being opened
            self._early.drop(early)
            sender.adopt(early)
        elif early.stage is Sending.FAILED:
            self._early.drop(early)
            self.metrics.add("bootstrap_failed_reqs", -1)  # counted when the life ended
            self.give_up(sender, early.reason or "")
        else:
            self._end_early(early, sender)

    def _end_early(self, early: Sender, sender: Sender) -> None:
        """Tell the sinks of an early life that its request has ended before."""
        self._early.drop(early)
        self.on_ended_early(early.endpoint, sender)
        self.metrics.add("bootstrap_failed_reqs", -1)  # counted when the request ended
        self.take(early.endpoint, early.endpoint.automaton.call("open_sender"))
        self.give_up(early, sender.reason or "")

    def on_ended_early(self, endpoint: Endpoint, sender: Sender) -> None:
        """The request of this endpoint is that of a sender that has ended before."""

    def on_drain(self, why: str) -> None:
        """See Core.on_drain."""
        for early in list(self._early):
            endpoint = early.endpoint
            self._early.drop(early)
            self._bindings.forget_life(self.life(endpoint))
            self.take(endpoint, endpoint.automaton.call("open_sender"))
            self.give_up(early, why)

    def on_turn(self, now: float) -> float | None:
        """See Core.on_turn."""
        self._remembered.end_silent(now)
        room_due, due = self._bindings.end_waits(), super().on_turn(now)
        return room_due if due is None or (room_due is not None and room_due < due) else due

    def on_lost(self, peer: Peer, why: str) -> None:
        """See Core.on_lost. The ranks of a group end together, and so do all their hand-overs."""
        self.metrics.add("lost_peers")
        for life in self._remembered.lose(peer.name, peer.incarnation, self._now):
            self._on_peer_lost(self.lives[life], None, f"lost connection to {peer.name}: {why}")
        if peer.ended:  # a silent sink may still run, and use the memory for another life
            self.on_ended(peer)

    def on_ended(self, peer: Peer) -> None:
        """See Core.on_ended."""
        self._remembered.end(peer.incarnation)
        self._writes.cannot_land(peer.name, peer.incarnation, NEVER)

    def on_floor(self, peer: Peer, floor: int) -> None:
        """See Node.on_floor."""
        self._writes.cannot_land(peer.name, peer.incarnation, floor)
        for life in self._remembered.raise_floor(peer.name, peer.incarnation, floor):
            self._on_peer_lost(self.lives[life], peer.name, f"{peer.name} has given it up")

    def _on_peer_lost(self, endpoint: Endpoint, sink: str | None, why: str) -> None:
        """Give a life the event that this sink, or every sink (None), is done with it. If the life
        has no sender, a request that comes later ends, too (`end_with_life`).
        """
        owner, sinks = endpoint.owner, endpoint.peers
        over = [(index, 0, 0) for index, name in enumerate(sinks) if sink in (None, name)]
        if not over:
            return  # it is of other ranks of the group
        owner.blame = owner.blame or why
        if owner.stage is Sending.UNKNOWN:
            self._bindings.hear(self.life(endpoint), sinks[over[0][0]], Abort)
        self.take(endpoint, endpoint.automaton.noted_message(ends.sink_over, *over))

    # In the loop: effects of steps

    def besides(self, automaton: Automaton, state: int) -> Sequence[tuple[Reaction, Indices]]:
        """See Node.besides."""
        if automaton.may_fire(state, "post"):
            return ((self._writes.want_room, ()),)
        if automaton.first_value(self.side.polls, state) is KVPoll.WAITING_FOR_INPUT:
            return ((self._on_bootstrapped, ()),)
        return ()

    def _on_bootstrapped(self, endpoint: Endpoint, _: Indices) -> None:
        """Every sink has published its pages. A repeated message comes here again."""
        if endpoint.owner.status is KVPoll.BOOTSTRAPPING:
            self.draw(BOOTSTRAP, endpoint)

    def wants_room(self) -> bool:
        """See Node.wants_room."""
        return self._writes.may_post

    def on_room(self) -> None:
        """See Node.on_room."""
        self._unbind()
        self._writes.post_in_turn()

    def on_device(self) -> None:
        """See Node.on_device."""
        self._writes.collect(self._now)

    def _release(self, endpoint: Endpoint, _: Indices) -> None:
        sender: Sender = endpoint.owner
        sender.tell_released()
        self._remembered.settle(endpoint.life)

    def on_failed(self, endpoint: Endpoint, before: State) -> None:
        """See Node.on_failed."""
        sender: Sender = endpoint.owner
        self.metrics.add("skipped_chunks", sum(
            len(sender.chunks) - sender.lane(sink).posted for sink in range(len(endpoint.peers))))
        self._bindings.leave(sender)
        if endpoint.life is None or before is Sending.UNKNOWN:
            until = self._now + self._timers.seconds["bootstrap_timeout"]
            self._alone.append((until, sender))
        self._remembered.settle(endpoint.life)

    def open_ends(self) -> Iterable[Sender]:
        """See Node.open_ends."""
        return [sender for sender in (*handles_of(self.lives), *self._unbound)
                if sender.stage is not Sending.UNKNOWN]

    def remembered(self) -> int:
        """See Node.remembered. Those of silent sinks have a gauge of their own."""
        return len(self.lives) - self._remembered.silent()

    def is_awaited(self, owner: Sender) -> bool:
        """See Node.is_awaited."""
        return self._remembered.awaits(owner.endpoint.life)

    def _unbind(self) -> None:
        """Drop senders that failed before a sink introduced itself, when none can still do so.

        Until then, a sink that introduces itself for the room is told of the failure at once.
        """
        while self._alone and self._alone[0][0] < self._now:
            _, sender = self._alone.popleft()
            self._unbound.drop(sender)
            self._early.drop(sender)
            self._bindings.forget_sender(sender)
            if sender.endpoint.life is not None:
                self._bindings.forget_life(sender.endpoint.life)
            self.on_dropped(sender)

    def on_dropped(self, sender: Sender) -> None:
        """React to a sender that has failed, and for which no sink may come any more."""

    def on_timer(self, name: str, endpoint: Endpoint) -> None:
        """See Node.on_timer."""
        endpoint.owner.blame = self.blame(name)
