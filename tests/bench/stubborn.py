"""Stubborn sets of the rows of a Program: which rows suffice in a state, if only deadlocks matter.

A row is *moving* in a state if its guard holds there and it changes the state. A set is stubborn in
a state if (Valmari) no row outside, and no run of such rows, can disable one of its moving rows or
lead elsewhere with it than without it, and none can make another of its rows move. A search that
takes the moving rows of a stubborn set with at least one of them finds every state in which nothing
moves. Whether two rows can disturb each other is read off their masks.

For safety properties a set must also have no row that writes a bit of a property, unless it has all
moving rows. A search would need a condition on cycles besides, which can only make sets larger.
"""

from collections.abc import Iterator, Sequence
from functools import cache

from pdproto.ground.program import Action, Guard, Literal, conjunction


def moving(rows: Sequence[Action], state: int) -> int:
    """Bit i: the i-th row moves in the state."""
    return sum(1 << i for i, row in enumerate(rows)
               if row.guard.holds(state) and row.apply(state) != state)


def bits(mask: int) -> Iterator[int]:
    """The places of the bits that are set."""
    while mask:
        yield (mask & -mask).bit_length() - 1
        mask &= mask - 1


class StubbornSets:
    """The stubborn sets of some rows. Sets of rows are masks, as those of `moving`."""

    def __init__(self, rows: Sequence[Action]) -> None:
        self.rows = rows
        self.disturbing = [0] * len(rows)
        for i, one in enumerate(rows):
            for j in range(i):
                if not _accord(one, rows[j]):
                    self.disturbing[i] |= 1 << j
                    self.disturbing[j] |= 1 << i
        self._writers = cache(self._writers_of)

    def writers_of(self, seen: int) -> int:
        """The rows that write one of the bits."""
        return sum(1 << i for i, row in enumerate(self.rows) if row.clear & seen)

    def smallest(self, state: int, visible: int = 0) -> int:
        """The moving rows of the smallest set that grows from one of them; all if none is less.

        visible: rows that no set with fewer than all moving rows may take.
        """
        every = best = moving(self.rows, state)
        for seed in bits(every):
            chosen = self._grown(seed, state, every) & every
            if chosen.bit_count() < best.bit_count() and not chosen & visible:
                best = chosen
        return best

    def _grown(self, seed: int, state: int, every: int) -> int:
        grown, left = 1 << seed, 1 << seed
        while left:
            row = left.bit_length() - 1
            left ^= 1 << row
            more = self.disturbing[row] if every >> row & 1 else self._enabling(row, state, grown)
            left |= more & ~grown
            grown |= more
        return grown

    def _enabling(self, row: int, state: int, grown: int) -> int:
        """Rows of which one must move before this row can: as few new ones as possible."""
        return min((self._making(one) for one in self._failing(row, state)),
                   key=lambda making: (making & ~grown).bit_count())

    def _failing(self, row: int, state: int) -> Iterator[tuple[Literal, ...]]:
        """Conditions of the row that fail: of each, one literal must become true."""
        guard = self.rows[row].guard
        for bit in bits((state & guard.mask) ^ guard.value):
            yield (Literal(1 << bit, guard.value & 1 << bit),)
        yield from (c for c in guard.clauses if not any(literal.holds(state) for literal in c))
        if guard.holds(state):  # but it would change nothing
            yield tuple(Literal(1 << bit, ~state & 1 << bit) for bit in bits(self.rows[row].clear))

    def _making(self, literals: tuple[Literal, ...]) -> int:
        making = 0
        for literal in literals:
            making |= self._writers(literal)
        return making

    def _writers_of(self, literal: Literal) -> int:
        """The rows that can make the literal true."""
        return sum(
            1 << i for i, row in enumerate(self.rows)
            if row.clear & literal.mask
            and not (row.assign ^ literal.value) & literal.mask & row.clear
        )


def _accord(one: Action, two: Action) -> bool:
    """Whether, wherever both rows move, they lead to the same state in either order."""
    if conjunction(one.guard, two.guard) is None:
        return True
    return not (one.clear & two.clear or _disturbs(one, two.guard) or _disturbs(two, one.guard))


def _disturbs(row: Action, guard: Guard) -> bool:
    """Whether the row may end the guard."""
    if row.clear & guard.mask & (row.assign ^ guard.value):
        return True
    return any(
        any(row.clear & mask for mask, _ in clause)
        and not any(mask and not mask & ~row.clear and row.assign & mask == value
                    for mask, value in clause)
        for clause in guard.clauses
    )
