"""Which data-parallel rank runs a room: the part of a prefill rank, and that of a decode rank.

Rule 1: the tables decide (SENDER and RECEIVER in spec/handoff/dp_rank.py). Here their events are
        made. The messages and changes of their steps go back to the caller, which is a node
        (prefill/routing.py, decode/routing.py), or a study that has no network.
Rule 2: a life is (room, number). The number is the caller's own: neither half of a request knows
        the life of the other until they meet.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, TypeAlias

from pdproto.node.timers import rows_on_timers
from pdproto.runtime.cells import Key
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.store import AnyMessage, Predicate, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.handoff import dp_rank, routing
from pdproto.spec.handoff.functions import data_parallel_rank
from pdproto.spec.handoff.roles import Life
from pdproto.spec.handoff.routing import Group
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Table
from pdproto.spec.language.symbols import Rigid, Symbol

RoomLife: TypeAlias = tuple[int, int]
Sent: TypeAlias = tuple[AnyMessage, Key]
Change: TypeAlias = tuple[Symbol, Key | None, Value]
Rigids: TypeAlias = Mapping[Rigid[*tuple[Any, ...]], Predicate]
NONE: Final[Rigids] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class RoomStep:
    """The rows that an event has fired, with the messages that they send and the variables that
    they change. failure: why the room has failed here, if it has.
    """

    row: str
    sent: tuple[Sent, ...] = ()
    changed: tuple[Change, ...] = ()
    failure: str | None = None


@dataclass(frozen=True, slots=True)
class PrefillServer:
    """A prefill server, as a registry describes it. ranks: the number of data-parallel ranks.

    follows_rule: rooms keep to room modulo ranks; otherwise the registry is asked about each.
    sources: for each data-parallel rank, the endpoints of the nodes that feed this decode rank;
    without the ranks that drain.
    """

    ranks: int
    follows_rule: bool
    sources: Mapping[int, Mapping[str, str]]


class _Rooms:
    """One machine of the tables, for all rooms of a rank."""

    def __init__(
        self, table: Table, ranks: int, own: Mapping[str, int], publishes: bool, rigid: Rigids,
        trace: SharedTrace | None,
    ) -> None:
        self.ranks: Final = ranks
        self._machine: Final = shared(
            table, None, {Group: range(ranks)},
            {**rigid, routing.modulo: _modulo(ranks), routing.publishes: lambda _: publishes},
            trace=trace)
        self._own: Final = dict(own)
        self._at_once: Final = tuple(row.name for row in table.rows if row.on is None)
        self._timed: Final = rows_on_timers(table)

    def armed(self, life: RoomLife) -> tuple[str, ...]:
        """The timers that the room waits for."""
        return tuple(timer for timer, rows in self._timed.items() if any(
            self._machine.enabled(row.name, **self._own, h=life) for row in rows))

    def forget(self, life: RoomLife) -> None:
        """Drop a room that has concluded. Raises LocalProtocolError for one that has not."""
        self._machine.forget(Life, life)

    def __len__(self) -> int:
        """How many cells are stored."""
        return len(self._machine)

    def _rank(self, named: int) -> int:
        if not 0 <= named < self.ranks:
            raise RemoteProtocolError(f"the request names data-parallel rank {named}, and there "
                                      f"are 0 to {self.ranks - 1}")
        return named

    def _expire(self, life: RoomLife) -> RoomStep:
        """The waits of the room have ended, by a clock."""
        outcome = RoomStep("")
        for rows in self._timed.values():
            for row in rows:
                step = self._machine.fire(row.name, **self._own, h=life)
                if step is not None:
                    outcome = self._then(life, step)
        return outcome

    def _take(self, life: RoomLife, message: AnyMessage, *arguments: Any) -> RoomStep:
        """Take a message. Raises RemoteProtocolError for one that only a faulty peer sends."""
        step = self._machine.receive(message, *arguments)
        if step.kind == "reject":
            raise RemoteProtocolError(f"{message}{arguments!r}: {step.row}")
        return self._then(life, step)

    def _then(self, life: RoomLife, step: SharedStep | None) -> RoomStep:
        steps = [] if step is None else [step]
        for name in self._at_once:
            more = self._machine.fire(name, **self._own, h=life)
            steps += [] if more is None else [more]
        return RoomStep(" ".join(step.row for step in steps),
                       tuple(sent for step in steps for sent in step.sent),
                       tuple(change for step in steps for change in step.changed))


class PrefillRooms(_Rooms):
    """The rooms that are put on one data-parallel rank of a prefill server.

    publishes: as it registered; every rank of the server does the same, or none (the registry
    sees to that). switch: the setting by which an operator has every room published. table: the
    rows to run, if not those of the specification. rigid: further relations that they read.
    """

    def __init__(
        self, rank: int, ranks: int, *, publishes: bool, switch: str = "force_query",
        table: Table = dp_rank.SENDER, rigid: Rigids = NONE, trace: SharedTrace | None = None,
    ) -> None:
        super().__init__(table, ranks, {"x": rank}, publishes, rigid, trace)
        self.rank: Final = rank
        self._switch: Final = switch

    def put(self, life: RoomLife, named: int | None = None) -> RoomStep:
        """The router has put a room here. named: the rank that the request itself asks for.

        It is served, and published if every room is; or it fails at once, with a reason that names
        both ranks and the switch, if decode would look for it elsewhere.
        """
        if named is None:
            outcome = self._take(life, routing.prompt, life, self.rank)
        else:
            outcome = self._take(life, routing.prompt_named, life, self.rank, self._rank(named))
        if self._machine.value(routing.conflict, self.rank, life) is not True:
            return outcome
        return RoomStep(outcome.row, outcome.sent, outcome.changed, self._conflict(life, named))

    def _conflict(self, life: RoomLife, named: int | None) -> str:
        if named is not None:
            return (f"room {life[0]} was put on data-parallel rank {self.rank}, and the request "
                    f"names rank {named}")
        right = data_parallel_rank(life[0], self.ranks)
        return (f"room {life[0]} was put on data-parallel rank {self.rank}, and decode looks for "
                f"it on rank {right} (room modulo {self.ranks}): set {self._switch} on every rank "
                f"of the prefill server, or have the router keep to the rule")

    def disown(self, life: RoomLife, by: int) -> RoomStep:
        """Another rank has failed a room that decode will ask for here."""
        return self._take(life, routing.disown, by, life, self.rank)

    def meet(self, life: RoomLife) -> RoomStep:
        """A decode rank has sent Meet. Met or Refuse answers it, once the room is known here."""
        return self._take(life, routing.meet, life, self.rank)

    def stop_waiting(self, life: RoomLife) -> RoomStep:
        """The wait for decode has ended (timer no_decode)."""
        return self._expire(life)

    def end(self, life: RoomLife) -> RoomStep:
        """The hand-over of the room has ended here."""
        return self._then(life, self._machine.call("end_room", self.rank, life))


class DecodeRooms(_Rooms):
    """The rooms that a decode node looks for on one prefill server.

    follows_rule: as the registry says; decode has no setting of its own. table, rigid: see
    PrefillRooms.
    """

    def __init__(
        self, ranks: int, *, follows_rule: bool, table: Table = dp_rank.RECEIVER,
        rigid: Rigids = NONE, trace: SharedTrace | None = None,
    ) -> None:
        super().__init__(table, ranks, {}, False, rigid, trace)
        self.asking: Final[dict[RoomLife, None]] = {}  # rooms whose rank the registry is asked for
        self._machine.receive(routing.keeps_rule if follows_rule else routing.keeps_list)

    def want(
        self, life: RoomLife, named: int | None = None, left_out: Iterable[int] = ()
    ) -> RoomStep:
        """A request has arrived. Its rank is, in this order: the one that it names, the only one,
        room modulo ranks, or the answer of the registry. left_out: ranks without an address.
        """
        for rank in left_out:
            self._take(life, routing.left_out, life, rank)
        if named is None:
            outcome = self._take(life, routing.wanted, life)
        else:
            outcome = self._take(life, routing.wanted_named, life, self._rank(named))
        if any(message is routing.query for message, _ in outcome.sent):
            self.asking[life] = None
        return outcome

    def rank_of(self, life: RoomLife) -> int | None:
        """The data-parallel rank that runs the room; None while it is not known."""
        ranks = (g for g in range(self.ranks) if self._machine.value(routing.target, life, g))
        return next(ranks, None)

    def failed(self, life: RoomLife) -> bool:
        """Whether the search for the room has failed."""
        return self._machine.value(routing.phase, life) is routing.Phase.FAILED

    def hear(self, message: AnyMessage, *arguments: Any) -> RoomStep:
        """Take an answer of the registry (answer, gone) or of a rank (met, refuse).

        Raises RemoteProtocolError for one that only a faulty peer sends.
        """
        life: RoomLife = next(one for one in arguments if isinstance(one, tuple))
        outcome = self._take(life, message, *arguments)
        self.asking.pop(life, None)
        return outcome

    def give_up(self, life: RoomLife) -> RoomStep:
        """The wait for the room has ended (timer unresolved)."""
        self.asking.pop(life, None)
        return self._expire(life)

    def end(self, life: RoomLife) -> RoomStep:
        """The hand-over of the room has ended here."""
        self.asking.pop(life, None)
        return self._then(life, self._machine.call("end_request", life))


def _modulo(ranks: int) -> Callable[[RoomLife, int], bool]:
    return lambda life, group: data_parallel_rank(life[0], ranks) == group
