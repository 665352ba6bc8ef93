"""The parts of a random system with lists."""

from collections.abc import Sequence
from typing import Any

from pdproto.spec.language import Formula, Int, Machine, Seq, Sort
from pdproto.spec.language.elements import ElementFunction
from pdproto.spec.language.symbols import Function
from pdproto.spec.language.terms import NumberFunction
from tests.oracle.parts import Mode, Own, Parts


class ListParts(Parts):
    """Parts of which some are lists."""

    def _declare(self, machine: Machine[*tuple[Any, ...]]) -> None:
        super()._declare(machine)
        rng = self.rng
        self.lists: list[Any] = getattr(self, "lists", [])
        kinds: list[Any] = [Int(0, 1), Mode, self.beta]
        if rng.random() < 0.3:
            self.lists.append(machine.function(
                f"{machine.name}_l", Seq(rng.choice(kinds), most=rng.choice((1, 2, 2)))))

    def _list(self, owners: set[Any], own: Own, scope: Own) -> Any:
        """A list of one of these machines at its arguments, or None."""
        mine = [one for one in self.lists if one.length.owner in owners]

        def choose(sort: type[Sort]) -> Sort:
            return self.rng.choice([v for v in scope if type(v) is sort])

        if not mine:
            return None
        symbol = self.rng.choice(mine)
        try:
            return symbol(*self.arguments(symbol.length, own, choose))
        except IndexError:  # no variable of the sort
            return None

    def literal(self, scope: Own, symbols: Sequence[Any], own: Own) -> Formula:
        """An atom as in other systems, or about a list."""
        owners = {s.owner for s in symbols if isinstance(s, NumberFunction)}
        one = self._list(owners, own, scope) if self.rng.random() < 0.15 else None
        return super().literal(scope, symbols, own) if one is None else self._about_list(one, scope)

    def _about_list(self, one: Any, scope: Own) -> Formula:
        rng = self.rng
        items = [one.head, one.last, one.at(rng.randrange(one.symbol.of.most)),
                 one.at(one.length % one.symbol.of.most)]
        item, other = rng.choice(items), rng.choice(items)
        found: list[Any] = [one.empty, one.full, one.length > 1, one.same(one), item == other,
                            item != other]
        if value := self._element(one, scope):
            found += [one.has(value[0]), item == value[0], item != value[0], item.among(value[0])]
        if isinstance(one.symbol.of.values, type):
            found.append(item.same(other))
        if one.symbol.of.values is self.turn and value:
            found += [item.before(value[0]), item.after(value[0])]
        formula: Formula = rng.choice(found)
        return formula

    def _element(self, one: Any, scope: Own) -> list[Any]:
        """A value of an element, if there is one."""
        values = one.symbol.of.values
        if isinstance(values, Int):
            return [self.rng.choice((0, 1))]
        known = [v for v in scope if type(v) is values] if issubclass(values, Sort) else [*values]
        return [self.rng.choice(known)] if known else []

    def update(self, scope: Own, symbol: Any, own: Own) -> list[Any]:
        """As in other systems, or of a list; sometimes of a variable that takes an element."""
        rng = self.rng
        one = self._list({symbol.owner}, own, scope) if rng.random() < 0.4 else None
        if one is None:
            return super().update(scope, symbol, own)
        values = one.symbol.of.values
        if symbol.domain == one.symbol.length.domain and rng.random() < 0.5:
            takes = (isinstance(symbol, ElementFunction) and symbol.sorts[-1] is values) or (
                isinstance(symbol, Function) and symbol.values[0] in self._values(values))
            if takes:
                return [symbol(*one.arguments).to(rng.choice((one.head, one.last)))]
        found = [one.tail(), one.clear(), one.keep(one.length % 2), one.keep(1), one.to(one)]
        if value := self._element(one, scope):
            found += [one.append(value[0]), one.append(value[0]), one.append(value[0]),
                      one.at(0).to(value[0]), one.last.to(value[0]), one.append(one.head)]
        return [rng.choice(found)]

    @staticmethod
    def _values(values: Any) -> tuple[Any, ...]:
        return values.values if isinstance(values, Int) else () if issubclass(values, Sort) else (
            tuple(values))
