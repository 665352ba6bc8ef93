"""A table's rows at their parameters, as masks over the bits of one instance.

A row becomes masks when an event first needs it. The masks for one element of a sort are made from
those for another. So the first hand-over of a large topology does not delay the event loop.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import product
from typing import Any, Final, TypeAlias

from pdproto.ground.grounding import Environment, Grounder
from pdproto.ground.layout import Indices
from pdproto.ground.local import index_tuples, require_one_start, rigid_relations
from pdproto.ground.program import Action, Guard, assignment
from pdproto.spec.language.formula import And, bound_variables, free_variables, normal
from pdproto.spec.language.machine import Call, Completion, Row, Table
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Rigid, Sent, Sizes

AnyRigid: TypeAlias = Rigid[*tuple[Any, ...]]
AnyMessage: TypeAlias = Message[*tuple[Any, ...]]
Trigger: TypeAlias = tuple[type, str]  # the kind of trigger, and its name

NOWHERE: Final = Guard(0, 0, ((),))


@dataclass(frozen=True, slots=True)
class LocalRow:
    """A row at its parameters, over the bits of one instance.

    A row whose updates have a `where` is several, whose guards exclude each other.
    """

    row: Row
    parameters: Indices
    action: Action
    sent: tuple[tuple[AnyMessage, Indices], ...]

    @property
    def key(self) -> tuple[str, Indices]:
        """The row's name and its parameters."""
        return self.row.name, self.parameters


class Family:
    """A row without a trigger, at all its parameters.

    premise: the part of its guard about the machine alone. If it fails, no instance can fire.
    """

    __slots__ = ("_locals", "_row", "_rows", "premise")

    def __init__(self, row: Row, premise: Guard, rows: "LocalRows") -> None:
        self.premise: Final = premise
        self._row: Final = row
        self._rows: Final = rows
        self._locals: tuple[LocalRow, ...] | None = None

    @property
    def locals(self) -> tuple[LocalRow, ...]:
        """The instances of the row, made at the first use."""
        if self._locals is None:
            self._locals = tuple(self._rows.instances(self._row))
        return self._locals


class Conditions:
    """The guards of a table's rows, the same for all sizes: automata of one table share them.

    orders: rigid relations that keep their interpretation (`given=`). The others relate all
    elements that an instance counts.
    """

    def __init__(self, table: Table, orders: Collection[AnyRigid] = ()) -> None:
        require_one_start(table)
        self.table: Final = table
        self.orders: Final = tuple(orders)
        self.ordered: Final = frozenset(sort for rigid in orders for sort in rigid.sorts)
        self._whole: Final[dict[str, And]] = {}
        self._own: Final[dict[str, And]] = {}

    def related(self, sizes: Sizes) -> dict[AnyRigid, frozenset[Indices]]:
        """The elements that each rigid relation relates, at these sizes."""
        return {rigid: frozenset(
                    map(tuple, rigid.given(sizes)) if rigid in self.orders and rigid.given
                    else index_tuples(rigid, sizes))
                for rigid in {*rigid_relations(self.table), *self.orders}}

    def whole(self, row: Row) -> And:
        """The row's guard without the trigger, in negation normal form."""
        known = self._whole.get(row.name)
        if known is None:
            parts = self.table.condition(row).parts
            known = self._whole[row.name] = And(tuple(map(normal, parts)))
        return known

    def own(self, row: Row) -> And:
        """The part of this guard about the machine alone."""
        known = self._own.get(row.name)
        if known is None:
            own = {*self.table.machine.own}
            known = self._own[row.name] = And(tuple(
                part for part in self.whole(row).parts
                if own >= {*free_variables(part)} and not [*bound_variables(part)]))
        return known


