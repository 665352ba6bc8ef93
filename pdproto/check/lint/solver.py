"""Decides whether guards can hold together. The answer is exact, over cells with few values each.

A *domain* is the set of codes that a cell may have, as a bit set. A *box* narrows some cells to
bit sets; a *constraint* is a disjunction of boxes. A guard is a box and clauses, and so is its
negation, so conjunctions of both are conjunctions of constraints. The search is DPLL (Davis,
Logemann, Loveland 1962), with cells of many values instead of booleans.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TypeAlias

from pdproto.ground.layout import Field
from pdproto.ground.program import Guard, Literal

Domains: TypeAlias = Mapping[int, int]  # bit offset of a cell -> the codes it may have
Box: TypeAlias = Mapping[int, int]  # bit offset of a cell -> the allowed codes
Constraint: TypeAlias = tuple[Box, ...]  # at least one box contains the state


class GuardCells:
    """The cells of a layout, and guards over its masks as constraints."""

    def __init__(self, fields: Iterable[tuple[Field, int]]) -> None:
        """fields: each cell with its number of values."""
        self._cells = {field.mask: (field, (1 << values) - 1) for field, values in fields}
        self.full: dict[int, int] = {f.offset: every for f, every in self._cells.values()}

    def holds(self, guard: Guard) -> tuple[Constraint, ...]:
        """The constraints under which the guard holds."""
        cube = dict(self._cube(guard))
        clauses = (self._clause(clause) for clause in guard.clauses)
        choices = tuple(
            tuple({cell: codes} for cell, codes in clause.items()) for clause in clauses
        )
        return ((cube,), *choices)

    def fails(self, guard: Guard) -> Constraint:
        """The constraint under which the guard fails: in a cell of its cube, or in a clause."""
        cube = tuple({cell: self.full[cell] & ~code} for cell, code in self._cube(guard))
        clauses = tuple(
            {cell: self.full[cell] & ~codes for cell, codes in self._clause(clause).items()}
            for clause in guard.clauses
        )
        return cube + clauses

    def codes(self, mask: int, state: int) -> dict[int, int]:
        """The cells under a mask in a state, each as a bit set of one code."""
        return dict(self._cube(Guard(mask, state & mask)))

    def _cube(self, guard: Guard) -> Iterator[tuple[int, int]]:
        for mask, (field, _) in self._cells.items():
            if guard.mask & mask:
                yield field.offset, 1 << ((guard.value & mask) >> field.offset)

    def _clause(self, clause: Sequence[Literal]) -> Box:
        box: dict[int, int] = {}
        for literal in clause:
            field, _ = self._cells[literal.mask]
            code = 1 << (literal.value >> field.offset)
            box[field.offset] = box.get(field.offset, 0) | code
        return box


def after(constraint: Constraint, written: Box) -> Constraint:
    """The constraint on the state after an update, as a constraint on the state before it.

    written: the cells that the update assigns, each with the bit set of the code it gets.
    """
    return tuple(
        {cell: codes for cell, codes in box.items() if cell not in written}
        for box in constraint
        if all(codes & written[cell] for cell, codes in box.items() if cell in written)
    )


def solve(domains: Domains, constraints: Iterable[Constraint]) -> dict[int, int] | None:
    """The domains of the constrained cells, narrowed until every choice is a solution.

    None if there is no solution. A cell that is missing in the answer may have any value.
    """
    asked = tuple(constraints)
    cells = {cell for constraint in asked for box in constraint for cell in box}
    return _search({cell: domains[cell] for cell in sorted(cells)}, asked)


def _search(domains: dict[int, int], constraints: Sequence[Constraint]) -> dict[int, int] | None:
    """The search of `solve`. It may change `domains`."""
    pending = _propagated(domains, constraints)
    if pending is None:
        return None
    if not pending:
        return domains
    branch = min(pending, key=len)
    others = [constraint for constraint in pending if constraint is not branch]
    for box in branch:
        solution = _search({**domains, **_narrowed(domains, box)}, others)
        if solution is not None:
            return solution
        if len(box) == 1:
            # This box has been searched, so any other solution lies outside it.
            ((cell, codes),) = box.items()
            domains[cell] &= ~codes
            if not domains[cell]:
                return None
    return None


def _propagated(
    domains: dict[int, int], constraints: Sequence[Constraint]
) -> list[Constraint] | None:
    """Narrow the domains by every constraint with one box left. Returns the other constraints.

    None if a constraint cannot hold.
    """
    while True:
        pending: list[Constraint] = []
        narrowed = False
        for constraint in constraints:
            left = tuple(
                box
                for box in constraint
                if all(domains[cell] & codes for cell, codes in box.items())
            )
            if not left:
                return None
            if any(all(not domains[c] & ~codes for c, codes in box.items()) for box in left):
                continue
            if len(left) == 1:
                domains.update(_narrowed(domains, left[0]))
                narrowed = True
            else:
                pending.append(left)
        constraints = pending
        if not narrowed:
            return pending


def _narrowed(domains: Domains, box: Box) -> dict[int, int]:
    return {cell: domains[cell] & codes for cell, codes in box.items()}
