"""The parts of a state: functions into enums, relations, messages; and rigid symbols.

Every symbol is called with variables of its sorts: `rm(p) == RM.WORKING`, `heard(p)`,
`prepared(p)`. Functions and relations belong to a machine and are declared through it
(machine.py); messages and rigid symbols are declared here.
"""

import enum
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, TypeAlias, TypeVar, TypeVarTuple, cast

from .formula import Atom, Formula, Not, Or, Value
from .in_channel import InChannel
from .kinds import no_value, require, require_name, shown
from .no_formula import NoFormula
from .place import Place, SpecError, here
from .sorts import Sort, checked, require_sorts, sorts_of
from .states import Number, State
from .updates import Computed, Update

if TYPE_CHECKING:
    from .machine import Instance, Machine

__all__ = [
    "Cell",
    "Computed",
    "Each",
    "Fact",
    "Function",
    "Message",
    "Number",
    "Reading",
    "Relation",
    "Rigid",
    "Sent",
    "Sizes",
    "State",
    "Symbol",
    "Tuples",
    "Update",
    "Value",
    "Variable",
    "sent_by",
]

E = TypeVar("E", bound=enum.Enum)
Ss = TypeVarTuple("Ss")

Sizes: TypeAlias = Mapping[type[Sort], int]
Reading: TypeAlias = tuple[tuple[Sort, ...], "Value | Sort | Computed"]
Tuples: TypeAlias = Collection[tuple[int, ...]]


class Symbol(NoFormula):
    """A named thing with arguments: a function, relation, message or rigid relation."""

    def __init__(self, name: str, sorts: tuple[type[Sort], ...], values: tuple[Value, ...]) -> None:
        self.place: Final[Place] = here()
        require_name("symbol", name, self.place)
        if not name.isidentifier():
            raise SpecError(self.place, f"name {name!r}: want an identifier such as 'heard'")
        if not values:
            raise SpecError(self.place, f"{name}: its enum has no members")
        require_sorts(name, sorts)
        self.name: Final = name
        self.sorts: Final = sorts
        self.values: Final = values  # the initial value first
        self.starts_free = False  # with init=ANY each value is an initial one (starts.py)

    def checked(self, arguments: tuple[Any, ...]) -> tuple[Sort, ...]:
        """The arguments, if they are variables of the right sorts."""
        return checked(self.told, self.domain, arguments)

    @property
    def domain(self) -> tuple[type[Sort], ...]:
        """The sorts of the arguments with which the symbol is called."""
        return self.sorts

    @property
    def is_boolean(self) -> bool:
        """Whether the values are truth values, and not the members of an enum."""
        return isinstance(self.values[0], bool)

    @property
    def signature(self) -> str:
        return f"{self.name}({', '.join(sort.__name__ for sort in self.domain)})"

    @property
    def told(self) -> str:
        """The signature, in the message about wrong arguments."""
        return self.signature

    @property
    def advice(self) -> str:
        if not self.domain:
            return f"it lacks its parentheses: {self.name}()"
        return f"it lacks its arguments, variables of {', '.join(s.__name__ for s in self.domain)}"

    def reading(self, arguments: tuple[Sort, ...], value: "Value | Computed") -> "Reading":
        """A cell of the symbol with a value, as a spec writes it: the arguments and the value."""
        return arguments, value

    def plain(self, update: "Update") -> tuple["Update", ...]:
        """The update as updates of single values, in order; a later one wins."""
        return (update,)

    def __repr__(self) -> str:
        return self.name


class Variable(Symbol):
    """A symbol that a machine owns: its first arguments are the machine's own (see machine.py).

    engine: a second owner, when the variable is shared with a device (a transfer engine): both
    read it, the engine alone writes the values in `engine_writes`, the owner alone the others.
    edges: the moves that are allowed, value by value; None allows all.
    """

    def __init__(
        self,
        owner: "Machine[*tuple[Any, ...]]",
        name: str,
        sorts: tuple[type[Sort], ...],
        values: tuple[Value, ...],
        edges: Mapping[Any, Collection[Any]] | None = None,
    ) -> None:
        super().__init__(name, sorts, values)
        self.owner: Final = owner
        self.edges: Final = None if edges is None else self._moves(edges)
        self.engine: Machine[*tuple[Any, ...]] | None = None
        self.engine_writes: tuple[Value, ...] = ()
        ends = [*(self.edges or {}), *(v for to in (self.edges or {}).values() for v in to)]
        for end in ends:
            if end not in values:
                raise SpecError(self.place, f"{name}: edges name {shown(end)}, which is no value "
                                            "of it")

    def _moves(self, edges: Mapping[Any, Collection[Any]]) -> dict[Any, tuple[Any, ...]]:
        first, *rest = (*map(shown, self.values), shown(self.values[0]))
        given: object = edges
        right = isinstance(given, Mapping) and all(
            isinstance(ends, list | tuple | set | frozenset) for ends in given.values())
        require(right, f"{self.name}: edges= maps each value to a tuple of the values after it: "
                       f"write edges={{{first}: ({rest[0]},), ...}}", self.place)
        return {value: tuple(ends) for value, ends in edges.items()}

    def shared_with(self, engine: "Machine[*tuple[Any, ...]]", writes: Sequence[Value]) -> None:
        """Make this a device variable: `engine` may write these values, and the owner may not."""
        require(self.domain == self.sorts, f"{self.signature} has elements as its values: a device "
                                           "shares a relation, or a function into an enum")
        if engine.sorts != self.sorts[: len(engine.sorts)]:
            raise SpecError(here(), f"{self.signature}: {engine.name}'s own sorts must come first")
        self.engine = engine
        self.engine_writes = tuple(writes)


