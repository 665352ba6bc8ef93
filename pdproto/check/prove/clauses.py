"""Propositional clauses over facts about constants: the numbers of the facts, and their axioms.

A relation at its constants is one propositional variable; a function has one for each value. There
is also a variable for "these two constants are the same element", so one formula covers all cases
of equal constants. Axioms make this an equivalence that all symbols respect. An ordered sort has
variables for an arbitrary total order of its elements.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import combinations
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np

from pdproto.check.prove.herbrand import (
    Alternation,
    Basic,
    Environment,
    Leaf,
    Node,
    Tree,
    Universal,
)
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
    free_variables,
)
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Symbol

Literals: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.int64]]  # [clause, literal]
Universe: TypeAlias = Mapping[type[Sort], int]
Template: TypeAlias = tuple[tuple[Basic, bool], ...]  # a clause before its variables have values

TRUTH: Final = 1  # the variable that is asserted
TEMPLATES_MAX: Final = 256  # clauses of one claim


class TooManyClausesError(Exception):
    """There are more clauses than the caller wants."""


class Vocabulary:
    """The numbers of all facts over the universe. Variables count from 1, as in DIMACS."""

    def __init__(self, symbols: Sequence[Symbol], universe: Universe) -> None:
        self.universe: Final = universe
        self.symbols: Final = tuple(symbols)
        self._first: Final[dict[Symbol, int]] = {}
        self.variables = TRUTH
        for symbol in self.symbols:
            self._first[symbol] = self.variables + 1
            self.variables += self.cells(symbol) * self._width(symbol)
        self.same: Final = {sort: self._pairs(sort) for sort in universe}
        self.before: Final = {sort: self._order(sort) for sort in universe if sort.ordered}

    def cells(self, symbol: Symbol) -> int:
        """The number of tuples of constants that the symbol can have as arguments."""
        return prod(self.universe[sort] for sort in symbol.sorts)

    @staticmethod
    def _width(symbol: Symbol) -> int:
        return 1 if symbol.is_boolean else len(symbol.values)

    def _pairs(self, sort: type[Sort]) -> Literals:
        size = self.universe[sort]
        table = np.full((size, size), TRUTH, np.int64)
        for i, j in combinations(range(size), 2):
            self.variables += 1
            table[i, j] = table[j, i] = self.variables
        return table

    def _order(self, sort: type[Sort]) -> Literals:
        """before[i, j], where the diagonal is false."""
        size = self.universe[sort]
        table = np.arange(size * size, dtype=np.int64).reshape(size, size) + self.variables + 1
        self.variables += size * size
        np.fill_diagonal(table, -TRUTH)
        return table

    def literal(self, basic: Basic, positive: bool, at: Mapping[Sort, Any]) -> Any:
        """The number of the literal. at: constants of the variables; numbers, or arrays of them."""
        match basic:
            case Atom(symbol, arguments, value):
                number = self.cell(symbol, tuple(at[v] for v in arguments), value)
            case Same(left, right):
                number = self.same[type(left)][at[left], at[right]]
            case Before(left, right):
                number = self.before[type(left)][at[left], at[right]]
        return number if positive else -number

    def cell(self, symbol: Symbol, indices: tuple[Any, ...], value: object) -> Any:
        """The number of the variable `symbol(indices) == value`; also for arrays of indices."""
        place: Any = 0
        for sort, index in zip(symbol.sorts, indices, strict=True):
            place = place * self.universe[sort] + index
        width = self._width(symbol)
        offset = 0 if width == 1 else symbol.values.index(value)
        return self._first[symbol] + place * width + offset

    def axioms(self) -> Iterator[Literals]:
        """Each function has one value; equality is an equivalence; total orders."""
        yield np.array([[TRUTH]])
        for symbol in self.symbols:
            yield from self._one_value(symbol)
        for sort in self.universe:
            yield from self._equality(sort)

    def at_least(self) -> int:
        """How many clauses `axioms` and `congruence` have at least, without making them."""
        return sum(size ** 3 for size in self.universe.values()) + sum(
            self.cells(symbol) * self._width(symbol) * sum(
                self.universe[sort] - 1 for sort in symbol.sorts) for symbol in self.symbols)

    def congruence(self) -> Iterator[Literals]:
        """All symbols respect equality."""
        for symbol in self.symbols:
            yield from self._respects(symbol)

    def _table(self, symbol: Symbol) -> Literals:
        """The variables of a symbol, shaped [argument, ..., value]."""
        shape = tuple(self.universe[sort] for sort in symbol.sorts)
        width = self._width(symbol)
        count = self.cells(symbol) * width
        return np.arange(count, dtype=np.int64).reshape(*shape, width) + self._first[symbol]

    def _one_value(self, symbol: Symbol) -> Iterator[Literals]:
        width = self._width(symbol)
        if width == 1:
            return
        table = self._table(symbol).reshape(-1, width)
        yield table
        for i, j in combinations(range(width), 2):
            yield -table[:, [i, j]]

    def _respects(self, symbol: Symbol) -> Iterator[Literals]:
        table = self._table(symbol)
        for axis, sort in enumerate(symbol.sorts):
            for i, j in combinations(range(self.universe[sort]), 2):
                one = table.take(i, axis).ravel()
                two = table.take(j, axis).ravel()
                differs = np.full(one.size, -self.same[sort][i, j])
                yield np.stack([differs, -one, two], axis=1)
                yield np.stack([differs, one, -two], axis=1)

    def _equality(self, sort: type[Sort]) -> Iterator[Literals]:
        size, same = self.universe[sort], self.same[sort]
        i, j, k = (axis.ravel() for axis in np.indices((size, size, size)))
        yield np.stack([-same[i, j], -same[j, k], same[i, k]], axis=1)
        if not sort.ordered:
            return
        before = self.before[sort]
        yield np.stack([-before[i, j], -before[j, k], before[i, k]], axis=1)
        yield np.stack([-same[i, j], -before[j, k], before[i, k]], axis=1)
        yield np.stack([-same[i, j], -before[k, j], before[k, i]], axis=1)
        i, j = (axis.ravel() for axis in np.indices((size, size)))
        yield np.stack([-same[i, j], -before[i, j]], axis=1)
        yield np.stack([same[i, j], before[i, j], before[j, i]], axis=1)


class Clauses:
    """Clauses over a vocabulary, and more variables for the parts of formulas (Tseitin 1968).

    most: TooManyClausesError is raised beyond so many clauses; None for no limit.
    """

    def __init__(self, vocabulary: Vocabulary, most: int | None = None) -> None:
        self.vocabulary: Final = vocabulary
        self.variables = vocabulary.variables
        self.blocks: Final[list[Literals]] = []
        self.congruence: Final[list[Literals]] = []
        self.loose: Final[list[list[int]]] = []
        self._most: Final = most
        self.count = vocabulary.at_least()  # they may take all memory
        self._counted(0)
        self.count = 0
        for blocks, axioms in ((self.blocks, vocabulary.axioms()),
                               (self.congruence, vocabulary.congruence())):
            for block in axioms:
                self._counted(len(block))
                blocks.append(block)

    def assume(self, claim: Formula, switch: int = TRUTH) -> None:
        """Add the claim for all elements. It is in negation normal form, without `exists`.

        switch: a literal; the claim is added under the condition that this literal is true.
        """
        variables, templates = templates_of(claim)
        sizes = tuple(self.vocabulary.universe[type(v)] for v in variables)
        count = prod(sizes)
        self._counted(count * len(templates))
        grid = np.indices(sizes).reshape(len(sizes), count)
        at = dict(zip(variables, grid, strict=True))
        for template in templates:
            block = np.full((count, len(template) + 1), -switch)
            for column, (basic, positive) in enumerate(template):
                block[:, column] = self.vocabulary.literal(basic, positive, at)
            self.blocks.append(block[~(block == TRUTH).any(axis=1)])

    def add(self, *literals: int) -> None:
        """Add one clause."""
        self._counted(1)
        self.loose.append(list(literals))

    def _counted(self, more: int) -> None:
        self.count += more
        if self._most is not None and self.count > self._most:
            raise TooManyClausesError(f"its instances are more than {self._most:,} clauses")

    def node(self, node: Node) -> int:
        """A literal that implies the node; its clauses are added."""
        match node:
            case Leaf(basic, positive, environment):
                return int(self.vocabulary.literal(basic, positive, environment))
            case Universal(variable, body, environment):
                size = self.vocabulary.universe[type(variable)]
                inner = [{**environment, variable: i} for i in range(size)]
                return self._conjunction([self.node(closed(body, each)) for each in inner])
            case Tree(True, parts):
                return self._conjunction([self.node(part) for part in parts])
            case Tree(_, parts):
                return self._disjunction([self.node(part) for part in parts])
            case Alternation():
                raise AssertionError("resolve it first")

    def _conjunction(self, parts: list[int]) -> int:
        parts = [part for part in parts if part != TRUTH]
        if -TRUTH in parts:
            return -TRUTH
        if len(parts) < 2:
            return parts[0] if parts else TRUTH
        name = self.fresh()
        for part in parts:
            self.add(-name, part)
        return name

    def _disjunction(self, parts: list[int]) -> int:
        parts = [part for part in parts if part != -TRUTH]
        if TRUTH in parts:
            return TRUTH
        if len(parts) < 2:
            return parts[0] if parts else -TRUTH
        name = self.fresh()
        self.add(-name, *parts)
        return name

    def fresh(self) -> int:
        """The number of a new variable."""
        self.variables += 1
        return self.variables

    @cached_property
    def dimacs(self) -> str:
        """All clauses in the DIMACS format. Read it after the last clause has been added."""
        return self._dimacs((*self.congruence, *self.blocks), self.loose)

    def dimacs_in_parts(self) -> Iterator[str]:
        """The same in two parts: first all others, which often suffice, and then the congruence."""
        yield self._dimacs(self.blocks, self.loose)
        yield self._dimacs(self.congruence, ())

    def _dimacs(self, blocks: Sequence[Literals], loose: Sequence[Sequence[int]]) -> str:
        count = len(loose) + sum(len(block) for block in blocks)
        most = self.variables
        # The word of a literal is at its number, which numpy counts from the end if it is negative.
        words = np.array(
            ["0\n", *(f"{number} " for number in (*range(1, most + 1), *range(-most, 0)))],
            dtype=object)
        numbers = [_ended(block) for block in blocks]
        numbers.append(np.array([n for clause in loose for n in (*clause, 0)], np.int64))
        return "".join([f"p cnf {most} {count}\n", *words[np.concatenate(numbers)]])


def _ended(block: Literals) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The literals of all clauses, with a zero after each clause."""
    ended = np.zeros((block.shape[0], block.shape[1] + 1), np.int64)
    ended[:, :-1] = block
    return ended.ravel()


