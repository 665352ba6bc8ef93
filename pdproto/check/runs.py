"""Runs of a ground system: from the states that a search has stored to rows that really fire.

A stored state may have dead bits cleared and elements renamed. Beside each stored state, `replay`
keeps the state of a real run as the search names its elements. The two differ in bits that nothing
can read any more, so each row leads from both to the next pair. Taking the names back gives a run
of the tables, element for element.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

from pdproto.ground.grounding import Ground, GroundRow
from pdproto.ground.program import Program, Renaming


@dataclass(frozen=True, slots=True)
class Transition:
    """One step of a real run."""

    row: GroundRow
    before: int
    after: int


class RealRun(list[Transition]):
    """The steps of a real run, and the initial state in which it begins."""

    def __init__(self, start: int, moves: Iterable[Transition] = ()) -> None:
        super().__init__(moves)
        self.start: Final = start

    @property
    def end(self) -> int:
        """The last state."""
        return self[-1].after if self else self.start


class NoRunError(AssertionError):
    """A search has found what no run of the tables shows: a defect of pdproto."""


def replay(ground: Ground, form: Program, path: Sequence[int]) -> RealRun:
    """The real run along a path of stored states. Raises NoRunError if there is none.

    A fault that changes nothing but dead bits is left out.
    """
    moves = RealRun(real := form.start(path[0]))
    renamings = [form.symmetry.renaming(form.swept(real))]
    named = form.symmetry.renamed(real, renamings[0])
    for stored, wanted in pairwise(path):
        row = _row_between(ground, form, stored, wanted)
        target = row.action.apply(named)
        if target != named and (row.action.guard.holds(named) or not row.layer):
            moves.append(_as_named(ground, form, real, target, renamings))
            real, named = moves[-1].after, target
        renamings.append(form.symmetry.renaming(form.swept(row.action.apply(stored))))
        named = form.symmetry.renamed(named, renamings[-1])
    return moves


def _row_between(ground: Ground, form: Program, stored: int, wanted: int) -> GroundRow:
    """The first row that leads from one stored state to the next."""
    for row in ground.rows:
        if row.action.guard.holds(stored) and form.normal(row.action.apply(stored)) == wanted:
            return row
    raise NoRunError("no row leads from one stored state to the next")


def _as_named(
    ground: Ground, form: Program, real: int, target: int, renamings: Iterable[Renaming]
) -> Transition:
    """The step of the real run to the state that has this name after the renamings."""
    for row in ground.rows:
        if row.action.guard.holds(real):
            after = named = row.action.apply(real)
            for renaming in renamings:
                named = form.symmetry.renamed(named, renaming)
            if named == target:
                return Transition(row, real, after)
    raise NoRunError("no row of the tables takes a step of the search")


def run(start: int, rows: Iterable[GroundRow]) -> RealRun:
    """The real run from this state in which these rows fire, faults that cannot fire left out.

    Raises NoRunError if another row is not enabled.
    """
    moves = RealRun(start)
    for row in rows:
        if row.action.guard.holds(moves.end):
            moves.append(Transition(row, moves.end, row.action.apply(moves.end)))
        elif not row.layer:
            raise NoRunError(f"{row} is not enabled")
    return moves


def until_stuck(ground: Ground, moves: RealRun) -> RealRun:
    """The run, and after it rows of the protocol, until none changes anything.

    It ends, because they change idle bits only (deadbits.py), and each cell moves on to another
    value at most so often as it has values. Raises NoRunError if it does not.
    """
    whole = RealRun(moves.start, moves)
    for _ in range(sum(len(symbol.values) for symbol, _ in ground.layout.fields) + 1):
        state = whole.end
        row = next((row for row in ground.rows if not row.layer and row.action.guard.holds(state)
                    and row.action.apply(state) != state), None)
        if row is None:
            return whole
        whole.append(Transition(row, state, row.action.apply(state)))
    raise NoRunError("rows that change idle bits only come to no end")