class Function(Variable, Generic[E, *Ss]):
    """A variable with values in an enum."""

    def __call__(self, *arguments: *Ss) -> "Cell[E]":
        return Cell(self, self.checked(arguments))


class Relation(Variable, Generic[*Ss]):
    """A boolean variable, with the same initial value everywhere."""

    def __call__(self, *arguments: *Ss) -> "Fact":
        return Fact(self, self.checked(arguments), True)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Cell(NoFormula, Generic[E]):
    """A function at its arguments: compare it to get a formula, move it to get an update."""

    symbol: Symbol
    arguments: tuple[Sort, ...]

    def __repr__(self) -> str:
        return f"{self.symbol}({', '.join(map(repr, self.arguments))})"

    @property
    def advice(self) -> str:
        value = self.symbol.values[0]
        example = f"{type(value).__name__}.{value.name}" if isinstance(value, enum.Enum) else value
        return f"a function has a value: compare it, as in {self!r} == {example}"

    def __eq__(self, value: E) -> Formula:  # type: ignore[override]  # a literal, not a verdict
        return Atom(self.symbol, self.arguments, self._checked(value))

    def __ne__(self, value: E) -> Formula:  # type: ignore[override]  # as above
        return Not(Atom(self.symbol, self.arguments, self._checked(value)))

    __hash__ = None  # type: ignore[assignment]  # == builds formulas, so no hashing

    def among(self, *values: E) -> Formula:
        """The value is one of these."""
        return Or(tuple(self == value for value in values))

    def to(self, value: "E | Cell[E]") -> "Update":
        """The update that assigns the value, or that of another function into the enum."""
        given: object = value
        if isinstance(given, NoFormula):
            return Update(self.symbol, self.arguments, computed(self.symbol, given))
        return Update(self.symbol, self.arguments, self._checked(value))  # type: ignore[arg-type]  # no cell

    def _checked(self, value: E) -> E:
        given: object = value
        if isinstance(given, NoFormula):
            raise SpecError(here(), f"{shown(given)} is no value of {self.symbol.signature}: go "
                                    "value by value, as in "
                                    "any_of(*(all_of(f(p) == x, g(p) == x) for x in Phase))")
        if value not in self.symbol.values:
            raise SpecError(here(), no_value(value, self.symbol.signature, self.symbol.values))
        return value

    def _unordered(self, _: object) -> bool:
        raise SpecError(here(), f"values of {self!r} have no order: name them, "
                                f"as in {self!r}.among(...)")

    __lt__ = __le__ = __gt__ = __ge__ = _unordered


@dataclass(frozen=True, slots=True, repr=False)
class Fact(Atom):
    """A relation at its arguments: a formula as it stands, an update with `.to`."""

    def to(self, value: bool | Formula) -> "Update":
        """The update that sets or clears the relation here; ANY clears or sets in bulk.

        A formula: the relation holds after the row where the formula held before it.
        """
        return _set(self, value)


def _set(atom: Atom, value: object) -> "Update":
    """The update of a relation or message to a truth value, or to that of a formula."""
    if isinstance(value, Formula | NoFormula):
        return Update(atom.symbol, atom.arguments, computed(atom.symbol, value))
    if not isinstance(value, bool):
        raise SpecError(here(), f"{shown(value)}: a relation takes True or False")
    return Update(atom.symbol, atom.arguments, value)


def computed(symbol: Symbol, value: object) -> Computed:
    """The value of an update that depends on the state. Raises SpecError for one of another kind.
    """
    from .computed import check_value  # noqa: PLC0415 - it knows the symbols

    check_value(symbol, value)
    return Computed(value)


