"""The subject of lint: a system at small sizes, and the values that each cell can have.

The values are a fixpoint over the ground rows, for each cell separately: a row whose guard can hold
for the values so far adds the values that it writes. These include every value that a run can
reach. So a value that is impossible here is impossible in every run, but not the other way round.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

from pdproto.check.lint.solver import Constraint, Domains, GuardCells, solve
from pdproto.check.words import trigger_name
from pdproto.ground.grounding import Ground, GroundRow, Interpretation
from pdproto.ground.layout import Indices, cell_name, value_name
from pdproto.ground.program import Guard
from pdproto.spec.language.elements import ElementFunction, one_value
from pdproto.spec.language.formula import Formula, normal
from pdproto.spec.language.machine import Call, Completion, Machine, Table
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.properties import Always
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Sent, Sizes, Symbol
from pdproto.spec.language.system import System

TUPLES_MAX: Final = 8  # of a rigid symbol, that a witness lists

AnyMachine: TypeAlias = Machine[*tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class TriggerInstance:
    """One instance of a trigger, at one instance of its machine."""

    machine: AnyMachine
    own: Indices
    kind: str  # "message", "call", "timer", "completion", or "" for a row without a trigger
    name: str
    arguments: Indices


class LintSubject:
    """A system with all its fault layers, at given sizes, in one interpretation.

    lemmas: claims that hold in every state, proved elsewhere.
    """

    def __init__(
        self, system: System, sizes: Sizes, given: Interpretation, lemmas: Sequence[Always] = ()
    ) -> None:
        self.system: Final = system
        self.lemmas: Final = tuple(lemmas)
        self.ground: Final = Ground(system, sizes, tuple(system.faults), given)
        fields = self.ground.layout.fields
        self.cells: Final = GuardCells((f, len(symbol.values)) for (symbol, _), f in fields.items())
        self.names: Final = {field.offset: cell for cell, field in fields.items()}

    @cached_property
    def guards(self) -> Mapping[int, tuple[Constraint, ...]]:
        """The guard of each ground row as constraints, by the row's number."""
        return {
            number: self.cells.holds(row.action.guard)
            for number, row in enumerate(self.ground.rows)
        }

    @cached_property
    def conditions(self) -> Mapping[int, Guard]:
        """The guard of each ground row without its trigger, by the row's number."""
        found = {}
        for number, row in enumerate(self.ground.rows):
            condition = normal(row.table.condition(row.row))
            guard = self.ground.guard(condition, row.environment, row.row)
            # The whole guard can hold, so a part of it can.
            assert guard is not None  # noqa: S101
            found[number] = guard
        return found

    @cached_property
    def answers(self) -> Mapping[int, Guard]:
        """The guard of each ground row, by the row's number, whatever waits in its channels."""
        return {
            number: self.conditions[number]
            if isinstance(row.row.on, Sent) and row.row.on.message.fifo is not None
            else row.action.guard
            for number, row in enumerate(self.ground.rows)
        }

    @cached_property
    def known(self) -> tuple[Constraint, ...]:
        """The lemmas at these sizes, without those that are too large for guards."""
        return self._constraints(lemma.claim for lemma in self.lemmas)

    @cached_property
    def functional(self) -> tuple[Constraint, ...]:
        """That each cell of a function into a sort has one value at most."""
        return self._constraints(map(one_value, self.system.element_functions()))

    def _constraints(self, claims: Iterable[Formula]) -> tuple[Constraint, ...]:
        found: list[Constraint] = []
        for formula in map(normal, claims):
            with suppress(SpecError):
                for environment in self.ground.instances(formula):
                    guard = self.ground.guard(formula, environment)
                    if guard is not None:
                        found += self.cells.holds(guard)
        return tuple(constraint for constraint in found if constraint != ({},))

    def in_known_states(
        self, domains: Domains, constraints: Sequence[Constraint]
    ) -> dict[int, int] | None:
        """The solution of `solve`, among the states in which the lemmas hold."""
        solution = self.solve(domains, constraints)
        if solution is None or not self.known:
            return solution
        return self.solve(domains, (*constraints, *self.known))

    def solve(
        self, domains: Domains, constraints: Iterable[Constraint]
    ) -> dict[int, int] | None:
        """The solution of `solve`, with one value at most in each cell of a function."""
        asked = tuple(constraints)
        if self.functional:
            named = {cell for constraint in asked for box in constraint for cell in box}
            # Any other cell may be false, so no constraint on it excludes a solution.
            asked += tuple(constraint for constraint in self.functional
                           if named.issuperset(cell for box in constraint for cell in box))
        return solve(domains, asked)

    @cached_property
    def _reached(self) -> tuple[Domains, frozenset[int]]:
        domains = {cell: full if self.names[cell][0].starts_free else 1  # code 0 is initial
                   for cell, full in self.cells.full.items()}
        waiting = dict(enumerate(self.ground.rows))
        fired: set[int] = set()
        grown = True
        while grown:
            grown = False
            for number, row in list(waiting.items()):
                if self.solve(domains, self.guards[number]) is None:
                    continue
                del waiting[number]
                fired.add(number)
                grown = True
                for cell, code in self._assigned(row).items():
                    domains[cell] |= code
            for number in fired:
                for cell, source in self._copied(self.ground.rows[number]):
                    grown |= bool(domains[source] & ~domains[cell])
                    domains[cell] |= domains[source]
        return domains, frozenset(fired)

    @property
    def reachable(self) -> Domains:
        """Each cell's values, initial or written by a row that can fire."""
        return self._reached[0]

    @cached_property
    def receivable(self) -> Domains:
        """`reachable`, but with any message sent: a faulty peer may send any message."""
        return {
            cell: self.cells.full[cell] if isinstance(self.names[cell][0], Message) else codes
            for cell, codes in self.reachable.items()
        }

    @cached_property
    def live_rows(self) -> tuple[tuple[int, GroundRow], ...]:
        """The ground rows whose guards can hold for the `reachable` values, with their numbers."""
        return tuple((n, row) for n, row in enumerate(self.ground.rows) if n in self._reached[1])

    def written(self, row: GroundRow) -> dict[int, int]:
        """The cells that a row assigns, each with its codes as a bit set: all, if it moves there.
        """
        return {**self._assigned(row),
                **{cell: self.cells.full[cell] for cell, _ in self._copied(row)}}

    def _assigned(self, row: GroundRow) -> dict[int, int]:
        """The cells that a row gives a value of its own, each with the code as a bit set."""
        return self.cells.codes(row.action.clear & ~row.action.moved, row.action.assign)

    def _copied(self, row: GroundRow) -> Iterator[tuple[int, int]]:
        """The cells that a row moves another cell to, with that cell."""
        for mask, shift in row.action.moves:
            for cell in self.cells.codes(mask, 0):
                yield cell + shift, cell

    def possible(self, guards: list[Guard]) -> bool:
        """Whether one of the guards can hold in a state whose cells are all reachable."""
        return any(self.solve(self.reachable, self.cells.holds(g)) is not None for g in guards)

    def witness(self, solution: Domains, domains: Domains) -> tuple[str, ...]:
        """The cells that a solution narrows: `vote(p0) = committed`."""
        return tuple(
            self.cell_text(cell, codes)
            for cell, codes in solution.items()
            if codes != domains[cell]
        )

    @cached_property
    def topology(self) -> tuple[str, ...]:
        """The rigid symbols in this interpretation: `channel(p0, p1)`, or `channel is empty`."""
        found = []
        for symbol in self.system.relations:
            listed = [cell_name(symbol, indices) for indices in sorted(self.ground.given[symbol])]
            if len(listed) > TUPLES_MAX:
                listed[TUPLES_MAX:] = [f"{len(listed) - TUPLES_MAX} more of {symbol}"]
            found += listed or [f"{symbol} is empty"]
        return tuple(found)

    def cell_text(self, cell: int, codes: int) -> str:
        """The text of a cell with the first of the codes; of a relation or message as a literal."""
        symbol, indices = self.names[cell]
        value = symbol.values[(codes & -codes).bit_length() - 1]
        if isinstance(symbol, ElementFunction):
            equal = "=" if value else "!="
            return (f"{cell_name(symbol, indices[:-1])} {equal} "
                    f"{symbol.sorts[-1].element(indices[-1])}")
        name = cell_name(symbol, indices)
        if isinstance(value, bool):
            return name if value else f"not {name}"
        return f"{name} = {value_name(value)}"

    def offset(self, symbol: Symbol, indices: Indices) -> int:
        """The bit offset of a cell, its key in domains."""
        return self.ground.layout.field(symbol, indices).offset

    def event(self, row: GroundRow) -> TriggerInstance:
        """The trigger of the ground row, with its instance."""
        on = row.row.on
        kind, name = trigger_name(on)
        arguments: tuple[Sort, ...] = ()
        if isinstance(on, Sent):
            arguments = on.arguments
        elif isinstance(on, Call | Completion):
            arguments = on.parameters
        at = row.environment.__getitem__
        own = tuple(map(at, row.table.machine.own))
        return TriggerInstance(row.table.machine, own, kind, name, tuple(map(at, arguments)))

    @cached_property
    def tables(self) -> Mapping[AnyMachine, tuple[Table, ...]]:
        """The tables of each process, without the world, whose rows need no answers."""
        tables: dict[AnyMachine, tuple[Table, ...]] = {}
        for table in self.system.every_table:
            if not table.machine.world:
                tables[table.machine] = (*tables.get(table.machine, ()), table)
        return tables

    @cached_property
    def rows_by_event(self) -> Mapping[TriggerInstance, tuple[int, ...]]:
        """The numbers of the ground rows of processes, by their trigger."""
        found: dict[TriggerInstance, list[int]] = {}
        for number, row in enumerate(self.ground.rows):
            if not row.table.machine.world:
                found.setdefault(self.event(row), []).append(number)
        return {event: tuple(numbers) for event, numbers in found.items()}

    def instances(self, sorts: tuple[type[Sort], ...]) -> Iterator[Indices]:
        """Every choice of elements for the sorts."""
        variables = tuple(sort(f"v{place}") for place, sort in enumerate(sorts))
        for environment in self.ground.environments(variables):
            yield tuple(environment.values())
