"""From tables to ground rows: parameters become elements, formulas become guards.

The ground form is exact. There is one ground row for each row and choice of parameters, but a row
on a counted broadcast has two (delivery.py), one whose updates have a `where` has one for each
choice of the cells that satisfy it, and one that uses a channel has one for each content of it
(channels.py). Its guard is in conjunctive normal form, with the unit clauses joined in one cube; of
a conjunct that would have many clauses, the decision diagram is walked instead (decisions.py).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import Any, Final, TypeAlias, assert_never

from pdproto.ground.cases import CASES_MAX, Case, split
from pdproto.ground.channels import Queue, QueueChange, Queues
from pdproto.ground.choices import Choices
from pdproto.ground.clausal import ClausalForm
from pdproto.ground.clauses import TOO_MANY, static
from pdproto.ground.decisions import DecisionDiagram
from pdproto.ground.delivery import Deliveries, delivery_marks
from pdproto.ground.diagram_of import diagram_of
from pdproto.ground.diagrams import CELLS_MAX, NODES_MAX, Diagrams, TooManyNodesError
from pdproto.ground.layout import Indices, Layout, TooLargeError
from pdproto.ground.program import (
    Action,
    Clause,
    Effect,
    Guard,
    Literal,
    acting,
    simplified,
)
from pdproto.ground.starts import starts
from pdproto.ground.values import changes_of, is_told, values_of
from pdproto.spec.language.formula import (
    And,
    Exists,
    Forall,
    Formula,
    Or,
    free_variables,
    negated,
    normal,
)
from pdproto.spec.language.machine import Row, Table, Timer
from pdproto.spec.language.place import Place, SpecError
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import (
    Each,
    Message,
    Rigid,
    Sent,
    Sizes,
    Symbol,
    Update,
)
from pdproto.spec.language.system import Configuration, System

Environment: TypeAlias = Mapping[Sort, int]
Interpretation: TypeAlias = Mapping[Rigid[*tuple[Any, ...]], frozenset[Indices]]
Conjunct: TypeAlias = tuple[list[Clause], tuple[DecisionDiagram, ...]]  # one of the two is empty
ROWS_MAX: Final = 100_000
FEW_MAX: Final = 100  # clauses of a conjunct of a guard; of more the diagram is walked instead
CLAUSES_MAX: Final = 10_000  # of a conjunct whose diagram is too large, and of a guard


@dataclass(frozen=True, slots=True)
class GroundRow:
    """A row at its parameters: the unit of transitions, coverage and fairness."""

    table: Table
    row: Row
    layer: str  # the fault layer, or ""
    environment: Environment
    action: Action

    @property
    def parameters(self) -> str:
        """The elements of the parameters as text: "p0, h1"."""
        return element_names(self.environment)

    def __str__(self) -> str:
        return f"{self.row.name}({self.parameters})"


def element_names(environment: Environment) -> str:
    """The elements of an environment as a trace shows them: "p0, q1"."""
    return ", ".join(type(v).element(i) for v, i in environment.items())


class Grounder:
    """Grounds formulas and effects at given sizes, over a layout with every symbol they mention.

    consume: delivery takes the message off the network (Fairness.CONSUMED).
    Raises SpecError for a guard that does not fit the form.
    """

    def __init__(
        self, layout: Layout, given: Interpretation, place: Place, *, consume: bool = False
    ) -> None:
        self.layout: Final = layout
        self.sizes: Final = layout.sizes
        self.given: Final = given
        self.place: Final = place
        self.consume: Final = consume
        self.deliveries: Deliveries = Deliveries(layout, {})
        self.queues: Final = Queues(layout)
        self._few: Final = ClausalForm(self, FEW_MAX, patient=False)  # a diagram is made instead
        self._many: Final = ClausalForm(self, CLAUSES_MAX)
        self.carried: Final[frozenset[Symbol]] = frozenset(
            one for message in layout.symbols if isinstance(message, Message)
            for one in message.carries)

    def environments(self, variables: tuple[Sort, ...]) -> Iterator[Environment]:
        """Every choice of elements for the variables."""
        for choice in product(*(range(self.sizes[type(v)]) for v in variables)):
            yield dict(zip(variables, choice, strict=True))

    def guard(
        self, formula: Formula, environment: Environment, row: Row | None = None,
        part: str = "its guard",
    ) -> Guard | None:
        """A formula in negation normal form as a guard; None where it cannot hold.

        row, part: of the formula, for the error. Raises SpecError for a conjunct that is too large
        as clauses and as a diagram.
        """
        clauses: list[Clause] = []
        decisions: list[DecisionDiagram] = []
        for made, decided in self._conjuncts(formula, environment, row, part):
            if () in made:
                return None
            clauses += made
            decisions += decided
        return simplified(clauses, decisions=decisions)

    def _conjuncts(
        self, formula: Formula, environment: Environment, row: Row | None, part: str
    ) -> Iterator[Conjunct]:
        made = TOO_MANY if isinstance(formula, And) else self._few.clauses(formula, environment)
        match formula:
            case And(parts):
                for one in parts:
                    yield from self._conjuncts(one, environment, row, part)
            case Forall(variable, body) if made is TOO_MANY:
                for inner in self._each(variable, environment):
                    yield from self._conjuncts(body, inner, row, part)
            case _:
                yield (self._decided(formula, environment, row, part) if made is TOO_MANY
                       else (made, ()))

    def _decided(
        self, formula: Formula, environment: Environment, row: Row | None, part: str
    ) -> Conjunct:
        """A formula of many clauses."""
        diagrams = Diagrams()
        with suppress(TooManyNodesError):
            decided = diagrams.decision(diagram_of(self, diagrams, formula, environment))
            if isinstance(decided, DecisionDiagram):
                return [], (decided,)
            return static(decided), ()
        made = self._many.clauses(formula, environment)
        if made is not TOO_MANY:
            return made, ()
        what = "a formula" if row is None else f"row {row.name!r}: {part}"
        raise SpecError(self.place if row is None else row.place, f"{what} has over "
                        f"{CLAUSES_MAX:,} clauses, and a diagram of over {NODES_MAX:,} nodes or "
                        f"{CELLS_MAX} cells, at these sizes: split it, or make a bound variable a "
                        "parameter (`choose=`)")

    def failures(self, claim: Formula, environment: Environment) -> list[Guard]:
        """Guards whose union is the negation of the claim."""
        return self.patterns(negated(claim), environment)

    def patterns(self, formula: Formula, environment: Environment) -> list[Guard]:
        """Guards whose union is the formula (in negation normal form)."""
        match formula:
            case Or(parts):
                return [g for part in parts for g in self.patterns(part, environment)]
            case Exists(variable, body):
                return [
                    guard
                    for i in range(self.sizes[type(variable)])
                    for guard in self.patterns(body, {**environment, variable: i})
                ]
            case _:
                return [guard] if (guard := self.guard(formula, environment)) is not None else []

    def instances(self, claim: Formula) -> Iterator[Environment]:
        """Every choice of elements for the claim's free variables."""
        return self.environments(free_variables(claim))

    def cell(self, arguments: tuple[Sort, ...], environment: Environment) -> Indices:
        """The indices of a cell with these arguments."""
        return tuple(environment[v] for v in arguments)

    def clauses(self, formula: Formula, environment: Environment) -> list[Clause]:
        """The clauses of a formula in negation normal form, or TOO_MANY."""
        return self._few.clauses(formula, environment)

    def remember(self, formula: Formula) -> Formula:
        """The formula, which is asked for many choices of elements: its parts are kept."""
        self._few.remember(formula)
        return formula

    def _each(self, variable: Sort, environment: Environment) -> Iterator[Environment]:
        for i in range(self.sizes[type(variable)]):
            yield {**environment, variable: i}

    def _actions(
        self, table: Table, row: Row, environment: Environment, guard: Guard
    ) -> Iterator[Action]:
        """The effects of the row; a delivery that is counted has one of two effects."""
        said = list(self._said(row, environment))
        for case, assigned in self._queued(table, row, environment, guard):
            effects = [*assigned, *said]
            if self.consume and isinstance(row.on, Sent) and row.on.message.fifo is None:
                message, at = row.on.message, self.cell(row.on.arguments, environment)
                if self.deliveries.is_counted(message):
                    own = self.cell(table.machine.own, environment)
                    yield from self.deliveries.actions(message, at, own, case, effects)
                    continue
                effects.insert(0, self.layout.literal(message, at, False))
            yield acting(case, effects)

    def _queued(
        self, table: Table, row: Row, environment: Environment, guard: Guard
    ) -> Iterator[tuple[Guard, tuple[Effect, ...]]]:
        """The cases of the row, with its effects on channels."""
        turns = self.turns(row, environment)
        if self.queues.count(turns) > CASES_MAX:
            raise SpecError(row.place, f"row {row.name!r} has over {CASES_MAX:,} cases at these "
                            "sizes, one for each choice of lengths of its channels: give them "
                            "fewer places")
        values = values_of if is_told(row, self.carried) else changes_of
        for case, assigned in split(self, table, row, environment, guard, values):
            for queued, changed in self.queues.cases(case, turns):
                yield queued, (*assigned, *changed)

    def turns(self, row: Row, environment: Environment) -> Mapping[Queue, QueueChange]:
        """The change of each queue by the row."""
        on = row.on
        taken = (on.message, self.cell(on.arguments, environment)) if isinstance(on, Sent) else None
        return self.queues.turns(taken, self.sent(row, environment))

    def _said(self, row: Row, environment: Environment) -> Iterator[Literal]:
        for message, indices in self.sent(row, environment):
            if message.fifo is None:
                yield self.layout.literal(message, indices, True)
                yield from self.deliveries.reset_marks(message, indices)

    def sent(
        self, row: Row, environment: Environment
    ) -> Iterator[tuple[Message[*tuple[Any, ...]], Indices]]:
        """The messages that the row sends, in the order of the row."""
        for effect in row.send:
            match effect:
                case Each(variable, sent, where):
                    for inner in self._each(variable, environment):
                        if self.guard(normal(where), inner) is not None:
                            yield sent.message, self.cell(sent.arguments, inner)
                case Sent():
                    yield effect.message, self.cell(effect.arguments, environment)
                case _:
                    assert_never(effect)

    def cases(
        self, table: Table, row: Row, environment: Environment, guard: Guard
    ) -> Sequence[Case]:
        """The row's guard with the values that the row assigns (cases.py)."""
        return split(self, table, row, environment, guard, values_of)

    def assigned(self, update: Update, environment: Environment) -> Iterator[Literal]:
        """The literals that an update of a constant makes true."""
        for one in update.symbol.plain(update):
            for indices in self.cells(one, environment):
                yield self.layout.literal(one.symbol, indices, one.value)
                yield from self.deliveries.reset_marks(one.symbol, indices)

    def cells(self, update: Update, environment: Environment) -> Iterator[Indices]:
        """The indices of the cells of an update; ANY stands for every element."""
        return product(*(
            range(self.sizes[sort]) if argument is ANY else (environment[argument],)
            for argument, sort in zip(update.arguments, update.symbol.sorts, strict=True)))


