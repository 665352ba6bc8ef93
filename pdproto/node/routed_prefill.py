"""A prefill node that is one of several data-parallel ranks: a room runs where decode looks for it.

Rule 1: the rows of SENDER (spec/handoff/dp_rank.py, run by rooms.py) decide whether a room runs
        here, and which messages the registry, other ranks and decode get. Here messages become
        frames and requests to the registry, and changes become calls of the hand-over.
Rule 2: the rows of HOST (spec/handoff/end_to_end_routing.py) tie a room to its hand-over: a room
        that has failed here ends its sender, and a sender that has ended ends the wait for decode.
Rule 3: each rank of decode that has come gets an answer of its own.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from pdproto.node.handle import ENDED
from pdproto.node.peer import Peer
from pdproto.node.prefill import Prefill
from pdproto.node.rooms import PrefillRooms, RoomLife, RoomStep
from pdproto.node.sender import Sender
from pdproto.node.waits import Waits
from pdproto.runtime.cells import Key
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import EARLY_LIVES_MAX, REASON_MAX
from pdproto.runtime.store import AnyMessage
from pdproto.runtime.wire import AnyFrame, Disown, Life, Meet, Met, Refuse
from pdproto.spec.handoff import routing
from pdproto.spec.handoff.ends import Sending
from pdproto.spec.handoff.routing import Runs
from pdproto.spec.language.symbols import State

log = logging.getLogger("pdproto.node")



class PrefillDesk(Protocol):
    """The port between a prefill node and the registry. All calls return at once."""

    def publish(self, room: int, rank: int, refused: Callable[[str], None]) -> None:
        """List a room. refused: called from any thread if the registry does not, with the reason.
        """

    def retire(self, room: int, rank: int) -> None:
        """Strike a room out."""

    def locate(self, rank: int, found: Callable[[str, str], None]) -> None:
        """Find the node in the place of this one in another data-parallel rank. found: called from
        any thread with its name and its endpoint.
        """


@dataclass(slots=True, eq=False)
class Placed:
    """A room at this rank, from the first that is heard of it. reason: why it has failed.

    unanswered: the decode ranks that have come for it and have no answer, with their lives of it.
    """

    life: RoomLife
    endpoint: Endpoint
    reason: str = ""
    unanswered: list[tuple[str, Life]] = field(default_factory=list)


Teller: TypeAlias = Callable[[Placed, Key], None]


class DataParallelRank(NamedTuple):
    """One of several data-parallel ranks. rooms: those at this rank. desk: its way to the registry.
    """

    rooms: PrefillRooms
    desk: PrefillDesk


class RoutedPrefill(Prefill):
    """See the rules above. dp: which rank this node is of."""

    def __init__(self, *arguments: Any, dp: DataParallelRank, **options: Any) -> None:
        super().__init__(*arguments, **options)
        rooms, desk = dp
        self._rooms: Final = rooms
        self._desk: Final = desk
        self._room_waits: Final[Waits[RoomLife]] = Waits(options.get("waits"))
        self._placed: Final[dict[Endpoint, Placed]] = {}
        self._of_life: Final[dict[RoomLife, Placed]] = {}
        self._numbered = 0
        self._tellers: Final[Mapping[AnyMessage, Teller]] = {
            routing.publish: lambda placed, _: self._publish(placed),
            routing.retire: lambda placed, _: desk.retire(placed.life[0], rooms.rank),
            routing.met: lambda placed, _: self._answer(
                placed, lambda life: Met(life, rooms.rank)),
            routing.refuse: lambda placed, _: self._answer(
                placed, lambda life: Refuse(life, rooms.rank, placed.reason[:REASON_MAX])),
            routing.disown: self._locate,
        }

    # In the loop

    def _put(self, sender: Sender, named: int | None) -> None:
        super()._put(sender, named)
        placed = self._placed_at(sender.endpoint)
        try:
            self._follow(placed, self._rooms.put(placed.life, named))
        except RemoteProtocolError as error:
            self.give_up(sender, f"room {sender.room}: {error}")
        if sender.poll() in ENDED:  # decode has given it up before it came here
            self._follow(placed, self._rooms.end(placed.life))

    def on_frame(self, peer: Peer, frame: AnyFrame) -> None:
        if isinstance(frame, Meet):
            self._hear_meet(peer, frame)
        elif isinstance(frame, Disown):
            self._hear_disown(peer, frame)
        else:
            super().on_frame(peer, frame)

    def _hear_meet(self, peer: Peer, frame: Meet) -> None:
        self._check(frame.rank)
        endpoint = self.endpoint_of(peer, frame.life)
        if endpoint is not None:
            placed = self._placed_at(endpoint)
            placed.unanswered.append((peer.name, frame.life))
            self._follow(placed, self._rooms.meet(placed.life))

    def _hear_disown(self, peer: Peer, frame: Disown) -> None:
        """Another rank has failed a room that decode comes here for, or has come for."""
        self._check(frame.rank)
        room = frame.life.room
        sender = self._early.take(room)
        if sender is not None and sender.endpoint.life is not None:
            self._bindings.forget_life(sender.endpoint.life)
        if sender is None:
            if len(self._placed) >= EARLY_LIVES_MAX:
                raise RemoteProtocolError(f"{EARLY_LIVES_MAX:,} rooms are known here already")
            sender = Sender(self, room)
            self._unbound.add(sender)
            self.stages.register(sender)
            self._bindings.open(sender)
            self._alone.append((self._now + self._timers.seconds["bootstrap_timeout"], sender))
        placed = self._placed_at(sender.endpoint)
        placed.reason = f"{peer.name}: {frame.reason}"
        self._follow(placed, self._rooms.disown(placed.life, frame.by))

    def _check(self, rank: int) -> None:
        if rank != self._rooms.rank:
            raise RemoteProtocolError(f"it is for data-parallel rank {rank}, and this node is of "
                                      f"rank {self._rooms.rank}")

    def on_turn(self, now: float) -> float | None:
        for timer, life in self._room_waits.due(now):
            placed = self._of_life[life]
            placed.reason = self.blame(timer)
            self._follow(placed, self._rooms.stop_waiting(life))
        dues = (super().on_turn(now), self._room_waits.next())
        return min((due for due in dues if due is not None), default=None)

    def on_failed(self, endpoint: Endpoint, before: State) -> None:
        super().on_failed(endpoint, before)
        placed = self._placed.get(endpoint)
        if placed is not None:
            placed.reason = endpoint.owner.reason
            self._follow(placed, self._rooms.end(placed.life))

    def on_ended_early(self, endpoint: Endpoint, sender: Sender) -> None:
        early = self._placed.get(endpoint)
        if early is not None:
            placed = self._placed_at(sender.endpoint)
            placed.unanswered += early.unanswered
            early.unanswered = []
            self._drop(endpoint)
            self._follow(placed, self._rooms.meet(placed.life))

    def forget(self, endpoint: Endpoint) -> None:
        super().forget(endpoint)
        self._drop(endpoint)

    def on_dropped(self, sender: Sender) -> None:
        if sender.endpoint.life is not None:
            return  # decode has come meanwhile, and may send messages about it
        if sender.stage is Sending.UNKNOWN:
            self.stages.unregister(sender)
        self._drop(sender.endpoint)

    # Of a room

    def _placed_at(self, endpoint: Endpoint) -> Placed:
        placed = self._placed.get(endpoint)
        if placed is None:
            self._numbered += 1
            placed = Placed((endpoint.owner.room, self._numbered), endpoint)
            self._placed[endpoint] = self._of_life[placed.life] = placed
        return placed

    def _follow(self, placed: Placed, outcome: RoomStep) -> None:
        """Carry out the effects of an event of a room."""
        placed.reason = outcome.failure or placed.reason
        if (routing.runs, Runs.FAILED) in [(symbol, value) for symbol, _, value in outcome.changed]:
            self.give_up(placed.endpoint.owner, placed.reason)
        self._tell(placed, outcome)
        self._room_waits.follow(placed.life, self._rooms.armed(placed.life), self._now)

    def _tell(self, placed: Placed, outcome: RoomStep) -> None:
        for message, arguments in outcome.sent:
            self._tellers[message](placed, arguments)

    def _drop(self, endpoint: Endpoint) -> None:
        """Forget a room about which no peer sends a message any more."""
        placed = self._placed.pop(endpoint, None)
        if placed is not None:
            del self._of_life[placed.life]
            self._tell(placed, self._rooms.end(placed.life))
            self._room_waits.follow(placed.life, (), self._now)
            self._rooms.forget(placed.life)

    def _answer(self, placed: Placed, frame: Callable[[Life], AnyFrame]) -> None:
        for name, life in placed.unanswered:
            peer = self.peers.get(name)
            if peer is not None and not peer.lost:
                self.say(peer, frame(life))
        placed.unanswered.clear()

    def _publish(self, placed: Placed) -> None:
        sender = placed.endpoint.owner
        self._desk.publish(placed.life[0], self._rooms.rank, sender.abort)

    def _locate(self, placed: Placed, arguments: Key) -> None:
        _, (room, _), rank = arguments
        self._desk.locate(int(rank), partial(self._ask_to_disown, room, int(rank), placed.reason))

    def _ask_to_disown(self, room: int, rank: int, reason: str, name: str, endpoint: str) -> None:
        self.ask(lambda: self._disown(room, rank, reason, name, endpoint))

    def _disown(self, room: int, rank: int, reason: str, name: str, endpoint: str) -> None:
        """Tell the rank where decode looks for a room that it has failed here."""
        try:
            peer = self.connect(name, endpoint)
        except RemoteProtocolError as error:
            log.warning("node %s: %s cannot be told that room %d has failed: %s", self.name, name,
                        room, error, extra=self.fields(None, room))
            return
        # A life of this node's own: decode's life of the room is not known here.
        life = Life(room, self.incarnation, 0)
        self.say(peer, Disown(life, self._rooms.rank, rank, reason[:REASON_MAX], peer.ours))