def closed(formula: Formula, environment: Environment) -> Node:
    """The tree of a formula without `exists`."""
    match formula:
        case And(parts):
            return Tree(True, tuple(closed(part, environment) for part in parts))
        case Or(parts):
            return Tree(False, tuple(closed(part, environment) for part in parts))
        case Forall(variable, body):
            return Universal(variable, body, environment)
        case Not(Atom() | Same() | Before() as basic):
            return Leaf(basic, False, environment)
        case Atom() | Same() | Before():
            return Leaf(formula, True, environment)
    raise AssertionError(f"not universal: {formula!r}")


def templates_of(claim: Formula) -> tuple[tuple[Sort, ...], list[Template]]:
    """The variables and clauses of a universal claim, with its quantifiers moved to the front."""
    bound: list[Sort] = list(free_variables(claim))
    templates = _templates(claim, {}, bound)
    return tuple(bound), templates


def _templates(
    formula: Formula, names: Mapping[Sort, Sort], bound: list[Sort]
) -> list[Template]:
    match formula:
        case And(parts):
            return [clause for part in parts for clause in _templates(part, names, bound)]
        case Or(parts):
            joined: list[Template] = [()]
            for part in parts:
                clauses = _templates(part, names, bound)
                if len(joined) * len(clauses) > TEMPLATES_MAX:
                    raise TooManyClausesError(f"a claim has over {TEMPLATES_MAX} clauses")
                joined = [one + two for one in joined for two in clauses]
            return joined
        case Forall(variable, body):
            new = variable
            while new in bound:
                new = type(new)(f"{new.name}_")
            bound.append(new)
            return _templates(body, {**names, variable: new}, bound)
        case Exists():
            raise AssertionError(f"not universal: {formula!r}")
        case Not(Atom() | Same() | Before() as basic):
            return [((_called(basic, names), False),)]
        case Atom() | Same() | Before():
            return [((_called(formula, names), True),)]
    raise AssertionError(formula)


def _called(basic: Basic, names: Mapping[Sort, Sort]) -> Basic:
    match basic:
        case Atom(symbol, arguments, value):
            return Atom(symbol, tuple(names.get(v, v) for v in arguments), value)
        case Same(left, right):
            return Same(names.get(left, left), names.get(right, right))
        case Before(left, right):
            return Before(names.get(left, left), names.get(right, right))
