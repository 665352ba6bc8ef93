"""Ordered channels in a proof: a message stays at its place until it is delivered.

A row of the tables shifts a channel: delivery takes the message off place 0, and all others move up
(spec/language/channels.py). The prover reads other rows instead, which shift nothing:

Rule 1: Delivery takes the message at the earliest place of its channel that is in use.
Rule 2: Sending takes a place that is later than all of the channel that are in use.

**Theorem.** A claim of the form of `obstacle` that every run by these rules keeps, at every number
of places, holds in every run of the tables, at every number of places.

*Proof.* Take a run of the tables with n places, and repeat it by these rules. Each message that is
sent takes a new place, later than all before; of an order that is long enough there is always one.
Then each channel has the same messages in the same order. So each row that fires in the tables can
fire here too, with the same effect on all variables, because its guard reads no channel but for the
message that it takes. (A row that a full channel blocks fires here more often.) Let f map the
places of one channel in the tables to places here: those in use to those in use, in order, and the
others to any that are later. It keeps the order of places, and which message waits at which. Now
let the claim hold here. By induction over its formula it holds in the tables, if each place is read
through the f of its own channel: a literal keeps its truth; a `for all` over places holds for those
that f reaches; and a `for some` has a witness at which a message waits, so f reaches it.

A claim of another form may be true by one set of rules alone. "The channel is full" is about the
number of places, and an order between places of two channels is about the shifting.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import combinations_with_replacement
from typing import Any, Final, TypeAlias

from pdproto.check.prove.rewriting import renamed
from pdproto.ground.layout import Cell
from pdproto.spec.language.channels import (
    Channel,
    channel_of,
    channels_of,
    ends_of,
    is_about_channel,
    queue_at,
    uses_channel,
)
from pdproto.spec.language.formula import (
    And,
    Atom,
    Before,
    Exists,
    Forall,
    Formula,
    Not,
    Or,
    Same,
    Value,
    bound_variables,
    forall,
    free_variables,
    normal,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Each, Message, Sent, Update, sent_by
from pdproto.spec.language.system import System

AnyMessage: TypeAlias = Message[*tuple[Any, ...]]
Ends: TypeAlias = tuple[Sort, ...]

TAKEN: Final = "taken_at"  # names of the places of a row; a number follows if they are in use
SENT: Final = "sent_at"


class ProofRows:
    """The channels of a system, as a proof reads them."""

    def __init__(self, system: System) -> None:
        self.system: Final = system
        self.channels: Final = {
            channel: channel.messages(system.variables)
            for channel in channels_of(system.variables)
        }
        self.sorts: Final = frozenset(channel.places for channel in self.channels)

    def rows(self) -> Iterator[tuple[Table, Row, Row, str]]:
        """Every row of the protocol and of every fault layer: its table, the row, the row by the
        rules of this file, and its layer.
        """
        for table, layer in self.system.tables_under(tuple(self.system.faults)):
            for row in table.rows:
                yield table, row, self.placed(table, row), layer

    def placed(self, table: Table, row: Row) -> Row:
        """The row by the rules of this file; itself if it uses no channel."""
        if not self.channels or not uses_channel(row):
            return row
        names = _Names((*table.parameters(row), *_bound(table, row)))
        kept = self._conditions(row)
        moves: list[Update] = []
        chosen: list[Sort] = list(row.choose)
        on = row.on
        if isinstance(on, Sent) and on.message.fifo is not None:
            at = names.new(on.message.fifo, TAKEN)
            kept += [on.at(at), self.earliest(on, at)]
            moves.append(Update(on.symbol, (*on.arguments, at), False))
            chosen = [*dict.fromkeys((*on.arguments, *chosen)), at]
            on = None
        last: dict[Channel, Sort] = {}
        for effect in row.send:
            sent = sent_by(effect)
            channel = channel_of(sent.message)
            if channel is None:
                continue
            at = names.new(channel.places, SENT)
            variables = (effect.variable,) if isinstance(effect, Each) else ()
            kept.append(forall(variables, self.behind_all(sent, at)))
            if channel in last:
                kept.append(Before(last[channel], at))
            last[channel] = at
            moves.append(Update(sent.symbol, (*sent.arguments, at), True, variables,
                                effect.where if isinstance(effect, Each) else And(())))
            chosen.append(at)
        others = tuple(e for e in row.send if sent_by(e).message.fifo is None)
        own = table.machine.own
        return replace(row, on=on, when=tuple(kept), do=(*row.do, *moves), send=others,
                       choose=tuple(v for v in chosen if v not in own))

    def _conditions(self, row: Row) -> list[Formula]:
        """The row's conditions. Those about places are left out if they may fail by these rules."""
        conditions = [self.claimed(one) for one in row.conditions]
        about = [one for one in conditions if self.is_about_places(one)]
        if not about or self.obstacle(Not(And(tuple(about)))) is None:
            return conditions
        return [one for one in conditions if one not in about]

    def is_about_places(self, formula: Formula) -> bool:
        """Whether the formula names a place, or a message that waits at one."""
        return is_about_channel(formula) or any(
            type(v) in self.sorts for v in (*free_variables(formula), *bound_variables(formula)))

    def earliest(self, taken: Atom, at: Sort) -> Formula:
        """The formula: nothing waits before this place in the channel of the message."""
        return self._everything(taken, lambda other: Not(Before(other, at)))

    def behind_all(self, sent: Atom, at: Sort) -> Formula:
        """The formula: whatever waits in the channel of the message is before this place."""
        return self._everything(sent, lambda other: Before(other, at))

    def _everything(self, one: Atom, told: Callable[[Sort], Formula]) -> Formula:
        """The formula: `told` holds for the place of every message in the channel of this one."""
        channel = channel_of(_message(one))
        assert channel is not None  # noqa: S101 - the caller's message waits in a channel
        return And(tuple(
            forall(variables, Or((Not(waits), told(variables[0]))))
            for variables, waits in (
                _waiting(message, ends_of(one)) for message in self.channels[channel])
        ))

    def claimed(self, formula: Formula) -> Formula:
        """The formula by the rules of this file: `arrived` is of the earliest place in use."""
        if not self.channels or not is_about_channel(formula):
            return formula
        match formula:
            case Exists(place, And((Atom() as atom, Forall(one, Not(Before(two, three)))))) if (
                    _is_in_channel(atom) and (one, place) == (two, three)
                    and atom.arguments[-1] == place):
                return Exists(place, And((atom, self.earliest(atom, place))))
            case And(parts):
                return And(tuple(map(self.claimed, parts)))
            case Or(parts):
                return Or(tuple(map(self.claimed, parts)))
            case Not(part):
                return Not(self.claimed(part))
            case Forall(variable, body):
                return Forall(variable, self.claimed(body))
            case Exists(variable, body):
                return Exists(variable, self.claimed(body))
            case _:
                return formula

    def one_message_a_place(self) -> Iterator[tuple[str, Formula, AnyMessage]]:
        """For each channel a claim by a name: two messages never wait at one place."""
        for channel, messages in self.channels.items():
            ends = tuple(sort(f"end{n}") for n, sort in enumerate(channel.ends))
            pairs = tuple(_apart(one, two, ends)
                          for one, two in combinations_with_replacement(messages, 2))
            twice = sum(one.name == channel.name for one in self.channels) > 1
            of = f"_of_{channel.places.__name__.lower()}" if twice else ""
            yield f"{channel.name}{of}_has_one_message_a_place", And(pairs), messages[0]

    def obstacle(self, formula: Formula) -> str | None:
        """Why a proof of this formula would say nothing about the tables; None if it does.

        The theorem needs that each place belongs to one channel, that only places of one channel
        are compared, and that a `for some` names a message that waits there.
        """
        if not self.channels:
            return None
        reason = self._of_every_claim
        if reason is None and self.is_about_places(formula):
            reason = self._of_every_place or self._of_form(formula)
        return reason

    def _of_form(self, formula: Formula) -> str | None:
        return _Reading(self.sorts).obstacle(normal(self.claimed(formula)))

    @cached_property
    def _of_every_claim(self) -> str | None:
        """Why no claim of this system is proved at all; None if claims are."""
        for name, axiom in self.system.axioms.items():
            if self.is_about_places(axiom):
                return f"the axiom {name} is about the places of a channel"
        for table, row in self.system.rows():
            if any(map(self.is_about_places, [*table.formulas(row)][1:])):
                return f"row {row.name!r} has an effect whose where= is about a channel"
        return None

    @cached_property
    def _of_every_place(self) -> str | None:
        """Why no claim about places is proved for this system; None if such claims are."""
        for symbol in (*self.system.variables, *self.system.rigids):
            own = symbol.sorts[:-1] if _is_channelled(symbol) else symbol.sorts
            for sort in self.sorts.intersection(own):
                return (f"{symbol.signature} has places of a channel as its elements: give it a "
                        f"sort of its own instead of {sort.__name__}")
        return None


