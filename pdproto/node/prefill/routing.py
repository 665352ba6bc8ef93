"""The routing of a prefill node that is one of several data-parallel ranks: a room runs where
decode looks for it.

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
from typing import Final, NamedTuple, Protocol, TypeAlias

from pdproto.node.core import Core
from pdproto.node.endpoints import Endpoints
from pdproto.node.handle import ENDED, log_fields
from pdproto.node.part import Part, Turn
from pdproto.node.peer import Peer
from pdproto.node.prefill.binding import Binding
from pdproto.node.prefill.sender import Sender
from pdproto.node.prefill.senders import Senders
from pdproto.node.rooms import PrefillRooms, RoomLife, RoomStep
from pdproto.node.timers import Waits
from pdproto.runtime import checked
from pdproto.runtime.cells import Key
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import EARLY_LIVES_MAX
from pdproto.runtime.store import AnyMessage
from pdproto.runtime.wire import AnyFrame, Disown, Life, Meet, Met, Refuse
from pdproto.spec.handoff import routing
from pdproto.spec.handoff.dp_rank import SENDER
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
    """A room at this rank, from the first that is heard of it. reason, transient: why it has failed
    (see Handle).

    unanswered: the decode ranks that have come for it and have no answer, with their lives of it.
    """

    life: RoomLife
    endpoint: Endpoint
    reason: str = ""
    transient: bool = False
    unanswered: list[tuple[str, Life]] = field(default_factory=list)


Teller: TypeAlias = Callable[[Placed, Key], None]


class DataParallelRank(NamedTuple):
    """One of several data-parallel ranks. rooms: those at this rank. desk: its way to the registry.
    """

    rooms: PrefillRooms
    desk: PrefillDesk


class PrefillRouting:
    """See the rules above. dp: the rank of this node."""

    def __init__(
        self, core: Core, endpoints: Endpoints, senders: Senders, binding: Binding,
        waits: Mapping[str, float] | None, dp: DataParallelRank,
    ) -> None:
        rooms, desk = dp
        self._core: Final = core
        self._endpoints: Final = endpoints
        self._senders: Final = senders
        self._binding: Final = binding
        self._rooms: Final = rooms
        self._desk: Final = desk
        self._waits: Final[Waits[RoomLife]] = Waits(
            waits, core.connections.suspicions.of_any)
        self._placed: Final[dict[Endpoint, Placed]] = {}
        self._of_life: Final[dict[RoomLife, Placed]] = {}
        self._numbered = 0
        writers: dict[AnyMessage, Teller] = {
            routing.publish: lambda placed, _: self._publish(placed),
            routing.retire: lambda placed, _: desk.retire(placed.life[0], rooms.rank),
            routing.met: lambda placed, _: self._answer(
                placed, lambda life: Met(life, rooms.rank)),
            routing.refuse: lambda placed, _: self._answer(
                placed, lambda life: Refuse(life, rooms.rank, checked.reason(placed.reason),
                                            placed.transient)),
            routing.disown: self._locate,
        }
        # The router's prompts are senders that are put here.
        self.part: Final = Part(
            "routing", runs=SENDER, writers=writers, timers={"no_decode": self._end_waits},
            frames={Meet: self._hear_meet, Disown: self._hear_disown},
            calls={"end_room": self._end}, implied=(routing.prompt, routing.prompt_named),
            failed=self._end, forgotten=self._drop, turns={Turn.ROOMS: self._end_waits},
            due=self._waits.next)
        binding.on_ended_early, binding.on_dropped = self._end_early, self._drop_alone

    def put(self, sender: Sender, named: int | None) -> None:
        """The router has put a room here. named: the rank that its request names."""
        placed = self._placed_at(sender.endpoint)
        try:
            self._follow(placed, self._rooms.put(placed.life, named))
        except RemoteProtocolError as error:
            self._senders.give_up(sender, f"room {sender.room}: {error}")
        if sender.poll() in ENDED:  # decode has given it up before it came here
            self._follow(placed, self._rooms.end(placed.life))

    # Messages and waits

    def _hear_meet(self, peer: Peer, frame: Meet) -> None:
        self._check(frame.rank)
        endpoint = self._binding.endpoint_of(peer, frame.life)
        if endpoint is not None:
            placed = self._placed_at(endpoint)
            placed.unanswered.append((peer.name, frame.life))
            self._follow(placed, self._rooms.meet(placed.life))

    def _hear_disown(self, peer: Peer, frame: Disown) -> None:
        """Another rank has failed a room that decode comes here for, or has come for."""
        self._check(frame.rank)
        sender = self._binding.disown(frame.life)
        if sender is None:
            if len(self._placed) >= EARLY_LIVES_MAX:
                raise RemoteProtocolError(f"{EARLY_LIVES_MAX:,} rooms are known here already")
            sender = self._binding.open_failed(frame.life)
        placed = self._placed_at(sender.endpoint)
        placed.reason = peer.says(frame.reason)
        self._follow(placed, self._rooms.disown(placed.life, frame.by))

    def _check(self, rank: int) -> None:
        if rank != self._rooms.rank:
            raise RemoteProtocolError(f"it is for data-parallel rank {rank}, and this node is of "
                                      f"rank {self._rooms.rank}")

    def _end_waits(self, now: float) -> None:
        for timer, life in self._waits.due(now):
            placed = self._of_life[life]
            placed.reason, placed.transient = self._endpoints.blame(timer), True
            self._follow(placed, self._rooms.stop_waiting(life))

    # Of a hand-over

    def _end(self, endpoint: Endpoint, _before: State) -> None:
        """The hand-over has failed."""
        placed = self._placed.get(endpoint)
        if placed is not None:
            owner = endpoint.owner
            placed.reason, placed.transient = owner.reason, owner.transient
            self._follow(placed, self._rooms.end(placed.life))

    def _end_early(self, endpoint: Endpoint, sender: Sender) -> None:
        """The request of this endpoint is that of a sender that has ended before."""
        early = self._placed.get(endpoint)
        if early is not None:
            placed = self._placed_at(sender.endpoint)
            placed.unanswered += early.unanswered
            early.unanswered = []
            self._drop(endpoint)
            self._follow(placed, self._rooms.meet(placed.life))

    def _drop_alone(self, sender: Sender) -> None:
        """No sink may come any more for a sender that has failed."""
        if sender.endpoint.life is not None:
            return  # decode has come since, and may send messages about it
        if sender.stage is Sending.UNKNOWN:
            self._endpoints.stages.unregister(sender)
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
        if outcome.failure:
            placed.reason, placed.transient = outcome.failure, False
        if (routing.runs, Runs.FAILED) in [(symbol, value) for symbol, _, value in outcome.changed]:
            self._senders.give_up(placed.endpoint.owner, placed.reason,
                                  transient=placed.transient)
        self._tell(placed, outcome)
        self._waits.follow(placed.life, self._rooms.armed(placed.life), self._core.now)

    def _tell(self, placed: Placed, outcome: RoomStep) -> None:
        for message, arguments in outcome.sent:
            self.part.writers[message](placed, arguments)

    def _drop(self, endpoint: Endpoint) -> None:
        """Forget a room about which no peer sends a message any more."""
        placed = self._placed.pop(endpoint, None)
        if placed is not None:
            del self._of_life[placed.life]
            self._tell(placed, self._rooms.end(placed.life))
            self._waits.follow(placed.life, (), self._core.now)
            self._rooms.forget(placed.life)

    def _answer(self, placed: Placed, frame: Callable[[Life], AnyFrame]) -> None:
        for name, life in placed.unanswered:
            peer = self._core.living(name)
            if peer is not None:
                self._core.say(peer, frame(life))
        placed.unanswered.clear()

    def _publish(self, placed: Placed) -> None:
        sender = placed.endpoint.owner
        self._desk.publish(placed.life[0], self._rooms.rank, sender.abort)

    def _locate(self, placed: Placed, arguments: Key) -> None:
        _, (room, _), rank = arguments
        # A life of this node's own: decode's life of the room is not known here.
        life = Life(room, self._core.incarnation, 0, prompt=placed.endpoint.owner.prompt)
        self._desk.locate(int(rank), partial(self._ask_to_disown, life, int(rank), placed.reason))

    def _ask_to_disown(self, life: Life, rank: int, reason: str, name: str, endpoint: str) -> None:
        self._core.ask(lambda: self._disown(life, rank, reason, name, endpoint))

    def _disown(self, life: Life, rank: int, reason: str, name: str, endpoint: str) -> None:
        """Tell the rank where decode looks for a room that it has failed here."""
        try:
            peer = self._core.connect(name, endpoint)
        except RemoteProtocolError as error:
            log.warning("node %s: %s cannot be told that room %d has failed: %s", self._core.name,
                        name, life.room, error,
                        extra=log_fields(self._core.name, None, life.room))
            return
        self._core.say(peer, Disown(
            life, self._rooms.rank, rank, checked.reason(reason), peer.ours))
