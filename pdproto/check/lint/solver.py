"""Decides whether guards can hold together. The answer is exact, over cells with few values each.

A *domain* is the set of codes that a cell may have, as a bit set. A *box* narrows some cells to
bit sets; a *constraint* is a disjunction of boxes. So are the walks of a decision. A guard is a
conjunction of constraints, and its negation a disjunction. The search is DPLL (Davis,
Logemann, Loveland 1962), with cells of many values instead of booleans.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Final, TypeAlias

from pdproto.ground.decisions import DecisionDiagram
from pdproto.ground.layout import Field, TooLargeError
from pdproto.ground.program import Guard, Literal

Domains: TypeAlias = Mapping[int, int]  # bit offset of a cell -> the codes it may have
Box: TypeAlias = Mapping[int, int]  # bit offset of a cell -> the allowed codes
Constraint: TypeAlias = tuple[Box, ...]  # at least one box contains the state
BOXES_MAX: Final = 10_000  # of one decision


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
        return ((cube,), *choices, *map(self._walks, guard.decisions))

    def fails(self, guard: Guard) -> Constraint:
        """The constraint under which the guard fails: in a cell of its cube, in a clause, or by a
        decision.
        """
        cube = tuple({cell: self.full[cell] & ~code} for cell, code in self._cube(guard))
        clauses = tuple(
            {cell: self.full[cell] & ~codes for cell, codes in self._clause(clause).items()}
            for clause in guard.clauses
        )
        return (*cube, *clauses, *(
            box for one in guard.decisions for box in self._walks(one.negated)))

    def _walks(self, decision: DecisionDiagram) -> Constraint:
        """Raises TooLargeError above BOXES_MAX walks."""
        boxes = tuple(islice(decision.boxes(), BOXES_MAX + 1))
        if len(boxes) > BOXES_MAX:
            raise TooLargeError(f"a guard holds in over {BOXES_MAX:,} ways, which lint compares "
                                "one by one: give it smaller sizes")
        return tuple({self._cells[mask][0].offset: codes & self._cells[mask][1]
                      for mask, codes in box.items()} for box in boxes)

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
