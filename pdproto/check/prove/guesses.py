"""Guesses of lemmas: clauses that hold in all reachable states of small instances.

A clause has up to three literals over the variables of a shape. One of them may be a *witness*:
some element satisfies one atom, or two, or all members of some set satisfy an atom (as in DuoAI,
Yao et al., OSDI 2022).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, permutations, product
from math import prod
from typing import Final, TypeAlias

import numpy as np

from pdproto.check.interpret import Cell, Interpreter, Store
from pdproto.check.prove.clauses import TooManyClausesError
from pdproto.check.prove.rewriting import renamed
from pdproto.check.rigid import AnyRigid, has_interpretation, interpretations, smallest_first
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
    free_variables,
)
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid, Symbol
from pdproto.spec.language.system import Configuration, System

Bits: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint8]]  # [literal, view / 8]
Clause: TypeAlias = tuple[int, ...]  # numbers of literals, ascending
Pool: TypeAlias = Mapping[type[Sort], tuple[Sort, ...]]
Truths: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.bool_]]  # [literal, state]
Column: TypeAlias = np.ndarray[tuple[int], np.dtype[np.bool_]]

STATES_MAX: Final = 3_000  # of an instance, breadth first, over all its interpretations
CHOICES_MAX: Final = 20_000  # of elements for the variables, over all interpretations
LITERALS_MAX: Final = 160  # because all clauses of three literals are tried
LOOKS_MAX: Final = 2_000_000  # literals at all choices of elements of an instance
VIEWS_MAX: Final = 1_000_000  # of an instance


@dataclass(frozen=True, slots=True)
class Shape:
    """What the clauses of a round of the search are made of.

    variables: how many of each sort. told: the same as words. witnesses: whether a literal may be
    one.
    """

    variables: Mapping[type[Sort], int]
    told: str
    witnesses: bool = False

    @property
    def pool(self) -> Pool:
        """The variables."""
        return {sort: tuple(sort(f"{sort.prefix}{i}_") for i in range(number))
                for sort, number in self.variables.items()}


def shapes(system: System) -> Iterator[Shape]:
    """The shapes in the order in which they are tried."""
    each = [dict.fromkeys(system.sorts, number) for number in (1, 2)]
    yield Shape(each[0], "one variable of each sort")
    yield Shape(each[1], "2 variables of each sort")
    yield Shape(each[0], "one variable of each sort, and witnesses", witnesses=True)
    for sort in system.sorts:
        most = max((symbol.sorts.count(sort) for symbol in (*system.variables, *system.rigids)),
                   default=0)
        for number in range(3, 2 * min(most, 2) + 1):
            yield Shape({**each[0], sort: number}, f"{number} variables of {sort.__name__}")


@dataclass(frozen=True, slots=True)
class Guesses:
    """The clauses of a shape that hold in two small instances. tried: the number of literals."""

    tried: int
    formulas: tuple[Formula, ...]


def guesses(system: System, shape: Shape) -> Guesses:
    """Raises TooManyClausesError if the search would take too long, or too much memory."""
    pool = shape.pool
    plain = tuple(_literals(system, pool))
    if len(plain) > LITERALS_MAX:
        raise TooManyClausesError(f"{len(plain)} literals; {LITERALS_MAX} is the limit")
    literals = (*plain, *(_witnesses(system, pool) if shape.witnesses else ()))
    false = np.concatenate([
        _views(system, one, pool, literals) for one in _instances(system, shape)], axis=1)
    true = _clauses(false, literals, pool, len(plain))
    return Guesses(len(literals), tuple(_clause(c, literals) for c in true))


def _instances(system: System, shape: Shape) -> tuple[Configuration, Configuration]:
    """An instance with that many elements of each sort, and a larger one.

    If the rigid symbols have no interpretation of such sizes, the system's own configurations are
    used. Raises TopologyError if there is none at all.
    """
    plain = [Configuration(system.sized({
        sort: number + more for sort, number in shape.variables.items()})) for more in (0, 1)]
    found = [c for c in (*plain, *smallest_first(system)) if has_interpretation(system, c)]
    if not found:
        list(interpretations(system, plain[0].sizes, plain[0]))  # raises, with the reason
    return found[0], found[min(1, len(found) - 1)]


def _literals(system: System, pool: Pool) -> Iterator[Formula]:
    for symbol in (*system.variables, *system.rigids):
        for atom in _atoms(symbol, pool):
            yield from (atom, Not(atom))
    for sort, variables in pool.items():
        for one, two in combinations(variables, 2):
            yield from (Same(one, two), Not(Same(one, two)))
            if sort.ordered:
                yield from (Before(one, two), Before(two, one))


def _atoms(symbol: Symbol | AnyRigid, pool: Pool) -> Iterator[Atom]:
    for arguments in product(*(pool[sort] for sort in symbol.sorts)):
        for value in (True,) if symbol.is_boolean else symbol.values:
            yield Atom(symbol, arguments, value)


def _witnesses(system: System, pool: Pool) -> Iterator[Formula]:
    """Some element satisfies an atom, or two; all members of some set satisfy an atom."""
    for sort in system.sorts:
        one = sort(f"{sort.prefix}_")
        about = [atom for symbol in (*system.variables, *system.rigids)
                 for atom in _about(one, symbol, pool)]
        yield from (Exists(one, atom) for atom in about)
        yield from (Exists(one, And(pair)) for pair in combinations(about, 2)
                    if pair[0].symbol != pair[1].symbol)
    for member in system.rigids:
        if len(member.sorts) == len(set(member.sorts)) == 2:
            group, one = (sort(f"{sort.prefix}_") for sort in member.sorts)
            outside = Not(Atom(member, (group, one), True))
            for symbol in system.variables:
                for atom in _about(one, symbol, pool):
                    yield Exists(group, Forall(one, Or((outside, atom))))


def _about(one: Sort, symbol: Symbol | AnyRigid, pool: Pool) -> Iterator[Atom]:
    """The atoms that name this variable once."""
    for place in (n for n, sort in enumerate(symbol.sorts) if sort is type(one)):
        yield from dict.fromkeys(replace(atom, arguments=(
            *atom.arguments[:place], one, *atom.arguments[place + 1:]))
            for atom in _atoms(symbol, pool))


def _views(
    system: System, configuration: Configuration, pool: Pool, literals: Sequence[Formula]
) -> Bits:
    """For each literal, the views (states with elements for the variables) in which it is false.

    The first VIEWS_MAX alone. Raises TooManyClausesError for more than LOOKS_MAX looks at a state.
    """
    variables = tuple(v for group in pool.values() for v in group)
    seen: set[bytes] = set()
    sizes = configuration.sizes
    choices = prod(sizes[type(v)] for v in variables)
    looked = len(literals) * choices
    if looked > LOOKS_MAX:
        raise TooManyClausesError(f"{looked:,} literals of a small instance; {LOOKS_MAX:,} is the "
                                  f"limit")
    found = [*interpretations(system, sizes, configuration)]
    found = found[::len(found) // max(1, CHOICES_MAX // choices) + 1]
    for given in found:
        oracle = Interpreter(system, sizes, (), given)
        states = min(STATES_MAX, VIEWS_MAX // choices) // len(found) + 1
        columns = _Columns(oracle, literals, variables, states)
        for chosen in product(*(range(sizes[type(v)]) for v in variables)):
            if len(seen) < VIEWS_MAX:
                seen.update(map(bytes, np.packbits(~columns.at(chosen).T, axis=1)))
    packed = np.frombuffer(b"".join(sorted(seen)), np.uint8).reshape(len(seen), -1)
    false = np.unpackbits(packed, axis=1, count=len(literals))
    return np.packbits(false.T, axis=1)


class _Columns:
    """In which of the reached states each literal holds."""

    def __init__(
        self, oracle: Interpreter, literals: Sequence[Formula], variables: tuple[Sort, ...],
        most: int,
    ) -> None:
        self._oracle: Final = oracle
        self._variables: Final = variables
        self._states: Final = [dict(store) for store in _reached(oracle, most)]
        self._literals: Final = [
            (one, [variables.index(v) for v in free_variables(one)]) for one in literals]
        self._known: Final[dict[tuple[int, tuple[int, ...]], Column]] = {}
        self._cells: Final[dict[tuple[Cell, Value], Column]] = {}

    def at(self, chosen: tuple[int, ...]) -> Truths:
        """With these elements for the variables: a row for each literal."""
        rows = []
        for number, (literal, free) in enumerate(self._literals):
            key = number, tuple([chosen[place] for place in free])
            if key not in self._known:
                self._known[key] = self._of(
                    literal, dict(zip(self._variables, chosen, strict=True)))
            rows.append(self._known[key])
        return np.array(rows)

    def _of(self, formula: Formula, environment: Mapping[Sort, int]) -> Column:
        match formula:
            case Not(part):
                return ~self._of(part, environment)
            case And(parts) | Or(parts):
                columns = [self._of(part, environment) for part in parts]
            case Forall(variable, body) | Exists(variable, body):
                columns = [self._of(body, {**environment, variable: i})
                           for i in range(self._oracle.sizes[type(variable)])]
            case Atom(symbol, arguments, value) if not isinstance(symbol, Rigid):
                return self._cell((symbol, tuple(environment[v] for v in arguments)), value)
            case _:
                return np.full(len(self._states), self._oracle.holds(formula, {}, environment))
        join = np.logical_and if isinstance(formula, And | Forall) else np.logical_or
        column: Column = join.reduce(columns)
        return column

    def _cell(self, cell: Cell, value: Value) -> Column:
        if (cell, value) not in self._cells:
            start = cell[0].values[0]
            self._cells[cell, value] = np.array(
                [state.get(cell, start) == value for state in self._states])
        return self._cells[cell, value]


def _reached(oracle: Interpreter, most: int) -> list[Store]:
    order = [*islice(oracle.initial(), most)]
    seen = set(order)
    for store in order:
        for _, after in oracle.steps(store):
            if after not in seen and len(order) < most:
                seen.add(after)
                order.append(after)
    return order


def _clauses(false: Bits, literals: Sequence[Formula], pool: Pool, plain: int) -> list[Clause]:
    """The clauses that hold in every view, without those of which a part does, up to renaming.

    plain: the literals before the witnesses, of which a clause has one at most.
    """
    swaps = _swaps(literals, pool)
    units = {n for n in range(len(literals)) if not false[n].any()}
    others = [n for n in range(len(literals)) if n not in units]
    pairs = {(i, j) for i, j in combinations(others, 2)
             if i < plain and not (false[i] & false[j]).any()}
    found: list[Clause] = [(n,) for n in sorted(units)] + sorted(pairs)
    for i, j in combinations([n for n in others if n < plain], 2):
        if (i, j) in pairs:
            continue
        rest = [k for k in others if k > j and (i, k) not in pairs and (j, k) not in pairs]
        if rest:
            open_ones = (false[rest] & (false[i] & false[j])).any(axis=1)
            found += [(i, j, k) for k, open_one in zip(rest, open_ones, strict=True)
                      if not open_one]
    return [
        clause for clause in found
        if not _trivial(clause, literals)
        and all(clause <= tuple(sorted(swap[n] for n in clause)) for swap in swaps)
    ]


def _trivial(clause: Clause, literals: Sequence[Formula]) -> bool:
    """Whether a clause says nothing of its own.

    It is always true (an atom or its negation, or a cell differs from one of two values), or it is
    about equal variables only, and so a shorter clause with one of them.
    """
    chosen = [literals[n] for n in clause]
    denied = [f.part for f in chosen if isinstance(f, Not)]
    cells = [(a.symbol, a.arguments) for a in denied if isinstance(a, Atom)]
    return (any(f in denied or (isinstance(f, Not) and isinstance(f.part, Same)) for f in chosen)
            or len(set(cells)) < len(cells))


def _swaps(
    literals: Sequence[Formula], pool: Pool
) -> list[list[int]]:
    """For each permutation of variables of one sort, the new number of each literal."""
    numbers = {_normal(f): n for n, f in enumerate(literals)}
    swaps = []
    for choice in product(*(permutations(group) for group in pool.values())):
        names: dict[Sort, Sort] = {}
        for group, order in zip(pool.values(), choice, strict=True):
            names |= dict(zip(group, order, strict=True))
        swaps.append([numbers[_normal(renamed(f, names))] for f in literals])
    return swaps


def _normal(formula: Formula) -> Formula:
    match formula:
        case Not(part):
            return Not(_normal(part))
        case Same(left, right) if right.name < left.name:
            return Same(right, left)
        case _:
            return formula


def _clause(clause: Clause, literals: Sequence[Formula]) -> Formula:
    chosen = tuple(literals[n] for n in clause)
    return chosen[0] if len(chosen) == 1 else Or(chosen)
