"""A decode node that finds the data-parallel rank of a room, and meets it there.

Rule 1: the rows of RECEIVER (spec/handoff/dp_rank.py, run by rooms.py) decide on which rank decode
        looks for a room, whether it asks the registry, and when it gives up. Here messages become
        frames and requests to the registry, and changes become calls of the hand-over.
Rule 2: the rows of HOST (spec/handoff/end_to_end_routing.py) tie a room to its hand-over: a
        receiver has sources as soon as the rank is known, and ends when decode is turned away.
Rule 3: a look-up that fails, fails its hand-over, for its reason.
Rule 4: a server of one data-parallel rank is asked for nothing: its nodes run no such table.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from pdproto.node.decode import Decode
from pdproto.node.peer import Peer
from pdproto.node.receiver import Addressed, Receiver
from pdproto.node.rooms import DecodeRooms, PrefillServer, RoomLife, RoomStep
from pdproto.node.waits import Waits
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.store import AnyMessage
from pdproto.runtime.wire import AnyFrame, Life, Meet, Met, Refuse
from pdproto.spec.handoff import routing
from pdproto.spec.handoff.routing import Phase
from pdproto.spec.language.formula import Value
from pdproto.spec.language.symbols import Symbol

OF_RANKS: Final = Met, Refuse  # the frames of ranks that are asked whether a room runs there


class DecodeDesk(Protocol):
    """The port between a decode node and the registries of prefill servers.

    All calls return at once; the functions given are called from any thread.
    """

    def look_up(
        self, server: str, room: int, lost: Sequence[str], found: Callable[[PrefillServer], None],
        failed: Callable[[str], None],
    ) -> None:
        """Find a server by the address of its registry, for a room. lost: the names of peers that
        are gone, so that an answer from before is not used for them.
        """

    def query(self, server: str, room: int, answered: Callable[[int | None], None]) -> None:
        """Ask which data-parallel rank runs a room, until there is an answer; None: it is over."""

    def withdraw(self, server: str, room: int) -> None:
        """Ask no more."""


@dataclass(slots=True, eq=False)
class Sought:
    """A room that this node looks for. rooms: its table; None until the server has been looked up.

    sources: by data-parallel rank, where the receiver has none yet. pages, slot: to be published.
    """

    receiver: Receiver
    server: str
    rooms: DecodeRooms | None = None
    sources: Mapping[int, Mapping[str, str]] | None = None
    pages: Sequence[int] = ()
    slot: int | None = None
    reason: str = ""

    @property
    def life(self) -> RoomLife:
        return self.receiver.life.room, self.receiver.life.generation


Reaction: TypeAlias = Callable[[Sought, DecodeRooms], None]


class RoutedDecode(Decode):
    """See the rules above. desk: the way to registries, for `seek`. rooms: how the table of a
    server is made, from its number of data-parallel ranks.
    """

    def __init__(
        self, *arguments: Any, desk: DecodeDesk | None = None,
        rooms: Callable[..., DecodeRooms] = DecodeRooms, **options: Any,
    ) -> None:
        super().__init__(*arguments, **options)
        self._desk: Final = desk
        self._make: Final = rooms
        self._rooms: Final[dict[tuple[str, int, bool], DecodeRooms]] = {}
        self._room_waits: Final[Waits[Life]] = Waits(options.get("waits"))
        self._sought: Final[dict[Life, Sought]] = {}
        self._changes: Final[Mapping[tuple[Symbol, Value], Reaction]] = {
            (routing.target, True): self._aim,
            (routing.phase, Phase.FAILED): lambda sought, _: self.give_up(
                sought.receiver, sought.reason),
        }
        self._tellers: Final[Mapping[AnyMessage, Reaction]] = {
            routing.meet: self._meet,
            routing.query: self._query,
            routing.withdraw: lambda sought, _: self._known_desk.withdraw(
                sought.server, sought.receiver.room),
        }

    def _rooms_of(self, server: str, ranks: int, *, follows_rule: bool) -> DecodeRooms:
        """The rooms that are looked for on this server. For any thread: to make them takes 10 ms,
        too long for a turn of the loop, so the thread that brings the first request makes them.
        """
        key = server, ranks, follows_rule
        known = self._rooms.get(key)
        if known is None:
            known = self._rooms.setdefault(key, self._make(ranks, follows_rule=follows_rule))
        return known

    def open(self, *arguments: Any, addressed: Addressed | None = None, **options: Any) -> Receiver:
        """See Decode.open."""
        if addressed is not None and addressed.ranks > 1:
            self._rooms_of(addressed.server, addressed.ranks, follows_rule=True)
        return super().open(*arguments, addressed=addressed, **options)

    def seek(
        self, room: int, server: str, *, pages: Sequence[int], slot: int | None = None,
        named: int | None = None, on_released: Callable[[], None] | None = None,
        watcher: Callable[[Receiver], None] | None = None, use: int | None = None,
    ) -> Receiver:
        """See DecodeNode.seek. One thread at a time."""
        if self._desk is None:
            raise LocalProtocolError(f"node {self.name} has no desk: it cannot ask a registry")
        receiver = self.new(room, (), (self.name,), None, use)
        receiver.watch(on_released, watcher)
        receiver.require_once(pages, server)
        self._generations.use(receiver.life.generation)
        sought = Sought(receiver, server, pages=self.mark(pages), slot=slot)
        self.ask(lambda: self._seek(sought, named))
        return receiver

    @property
    def _known_desk(self) -> DecodeDesk:
        assert self._desk is not None  # noqa: S101 - `seek` has refused to go on without
        return self._desk

    # In the loop

    def _seek(self, sought: Sought, named: int | None) -> None:
        """Begin a receiver without sources. If it fails, no peer must be told."""
        receiver = sought.receiver
        self.enlist(receiver)
        self._sought[receiver.life] = sought
        self.take(receiver.endpoint, receiver.endpoint.automaton.call("open_receiver"))
        self._known_desk.look_up(
            sought.server, receiver.room, self.connections.lost(),
            partial(self._hear_of, sought, named),
            lambda reason: self.ask(partial(self._unless_over, sought, self.give_up, receiver,
                                            f"prefill server {sought.server}: {reason}")))

    def _hear_of(self, sought: Sought, named: int | None, server: PrefillServer) -> None:
        """In the thread of the desk: the registry has answered."""
        if server.ranks > 1:
            self._rooms_of(sought.server, server.ranks, follows_rule=server.follows_rule)
        self.ask(lambda: self._found(sought, server, named))

    def _unless_over(self, sought: Sought, act: Callable[..., None], *arguments: Any) -> None:
        """Call `act` if the hand-over has not ended meanwhile."""
        if self._sought.get(sought.receiver.life) is sought:
            act(*arguments)

    def _found(self, sought: Sought, server: PrefillServer, named: int | None) -> None:
        if self._sought.get(sought.receiver.life) is not sought:
            return
        sought.sources = server.sources
        if server.ranks == 1:
            self._place(sought, 0)
        else:
            self._want(sought, server.ranks, server.follows_rule, named)

    def _begin(self, receiver: Receiver, sources: Mapping[str, str], *, placed: bool) -> None:
        """If the application has found the rank by itself, the table looks there, as if the request
        had named it.
        """
        super()._begin(receiver, sources, placed=placed)
        addressed = receiver.addressed
        if addressed is not None and addressed.ranks > 1 and receiver.life in self.lives:
            sought = self._sought[receiver.life] = Sought(receiver, addressed.server)
            self._want(sought, addressed.ranks, True, addressed.rank)

    def _want(self, sought: Sought, ranks: int, follows_rule: bool, named: int | None) -> None:
        rooms = sought.rooms = self._rooms_of(sought.server, ranks, follows_rule=follows_rule)
        try:
            self._follow(sought, rooms, rooms.want(sought.life, named))
        except RemoteProtocolError as error:
            self.give_up(sought.receiver, f"prefill server {sought.server}: {error}")

    def on_frame(self, peer: Peer, frame: AnyFrame) -> None:
        if not isinstance(frame, OF_RANKS):
            super().on_frame(peer, frame)
            return
        sought = self._sought.get(frame.life)
        if sought is None or sought.rooms is None:
            self.metrics.add("stale_frames")
            return
        if peer.name not in sought.receiver.endpoint.peers:
            raise RemoteProtocolError(f"{peer.name} is no source of it")
        if isinstance(frame, Refuse):
            sought.reason = f"{peer.name}: {frame.reason}"
        self._follow(sought, sought.rooms,
                     sought.rooms.hear(frame.message, frame.rank, sought.life))

    def on_turn(self, now: float) -> float | None:
        for timer, life in self._room_waits.due(now):
            sought = self._sought[life]
            assert sought.rooms is not None  # noqa: S101 - its table has a wait
            sought.reason = self.blame(timer)
            self._follow(sought, sought.rooms, sought.rooms.give_up(sought.life))
        due, room_due = super().on_turn(now), self._room_waits.next()
        return room_due if due is None or (room_due is not None and room_due < due) else due

    def forget(self, endpoint: Endpoint) -> None:
        super().forget(endpoint)
        sought = self._sought.pop(self.life(endpoint), None)
        if sought is not None and sought.rooms is not None:
            rooms = sought.rooms
            self._tell(sought, rooms, rooms.end(sought.life))
            self._room_waits.follow(sought.receiver.life, (), self._now)
            rooms.forget(sought.life)

    # Of a room

    def _follow(self, sought: Sought, rooms: DecodeRooms, outcome: RoomStep) -> None:
        """Carry out the effects of an event of a room."""
        for symbol, _, value in outcome.changed:
            reaction = self._changes.get((symbol, value))
            if reaction is not None:
                reaction(sought, rooms)
        self._tell(sought, rooms, outcome)
        life = sought.receiver.life
        if life in self._sought:
            self._room_waits.follow(life, rooms.armed(sought.life), self._now)

    def _tell(self, sought: Sought, rooms: DecodeRooms, outcome: RoomStep) -> None:
        for message, _ in outcome.sent:
            self._tellers[message](sought, rooms)

    def _aim(self, sought: Sought, rooms: DecodeRooms) -> None:
        rank = rooms.rank_of(sought.life)
        if rank is not None and sought.sources is not None:
            self._place(sought, rank)

    def _place(self, sought: Sought, rank: int) -> None:
        """Open the hand-over with the ranks that run the room."""
        receiver, sources = sought.receiver, (sought.sources or {}).get(rank)
        if not sources:
            self.give_up(receiver, f"prefill server {sought.server}: its registry does not name "
                                   f"data-parallel rank {rank}, which drains or does not exist")
            return
        self._timers.follow(receiver.endpoint, (), self._now)
        receiver.aim(tuple(sources))
        receiver.hold(sought.pages, sought.slot)
        self.lives[receiver.life] = receiver.endpoint
        self.introduce(receiver, sources, placed=True)

    def _meet(self, sought: Sought, rooms: DecodeRooms) -> None:
        rank, receiver = rooms.rank_of(sought.life), sought.receiver
        for name in receiver.endpoint.peers:
            peer = self.peers.get(name)
            if peer is not None and not peer.lost and rank is not None:
                self.say(peer, Meet(receiver.life, rank, peer.ours))

    def _query(self, sought: Sought, rooms: DecodeRooms) -> None:
        self._known_desk.query(
            sought.server, sought.receiver.room,
            lambda rank: self.ask(partial(self._unless_over, sought, self._answered, sought, rooms,
                                          rank)))

    def _answered(self, sought: Sought, rooms: DecodeRooms, rank: int | None) -> None:
        sought.reason = f"room {sought.receiver.room}: the rank that ran it has given it up"
        message, about = (routing.gone, ()) if rank is None else (routing.answer, (rank,))
        self._follow(sought, rooms, rooms.hear(message, sought.life, *about))
