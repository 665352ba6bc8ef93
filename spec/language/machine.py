"""Machines and their tables: the owners of variables, and the rows that alone may change them.

    manager = Machine("manager", p)              # one instance for each Participant; p is self
    rm = manager.function("rm", RM)              # rm(p): self comes first, by itself
    MANAGER = Table(manager, state=rm, rows=(
        Row("prepare", at=RM.WORKING, to=RM.PREPARED, on=Call("prepare"), send=[prepared(p)]),
        ...
    ))

A row reads: in state `at`, on the trigger `on`, if `when` holds, go `to`, `do` the updates and
`send` the messages, all at once. All other variables stay as they are.
"""

import enum
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar, TypeVarTuple, overload

from .computed import in_range, resolved
from .defined import defined_update
from .elements import ElementFunction
from .formula import TRUE, And, Formula, forall, implies
from .kinds import no_value, require, require_name, shown
from .numbered import Numbers
from .place import Place, SpecError, here
from .ranges import Int
from .row import Row, RowKind
from .sequences import Seq, Sequence
from .sorts import ANY, Sort, wanted
from .symbols import Computed, Each, Function, Relation, Sent, Symbol, Update, Variable
from .terms import NumberFunction
from .triggers import Call, Completion, Timer, Trigger

__all__ = [
    "Call",
    "Completion",
    "Instance",
    "Machine",
    "Row",
    "RowKind",
    "Table",
    "Timer",
    "Trigger",
]

E = TypeVar("E", bound=enum.Enum)
V = TypeVar("V", bound=Sort)
A = TypeVar("A", bound=Sort)
B = TypeVar("B", bound=Sort)
C = TypeVar("C", bound=Sort)
Ps = TypeVarTuple("Ps")


@dataclass(frozen=True, slots=True)
class Instance:
    """A machine at variables: `manager.at(q)`."""

    machine: "Machine[*tuple[Any, ...]]"
    variables: tuple[Sort, ...]

    @property
    def instance(self) -> "Instance":
        return self


