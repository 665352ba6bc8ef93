"""Proof obligations of a refinement: each row does what a row of the abstract system may do.

The claim about a row is one about the state before it: the mapped state is the same after the row,
or a row of the abstract system can fire in the mapped state before, and leads to the one after. The
parameters of the abstract row are sought among those of the row, where these have some of the sort;
of another sort, some element has to do. So a proof that fails may need a parameter (`choose=`) in
the place of an `exists` of a guard.
"""

from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Final

from pdproto.check.prove.rewriting import apart, before_row, mapped_atoms, marked, renamed
from pdproto.spec.language.formula import (
    FALSE,
    TRUE,
    And,
    Atom,
    Formula,
    Not,
    Or,
    exists,
    forall,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.refines import Mapped, Refines
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid, Value, sent_by

# Marks on the variables of cells, of mappings, of abstract rows, and of `over`.
CELL, INSIDE, TAKEN, OVER = "_cell", "_mapped", "_taken", "_over"
CHOICES_MAX: Final = 64  # of parameters of one abstract row


class Stepwise:
    """A claim of refinement as formulas about the state of the refining system."""

    def __init__(self, claim: Refines) -> None:
        self.claim: Final = claim
        self.over: Final = tuple(marked(v, OVER) for v in claim.over)
        self.mapped: Final = {one.symbol: one for one in claim.mapped}

    def initially(self) -> Formula:
        """The mapped state is an initial state of the abstract system. For all elements."""
        return _all(*map(self._image, self.claim.abstract.starts), *(
            part for one in self.mapped.values() for part in (
                *(_not(self._value(one, value)) for value, _ in one.values
                  if not one.symbol.starts_free), self._fits(one))))

    def step(self, table: Table, row: Row) -> Formula:
        """The row takes a step of the abstract system, or a stutter. Free: the row's parameters."""
        def after(formula: Formula) -> Formula:
            return before_row(formula, table, row)

        stutter = self._each_cell(lambda one, value: self._same(
            self._value(one, value), after(self._value(one, value))))
        moved = {one.symbol for one in self.mapped.values() for value, _ in one.values
                 if after(self._value(one, value)) != self._value(one, value)}
        # A row that writes what does not move is no step, but for one that changes nothing.
        steps = [step for other in self.claim.abstract.every_table for taken in other.rows
                 if {update.symbol for update in other.updates(taken)} <= moved
                 and {sent_by(effect).symbol for effect in taken.send} <= moved
                 for step in self._steps(table, row, other, taken, after)]
        fits = [forall(tuple(marked(v, CELL) for v in one.arguments), after(self._fits(one)))
                for one in self.mapped.values() if one.fits != TRUE]
        return _all(_any(stutter, *steps), *fits)

    def _steps(
        self, table: Table, row: Row, other: Table, taken: Row,
        after: Callable[[Formula], Formula],
    ) -> Iterator[Formula]:
        """The row takes this row of the abstract system, for some choice of its parameters."""
        own = other.parameters(taken)
        names = {v: marked(v, TAKEN) for v in own}

        def becomes(one: Mapped, value: Value) -> Formula:
            cell = Atom(one.symbol, tuple(marked(v, CELL) for v in one.arguments), value)
            wanted = self._image(renamed(before_row(cell, other, taken), names))
            now = after(self._value(one, value))
            if len(one.symbol.values) == 2:  # the other one is not asked
                return self._same(wanted, now)
            return TRUE if now == wanted else _any(_not(now), wanted)

        guard = self._image(renamed(other.guard(taken), names))
        claim = _all(guard, self._each_cell(becomes, start=True))
        mine = table.parameters(row)
        choices = [tuple(v for v in mine if type(v) is type(one)) for one in own]
        if prod(len(one) or 1 for one in choices) > CHOICES_MAX:
            choices = [() for _ in own]
        free = tuple(names[v] for v, few in zip(own, choices, strict=True) if not few)
        for chosen in product(*(few or (names[v],) for v, few in zip(own, choices, strict=True))):
            yield exists(free, renamed(claim, dict(zip(names.values(), chosen, strict=True))))

    def _each_cell(
        self, told: Callable[[Mapped, Value], Formula], *, start: bool = False
    ) -> Formula:
        """The formula for every cell of the abstract system and every value that it may have.

        start: for the value at the start too, if there are over two.
        """
        parts = []
        for one in self.mapped.values():
            values = one.symbol.values if start and len(one.symbol.values) > 2 else (
                one.symbol.values[1:])
            body = _all(*(told(one, value) for value in values))
            if body != TRUE:
                parts.append(forall(tuple(marked(v, CELL) for v in one.arguments), body))
        return _all(*parts)

    @staticmethod
    def _same(one: Formula, two: Formula) -> Formula:
        return TRUE if one == two else _any(_all(one, two), _all(_not(one), _not(two)))

    def _value(self, one: Mapped, value: Value, arguments: tuple[Sort, ...] = ()) -> Formula:
        """The formula that the cell at these arguments, or at those with CELL, has the value."""
        values = dict(one.values)
        if value not in values:
            return _not(_any(*(self._value(one, v, arguments) for v in values)))
        return self._at(one, values[value], arguments)

    def _fits(self, one: Mapped) -> Formula:
        return self._at(one, one.fits, ())

    def _at(self, one: Mapped, formula: Formula, arguments: tuple[Sort, ...]) -> Formula:
        if formula in (TRUE, FALSE):
            return formula
        at = arguments or tuple(marked(v, CELL) for v in one.arguments)
        inside = (marked(v, INSIDE) for v in (*one.arguments, *self.claim.over))
        return renamed(apart(formula, INSIDE), dict(zip(inside, (*at, *self.over), strict=True)))

    def _image(self, formula: Formula) -> Formula:
        """A formula of the abstract system as one about the state that is mapped."""
        def of(atom: Atom) -> Formula:
            if isinstance(atom.symbol, Rigid):
                return atom
            return self._value(self.mapped[atom.symbol], atom.value, atom.arguments)

        return mapped_atoms(formula, of)


def _not(one: Formula) -> Formula:
    return one.part if isinstance(one, Not) else FALSE if one == TRUE else (
        TRUE if one == FALSE else Not(one))


def _all(*parts: Formula) -> Formula:
    kept = tuple(dict.fromkeys(part for part in parts if part != TRUE))
    return FALSE if FALSE in kept else kept[0] if len(kept) == 1 else And(kept)


def _any(*parts: Formula) -> Formula:
    kept = tuple(dict.fromkeys(part for part in parts if part != FALSE))
    return TRUE if TRUE in kept else kept[0] if len(kept) == 1 else Or(kept)