def moved_up(values: Mapping[Cell, Value]) -> dict[Cell, Value]:
    """The values, with the messages of each channel at its first places, in the same order."""
    moved: dict[Cell, Value] = {}
    used: dict[Any, dict[int, list[Cell]]] = {}
    for (symbol, at), value in values.items():
        queue = queue_at(symbol, at) if isinstance(symbol, Message) else None
        if queue is None:
            moved[symbol, at] = value
        elif value is True:
            used.setdefault(queue, {}).setdefault(at[-1], []).append((symbol, at))
    for places in used.values():
        for number, place in enumerate(sorted(places)):
            moved |= {(symbol, (*at[:-1], number)): True for symbol, at in places[place]}
    return moved


class _Names:
    """New names of variables, which are none of those of a row."""

    def __init__(self, taken: Sequence[Sort]) -> None:
        self._taken: Final = {variable.name for variable in taken}

    def new(self, sort: type[Sort], name: str) -> Sort:
        number = 1
        while (found := name if number == 1 else f"{name}{number}") in self._taken:
            number += 1
        self._taken.add(found)
        return sort(found)


def _bound(table: Table, row: Row) -> Iterator[Sort]:
    """The variables that a row binds, in its guard and in its effects."""
    for formula in table.formulas(row):
        yield from bound_variables(formula)
    for update in row.do:
        yield from update.variables
    for effect in row.send:
        if isinstance(effect, Each):
            yield effect.variable


