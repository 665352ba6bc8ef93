"""Systems: tables composed with faults, properties and named sizes. Building one checks it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import InitVar, dataclass, field, replace
from functools import cached_property
from typing import Any, Final

from .defined import defined, defined_update
from .elements import ElementFunction, one_value
from .formula import (
    TRUE,
    Formula,
    all_of,
    atoms,
    every_variable,
    forall,
    free_variables,
    implies,
)
from .kinds import require, require_mapping, shown
from .machine import Machine, Row, Table
from .numbered import IsNumber, Numbers, axioms_of
from .place import Place, here
from .properties import InRange, Property, formulas_of, in_range_name
from .refines import Refines
from .sorts import Sort
from .symbols import Rigid, Sizes, Symbol, Tuples, Update, Variable
from .wellformed import check_system, symbols_of_edit

DEFAULT: Final = "default"  # the configuration of a command without `--configuration`
DEEP: Final = "deep"  # a configuration that is one size up

_SIZES: Final = "Configuration({Worker: 2})"


def reads(of: str, read: Iterable[Formula], place: Place) -> Iterator[InRange]:
    """The claim that the property or lemma of this name reads no sequence past its end, if it
    reads one.

    read: the conditions under which its formulas are meant (defined.py).
    """
    found = [one for one in read if one != TRUE]
    if found:
        yield InRange(in_range_name(of), all_of(*found),
                      "let the claim be about elements that there are, as in "
                      "implies(log(s).length > 0, ...)", place=place)


def sorts_in(
    symbols: Iterable[Symbol], rows: Iterable[tuple[Table, Row]], formulas: Iterable[Formula]
) -> Iterator[type[Sort]]:
    """The sorts of the symbols, of the parameters of the rows, and of variables of formulas."""
    for symbol in symbols:
        yield from symbol.sorts
    for table, row in rows:
        yield from map(type, table.parameters(row))
    for formula in formulas:
        free, bound = every_variable(formula)
        yield from map(type, (*free, *bound))


@dataclass(frozen=True, slots=True)
class Configuration:
    """Sizes to explore, with settings. given: replaces the interpretations of rigid symbols.

    sizes: of each sort, or of all but the sorts of sets, whose sizes follow (sorts.py:Sort), and
    those of numbers, which have their own (numbered.py).
    """

    sizes: Sizes
    faults: tuple[str, ...] = ()
    given: Mapping[Rigid[*tuple[Any, ...]], Callable[[Sizes], Tuples]] = field(default_factory=dict)
    symmetry: bool = False
    dead_bits: bool = False

    def __post_init__(self) -> None:
        given: object = self.sizes
        sizes = given.items() if isinstance(given, Mapping) else [(given, 1)]
        for sort, size in sizes:
            require(isinstance(sort, type) and issubclass(sort, Sort),
                    f"{shown(sort)} is no sort: write {_SIZES}")
            require(isinstance(size, int) and size >= 0,
                    f"the size of {shown(sort)} is {shown(size)}: want a whole number of 0 or more")
        faults: object = self.faults
        require(isinstance(faults, list | tuple),
                f"faults= is {shown(faults)}: write faults=({shown(faults)},)")
        derived = {one: len(one.subsets(size)) for sort, size in self.sizes.items()
                   for one in sort.derived}
        if derived:
            object.__setattr__(self, "sizes", {**self.sizes, **derived})


@dataclass(frozen=True)
class System:
    """A closed protocol.

    final: the states in which it is right for nothing more to happen; any other state that only
    faults could change is a deadlock. init: a formula about the variables with init=ANY; every
    assignment that satisfies it is an initial state. faults: layers of fault tables, by name.
    axioms: universal formulas over the rigid symbols. configurations: by name; "default" is what
    `check` explores. like: a system of which this is an edit, kept as `base`. The rows that they
    share are not checked again. The state has the variables of the base and those of its own rows,
    and none that a module has declared on the same machines since. Raises SpecError for a malformed
    spec (wellformed.py).
    """

    name: str
    about: str
    tables: tuple[Table, ...]
    properties: tuple[Property, ...] = ()
    final: Formula | None = None
    faults: Mapping[str, tuple[Table, ...]] = field(default_factory=dict)
    axioms: Mapping[str, Formula] = field(default_factory=dict)
    configurations: Mapping[str, Configuration] = field(default_factory=dict)
    init: Formula | None = field(default=None, kw_only=True)
    place: Place = field(default_factory=here, compare=False, kw_only=True)
    like: InitVar["System | None"] = field(default=None, kw_only=True)
    base: "System | None" = field(default=None, init=False, compare=False)

    def __post_init__(self, like: "System | None") -> None:
        self._check_kinds()
        if like is not None:
            vars(self)["base"] = like
            vars(self)["variables"] = self._variables_like(like)
        check_system(self, like)
        self._know_numbers()
        for atom, _ in () if self.init is None else atoms(self.init):
            require(isinstance(atom.symbol, Rigid) or atom.symbol.starts_free,
                    f"init: {atom.symbol} starts with one value, so init= says nothing of it: "
                    "declare it with init=ANY", self.place)
        vars(self)["properties"] = (
            *(claim for claim in self.properties if not isinstance(claim, InRange)),
            *self._in_range())

    def _know_numbers(self) -> None:
        """Add the axioms and the sizes of the sorts of numbers."""
        if not self.own_sizes:
            return
        vars(self)["axioms"] = {**self.axioms, **{
            name: axiom for sort in self.own_sizes if issubclass(sort, Numbers)
            for name, axiom in axioms_of(sort)}}
        vars(self)["configurations"] = {
            name: replace(one, sizes={**one.sizes, **self.own_sizes})
            for name, one in self.configurations.items()}
        vars(self).pop("rigids", None)  # it is read from the axioms

    def _in_range(self) -> Iterator[InRange]:
        """For each row that computes numbers, the claim that they stay in their ranges; for each
        row and claim that reads sequences, and for `final`, the claim that it does not read past
        their ends.
        """
        for table, row in self.rows():
            guard, ranges = table.written_guard(row), table.ranges(row)
            fits = all_of(*ranges) if not guard.parts else implies(guard, all_of(*ranges))
            read = defined(guard)
            if ranges or read != TRUE:
                parts = tuple(part for part, there in (
                    (read, read != TRUE), (fits, bool(ranges))) if there)
                yield self._ranged(row.name, "row", all_of(*parts) if parts[1:] else parts[0],
                                   "guard the row, widen the range, or let it saturate", row.place)
        for claim in self.properties:
            if not isinstance(claim, InRange):
                yield from self._read(claim.name, [
                    defined_update(one) if isinstance(one, Update) else defined(one)
                    for one in (claim.mapping if isinstance(claim, Refines) else formulas_of(claim))
                ], claim.place)
        if self.final is not None:
            yield from self._read("deadlock", [defined(self.final)], self.place)

    def _read(self, of: str, read: Iterable[Formula], place: Place) -> Iterator[InRange]:
        for one in reads(of, read, place):
            yield self._ranged(of, "property", one.claim, one.why, place)

    def meant(self, names: Iterable[str]) -> tuple[str, ...]:
        """The properties with these names, each with the claim that it reads no sequence past its
        end, if there is one.
        """
        own = {claim.name for claim in self.properties if isinstance(claim, InRange)}
        return tuple(one for name in names for one in (name, in_range_name(name))
                     if one == name or one in own)

    def _ranged(self, of: str, kind: str, claim: Formula, why: str, place: Place) -> InRange:
        name = in_range_name(of)
        require(all(one.name != name or isinstance(one, InRange) for one in self.properties),
                f"property {name!r}: {kind} {of!r} computes numbers, or reads a sequence, so the "
                "system has a claim of this name: choose another one", place)
        return InRange(name, claim, why, place=place)

    def _check_kinds(self) -> None:
        for word in ("name", "about"):
            text = getattr(self, word)
            require(isinstance(text, str), f"{word}= is {shown(text)}: want text, as in "
                    "System('page', 'One page.', tables=(...))", self.place)
        require_mapping(self.faults, "faults", "{'loss': (Table(...),)}", self.place)
        require_mapping(self.axioms, "axioms", "{'connected': forall(...)}", self.place)
        example = f"{{'default': {_SIZES}}}"
        require_mapping(self.configurations, "configurations", example, self.place)
        for name, layer in self.faults.items():
            tables: object = layer
            right = isinstance(tables, list | tuple) and all(isinstance(t, Table) for t in tables)
            require(right, f"fault layer {name!r} is {shown(layer)}: want a tuple of tables, as in "
                           "(Table(world, rows=(...)),)", self.place)
        for name, chosen in self.configurations.items():
            given: object = chosen
            require(isinstance(given, Configuration),
                    f"configuration {name!r} is {shown(chosen)}: write {_SIZES}", self.place)

    def _variables_like(self, other: "System") -> tuple[Symbol, ...]:
        kept = {*other.variables, *symbols_of_edit(self, other)}
        return tuple(symbol for machine in self.machines for symbol in machine.symbols
                     if machine not in other.machines or symbol in kept)

    @cached_property
    def machines(self) -> tuple[Machine[*tuple[Any, ...]], ...]:
        """Every machine of the tables and of the fault layers, each once."""
        return tuple(dict.fromkeys(table.machine for table in self.every_table))

    @property
    def every_table(self) -> tuple[Table, ...]:
        """The tables, then those of all fault layers."""
        return (*self.tables, *(table for layer in self.faults.values() for table in layer))

    def tables_under(self, faults: tuple[str, ...]) -> tuple[tuple[Table, str], ...]:
        """The tables with those of the named layers, each with its layer ("" for the protocol)."""
        chosen = [(table, "") for table in self.tables]
        chosen += [(table, layer) for layer in faults for table in self.faults[layer]]
        return tuple(chosen)

    @cached_property
    def variables(self) -> tuple[Symbol, ...]:
        """The parts of a state: the machines' variables and messages, in declaration order."""
        return tuple(symbol for machine in self.machines for symbol in machine.symbols)

    @cached_property
    def rigids(self) -> tuple[Rigid[*tuple[Any, ...]], ...]:
        """Every rigid relation that a row, property or axiom mentions."""
        found = [atom.symbol for formula in self.formulas() for atom, _ in atoms(formula)]
        found += (symbol for claim in self.refinements for symbol in claim.abstract.rigids)
        return tuple(s for s in dict.fromkeys(found) if isinstance(s, Rigid))

    @property
    def relations(self) -> tuple[Rigid[*tuple[Any, ...]], ...]:
        """The fixed relations that a reader is shown: all but those that number the elements."""
        return tuple(one for one in self.rigids if not isinstance(one, IsNumber))

    @property
    def refinements(self) -> tuple[Refines, ...]:
        """The properties about systems that this one refines."""
        return tuple(claim for claim in self.properties if isinstance(claim, Refines))

    @cached_property
    def sorts(self) -> tuple[type[Sort], ...]:
        """Every sort that occurs, in order of first occurrence."""
        found = [*sorts_in((*self.variables, *self.rigids), self.rows(), self.formulas())]
        for claim in self.refinements:
            found += (*claim.abstract.sorts, *map(type, claim.over))
        return tuple(dict.fromkeys(found))

    @cached_property
    def own_sizes(self) -> dict[type[Sort], int]:
        """The sizes of the sorts that have one by themselves (numbered.py)."""
        return {sort: own for sort in self.sorts if (own := sort.own_size()) is not None}

    def sized(self, sizes: Sizes) -> Sizes:
        """The sizes with `own_sizes`. Raises SpecError for a sort without a size."""
        whole = {**sizes, **self.own_sizes} if self.own_sizes else sizes
        for sort in self.sorts:
            require(sort in whole, f"{self.name}: the sort {sort.__name__} has no size", self.place)
        return whole

    def table(self, machine: Machine[*tuple[Any, ...]]) -> Table:
        """The protocol's table of this machine. Raises StopIteration if there is none."""
        return next(table for table in self.tables if table.machine is machine)

    def rows(self) -> Iterator[tuple[Table, Row]]:
        """Every row of every table and layer, with its table."""
        for table in self.every_table:
            for row in table.rows:
                yield table, row

    def row(self, name: str) -> tuple[Table, Row] | None:
        """The row of that name; names are unique in a system."""
        return next(((table, row) for table, row in self.rows() if row.name == name), None)

    def formulas(self) -> Iterator[Formula]:
        """Every formula of the system: guards, properties, axioms, the `where` of each `each`."""
        for table, row in self.rows():
            yield from table.formulas(row)
        for claim in self.properties:
            yield from formulas_of(claim)
        yield from (one for one in (self.final, self.init) if one is not None)
        yield from self.axioms.values()

    def bounded_variables(self) -> tuple[Variable, ...]:
        """The variables whose moves are restricted to declared edges."""
        return tuple(s for s in self.variables if isinstance(s, Variable) and s.edges is not None)

    @property
    def starts(self) -> tuple[Formula, ...]:
        """The closed formulas about the variables that start free: the initial states are those in
        which they hold, and in which every other variable has its one initial value.
        """
        found = [one_value(s) for s in self.element_functions() if s.starts_free]
        found += [] if self.init is None else [self.init]
        return tuple(forall(free_variables(one), one) for one in found)

    def element_functions(self) -> tuple[ElementFunction[Any, *tuple[Any, ...]], ...]:
        """The variables whose values are elements of a sort."""
        return tuple(s for s in self.variables if isinstance(s, ElementFunction))

    def __repr__(self) -> str:
        return f"System({self.name})"
