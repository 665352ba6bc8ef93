"""The parts of a random system with numbers, and with values that an update computes."""

from collections.abc import Sequence
from typing import Any

from pdproto.spec.language import (
    TRUE,
    Formula,
    Int,
    Machine,
    Numbers,
    Sort,
    count,
    if_then_else,
    max_of,
    min_of,
    size,
    sum_of,
)
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.symbols import Function, Relation
from pdproto.spec.language.terms import NumberFunction, Term
from tests.oracle.lists import ListParts
from tests.oracle.parts import Own, Parts

RANGES = (0, 1), (0, 2), (0, 3), (-1, 1), (1, 3), (2, 3)


class NumberParts(ListParts):
    """Parts of which some are numbers."""

    counted = True  # whether some numbers are counts and sums

    def turns(self, size: int) -> type[Sort]:
        """The ordered sort, often one of numbers."""
        if self.rng.random() < 0.4:
            return super().turns(size)
        low = self.rng.choice((-1, 0, 0, 1))

        class Turn(Numbers, values=Int(low, low + max(size, 2) - 1)):
            """Numbers."""

        return Turn

    def computed(self, sort: type[Sort], scope: Own, symbols: Sequence[Any], own: Own) -> Any:
        if not issubclass(sort, Numbers) or self.rng.random() < 0.6:
            return None
        term = self.term(scope, symbols, own, self.rng.choice((0, 1)))
        return sort(self.rng.choice((term, term, sort.values.low)))

    def _declare(self, machine: Machine[*tuple[Any, ...]]) -> None:
        super()._declare(machine)
        rng = self.rng
        for number in range(rng.choice((1, 1, 2))):
            low, high = rng.choice(RANGES)
            sorts = rng.sample([self.alpha, self.beta], rng.choice((0, 0, 1)))
            function: Any = machine.function
            self.variables.append(function(
                f"{machine.name}_n{number}", Int(low, high, saturates=rng.random() < 0.3), *sorts,
                init=rng.choice((None, high))))

    def literal(self, scope: Own, symbols: Sequence[Any], own: Own) -> Formula:
        """An atom as in other systems, or a comparison."""
        rng = self.rng
        if rng.random() < 0.5:
            return super().literal(scope, symbols, own)
        one = self.term(scope, symbols, own, rng.choice((1, 1, 2)))
        two = self.term(scope, symbols, own, rng.choice((0, 1)))
        compared: Formula = rng.choice((
            lambda: one < two, lambda: one <= two, lambda: one > two, lambda: one >= two,
            lambda: one == two, lambda: one != two))()
        return compared

    def term(self, scope: Own, symbols: Sequence[Any], own: Own, depth: int) -> Term:
        """A number in a state."""
        rng = self.rng
        kind = rng.random()
        if kind >= 0.65 and not self.counted:
            kind = 0.8 if kind < 0.85 else 0.95
        if depth == 0 or kind < 0.4:
            return self._cell(scope, symbols, own)
        if kind < 0.65:
            one, two = (self.term(scope, symbols, own, depth - 1) for _ in range(2))
            constant = rng.choice((1, 2, 3))
            term: Term = rng.choice((
                lambda: one + two, lambda: one - two, lambda: one * two, lambda: one // two,
                lambda: one % two, lambda: one + constant, lambda: one * constant,
                lambda: one // constant, lambda: one % constant, lambda: constant - one,
                lambda: -one))()
            return term
        sort = rng.choice((self.alpha, self.beta))
        variable = self.fresh(sort, scope)
        inner = *scope, variable
        where = Parts.literal(self, inner, symbols, own)  # a few counts inside counts are enough
        if kind < 0.75:
            return count(variable, where)
        if kind < 0.8:
            return size(sort)
        if kind < 0.85:
            condition = Parts.literal(self, scope, symbols, own)
            chosen: Term = if_then_else(
                condition, self._cell(scope, symbols, own), rng.choice((0, 1)))
            return chosen
        number = self.term(inner, symbols, own, depth - 1)
        if kind < 0.92:
            return sum_of(variable, number, where=rng.choice((TRUE, where)))
        word = rng.choice((min_of, max_of))
        if rng.random() < 0.5:
            return word(variable, number)
        return word(variable, number, where=where, otherwise=rng.choice((0, 1)))

    def _cell(self, scope: Own, symbols: Sequence[Any], own: Own) -> Term:
        known: list[Any] = [v for v in scope if isinstance(v, Numbers)]
        if known and self.rng.random() < 0.4:
            variable = self.rng.choice(known)
            found: Term = variable.number if self.rng.random() < 0.5 else variable + 0
            return found
        numbers = [s for s in symbols if isinstance(s, NumberFunction)]
        if not numbers:
            return size(self.alpha)
        symbol = self.rng.choice(numbers)

        def choose(sort: type[Sort]) -> Sort:
            here = [v for v in scope if type(v) is sort]
            return self.rng.choice(here)  # IndexError where there is none: it is drawn again

        cell: Term = symbol(*self.arguments(symbol, own, choose))
        return cell

    def _moved(self, symbol: Any, arguments: tuple[Any, ...], scope: Own) -> Any:
        rng = self.rng
        if rng.random() < 0.25:
            return super()._moved(symbol, arguments, scope)
        own = tuple(symbol.owner.own) if not symbol.owner.world else ()
        mine = [v for v in self.variables if v.owner is symbol.owner]
        known = tuple(dict.fromkeys(v for v in (*scope, *arguments) if isinstance(v, Sort)))
        cell = symbol(*arguments)
        if isinstance(symbol, NumberFunction):
            return cell.to(self.term(known, mine, own, rng.choice((1, 1, 2))))
        if isinstance(symbol, Relation):
            return cell.to(self.formula(known, mine, own, 1))
        if isinstance(symbol, Function):
            twins = [f for f in mine if isinstance(f, Function) and f.values[0] in symbol.values
                     and f.sorts == symbol.sorts]
            other = rng.choice([*(f(*arguments) for f in twins if None not in arguments),
                                rng.choice(symbol.values)])
            condition = self.formula(known, mine, own, 1)
            return cell.to(if_then_else(condition, other, rng.choice(symbol.values)))
        if isinstance(symbol, ElementFunction):
            others = [f(*arguments) for f in mine if isinstance(f, ElementFunction)
                      and f.sorts == symbol.sorts and None not in arguments]
            values: list[Any] = [*others, *(v for v in known if type(v) is symbol.sorts[-1])]
            copied: Any = rng.choice(values)
            condition = self.formula(known, mine, own, 1)
            return cell.to(copied if rng.random() < 0.3 else if_then_else(
                condition, copied, rng.choice(values)))
        return super()._moved(symbol, arguments, scope)


class Uncounted(NumberParts):
    """Parts with numbers, and without counts, of which few proofs can speak."""

    counted = False
