"""A prefill rank's node: it opens senders, and writes their pages where sinks want them.

Rule 1: the table of the source decides (spec/handoff/source.py). Here its events are made, and what
        its steps ask for is done.
Rule 2: a sender belongs to a room, and is bound to the first life of that room that introduces
        itself and has no sender yet. A life that comes before its sender waits for it.
Rule 3: a life that has ended is remembered until all its sinks say that nothing more will come.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from pdproto.ground.layout import Indices
from pdproto.node.data_path import Outcome, SourceDataPath
from pdproto.node.fit import misfit
from pdproto.node.handle import handles_of, room_number
from pdproto.node.in_doubt import InDoubtAtSink, InDoubtWrites
from pdproto.node.link import Link
from pdproto.node.memory import NEVER, Memory
from pdproto.node.node import Node, Reaction
from pdproto.node.peer import Peer
from pdproto.node.sender import ByRoom, Sender, Written, gave_up, refusal
from pdproto.node.sides import PREFILL
from pdproto.node.uses import Uses
from pdproto.runtime.automaton import Automaton
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.role import SOURCE_ROLE, SourceRole
from pdproto.runtime.trace import Trace
from pdproto.runtime.wire import (
    REASON_MAX,
    Abort,
    AbortAck,
    AnyFrame,
    Batch,
    Disown,
    Drained,
    Expecting,
    Failed,
    Introduce,
    Layout,
    Life,
    Publish,
)
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Sending, Write
from pdproto.spec.handoff.roles import Chunk
from pdproto.spec.language.symbols import State

log = logging.getLogger("pdproto.node")

EARLY_MAX: Final = 1 << 17  # lives whose request has not come; a sink introduces itself again
OF_SINKS: Final = Introduce, Publish, Abort  # the frames that a source takes


class Prefill(Node):
    """See the rules above. data_path: how bytes move. waits: seconds by name of timer.

    refuses: asked in the loop about a room that a sink comes for and that nobody has opened: why
    nobody will, or None if somebody may. A sink that is refused fails at once, for that reason.
    role: the tables to run, if not those of the hand-over.
    """

    def __init__(
        self,
        name: str,
        data_path: SourceDataPath,
        *,
        link: Link,
        incarnation: int,
        waits: Mapping[str, float] | None = None,
        trace: Trace | None = None,
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
        self._early: Final = ByRoom()
        self._alone: Final[deque[tuple[float, Sender]]] = deque()
        self._posting: Final[deque[Endpoint]] = deque()
        self._queued: Final[set[int]] = set()
        self._writes: Final[dict[int, Written]] = {}
        self._in_doubt: Final = InDoubtWrites()
        self._number = 0
        self._memory: Final = Memory(self.lives, self.forget)
        self.metrics.gauge("num_prefill_writes", "Writes that have been posted and not ended",
                           lambda: len(self._writes))
        self.metrics.gauge("num_prefill_in_doubt_writes", "Writes that the engine has given up on, "
                           "and that may still land", self._in_doubt.count)
        self.metrics.gauge("prefill_in_doubt_seconds", "For how long the first of them has been so",
                           lambda: self._in_doubt.longest_s(self.clock()))
        self.writers.update({
            ends.expecting: lambda e, _: Expecting(self.life(e)),
            ends.done: lambda e, _: e.owner.done(self.life(e)),
            ends.failed: lambda e, _: Failed(self.life(e), self.why(e)),
            ends.abort_ack: lambda e, _: AbortAck(self.life(e)),
            ends.drained: lambda e, _: Drained(self.life(e)),
        })
        self.reactions.update({
            (ends.write, Write.POSTED): self._post,
            (ends.kv, False): self._release,
        })

    # For the application

    def open(
        self, room: int, on_released: Callable[[], None] | None = None,
        watcher: Callable[[Sender], None] | None = None,
    ) -> Sender:
        """A sender for a room; see PrefillNode.open. For any thread."""
        sender = Sender(self, room_number(room))
        sender.watch(on_released, watcher)
        self.ask(lambda: self._open(sender))
        return sender

    def disown(self, room: int, reason: str, name: str, endpoint: str) -> None:
        """In the loop: tell another prefill rank that this room has failed here."""
        peer = self.connect(name, endpoint)
        # A life of this node's own: decode's life of the room is not known here.
        life = Life(room, self.incarnation, 0)
        self.say(peer, Disown(life, reason[:REASON_MAX], peer.ours))

    def in_doubt(self) -> tuple[InDoubtAtSink, ...]:
        """See PrefillNode.in doubt. For any thread."""
        return self._in_doubt.all()

    # In the loop: what the application asks

    def _open(self, sender: Sender) -> None:
        self.metrics.add("handoffs_opened")
        sender.use = self._uses.next(sender.room)
        early = self._early.take(sender.room)
        if early is not None:
            sender.adopt(early)
        else:
            self._unbound.add(sender)
            self.register(sender)
        self.take(sender.endpoint, sender.endpoint.automaton.call("open_sender"))
        if sender.endpoint.value(ends.kv, (0, 0)) is False:
            self._release(sender.endpoint, ())  # the sink gave up first: nothing was read of them
        elif sender.misfit:
            self.give_up(sender, sender.misfit)

    def hand_over(
        self, sender: Sender, pages: tuple[int, ...], last: bool, metadata: bytes
    ) -> None:
        """Have the table take one more chunk."""
        endpoint = sender.endpoint
        self.take(endpoint, endpoint.hand_over(last=last))
        endpoint.handed_over()
        sender.chunks.append(pages)
        sender.metadata = metadata
        sender.began = sender.began or self._now

    def give_up(self, sender: Sender, reason: str) -> None:
        sender.blame = reason
        self.take(sender.endpoint, sender.endpoint.automaton.call("abort_sender"))

    # In the loop: what sinks say

    def on_batch(self, peer: Peer, batch: Batch) -> None:
        if self._in_doubt:
            for incarnation in self._in_doubt.incarnations(peer.name) - {peer.incarnation}:
                self._cannot_land(peer.name, incarnation, NEVER)  # its successor speaks
        super().on_batch(peer, batch)

    def on_frame(self, peer: Peer, frame: AnyFrame) -> None:
        if isinstance(frame, Disown):
            # Decode is told, now or when it comes, that nobody runs the room for it.
            self.open(frame.life.room).abort(f"{peer.name}: {frame.reason}")
            return
        if not isinstance(frame, OF_SINKS):
            raise RemoteProtocolError(f"{frame.message} is no message of a sink")
        life = frame.life
        if life.incarnation != peer.incarnation:
            raise RemoteProtocolError("the life is not of its own incarnation")
        endpoint = self.lives.get(life)
        if endpoint is None:
            if self._memory.forgotten(peer.name, life):
                self.metrics.add("stale_frames")
                return
            endpoint = self._meet(life)
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

    def _compare(self, sender: Sender, sink: str, layout: Layout | None) -> None:
        """Where pages do not lie alike at both ends, the request fails as soon as it is here."""
        sender.misfit = misfit(self._data_path, self.name, sink, layout) or sender.misfit
        if sender.misfit and sender.stage is not Sending.UNKNOWN:
            self.give_up(sender, sender.misfit)

    def _meet(self, life: Life) -> Endpoint:
        """The endpoint of a new life: of a sender that waits for its room, or of none yet."""
        sender = self._unbound.take(life.room)
        if sender is None:
            if len(self._early) >= EARLY_MAX:
                raise RemoteProtocolError(f"{EARLY_MAX:,} lives wait for their request already")
            sender = Sender(self, life.room)
            self._early.add(sender)
            self.register(sender)
            why = self._refuses(life.room)
            if why is not None:
                self.open(life.room).abort(why)  # decode is told, and need not wait for a clock
        sender.endpoint.life = life
        self._memory.add(life, sender.endpoint)
        return sender.endpoint

    def on_lost(self, peer: Peer, why: str) -> None:
        """The detector. The ranks of a group end as one: so do all their hand-overs."""
        self.metrics.add("lost_peers")
        for life in self._memory.end(peer.incarnation):
            if not self._forget_early(life):
                self._on_peer_lost(self.lives[life], None, f"lost connection to {peer.name}: {why}")
        if peer.ended:  # silence is no proof: the sink may live, and lease the memory anew
            self.on_ended(peer)

    def on_ended(self, peer: Peer) -> None:
        self._cannot_land(peer.name, peer.incarnation, NEVER)

    def on_floor(self, peer: Peer, floor: int) -> None:
        self._cannot_land(peer.name, peer.incarnation, floor)
        for life in self._memory.raise_floor(peer.name, peer.incarnation, floor):
            if not (self._memory.passed(life) and self._forget_early(life)):
                self._on_peer_lost(self.lives[life], peer.name, f"{peer.name} has given it up")

    def _on_peer_lost(self, endpoint: Endpoint, sink: str | None, why: str) -> None:
        """Have a life know that this sink of it, or all of them, wait for nothing more."""
        endpoint.owner.blame = endpoint.owner.blame or why
        for index, name in enumerate(endpoint.peers):
            if sink in (None, name):
                self.take(endpoint, endpoint.automaton.marked(ends.sink_over, (index, 0, 0)))

    def _forget_early(self, life: Life) -> bool:
        """Forget a life that has no request. Returns whether it was one."""
        sender: Sender = self.lives[life].owner
        early = sender.stage is Sending.UNKNOWN
        if early:
            self._memory.drop(life)
            self.unregister(sender)
            self._early.drop(sender)
        return early

    def _cannot_land(self, name: str, incarnation: int, floor: int) -> None:
        """Writes that the engine has given up on end with a sink that is gone, or that is done with
        the life, and so has fenced us: that is when the tables' engine refuses them (engine.py).
        """
        for number in self._in_doubt.take(name, incarnation, floor):
            self._end_write(number, Write.REFUSED)

    # In the loop: what the steps ask for

    def besides(self, automaton: Automaton, state: int) -> Sequence[tuple[Reaction, Indices]]:
        return ((self._want_room, ()),) if automaton.may(state, "post") else ()

    def _want_room(self, endpoint: Endpoint, _: Indices) -> None:
        if id(endpoint) not in self._queued:
            self._queued.add(id(endpoint))
            self._posting.append(endpoint)

    def wants_room(self) -> bool:
        return bool(self._posting) and self.data_path.has_room

    def on_room(self) -> None:
        self._unbind()
        self._post_in_turn()

    def _post_in_turn(self) -> None:
        """Let writes be posted, one a hand-over in turn, while the engine has room."""
        while self._posting and self.data_path.has_room and self.pace.has_time:
            endpoint = self._posting.popleft()
            if self._post_next(endpoint):
                self._posting.append(endpoint)
            else:
                self._queued.discard(id(endpoint))

    def _post_next(self, endpoint: Endpoint) -> bool:
        """Let one chunk be posted, to the sink that has been sent least. Whether one was."""
        if not endpoint.automaton.may(endpoint.state, "post"):
            return False  # it has ended while it waited, and may be forgotten
        sender: Sender = endpoint.owner
        lanes = sorted((sender.lane(sink).posted, sink) for sink in range(len(endpoint.peers)))
        return any(
            sender.lane(sink).has_room
            and self.take(endpoint, sender.endpoint.post_to(sink)).rows for _, sink in lanes)

    def _post(self, endpoint: Endpoint, indices: Indices) -> None:
        _, _, sink, place = indices
        sender: Sender = endpoint.owner
        chunk, lane = endpoint.number(Chunk, place), sender.lane(sink)
        self._number += 1
        posted = self.data_path.post(self._number, self.life(endpoint), sender.addresses[sink],
                                 lane.offset, sender.chunks[chunk], sender.is_wanted)
        self._writes[self._number] = Written(sender.endpoint, sink, chunk, posted.bytes)
        lane.begin(posted)

    def on_device(self) -> None:
        for number, outcome, reason in self.data_path.outcomes():
            if number not in self._writes:
                continue  # the engine had given up on it, and it has been counted as refused
            if outcome is Outcome.ERROR:
                self._give_up_write(number, reason)
            elif outcome is Outcome.SKIPPED:
                self._skip(number)
            else:
                self._end_write(
                    number, Write.LANDED if outcome is Outcome.LANDED else Write.REFUSED, reason)
            if self.is_late():
                return

    def _give_up_write(self, number: int, reason: str) -> None:
        """The hand-over fails at once, and gets its pages back: only the sink's memory waits."""
        endpoint, sink, chunk, _ = self._writes[number]
        name, life = endpoint.peers[sink], self.life(endpoint)
        endpoint.owner.blame = gave_up(name, reason)
        self._in_doubt.add(name, life, number, self._now)
        self.take(endpoint, endpoint.automaton.completion("error", (sink, endpoint.place(chunk))))
        peer = self.peers.get(name)
        if peer is not None and peer.ended:
            self._cannot_land(name, life.incarnation, NEVER)
        else:
            log.warning("node %s: %s: what it has begun of %s may still land", self.name,
                        gave_up(name, reason), life, extra={**self.fields(life), "peer": name})

    def _end_write(self, number: int, value: Write, reason: str = "") -> None:
        endpoint, sink, chunk, length = self._writes.pop(number)
        sender: Sender = endpoint.owner
        sender.lane(sink).end(length)
        if self._in_doubt:
            self._in_doubt.drop(endpoint.peers[sink], self.life(endpoint), number)
        if value is Write.REFUSED:
            sender.blame = refusal(endpoint.peers[sink], reason)
            self.metrics.add("refused_writes")
        else:
            sender.landed_chunks += 1
            sender.landed_bytes += length
        in_doubt = sender.released
        place = endpoint.place(chunk)
        self.take(endpoint, endpoint.automaton.device((ends.write, (0, 0, sink, place), value)))
        endpoint.landed()
        if in_doubt:  # nothing but the end of the write has kept the life in mind
            self._memory.settle(endpoint.life)

    def _skip(self, number: int) -> None:
        """What had not begun when the hand-over failed is not moved."""
        endpoint, sink, chunk, length = self._writes.pop(number)
        endpoint.owner.lane(sink).end(length)
        self.metrics.add("skipped_chunks")
        self.take(endpoint, endpoint.automaton.completion(
            "skipped", (sink, endpoint.place(chunk))))

    def _release(self, endpoint: Endpoint, _: Indices) -> None:
        sender: Sender = endpoint.owner
        sender.tell_released()
        self._memory.settle(endpoint.life)

    def on_failed(self, endpoint: Endpoint, before: State) -> None:
        sender: Sender = endpoint.owner
        self.metrics.add("skipped_chunks", sum(
            len(sender.chunks) - sender.lane(sink).posted for sink in range(len(endpoint.peers))))
        if endpoint.life is None or before is Sending.UNKNOWN:
            until = self._now + self._timers.seconds["bootstrap_timeout"]
            self._alone.append((until, sender))
        self._memory.settle(endpoint.life)

    def open_ends(self) -> Iterable[Sender]:
        return [sender for sender in (*handles_of(self.lives), *self._unbound)
                if sender.stage is not Sending.UNKNOWN]

    def _unbind(self) -> None:
        """Drop what failed before the other side had come, when nobody can still come.

        Until then whoever comes for the room is told of the failure, and need not wait for it.
        """
        while self._alone and self._alone[0][0] < self._now:
            _, sender = self._alone.popleft()
            self._unbound.drop(sender)
            self._early.drop(sender)

    def on_timer(self, name: str, endpoint: Endpoint) -> None:
        endpoint.owner.blame = self.blame(name)
