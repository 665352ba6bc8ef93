"""Which data-parallel rank runs a room, on either side: the halves that speak to the registry.

Every room's sender on a prefill rank, and every room's receiver on decode, takes the rows of its
table (spec/handoff/dp_rank.py). What they say to the registry comes out as messages; `post` brings
them there. No socket and no clock is here but in `post`: the caller says when a wait has ended.

A life is (room, generation). Rooms that keep to the rule cost no request at all.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import ROOMS_MAX
from pdproto.runtime.cells import Key
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.store import AnyMessage, Shared, Step
from pdproto.spec.handoff import dp_rank, routing
from pdproto.spec.handoff.functions import data_parallel_rank
from pdproto.spec.handoff.roles import Life
from pdproto.spec.handoff.routing import Group

RoomLife: TypeAlias = tuple[int, int]
Sent: TypeAlias = tuple[AnyMessage, Key]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What has come of an event. sent: what to bring to the registry and to the other side.

    failure: why the room has failed here, if it has.
    """

    row: str
    sent: tuple[Sent, ...] = ()
    failure: str | None = None


class PrefillRooms:
    """The rooms that are put on one data-parallel rank of a prefill server.

    publishes: as it registered; every rank of the server does the same, or none (the registry
    sees to that).
    """

    def __init__(self, rank: int, ranks: int, *, publishes: bool) -> None:
        self.rank: Final = rank
        self.ranks: Final = ranks
        self._machine: Final = Shared(
            dp_rank.SENDER, None, {Group: range(ranks)},
            {routing.modulo: _modulo(ranks), routing.publishes: lambda _: publishes},
        )

    def put(self, life: RoomLife, named: int | None = None) -> Outcome:
        """The router has put a room here. named: the rank that the request itself asks for.

        It is served, and published if every room is; or it fails at once, with a reason that names
        both ranks and the switch, if decode would look for it elsewhere.
        """
        if named is None:
            step = self._machine.receive(routing.prompt, life, self.rank)
        else:
            step = self._machine.receive(routing.prompt_named, life, self.rank, named)
        if self._machine.value(routing.conflict, self.rank, life) is not True:
            return Outcome(step.row, step.sent)
        return Outcome(step.row, step.sent, self._conflict(life, named))

    def _conflict(self, life: RoomLife, named: int | None) -> str:
        if named is not None:
            return (f"room {life[0]} was put on data-parallel rank {self.rank}, and the request "
                    f"names rank {named}")
        right = data_parallel_rank(life[0], self.ranks)
        return (f"room {life[0]} was put on data-parallel rank {self.rank}, and decode looks for "
                f"it on rank {right} (room modulo {self.ranks}): set force_query on every rank of "
                f"the prefill server, or have the router keep to the rule")

    def disown(self, life: RoomLife, by: int) -> Outcome:
        """Another rank has failed a room that decode will ask for here."""
        return self._then(life, self._machine.receive(routing.disown, by, life, self.rank))

    def knock(self, life: RoomLife) -> Outcome:
        """Decode has come for a room. It is answered when the room is known: met, or refused."""
        return self._then(life, self._machine.receive(routing.meet, life, self.rank))

    def stop_waiting(self, life: RoomLife) -> Outcome:
        """The wait for decode has ended (timer no_decode)."""
        return self._then(life, self._machine.fire("stop_waiting", x=self.rank, h=life))

    def settle(self, life: RoomLife) -> Outcome:
        """Take the steps that need no event: answer who has knocked, strike the room out."""
        return self._then(life, None)

    def forget(self, life: RoomLife) -> None:
        """Drop a room that has concluded. Raises LocalProtocolError for one that has not."""
        self._machine.forget(Life, life)

    def _then(self, life: RoomLife, step: Step | None) -> Outcome:
        rows, sent = _rows_and_sent(step)
        for row in ("greet", "turn_away", "tidy_up"):
            more, also = _rows_and_sent(self._machine.fire(row, x=self.rank, h=life))
            rows, sent = rows + more, sent + also
        return Outcome(" ".join(rows), tuple(sent))