def _message(atom: Atom) -> AnyMessage:
    return Sent(atom.symbol, atom.arguments, True).message


def _is_channelled(symbol: object) -> bool:
    return isinstance(symbol, Message) and symbol.fifo is not None


def _is_in_channel(atom: Atom) -> bool:
    return _is_channelled(atom.symbol) and len(atom.arguments) == len(atom.symbol.sorts)


def _waiting(
    message: AnyMessage, ends: Ends, mark: str = "other"
) -> tuple[tuple[Sort, ...], Formula]:
    """The formula: the message waits in the channel between these ends; and its other variables.

    The first variable is the place. mark: begins their names.
    """
    named: dict[Sort, Sort] = {}
    same: list[Formula] = []
    for formal, end in zip(
        (*message.sender.variables, *message.receiver.variables), ends, strict=True
    ):
        if named.setdefault(formal, end) != end:
            same.append(Same(named[formal], end))
    others = {v: type(v)(f"{mark}_{v.name}") for v in message.formals if v not in named}
    fifo: Any = message.fifo
    place = fifo(f"{mark}_place")
    arguments = tuple({**named, **others}[v] for v in message.formals)
    return (place, *others.values()), And((*same, Atom(message, (*arguments, place), True)))


def _apart(one: AnyMessage, two: AnyMessage, ends: Ends) -> Formula:
    """The formula: these messages do not wait at one place, unless they are one message."""
    (place, *mine), waits = _waiting(one, ends, "one")
    (other, *theirs), waits_too = _waiting(two, ends, "two")
    equal = And(tuple(map(Same, mine, theirs))) if one is two else Or(())
    return Or((Not(waits), Not(renamed(waits_too, {other: place})), equal))


class _Reading:
    """Reads a formula in negation normal form for `ProofRows.obstacle`."""

    def __init__(self, sorts: frozenset[type[Sort]]) -> None:
        self.sorts: Final = sorts
        self.depth: Final[dict[Sort, int]] = {}  # of bound variables; free ones are the outermost
        self.owner: Final[dict[Sort, tuple[Channel, Ends]]] = {}  # the channel of a place
        self.compared: Final[list[tuple[Sort, Sort]]] = []

    def obstacle(self, formula: Formula) -> str | None:
        """The first reason against the formula; None if there is none."""
        return self._read(formula, 0) or self._joined()

    def _read(self, formula: Formula, depth: int) -> str | None:
        match formula:
            case And(parts) | Or(parts):
                return next(filter(None, (self._read(part, depth) for part in parts)), None)
            case Not(part):
                return self._read(part, depth)
            case Forall(variable, body) | Exists(variable, body):
                if type(variable) in self.sorts and isinstance(formula, Exists) and (
                        not _names_message_at(variable, body)):
                    return (f"`for some {variable!r}` does not say which message waits at "
                            f"{variable!r}, so it is about the number of places")
                return self._bound(variable, body, depth)
            case Same(left, right) | Before(left, right) if type(left) in self.sorts:
                self.compared.append((left, right))
                return None
            case Atom() if _is_in_channel(formula):
                channel = channel_of(_message(formula))
                assert channel is not None  # noqa: S101 - as _is_in_channel says
                return self._owned(formula.arguments[-1], channel, ends_of(formula))
            case _:
                return None

    def _bound(self, variable: Sort, body: Formula, depth: int) -> str | None:
        """Read the body of a quantifier. Each gets a name of its own, which nothing else has."""
        own = type(variable)(f"{variable.name}_of_{len(self.depth)}")
        self.depth[own] = depth + 1
        return self._read(renamed(body, {variable: own}), depth + 1)

    def _owned(self, place: Sort, channel: Channel, ends: Ends) -> str | None:
        """Note that the place is one of that channel."""
        if self.owner.setdefault(place, (channel, ends)) != (channel, ends):
            return "one place stands for places of two channels, which are not shifted together"
        if any(self.depth.get(end, 0) > self.depth.get(place, 0) for end in ends):
            return (f"a place is bound before the ends of its channel are: write the quantifier of "
                    f"{', '.join(sorted({type(end).__name__ for end in ends}))} first")
        return None

    def _joined(self) -> str | None:
        """Give places that are compared one channel."""
        for _ in self.compared:
            for one, two in (pair for both in self.compared for pair in (both, both[::-1])):
                if one in self.owner:
                    reason = self._owned(two, *self.owner[one])
                    if reason is not None:
                        return reason
        return None


def _names_message_at(place: Sort, body: Formula) -> bool:
    """Whether the formula holds only if a message waits at the place."""
    match body:
        case And(parts):
            return any(_names_message_at(place, part) for part in parts)
        case Or(parts):
            return bool(parts) and all(_names_message_at(place, part) for part in parts)
        case Exists(variable, inner):
            return variable != place and _names_message_at(place, inner)
        case Atom():
            return _is_in_channel(body) and body.arguments[-1] == place
        case _:
            return False