class Message(Symbol, Generic[*Ss]):
    """A message, as the set of its instances that have been sent.

    Once sent it may be delivered any number of times, in any order, or never; a fault row may take
    it off the network. The formal arguments are variables; those that are the receiver's (or the
    sender's) own variables name the instance, so `Message("vote", p, sender=rank, receiver=chief)`
    comes from rank p. With other names, write `receiver=rank.at(q)`. A message that does not
    name its receiving instance is a broadcast to all of them.

    carries: relations of the sender that travel with the message (a destination list): rows on
    this message may read them, and no row may write them once it has been sent.
    reliable: the transport delivers it or reports an error, so it needs no resend.
    fifo: an ordered sort. The message waits in the channel from its sender to its receiver, a queue
    with so many places (channels.py).
    """

    def __init__(
        self,
        name: str,
        *formals: *Ss,
        sender: "Machine[*tuple[Any, ...]] | Instance",
        receiver: "Machine[*tuple[Any, ...]] | Instance",
        carries: Sequence[Variable] = (),
        reliable: bool = False,
        fifo: type[Sort] | None = None,
    ) -> None:
        variables: tuple[Any, ...] = formals
        given: object = fifo
        ordered = isinstance(given, type) and issubclass(given, Sort) and given.ordered
        require(ordered or given is None, f"{name}: fifo={shown(fifo)}: want an "
                "ordered sort, as in class Place(Sort, ordered=True): its size is the number of "
                "messages that a channel holds")
        places = () if fifo is None else (fifo,)
        super().__init__(name, (*sorts_of(name, variables), *places), (False, True))
        if len(set(variables)) != len(variables):
            raise SpecError(self.place, f"{name}: an argument occurs twice")
        self.formals: Final[tuple[Sort, ...]] = variables
        for word, machine in (("sender", sender), ("receiver", receiver)):
            require(hasattr(machine, "instance"), f"{name}: {word}= is {shown(machine)}: want a "
                                                  "machine, or machine.at(q)", self.place)
        self.sender: Final = sender.instance
        self.receiver: Final = receiver.instance
        listed = isinstance(carries, list | tuple)
        require(listed and all(isinstance(each, Variable) for each in carries),
                f"{name}: carries= is {shown(carries)}: want a list of relations", self.place)
        self.carries: Final = tuple(carries)
        self.reliable: Final = reliable
        self.fifo: Final = fifo
        for variable in self.sender.variables:
            if variable not in variables:
                raise SpecError(
                    self.place, f"{self.signature} does not name its sender: add {variable!r}"
                )
        for relation in self.carries:
            if relation.owner is not self.sender.machine:
                raise SpecError(self.place, f"{name} carries {relation}, which is not its sender's")
        require(fifo is None or not carries, f"{name}: carries= is for a message without fifo=: "
                "name in the message what the receiver has to know", self.place)
        for variable in () if fifo is None else self.receiver.variables:
            require(variable in variables, f"{self.signature} waits in a channel, which has one "
                    f"receiver: add {variable!r}", self.place)
        self.sender.machine.declare(self)

    @property
    def domain(self) -> tuple[type[Sort], ...]:
        return self.sorts if self.fifo is None else self.sorts[:-1]

    def __call__(self, *arguments: *Ss) -> "Sent":
        return Sent(self, self.checked(arguments), True)


@dataclass(frozen=True, slots=True, repr=False)
class Sent(InChannel):
    """A message instance: a trigger in `on`, an effect in `send`, a formula elsewhere."""

    @property
    def message(self) -> Message[*tuple[Any, ...]]:
        return cast("Message[*tuple[Any, ...]]", self.symbol)

    def to(self, value: bool | Formula) -> Update:
        """Only for world rows and mappings: put the message on the network, or take it off."""
        require(self.message.fifo is None, f"{self!r} waits in a channel: the network takes the "
                f"first message of a channel with lose({self.symbol}), and adds one with send=")
        return _set(self, value)

    def addressed(self, instance: "Instance") -> tuple[Sort, ...]:
        """This atom's arguments in the places that name the instance's own variables."""
        given = dict(zip(self.message.formals, self.arguments, strict=False))
        return tuple(given[v] for v in instance.variables if v in given)


@dataclass(frozen=True, slots=True)
class Each:
    """One effect that sends to many: the message for every element that satisfies `where`.

    `where` may use rigid symbols and the identity of variables, and nothing that changes.
    """

    variable: Sort
    sent: Sent
    where: Formula


def sent_by(effect: Sent | Each) -> Sent:
    """The message that an effect of `send` sends, to one or to many."""
    return effect.sent if isinstance(effect, Each) else effect


class Rigid(Symbol, Generic[*Ss]):
    """A relation chosen once and never changed: the topology, an order, `room mod dp_size`.

    visible_to: the machines that may read it (empty: all). axioms are given to the system.
    given: the interpretation at given sizes, as the set of index tuples that are in the relation;
    without one the explorer enumerates every interpretation that satisfies the axioms.
    holds: a predicate of a running machine's elements, for one that needs none from its user.
    """

    holds: Any = None

    def __init__(
        self,
        name: str,
        *sorts: *Ss,
        visible_to: Sequence["Machine[*tuple[Any, ...]]"] = (),
        given: Callable[[Sizes], Tuples] | None = None,
    ) -> None:
        variables: tuple[Any, ...] = sorts
        super().__init__(name, sorts_of(name, variables), (False, True))
        require(isinstance(visible_to, list | tuple) and all(hasattr(m, "own") for m in visible_to),
                f"{name}: visible_to= is {shown(visible_to)}: want a list of machines", self.place)
        said: object = given
        require(said is None or (callable(said) and not isinstance(said, Formula)),
                f"{name}: given= is {shown(given)}: want a function of the sizes, such as "
                "lambda sizes: {(0, 1)}", self.place)
        self.visible_to: Final = tuple(visible_to)
        self.given: Final = given

    def __call__(self, *arguments: *Ss) -> Formula:
        return Atom(self, self.checked(arguments), True)
