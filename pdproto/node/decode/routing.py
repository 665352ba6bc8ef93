"""The routing of a decode node: it finds the data-parallel rank of a room, and meets it there.

Rule 1: the rows of RECEIVER (spec/handoff/dp_rank.py, run by rooms.py) decide on which rank decode
        looks for a room, whether it asks the registry, and when it gives up. Here messages become
        frames and requests to the registry, and changes become calls of the hand-over.
Rule 2: the rows of HOST (spec/handoff/end_to_end_routing.py) tie a room to its hand-over: a
        receiver has sources as soon as the rank is known, and ends when decode is turned away.
Rule 3: a look-up that fails, fails its hand-over, for its reason (`miss` in
        spec/handoff/registry.py), and so does one that names no rank at all, because they drain
        (`turn_away` in spec/handoff/drain.py) or are not registered now. A request whose own rank
        is left out fails by a row of RECEIVER. Each, sent again, may succeed.
Rule 4: a server of one data-parallel rank is asked for nothing: its nodes run no such table.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

from pdproto.node.core import Core
from pdproto.node.decode.numbered_lives import NumberedLives
from pdproto.node.decode.receiver import Addressed, Receiver
from pdproto.node.decode.receivers import Receivers
from pdproto.node.decode.sources import Sources
from pdproto.node.endpoints import Endpoints
from pdproto.node.link import ENDPOINT_MAX
from pdproto.node.part import Part, Turn
from pdproto.node.peer import Peer
from pdproto.node.rooms import DecodeRooms, PrefillServer, RoomLife, RoomStep
from pdproto.node.timers import Waits
from pdproto.runtime import checked
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import LocalProtocolError, RemoteProtocolError
from pdproto.runtime.store import AnyMessage
from pdproto.runtime.wire import Life, Meet, Met, Refuse
from pdproto.spec.handoff import routing
from pdproto.spec.handoff.dp_rank import RECEIVER
from pdproto.spec.handoff.functions import data_parallel_rank
from pdproto.spec.handoff.routing import Phase
from pdproto.spec.language.formula import Value
from pdproto.spec.language.symbols import Symbol


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
    transient: bool = False  # see Handle

    @property
    def named(self) -> str:
        """The server in a reason."""
        return f"prefill server {checked.one_line(self.server, ENDPOINT_MAX)}"

    @property
    def life(self) -> RoomLife:
        return self.receiver.life.room, self.receiver.life.generation


Reaction: TypeAlias = Callable[[Sought, DecodeRooms], None]


class DecodeRouting:
    """See the rules above. desk: the way to registries, for `seek`. make: how the table of a
    server is made, from its number of data-parallel ranks.
    """

    def __init__(
        self, core: Core, endpoints: Endpoints, lives: NumberedLives, receivers: Receivers,
        sources: Sources, waits: Mapping[str, float] | None, desk: DecodeDesk | None,
        make: Callable[..., DecodeRooms],
    ) -> None:
        self._core: Final = core
        self._endpoints: Final = endpoints
        self._lives: Final = lives
        self._receivers: Final = receivers
        self._sources: Final = sources
        self._desk: Final = desk
        self._make: Final = make
        self._rooms: Final[dict[tuple[str, int, bool], DecodeRooms]] = {}
        self._waits: Final[Waits[Life]] = Waits(
            waits, core.connections.suspicions.of_any)
        self._sought: Final[dict[Life, Sought]] = {}
        self._changes: Final[Mapping[tuple[Symbol, Value], Reaction]] = {
            (routing.target, True): self._aim,
            (routing.phase, Phase.FAILED): lambda sought, _: receivers.give_up(
                sought.receiver, sought.reason, transient=sought.transient),
        }
        writers: dict[AnyMessage, Reaction] = {
            routing.meet: self._meet,
            routing.query: self._query,
            routing.withdraw: lambda sought, _: self._known_desk.withdraw(
                sought.server, sought.receiver.room),
        }
        # The application says that a room is wanted, and the desk has the answers of the registry.
        self.part: Final = Part(
            "routing", runs=RECEIVER, writers=writers, timers={"unresolved": self._end_waits},
            frames={Met: self._met, Refuse: self._refused}, calls={"end_request": self._forget},
            implied=(routing.wanted, routing.wanted_named, routing.left_out, routing.answer,
                     routing.gone),
            forgotten=self._forget, turns={Turn.ROOMS: self._end_waits}, due=self._waits.next)

    def _rooms_of(self, server: str, ranks: int, *, follows_rule: bool) -> DecodeRooms:
        """The rooms that are looked for on this server. For any thread: to make them takes 10 ms,
        too long for a turn of the loop, so the thread that brings the first request makes them.
        """
        key = server, ranks, follows_rule
        known = self._rooms.get(key)
        if known is None:
            known = self._rooms.setdefault(key, self._make(ranks, follows_rule=follows_rule))
        return known

    def prepare(self, addressed: Addressed) -> None:
        """Make the table of this server, before a turn needs it. For any thread."""
        if addressed.ranks > 1:
            self._rooms_of(addressed.server, addressed.ranks, follows_rule=True)

    def seek(  # noqa: PLR0913 - as many as DecodeNode.seek takes
        self, room: int, server: str, *, pages: Sequence[int], slot: int | None = None,
        named: int | None = None, on_released: Callable[[], None] | None = None,
        watcher: Callable[[Receiver], None] | None = None, use: int | None = None,
        prompt: bytes | None = None,
    ) -> Receiver:
        """See DecodeNode.seek. One thread at a time."""
        if self._desk is None:
            raise LocalProtocolError(f"node {self._core.name} has no desk: it cannot ask a "
                                     f"registry")
        checked.text("server", server, ENDPOINT_MAX)
        rank, row = checked.whole_or_none("named", named), checked.whole_or_none("slot", slot)
        receiver = self._receivers.new(room, (), (), None, use, prompt)
        receiver.watch(on_released, watcher)
        sought = Sought(receiver, server, pages=receiver.marked(pages), slot=row)
        self._lives.use(receiver.life)
        self._core.ask(lambda: self._seek(sought, rank))
        return receiver

    @property
    def _known_desk(self) -> DecodeDesk:
        assert self._desk is not None  # noqa: S101 - `seek` has refused to go on without
        return self._desk

    # In the loop

    def _seek(self, sought: Sought, named: int | None) -> None:
        """Begin a receiver without sources. If it fails, no peer must be told."""
        receiver = sought.receiver
        self._lives.begin(receiver)
        self._sought[receiver.life] = sought
        self._receivers.begin(receiver)
        self._known_desk.look_up(
            sought.server, receiver.room, self._core.connections.lost(),
            partial(self._hear_of, sought, named),
            lambda reason: self._core.ask(partial(
                self._unless_over, sought, partial(self._receivers.give_up, transient=True),
                receiver, f"{sought.named}: {reason}")))

    def _hear_of(self, sought: Sought, named: int | None, server: PrefillServer) -> None:
        """In the thread of the desk: the registry has answered."""
        if server.ranks > 1:
            self._rooms_of(sought.server, server.ranks, follows_rule=server.follows_rule)
        self._core.ask(lambda: self._found(sought, server, named))

    def _unless_over(self, sought: Sought, act: Callable[..., None], *arguments: Any) -> None:
        """Call `act` if the hand-over has not ended meanwhile."""
        if self._sought.get(sought.receiver.life) is sought:
            act(*arguments)

    def _found(self, sought: Sought, server: PrefillServer, named: int | None) -> None:
        if self._sought.get(sought.receiver.life) is not sought:
            return
        left_out = [rank for rank in range(server.ranks) if not server.sources.get(rank)]
        sought.sources = server.sources
        if len(left_out) == server.ranks:
            self._receivers.give_up(sought.receiver, self._left_out(sought, 0), transient=True)
        elif server.ranks == 1:
            self._place(sought, 0)
        else:
            self._want(sought, server.ranks, server.follows_rule, named, left_out)

    def follow(self, receiver: Receiver, addressed: Addressed) -> None:
        """The application has found the rank by itself: the table looks there, as if the request
        had named it.
        """
        if addressed.ranks > 1 and receiver.life in self._endpoints.lives:
            sought = self._sought[receiver.life] = Sought(receiver, addressed.server)
            self._want(sought, addressed.ranks, True, addressed.rank)

    def _want(
        self, sought: Sought, ranks: int, follows_rule: bool, named: int | None,
        left_out: Collection[int] = (),
    ) -> None:
        rooms = sought.rooms = self._rooms_of(sought.server, ranks, follows_rule=follows_rule)
        rank = data_parallel_rank(sought.receiver.room, ranks) if named is None else named
        sought.reason, sought.transient = self._left_out(sought, rank), True
        try:
            self._follow(sought, rooms, rooms.want(sought.life, named, left_out))
        except RemoteProtocolError as error:
            self._receivers.give_up(sought.receiver, f"{sought.named}: {error}")

    def _met(self, peer: Peer, frame: Met) -> None:
        self._hear(peer, frame, "")

    def _refused(self, peer: Peer, frame: Refuse) -> None:
        self._hear(peer, frame, peer.says(frame.reason), transient=frame.transient)

    def _hear(
        self, peer: Peer, frame: Met | Refuse, reason: str, *, transient: bool = False
    ) -> None:
        """A rank answers whether the room runs there."""
        sought = self._sought.get(frame.life)
        if sought is None or sought.rooms is None:
            self._core.metrics.add("stale_frames")
            return
        if peer.name not in sought.receiver.endpoint.peers:
            raise RemoteProtocolError(f"{peer.name} is no source of it")
        sought.reason, sought.transient = reason or sought.reason, transient
        self._follow(sought, sought.rooms,
                     sought.rooms.hear(frame.message, frame.rank, sought.life))

    def _end_waits(self, now: float) -> None:
        for timer, life in self._waits.due(now):
            sought = self._sought[life]
            assert sought.rooms is not None  # noqa: S101 - its table has a wait
            sought.reason, sought.transient = self._endpoints.blame(timer), True
            self._follow(sought, sought.rooms, sought.rooms.give_up(sought.life))

    def _forget(self, endpoint: Endpoint) -> None:
        sought = self._sought.pop(self._endpoints.life(endpoint), None)
        if sought is not None and sought.rooms is not None:
            rooms = sought.rooms
            self._tell(sought, rooms, rooms.end(sought.life))
            self._waits.follow(sought.receiver.life, (), self._core.now)
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
            self._waits.follow(life, rooms.armed(sought.life), self._core.now)

    def _tell(self, sought: Sought, rooms: DecodeRooms, outcome: RoomStep) -> None:
        for message, _ in outcome.sent:
            self.part.writers[message](sought, rooms)

    def _left_out(self, sought: Sought, rank: int) -> str:
        """Why the registry has left a rank out. See PrefillServer."""
        sources = sought.sources
        why = "it drains" if sources is None or rank not in sources else \
            f"none of its ranks sends to {self._core.name}"
        return (f"{sought.named}: its registry does not name data-parallel rank "
                f"{rank}: {why}")

    def _aim(self, sought: Sought, rooms: DecodeRooms) -> None:
        rank = rooms.rank_of(sought.life)
        if rank is not None and sought.sources is not None:
            self._place(sought, rank)

    def _place(self, sought: Sought, rank: int) -> None:
        """Open the hand-over with the ranks that run the room."""
        receiver, sources = sought.receiver, (sought.sources or {}).get(rank, {})
        self._endpoints.stop_timers(receiver.endpoint)
        receiver.aim(tuple(sources))
        receiver.hold(sought.pages, sought.slot)
        self._endpoints.lives[receiver.life] = receiver.endpoint
        self._sources.introduce(receiver, sources, placed=True)

    def _meet(self, sought: Sought, rooms: DecodeRooms) -> None:
        rank, receiver = rooms.rank_of(sought.life), sought.receiver
        for name in receiver.endpoint.peers:
            peer = self._core.living(name)
            if peer is not None and rank is not None:
                self._core.say(peer, Meet(receiver.life, rank, peer.ours))

    def _query(self, sought: Sought, rooms: DecodeRooms) -> None:
        self._known_desk.query(
            sought.server, sought.receiver.room,
            lambda rank: self._core.ask(partial(self._unless_over, sought, self._answered, sought,
                                                rooms, rank)))

    def _answered(self, sought: Sought, rooms: DecodeRooms, rank: int | None) -> None:
        if rank is None:
            sought.reason = f"room {sought.receiver.room}: the rank that ran it has given it up"
        else:
            sought.reason = self._left_out(sought, rank)
        sought.transient = rank is not None
        message, about = (routing.gone, ()) if rank is None else (routing.answer, (rank,))
        self._follow(sought, rooms, rooms.hear(message, sought.life, *about))
