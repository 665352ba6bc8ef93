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
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import (
    TYPE_CHECKING,
    Any,
    Final,
    Generic,
    Literal,
    TypeAlias,
    TypeVar,
    TypeVarTuple,
    get_args,
    overload,
)

from .elements import ElementFunction
from .formula import And, Formula
from .kinds import no_value, require, require_name, shown
from .place import Place, SpecError, here
from .sorts import Sort, wanted
from .symbols import Each, Function, Relation, Sent, Symbol, Update
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
    def function(self, name: str, values: type[V], /) -> ElementFunction[V, *Ps]: ...
    @overload
    def function(
        self, name: str, values: type[V], a: type[A], /
    ) -> ElementFunction[V, *Ps, A]: ...
    @overload
    def function(
        self, name: str, values: type[V], a: type[A], b: type[B], /
    ) -> ElementFunction[V, *Ps, A, B]: ...
    def function(
        self, name: str, values: Any, /, *sorts: type[Sort],
        edges: Mapping[Any, Collection[Any]] | None = None, init: Any = None,
    ) -> Any:
        """A variable `name(self..., sorts...)`: a member of an enum, initially `init`, or the
        first; or an element of a sort, initially none.
        """
        is_class = isinstance(values, type)
        require(is_class and issubclass(values, enum.Enum | Sort),
                f"function {name!r}: its values are {shown(values)}: want an enum, such as "
                "class Phase(State), or a sort; for a truth value use relation()")
        symbol: Function[Any, *tuple[Any, ...]] | ElementFunction[Any, *tuple[Any, ...]]
        if issubclass(values, Sort):
            require(edges is None and init is None,
                    f"function {name!r}: edges= and init= are for the values of an enum: a "
                    "function into a sort is unset at the start, and a row gives it an element")
            symbol = ElementFunction(self, name, self.sorts + sorts, values)
        else:
            first = () if init is None else (init,)
            require(init is None or init in tuple(values),
                    f"init={no_value(init, name, values)}")
            ordered = tuple(dict.fromkeys((*first, *values)))
            symbol = Function(self, name, self.sorts + sorts, ordered, edges)
        self.declare(symbol)
        return symbol

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
        """A relation `name(self..., sorts...)` that is `init` for all elements at the start."""
        require(isinstance(init, bool), f"relation {name!r}: init={shown(init)}: want True, where "
                "it holds for all elements at the start, or False")
        symbol: Relation[*tuple[Any, ...]] = Relation(
            self, name, self.sorts + sorts, (init, not init)
        )
        self.declare(symbol)
        return symbol

    def __repr__(self) -> str:
        return self.name


RowKind: TypeAlias = Literal["row", "ignore", "reject"]


@dataclass(frozen=True, slots=True, repr=False)
class Row:
    """One line of a table.

    on: the trigger; None is a step that the instance takes by itself as soon as the guard holds.
    at, to: values of the table's state variable, before and after. at=() is any state.
    when: further conditions. choose: parameters that the caller supplies (which page, which slot).
    Every parameter is the machine's own, the trigger's, or chosen: there is no hidden choice.
    fair: whether it fires if it stays enabled. By default calls are not fair, everything else is.
    kind: "ignore" tolerates the trigger (why gives the reason); "reject" blames the peer.
    """

    name: str
    on: Trigger = None
    at: enum.Enum | tuple[enum.Enum, ...] = ()
    to: enum.Enum | None = None
    when: Formula | Sequence[Formula] = ()
    choose: tuple[Sort, ...] = ()
    do: Sequence[Update] = ()
    send: Sequence[Sent | Each] = ()
    fair: bool | None = None
    why: str = ""
    kind: RowKind = "row"
    place: Place = field(default_factory=here, compare=False, kw_only=True)

    if TYPE_CHECKING:  # one update, message or variable needs no list: see __post_init__
        def __init__(  # noqa: PLR0913 - one for each field
            self,
            name: str,
            on: Trigger = None,
            *,
            at: enum.Enum | tuple[enum.Enum, ...] = (),
            to: enum.Enum | None = None,
            when: Formula | Sequence[Formula] = (),
            choose: Sort | tuple[Sort, ...] = (),
            do: Update | Sequence[Update] = (),
            send: Sent | Each | Sequence[Sent | Each] = (),
            fair: bool | None = None,
            why: str = "",
            kind: RowKind = "row",
            place: Place = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        require_name("row", self.name, self.place)
        require(self.kind in get_args(RowKind), f"row {self.name!r}: kind={self.kind!r}: want one "
                f"of {', '.join(map(repr, get_args(RowKind)))}", self.place)
        require(self.fair is None or isinstance(self.fair, bool),
                f"row {self.name!r}: fair={shown(self.fair)}: want True or False", self.place)
        # One update, message or variable needs no list, as one condition does not.
        for name, single in (("do", Update), ("send", Sent | Each), ("choose", Sort)):
            value = getattr(self, name)
            if isinstance(value, single):
                object.__setattr__(self, name, (value,))

    @property
    def states(self) -> tuple[enum.Enum, ...]:
        return self.at if isinstance(self.at, tuple) else (self.at,)

    @property
    def conditions(self) -> tuple[Formula, ...]:
        """The conjuncts of `when`."""
        if isinstance(self.when, And):
            return self.when.parts
        return (self.when,) if isinstance(self.when, Formula) else tuple(self.when)

    @property
    def is_fair(self) -> bool:
        return not isinstance(self.on, Call) if self.fair is None else self.fair

    def __str__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return f"Row({self.name!r})"


@dataclass(frozen=True, slots=True, repr=False)
class Table:
    """A machine's rows. state: the function that `at` and `to` refer to."""

    machine: "Machine[*tuple[Any, ...]]"
    state: Function[Any, *tuple[Any, ...]] | None = None
    rows: tuple[Row, ...] = ()
    place: Place = field(default_factory=here, compare=False, kw_only=True)
    # By the `id` of a row. The row is kept beside its guard, so that no other gets its `id`.
    _guards: dict[int, tuple[Row, And]] = field(
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
                     if isinstance(symbol, Function) and symbol.sorts == self.machine.sorts]
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
            on = (row.on.arrived,) if isinstance(row.on, Sent) else ()
            known = self._guards[id(row)] = row, And((*on, *self.condition(row).parts))
        return known[1]

    def condition(self, row: Row) -> And:
        """The row's guard without its trigger."""
        at = (self._state(row).among(*row.states),) if row.states else ()
        return And((*at, *row.conditions))

    def assignments(self, row: Row) -> tuple[Update, ...]:
        """The row's whole update of variables as it is written: `to` and `do`, without messages."""
        if row.to is None:
            return tuple(row.do)
        return (self._state(row).to(row.to), *row.do)

    def updates(self, row: Row) -> tuple[Update, ...]:
        """The assignments as updates of single values, in order; a later one wins."""
        return tuple(one for update in self.assignments(row) for one in update.symbol.plain(update))

    def formulas(self, row: Row) -> Iterator[Formula]:
        """The row's guard, and the `where` of each of its `each` effects."""
        yield self.guard(row)
        yield from (update.where for update in row.do if update.variables)
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
