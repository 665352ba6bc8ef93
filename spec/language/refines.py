"""Refinement: each step of a system is one of a simpler system, or changes nothing of it.

`mapping=` computes the state of the simpler system, the *abstract* one, from the state of this
system: an update for each of its variables, as in `chosen(v).to(exists(b, voted(b, v)))`.

Rule 1: A variable of the abstract system has the value that its update assigns; where the update
assigns none (`each` with `where=`), it is as at the start of the abstract system.
Rule 2: At the start, the mapped state is an initial state of the abstract system. After each step,
it is the same, or one that a row of the abstract system, of any fault layer too, leads to from the
mapped state before. Fairness is not compared.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .computed import in_range, mentioned, resolved
from .formula import FALSE, TRUE, Formula, any_of, free_variables, implies
from .kinds import require, require_name, shown
from .numbered import NumberAxiom
from .place import Place, here
from .sorts import ANY, Sort
from .symbols import Computed, Message, Symbol, Update, Value
from .updates import Updates, flat

if TYPE_CHECKING:
    from .system import System

EXAMPLE = "mapping=(chosen(v).to(exists(b, voted(b, v))), ...)"


@dataclass(frozen=True, slots=True)
class Mapped:
    """A variable of the abstract system, computed from a state of the other one.

    values: the formulas that it has a value, without the one at the start, which it has elsewhere.
    fits: the formula that it has any value at all.
    """

    symbol: Symbol
    arguments: tuple[Sort, ...]
    values: tuple[tuple[Value, Formula], ...]
    fits: Formula = TRUE


@dataclass(frozen=True, slots=True)
class Refines:
    """Each step is one of the abstract system, or changes nothing of it (rules 1 and 2).

    over: variables of the mapping for whose elements the claim is made, one by one.
    """

    name: str
    abstract: "System"
    mapping: tuple[Update, ...]
    why: str = ""
    over: tuple[Sort, ...] = field(default=(), kw_only=True)
    place: Place = field(default_factory=here, compare=False, kw_only=True)

    if TYPE_CHECKING:  # one update needs no tuple
        def __init__(
            self, name: str, abstract: "System", mapping: Update | tuple[Update | Updates, ...],
            why: str = "", *, over: Sort | tuple[Sort, ...] = ..., place: Place = ...,
        ) -> None: ...

    def __post_init__(self) -> None:
        require_name("property", self.name, self.place)
        updates: object = self.mapping
        if isinstance(updates, Update):
            updates = (updates,)
        updates = tuple(flat(updates)) if isinstance(updates, tuple) else updates
        named = f"property {self.name!r}"
        given: object = self.abstract
        require(hasattr(given, "every_table"), f"{named}: {shown(given)} is no system: want the "
                "abstract System second, as in Refines('voting', VOTING, mapping=(...))",
                self.place)
        require(isinstance(updates, tuple) and all(isinstance(u, Update) for u in updates),
                f"{named}: mapping= is {shown(updates)}: want an update for each variable of "
                f"{self.abstract.name}, as in {EXAMPLE}", self.place)
        object.__setattr__(self, "mapping", updates)
        over: object = self.over
        if isinstance(over, Sort):
            object.__setattr__(self, "over", (over,))
        require(isinstance(over, Sort) or (
            isinstance(over, tuple) and all(isinstance(v, Sort) for v in over)),
            f"{named}: over= is {shown(over)}: want variables, as in over=(h,)", self.place)
        self._check_updates(named)

    def _check_updates(self, named: str) -> None:
        of, seen = self.abstract, set[Symbol]()
        for update in self.mapping:
            symbol = update.symbol
            require(symbol in of.variables, f"{named}: mapping= assigns {symbol}, which is no "
                    f"variable of {of.name}", update.place)
            require(symbol not in seen, f"{named}: mapping= assigns {symbol} twice: write one "
                    "update, with if_then_else", update.place)
            seen.add(symbol)
            plain = all(v is not ANY and v not in self.over for v in update.arguments)
            require(plain and len(set(update.arguments)) == len(update.arguments),
                    f"{named}: mapping= assigns {update!r}: want a different variable for each "
                    f"argument of {symbol.signature}", update.place)
            for variable in (*free_variables(update.where), *mentioned(update.value)):
                require(variable in (*update.arguments, *self.over), f"{named}: {update!r} reads "
                        f"{variable!r}, which is no argument of {symbol}: bind it with exists or "
                        "forall, or name it in over=", update.place)
        for symbol in of.variables:
            require(not (isinstance(symbol, Message) and symbol.fifo is not None),
                    f"{named}: {symbol} of {of.name} waits in a channel, which no mapping computes:"
                    " write the abstract system with a message without fifo=", self.place)
            places = ", ".join(sort.__name__.lower() for sort in symbol.domain)
            require(symbol in seen, f"{named}: mapping= forgets {symbol.signature} of {of.name}: "
                    f"add {symbol}({places}).to(...), computed from the state of this system",
                    self.place)

    @property
    def mapped(self) -> Iterator[Mapped]:
        """The variables of the abstract system, in its order."""
        updates = {update.symbol: update for update in self.mapping}
        for symbol in self.abstract.variables:
            update = updates[symbol]
            found: dict[Any, list[Formula]] = {}
            for one in resolved(update):
                found.setdefault(one.value, []).append(one.where)
            values = tuple(
                (value, any_of(*found.get(value, ())) if len(found.get(value, ())) != 1
                 else found[value][0]) for value in symbol.values[1:])
            fits = in_range(update) if isinstance(update.value, Computed) else TRUE
            if TRUE not in (fits, update.where):
                fits = implies(update.where, fits)
            yield Mapped(symbol, update.arguments, values, fits)

    @property
    def formulas(self) -> Iterator[Formula]:
        """Every formula about the state of this system."""
        for one in self.mapped:
            yield from (formula for _, formula in one.values if formula != FALSE)
            if one.fits != TRUE:
                yield one.fits


def check_refines(system: "System", claim: Refines) -> None:
    """Raise SpecError unless the systems have their axioms in common."""
    for name, axiom in claim.abstract.axioms.items():
        known = isinstance(axiom, NumberAxiom) or axiom in system.axioms.values()
        require(known, f"property {claim.name!r}: {claim.abstract.name} has the axiom {name}, and "
                f"{system.name} has not: add it to axioms=", claim.place)