class LocalRows:
    """The rows of one table over one layout, each made once."""

    def __init__(self, conditions: Conditions, grounder: Grounder) -> None:
        self._table: Final = conditions.table
        self._conditions: Final = conditions
        self._ground: Final = grounder
        self._layout: Final = grounder.layout
        self._made: Final[dict[tuple[str, Indices], tuple[LocalRow, ...]]] = {}
        self.triggers: Final = self._by_trigger()

    def prepare(self) -> None:
        """Make all rows at all their parameters now."""
        for row in self._table.rows:
            for _ in self.instances(row):
                pass

    def family(self, row: Row) -> Family:
        """The row at all its parameters, made when needed."""
        return Family(row, self.premise(row), self)

    def answering(self, kind: type, name: str, arguments: Indices) -> tuple[LocalRow, ...]:
        """The rows that a trigger with these arguments can fire, in the order of the table."""
        found: list[LocalRow] = []
        for row, named in self.triggers.get((kind, name), ()):
            given = dict(zip(named, arguments, strict=True))
            if all(given[v] == i and 0 <= i < self._layout.sizes[type(v)]
                   for v, i in zip(named, arguments, strict=True)):
                found += self.instances(row, {v.name: range(i, i + 1) for v, i in given.items()})
        return tuple(found)

    def instances(
        self, row: Row, among: Mapping[str, range] | None = None
    ) -> Iterator[LocalRow]:
        """The row at each choice of parameters, without those at which it never fires.

        among: for a parameter, by its name, the elements to choose from; otherwise all.
        """
        variables = self._table.parameters(row)
        for indices in product(*((among or {}).get(v.name, range(self._layout.sizes[type(v)]))
                                 for v in variables)):
            yield from self._instance(row, variables, indices)

    def _by_trigger(self) -> dict[Trigger, list[tuple[Row, tuple[Sort, ...]]]]:
        """The rows on messages, calls and completions, each with the variables of its trigger."""
        found: dict[Trigger, list[tuple[Row, tuple[Sort, ...]]]] = {}
        for row in self._table.rows:
            match row.on:
                case Sent():
                    key: Trigger = (Sent, row.on.symbol.name)
                    named = row.on.arguments
                case Call() | Completion():
                    key, named = (type(row.on), row.on.name), row.on.parameters
                case _:
                    continue
            found.setdefault(key, []).append((row, named))
        return found

    def premise(self, row: Row) -> Guard:
        """The part of the guard about the machine alone, the same for all other parameters."""
        own = dict.fromkeys(self._table.machine.own, 0)
        return self._ground.guard(self._conditions.own(row), own, row) or NOWHERE

    def _instance(
        self, row: Row, variables: tuple[Sort, ...], indices: Indices
    ) -> tuple[LocalRow, ...]:
        key = row.name, indices
        if key not in self._made:
            environment = dict(zip(variables, indices, strict=True))
            alike = tuple(self._alike(row, variables, indices))
            self._made[key] = alike or tuple(self._grounded(row, environment))
        return self._made[key]

    def _grounded(self, row: Row, environment: Environment) -> Iterator[LocalRow]:
        ground = self._ground.guard(self._conditions.whole(row), environment, row)
        if ground is None:
            return
        sent = tuple(self._ground.sent(row, environment))
        marks = [self._layout.literal(message, indices, True)
                 for message, indices in sent if message in self._layout.symbols]
        for case, assigned in self._ground.cases(self._table, row, environment, ground):
            action = Action(case, *assignment([*assigned, *marks]))
            yield LocalRow(row, tuple(environment.values()), action, sent)

    def _alike(
        self, row: Row, variables: tuple[Sort, ...], indices: Indices
    ) -> Iterator[LocalRow]:
        """The row made from that for element 0, by exchanging the columns of the two elements.

        This is possible for a sort with columns: no rigid relation and no order distinguishes its
        elements. Empty if the row has no parameter of such a sort, or several, or element 0 itself.
        """
        named = [(place, stripe) for place, variable in enumerate(variables)
                 if (stripe := self._layout.stripes.get(type(variable))) is not None
                 and type(variable) not in self._conditions.ordered]
        if len(named) != 1 or not indices[named[0][0]]:
            return
        (place, stripe), = named
        swap = partial(_swapped, stripe.offsets[0], stripe.offsets[indices[place]], stripe.width)
        sent = tuple(self._ground.sent(row, dict(zip(variables, indices, strict=True))))
        for first in self._instance(row, variables, (*indices[:place], 0, *indices[place + 1:])):
            action = first.action
            swapped = Action(action.guard.mapped(swap), swap(action.clear), swap(action.assign))
            yield LocalRow(row, indices, swapped, sent)


def _swapped(one: int, other: int, width: int, bits: int) -> int:
    """The bits with two columns exchanged."""
    ones = (1 << width) - 1
    first, second = bits >> one & ones, bits >> other & ones
    return bits & ~(ones << one | ones << other) | first << other | second << one
