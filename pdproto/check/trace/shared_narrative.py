"""The last steps of machines that hand-overs share, as lanes, up to the line that no row explains.

Elements are shown as in the lines. Only rows that fired are steps.
"""

from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Mapping
from enum import Enum
from typing import Any, Final, TypeAlias

from pdproto.check.result import Arrow, Change, Lane, Trace, TraceStep
from pdproto.check.trace.cells import Cell, Environment, TracedCells
from pdproto.check.trace.verdict import CONFORMS, STEPS_MAX
from pdproto.check.words import trigger_text
from pdproto.ground.layout import value_name
from pdproto.spec.language.machine import Instance as Party
from pdproto.spec.language.machine import Machine, Row, Table
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Message, Sent, Update
from pdproto.spec.language.system import System

AnyMachine: TypeAlias = Machine[*tuple[Any, ...]]


class Narrative:
    """The last rows that fired, all machines together, in the order of the replay."""

    def __init__(self, system: System) -> None:
        self._system: Final = system
        self._steps: Final[deque[TraceStep]] = deque(maxlen=STEPS_MAX - 1)
        self._told = 0

    @property
    def earlier(self) -> int:
        """The number of steps before those that are kept."""
        return self._told - len(self._steps)

    def fired(
        self, row: Row, lane: str, given: Mapping[str, Any], environment: Environment,
        changes: tuple[Change, ...], sent: Iterable[Cell],
    ) -> None:
        """Add a row that fired."""
        received = None
        if isinstance(row.on, Sent):
            key = tuple(environment[variable] for variable in row.on.arguments)
            received = _arrow(row.on.message, key)
        arrows = tuple(_arrow(symbol, key) for symbol, key in sent if isinstance(symbol, Message))
        self._told += 1
        self._steps.append(TraceStep(
            row.name, ", ".join(map(str, given.values())), lane, trigger_text(row.on), row.why,
            row.place, "", received, arrows, (), changes, {CONFORMS: True},
        ))

    def until(self, name: str, parameters: str, lane: str, number: int, why: str) -> Trace:
        """The trace, with the rejected line as its last step."""
        found = self._system.row(name)
        place = self._system.place if found is None else found[1].place
        last = TraceStep(
            name or f"line {number}",
            parameters,
            lane,
            f"line {number}",
            why,
            place,
            "",
            None,
            (),
            (),
            (),
            {CONFORMS: False},
        )
        steps = (*self._steps, last)
        names = dict.fromkeys(name for step in steps for name in _lanes(step) if name)
        order = [machine.name for machine in self._system.machines]
        lanes = [Lane(name, name.split(" ")[0]) for name in names]
        lanes.sort(key=lambda lane: (order.index(lane.machine), lane.name))
        return Trace(tuple(lanes), (), steps, start_holds={CONFORMS: True})


def lane_of(machine: AnyMachine, elements: Iterable[Hashable]) -> str:
    """The name of an instance's lane: `clerk`, `worker 3`."""
    return " ".join([machine.name, *map(str, elements)])


def changes_of(
    cells: TracedCells, table: Table, row: Row, lane: str, environment: Environment
) -> tuple[Change, ...]:
    """The changes that the row will make to its machine; call it before the row is applied."""
    return tuple(_changes(cells, table.assignments(row), lane, environment))


def _changes(
    cells: TracedCells, updates: Iterable[Update], lane: str, environment: Environment
) -> Iterator[Change]:
    found: dict[str, Change] = {}  # a copied element clears its cell, and then fills it
    for update, chosen in ((u, one) for u in updates for one in cells.selected(u, environment)):
        arguments, value = update.symbol.reading(update.arguments, update.value)
        key = tuple(ANY if v is ANY else chosen[v] for v in arguments)
        cell = _applied(str(update.symbol), ("any" if of is ANY else of for of in key))
        # The value of a function into a sort is an element, or none.
        after = (value_name(value) if isinstance(value, bool | Enum) else
                 str(chosen[value] if isinstance(value, Sort) else value))
        before = "" if ANY in key else cells.text(update.symbol, key)
        found[cell] = Change(lane, cell, before, after)
    yield from (one for one in found.values() if one.before != one.after)


def _arrow(message: Message[*tuple[Any, ...]], key: tuple[Hashable, ...]) -> Arrow:
    given = dict(zip(message.formals, key, strict=True))

    def party(one: Party) -> str:
        return lane_of(one.machine, (given[v] for v in one.variables if v in given))

    return Arrow(_applied(message.name, key), party(message.sender), (party(message.receiver),))


def _applied(name: str, elements: Iterable[Hashable]) -> str:
    listed = ", ".join(map(str, elements))
    return f"{name}({listed})" if listed else name


def _lanes(step: TraceStep) -> Iterator[str]:
    yield step.lane
    for arrow in (*step.sent, *((step.received,) if step.received else ())):
        yield from (arrow.sender, *arrow.receivers)
