"""Formulas over named constants: sequents after each `exists` has been given a name.

A formula in negation normal form becomes a tree of literals over constants. Every `exists` that is
not under a `forall` gets a constant of its own. Different branches of one `or` share constants,
because (exists x A) or (exists x B) is exists x (A or B). A `forall` becomes a `Universal` until
all constants are known. A `forall` with an `exists` inside is instantiated only at the constants of
the other formulas.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

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
)
from pdproto.spec.language.sorts import Sort

Environment: TypeAlias = Mapping[Sort, int]  # a variable -> the number of a constant of its sort
Basic: TypeAlias = Atom | Same | Before


@dataclass(frozen=True, slots=True)
class Leaf:
    """A literal: an atom, or the identity or order of two variables, or its negation."""

    basic: Basic
    positive: bool
    environment: Environment


@dataclass(frozen=True, slots=True)
class Universal:
    """The body for all elements; it has no `exists`."""

    variable: Sort
    body: Formula
    environment: Environment


@dataclass(frozen=True, slots=True)
class Tree:
    """All of the parts, or at least one of them."""

    conjunctive: bool
    parts: "tuple[Node, ...]"


@dataclass(frozen=True, slots=True)
class Alternation:
    """A `forall` with an `exists` in it, which waits to be instantiated."""

    formula: Forall
    environment: Environment


Node: TypeAlias = Leaf | Universal | Alternation | Tree


class Constants:
    """The constants of each sort, numbered from 0; `base` of them instantiate `forall exists`."""

    def __init__(self, sorts: Sequence[type[Sort]]) -> None:
        self.total: Final = dict.fromkeys(sorts, 0)
        self._next: Final = dict.fromkeys(sorts, 0)
        self.alternating: Final[list[Formula]] = []  # each `forall exists` that was weakened
        self.base: dict[type[Sort], int] = {}

    def named(self, variables: Sequence[Sort]) -> dict[Sort, int]:
        """A new constant for each of the variables."""
        return {variable: self._take(type(variable)) for variable in variables}

    def close(self) -> None:
        """Fix `base` as the constants so far. Each sort gets one at least, as it has an element."""
        for sort, count in self.total.items():
            self.total[sort] = max(1, count)
        self.base = dict(self.total)
        self._next.update(self.total)

    def grounded(self, formula: Formula, environment: Environment) -> Node:
        """The tree of a formula in negation normal form."""
        match formula:
            case And(parts):
                return Tree(True, tuple(self.grounded(part, environment) for part in parts))
            case Or(parts):
                return Tree(False, tuple(self.branches(parts, environment)))
            case Exists(variable, body):
                inner = {**environment, variable: self._take(type(variable))}
                return self.grounded(body, inner)
            case Forall(variable, body) if has_exists(body):
                return Alternation(formula, environment)
            case Forall(variable, body):
                return Universal(variable, body, environment)
            case Not(Atom() | Same() | Before() as basic):
                return Leaf(basic, False, environment)
            case Atom() | Same() | Before():
                return Leaf(formula, True, environment)
        raise AssertionError(f"not in negation normal form: {formula!r}")

    def resolved(self, node: Node) -> Node:
        """The tree with every alternation replaced by its instances at the base.

        Each instance has witnesses of its own, which are not instantiated again.
        """
        match node:
            case Tree(conjunctive, parts):
                return Tree(conjunctive, tuple(self.resolved(part) for part in parts))
            case Alternation(formula, environment):
                self.alternating.append(formula)
                return Tree(True, tuple(
                    self.resolved(self.grounded(
                        formula.body, {**environment, formula.variable: number}
                    ))
                    for number in range(self.base[type(formula.variable)])
                ))
            case _:
                return node

    def branches(self, parts: Sequence[Formula], environment: Environment) -> list[Node]:
        """The trees of alternatives, which share their constants."""
        start = dict(self._next)
        reached = dict(self._next)
        nodes = []
        for part in parts:
            self._next.update(start)
            nodes.append(self.grounded(part, environment))
            for sort, count in self._next.items():
                reached[sort] = max(reached[sort], count)
        self._next.update(reached)
        return nodes

    def _take(self, sort: type[Sort]) -> int:
        number = self._next[sort]
        self._next[sort] = number + 1
        self.total[sort] = max(self.total[sort], number + 1)
        return number


def has_exists(formula: Formula) -> bool:
    """Whether a formula in negation normal form has an `exists`."""
    match formula:
        case Exists():
            return True
        case And(parts) | Or(parts):
            return any(has_exists(part) for part in parts)
        case Forall(_, body):
            return has_exists(body)
        case _:
            return False


def alternates(formula: Formula) -> bool:
    """Whether a formula in negation normal form has an `exists` under a `forall`."""
    match formula:
        case And(parts) | Or(parts):
            return any(alternates(part) for part in parts)
        case Exists(_, body):
            return alternates(body)
        case Forall(_, body):
            return has_exists(body)
        case _:
            return False