class Machine(Generic[*Ps]):
    """A kind of process: one instance for each choice of its own variables (`self`).

    world: the environment (crash, loss), whose rows may read and write everything.
    host: a process that holds several machines of the system. Its rows may read and write
    everything too, but they are decisions of the protocol, so `pdproto mutate` changes them.
    """

    def __init__(
        self, name: str, *own: *Ps, world: bool = False, host: bool = False
    ) -> None:
        self.place: Final = here()
        require_name("machine", name, self.place)
        variables: tuple[Any, ...] = own
        if not all(isinstance(variable, Sort) for variable in variables):
            raise SpecError(self.place, f"machine {name!r}: want variables, such as Rank('r')")
        self.name: Final = name
        self.own: Final[tuple[Sort, ...]] = variables
        self.world: Final = world or host
        self.host: Final = host
        self.symbols: Final[list[Symbol]] = []

    @property
    def sorts(self) -> tuple[type[Sort], ...]:
        return tuple(type(variable) for variable in self.own)

    @property
    def instance(self) -> Instance:
        return Instance(self, self.own)

    def at(self, *variables: *Ps) -> Instance:
        """The instance named by other variables than the machine's own."""
        named: tuple[Any, ...] = variables
        if tuple(type(variable) for variable in named) != self.sorts:
            own = ", ".join(sort.__name__ for sort in self.sorts)
            raise SpecError(here(), f"{self.name}.at({own}) was given {shown(named)}: "
                                    f"want {wanted(self.sorts)}")
        return Instance(self, named)

    def declare(self, symbol: Symbol) -> None:
        """Enter a variable or an outgoing message; two of one name are refused."""
        if any(other.name == symbol.name for other in self.symbols):
            raise SpecError(symbol.place, f"{self.name} declares {symbol.name} twice")
        self.symbols.append(symbol)

    @overload
    def function(
        self, name: str, values: type[E], /,
        *, edges: Mapping[E, Collection[E]] | None = None, init: E | None = None,
    ) -> Function[E, *Ps]: ...
    @overload
    def function(
        self, name: str, values: type[E], a: type[A], /,
        *, edges: Mapping[E, Collection[E]] | None = None, init: E | None = None,
    ) -> Function[E, *Ps, A]: ...
    @overload
    def function(
        self, name: str, values: type[E], a: type[A], b: type[B], /,
        *, edges: Mapping[E, Collection[E]] | None = None, init: E | None = None,
    ) -> Function[E, *Ps, A, B]: ...
    @overload
    def function(
        self, name: str, values: type[E], a: type[A], b: type[B], c: type[C], /,
        *, edges: Mapping[E, Collection[E]] | None = None, init: E | None = None,
    ) -> Function[E, *Ps, A, B, C]: ...
    @overload
    def function(  # type: ignore[overload-overlap]  # a sort of numbers is a sort
        self, name: str, values: Int | type[Numbers], /, *, init: int | None = None
    ) -> NumberFunction[*Ps]: ...
    @overload
    def function(  # type: ignore[overload-overlap]  # a sort of numbers is a sort
        self, name: str, values: Int | type[Numbers], a: type[A], /, *, init: int | None = None
    ) -> NumberFunction[*Ps, A]: ...
    @overload
    def function(  # type: ignore[overload-overlap]  # a sort of numbers is a sort
        self, name: str, values: Int | type[Numbers], a: type[A], b: type[B], /,
        *, init: int | None = None,
    ) -> NumberFunction[*Ps, A, B]: ...
    @overload
    def function(self, name: str, values: Seq, /) -> Sequence[*Ps]: ...
    @overload
    def function(self, name: str, values: Seq, a: type[A], /) -> Sequence[*Ps, A]: ...
    @overload
    def function(
        self, name: str, values: Seq, a: type[A], b: type[B], /
    ) -> Sequence[*Ps, A, B]: ...
    @overload
    def function(
        self, name: str, values: type[V], /, *, init: None = None
    ) -> ElementFunction[V, *Ps]: ...
    @overload
    def function(
        self, name: str, values: type[V], a: type[A], /, *, init: None = None
    ) -> ElementFunction[V, *Ps, A]: ...
    @overload
    def function(
        self, name: str, values: type[V], a: type[A], b: type[B], /, *, init: None = None
    ) -> ElementFunction[V, *Ps, A, B]: ...
    def function(
        self, name: str, values: Any, /, *sorts: type[Sort],
        edges: Mapping[Any, Collection[Any]] | None = None, init: Any = None,
    ) -> Any:
        """A variable `name(self..., sorts...)`: a member of an enum, or a number of a range,
        initially `init`, or the first; or an element of a sort, initially none; or a sequence,
        initially empty. init=ANY: initially any value, as far as the system's `init=` allows it.
        """
        if isinstance(values, Seq):
            return self._sequence(name, values, sorts, edges, init)
        free, init = init is ANY, None if init is ANY else init
        symbol = self._function(name, values, sorts, edges, init)
        symbol.starts_free = free
        self.declare(symbol)
        return symbol

    def _function(
        self, name: str, values: Any, sorts: tuple[type[Sort], ...],
        edges: Mapping[Any, Collection[Any]] | None, init: Any,
    ) -> Variable:
        if isinstance(values, type) and issubclass(values, Numbers):
            values = values.values
        if isinstance(values, Int):
            return self._numbers(name, values, sorts, edges, init)
        is_class = isinstance(values, type)
        require(is_class and issubclass(values, enum.Enum | Sort),
                f"function {name!r}: its values are {shown(values)}: want an enum, such as "
                "class Phase(State), numbers, as Int(0, 5), or a sort; for a truth value use "
                "relation()")
        if issubclass(values, Sort):
            require(edges is None and init is None,
                    f"function {name!r}: edges= and init= are for the values of an enum: a "
                    "function into a sort is unset at the start, or with init=ANY any element or "
                    "unset, as the system's init= says")
            return ElementFunction(self, name, self.sorts + sorts, values)
        first = () if init is None else (init,)
        require(init is None or init in tuple(values), f"init={no_value(init, name, values)}")
        ordered = tuple(dict.fromkeys((*first, *values)))
        return Function(self, name, self.sorts + sorts, ordered, edges)

    def _sequence(self, name: str, of: Seq, sorts: tuple[type[Sort], ...],
                  edges: object, init: object) -> Sequence[*tuple[Any, ...]]:
        require(edges is None and init is None, f"function {name!r}: a sequence is empty at the "
                "start: let a first row append to it")
        parts: list[Any] = [self.function(f"{name}_length", Int(0, of.most), *sorts), *(
            self.function(f"{name}_{k}", of.values, *sorts) for k in range(of.most))]
        return Sequence(name, of, parts[0], tuple(parts[1:]))

    def _numbers(self, name: str, range_: Int, sorts: tuple[type[Sort], ...],
                 edges: object, init: object) -> NumberFunction[*tuple[Any, ...]]:
        first = range_.low if init is None else init
        require(edges is None, f"function {name!r}: edges= is for the values of an enum: say with "
                               "when= from which numbers a row may move")
        if type(first) is not int or first not in range_:
            raise SpecError(here(), f"function {name!r}: init={shown(init)}: want a number of "
                                    f"{range_!r}")
        return NumberFunction(self, name, self.sorts + sorts, range_, first)

    @overload
    def relation(self, name: str, /, *, init: bool = False) -> Relation[*Ps]: ...
    @overload
    def relation(self, name: str, a: type[A], /, *, init: bool = False) -> Relation[*Ps, A]: ...
    @overload
    def relation(
        self, name: str, a: type[A], b: type[B], /, *, init: bool = False
    ) -> Relation[*Ps, A, B]: ...
    @overload
    def relation(
        self, name: str, a: type[A], b: type[B], c: type[C], /, *, init: bool = False
    ) -> Relation[*Ps, A, B, C]: ...
    def relation(
        self, name: str, /, *sorts: type[Sort], init: bool = False
    ) -> Relation[*tuple[Any, ...]]:
        """A relation `name(self..., sorts...)` that is `init` for all elements at the start.

        init=ANY: it holds at the start for any elements, as far as the system's `init=` allows it.
        """
        free, init = init is ANY, False if init is ANY else init
        require(isinstance(init, bool), f"relation {name!r}: init={shown(init)}: want True, where "
                "it holds for all elements at the start, False, or ANY, where init= of the system "
                "says for which")
        symbol: Relation[*tuple[Any, ...]] = Relation(
            self, name, self.sorts + sorts, (init, not init)
        )
        symbol.starts_free = free
        self.declare(symbol)
        return symbol

    def __repr__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """A machine's rows. state: the function that `at` and `to` refer to."""

    machine: "Machine[*tuple[Any, ...]]"
    state: Function[Any, *tuple[Any, ...]] | None = None
    rows: tuple[Row, ...] = ()
    place: Place = field(default_factory=here, compare=False, kw_only=True)
    # By the `id` of a row. The row is kept beside its text, so that no other gets its `id`.
    _guards: dict[int, tuple[Row, And]] = field(
        default_factory=dict, init=False, compare=False, repr=False)
    _assigned: dict[int, tuple[Row, tuple[Update, ...]]] = field(
        default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._check_kinds()
        rows: object = self.rows
        if isinstance(rows, Row):
            raise SpecError(self.place, f"rows= is one Row: write rows=(Row({rows.name!r}, ...),), "
                                        f"with a comma before the last parenthesis")
        for row in rows if isinstance(rows, tuple | list) else (rows,):
            if not isinstance(row, Row):
                raise SpecError(self.place, f"rows= has {shown(row)}: want a tuple of Row")
        object.__setattr__(self, "rows", tuple(self.rows))

    def __repr__(self) -> str:
        return f"Table({self.machine})"

    def _check_kinds(self) -> None:
        require(isinstance(self.machine, Machine),
                f"Table({shown(self.machine)}): want the machine first, as in Table(worker, ...)",
                self.place)
        state: object = self.state
        arguments = state.symbol if hasattr(state, "symbol") else "phase"
        into = " into an enum" if isinstance(state, ElementFunction) else ""
        require(state is None or isinstance(state, Function),
                f"state= is {shown(state)}: want a function{into} of {self.machine} without its "
                f"arguments, as in state={arguments}", self.place)

    @property
    def with_state(self) -> str:
        """The table as it is written with a state: `Table(worker, state=phase, ...)`."""
        functions = [symbol for symbol in self.machine.symbols
                     if type(symbol) is Function and symbol.sorts == self.machine.sorts]
        return f"Table({self.machine}, state={functions[0] if functions else 'phase'}, ...)"

    def row(self, name: str) -> Row:
        """The row of that name. Raises SpecError if there is none."""
        for row in self.rows:
            if row.name == name:
                return row
        raise SpecError(here(), f"the table of {self.machine.name} has no row {name!r}; it has: "
                                f"{', '.join(row.name for row in self.rows)}")

    def without(self, *names: str) -> "Table":
        """The table without the rows of these names. Raises SpecError for a name without a row."""
        dropped = [self.row(name) for name in names]
        return Table(self.machine, self.state, tuple(r for r in self.rows if r not in dropped))

    def guard(self, row: Row) -> And:
        """The row's whole guard: state, trigger and conditions."""
        known = self._guards.get(id(row))
        if known is None or known[0] is not row:
            whole = And((*self.written_guard(row).parts, *self.ranges(row)))
            known = self._guards[id(row)] = row, whole
        return known[1]

    def written_guard(self, row: Row) -> And:
        """The row's whole guard without `ranges`."""
        on = (row.on.arrived,) if isinstance(row.on, Sent) else ()
        return And((*on, *self.written_condition(row).parts))

    def condition(self, row: Row) -> And:
        """The row's guard without its trigger."""
        return And((*self.written_condition(row).parts, *self.ranges(row)))

    def written_condition(self, row: Row) -> And:
        """The same without `ranges`."""
        at = (self._state(row).among(*row.states),) if row.states else ()
        return And((*at, *row.conditions))

    def ranges(self, row: Row) -> tuple[Formula, ...]:
        """The conditions that no update leaves the range of its function (numbers.py, rule 2), or
        reads past the end of a sequence (sequences.py, rule 2).
        """
        found = ((update, in_range(update)) for update in row.do if isinstance(
            update.value, Computed))
        fit = (forall(update.variables, fits if update.where == TRUE else
                      implies(update.where, fits)) for update, fits in found if fits != TRUE)
        read = (one for one in map(defined_update, row.do) if one != TRUE)
        return *fit, *dict.fromkeys(read)

    def written(self, row: Row) -> tuple[Update, ...]:
        """The row's whole update of variables as it is written: `to` and `do`, without messages."""
        return *self._moved(row), *row.do

    def assignments(self, row: Row) -> tuple[Update, ...]:
        """The same as assignments of constants: a computed value is one under each condition."""
        return *self._moved(row), *self._resolved(row)

    def _moved(self, row: Row) -> tuple[Update, ...]:
        return () if row.to is None else (self._state(row).to(row.to),)

    def _resolved(self, row: Row) -> tuple[Update, ...]:
        known = self._assigned.get(id(row))
        if known is None or known[0] is not row:
            known = self._assigned[id(row)] = row, tuple(
                one for update in row.do for one in resolved(update))
        return known[1]

    def updates(self, row: Row) -> tuple[Update, ...]:
        """The assignments as updates of single values, in order; a later one wins."""
        return tuple(one for update in self.assignments(row) for one in update.symbol.plain(update))

    def formulas(self, row: Row) -> Iterator[Formula]:
        """The row's guard, and the `where` of each of its `each` effects."""
        yield self.guard(row)
        yield from (one.where for one in self._resolved(row) if one.where != TRUE)
        yield from (effect.where for effect in row.send if isinstance(effect, Each))

    def parameters(self, row: Row) -> tuple[Sort, ...]:
        """The row's parameters: the machine's own, then the trigger's, then the chosen ones."""
        trigger: tuple[Sort, ...] = ()
        if isinstance(row.on, Sent):
            trigger = row.on.arguments
        elif isinstance(row.on, Call | Completion):
            trigger = row.on.parameters
        return tuple(dict.fromkeys((*self.machine.own, *trigger, *row.choose)))

    def _state(self, row: Row) -> Any:
        if self.state is None:
            raise SpecError(row.place, f"row {row.name!r} has at/to, but its table has no state=: "
                                       f"write {self.with_state}")
        return self.state(*self.machine.own)