class DecodeRooms:
    """The rooms that a decode node looks for on one prefill server.

    follows_rule: as the registry says; decode has no setting of its own.
    """

    def __init__(self, ranks: int, *, follows_rule: bool) -> None:
        self.ranks: Final = ranks
        self.asking: Final[dict[RoomLife, None]] = {}  # rooms whose rank the registry is asked for
        self._machine: Final = Shared(
            dp_rank.RECEIVER, None, {Group: range(ranks)}, {routing.modulo: _modulo(ranks)}
        )
        self._machine.receive(routing.keeps_rule if follows_rule else routing.keeps_list)

    def want(self, life: RoomLife, named: int | None = None) -> Outcome:
        """A request has arrived. Its rank is, in this order: the one that it names, the only one,
        room modulo ranks, or what the registry answers.
        """
        if named is None:
            step = self._machine.receive(routing.wanted, life)
        else:
            step = self._machine.receive(routing.wanted_named, life, named)
        rows, sent = _rows_and_sent(step)
        for row in ("resolve_alone", "resolve_by_rule", "ask"):
            more, also = _rows_and_sent(self._machine.fire(row, h=life))
            rows, sent = rows + more, sent + also
        if any(message is routing.query for message, _ in sent):
            self.asking[life] = None
        return Outcome(" ".join(rows), tuple(sent))

    def rank_of(self, life: RoomLife) -> int | None:
        """The data-parallel rank that runs the room; None while it is not known."""
        ranks = (g for g in range(self.ranks) if self._machine.value(routing.target, life, g))
        return next(ranks, None)

    def failed(self, life: RoomLife) -> bool:
        """Whether the room has failed here."""
        return self._machine.value(routing.phase, life) is routing.Phase.FAILED

    def hear(self, message: AnyMessage, *arguments: Any) -> Outcome:
        """The registry answers or a rank does: answer, gone, met, refuse.

        Raises RemoteProtocolError for what only a faulty peer says.
        """
        step = self._machine.receive(message, *arguments)
        if step.kind == "reject":
            raise RemoteProtocolError(f"{message}{arguments!r}: {step.row}")
        for argument in arguments:
            if isinstance(argument, tuple):
                self.asking.pop(argument, None)
        return Outcome(step.row, step.sent)

    def give_up(self, life: RoomLife) -> Outcome:
        """The wait for the room has ended (timer unresolved)."""
        self.asking.pop(life, None)
        rows, sent = _rows_and_sent(self._machine.fire("give_up", h=life))
        return Outcome(" ".join(rows), tuple(sent))

    def forget(self, life: RoomLife) -> None:
        """Drop a room that has concluded. Raises LocalProtocolError for one that has not."""
        self._machine.forget(Life, life)

    def ask_again(self, client: RegistryClient) -> int:
        """Ask for all rooms at once whose rank is not known; returns how many have an answer."""
        before = len(self.asking)
        for some in _pieces(list(self.asking)):
            rooms, generations = [room for room, _ in some], [life for _, life in some]
            answer = client.query_rooms(rooms, generations)
            for life in some:
                if life[0] in answer.dp_ranks:
                    self.hear(routing.answer, life, answer.dp_ranks[life[0]])
                elif life[0] in answer.gone:
                    self.hear(routing.gone, life)
        return before - len(self.asking)


def post(client: RegistryClient, sent: Iterable[Sent]) -> int:
    """Bring to the registry what is for it, except questions (`ask_again` asks for all at once).

    Returns the number of requests. Raises what the client raises.
    """
    requests = 0
    for message, arguments in sent:
        if message in (routing.publish, routing.retire):
            (room, generation), rank = arguments
            tell = client.register_room if message is routing.publish else client.retire_room
            tell(room, rank, generation)
        elif message is routing.withdraw:
            ((room, generation),) = arguments
            client.withdraw_rooms([room], [generation])
        else:
            continue
        requests += 1
    return requests


def _modulo(ranks: int) -> Any:
    return lambda life, group: data_parallel_rank(life[0], ranks) == group


def _rows_and_sent(step: Step | None) -> tuple[list[str], list[Sent]]:
    return ([], []) if step is None else ([step.row], list(step.sent))


def _pieces(lives: Sequence[RoomLife]) -> Iterable[Sequence[RoomLife]]:
    return (lives[i:i + ROOMS_MAX] for i in range(0, len(lives), ROOMS_MAX))