class Ground(Grounder):
    """A system at given sizes, faults and interpretation of its rigid symbols.

    consume: delivery takes the message off the network (Fairness.CONSUMED). timers: keep the rows
    on timers. Raises TooLargeError above ROWS_MAX ground rows or CELLS_MAX cells, and SpecError for
    a guard that is too large and for a sort without a size.
    """

    def __init__(
        self,
        system: System,
        sizes: Sizes,
        faults: tuple[str, ...] = (),
        given: Interpretation | None = None,
        *,
        consume: bool = False,
        timers: bool = True,
    ) -> None:
        sizes = system.sized(sizes)
        marks = delivery_marks(system.variables, sizes) if consume else {}
        layout = Layout((*system.variables, *marks.values()), sizes)
        super().__init__(layout, given or {}, system.place, consume=consume)
        self.deliveries = Deliveries(layout, marks)
        self.system: Final = system
        self.faults: Final = faults
        self.timers: Final = timers

    initial = cached_property(starts)

    @cached_property
    def rows(self) -> tuple[GroundRow, ...]:
        """The ground rows, without those whose guard alone shows that they never fire."""
        return tuple(self._rows())

    def _rows(self) -> Iterator[GroundRow]:
        total = 0
        for table, layer in self.system.tables_under(self.faults):
            for row in table.rows:
                if isinstance(row.on, Timer) and not self.timers:
                    continue
                guard = self.remember(normal(table.guard(row)))
                for environment in Choices(table.parameters(row), guard, self):
                    total += 1
                    if total > ROWS_MAX:
                        raise TooLargeError(
                            f"over {ROWS_MAX:,} ground rows at these sizes, at row {row.name!r}: "
                            "say in its guard, by a rigid relation, which parameters it can have")
                    if (ground := self.guard(guard, environment, row)) is not None:
                        for action in self._actions(table, row, environment, ground):
                            yield GroundRow(table, row, layer, environment, action)


def ground_for(
    system: System, configuration: Configuration, given: Interpretation, fairness: Fairness
) -> Ground:
    """The ground system of a configuration under the network and timers that `fairness` assumes."""
    return Ground(
        system, configuration.sizes, configuration.faults, given,
        consume=fairness is Fairness.CONSUMED, timers=fairness is not Fairness.NO_TIMERS,
    )
