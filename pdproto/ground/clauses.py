"""Formulas in conjunctive normal form, as lists of clauses.

A list that would be longer than `most` is not made (diagrams.py is for those). Clauses that follow
from others of their list do not count (decision 116).
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import reduce
from math import prod
from operator import or_
from typing import Final

from pdproto.ground.program import Clause, Literal

MADE: Final = 2  # times `most`: clauses of a product before those that follow are left out
JOINED: Final = 100  # times `most`: pairs of clauses joined for one product
FEW: Final = 32  # a product of so many is not searched for clauses that follow from others

NEVER: Final[list[Clause]] = [()]
TRIVIAL: Final[list[Clause]] = []
TOO_MANY: Final[list[Clause]] = [()]  # by identity: they are not made


def static(truth: bool) -> list[Clause]:
    return TRIVIAL if truth else NEVER


def joint(parts: Iterator[list[Clause]], most: int, *, patient: bool = True) -> list[Clause]:
    """The clauses of a conjunction; one alone if it cannot hold, so that products stay small.

    patient: parts behind one with too many clauses are looked at, which may decide the whole.
    """
    joint: list[Clause] = []
    few = True
    for clauses in parts:
        if () in clauses and clauses is not TOO_MANY:
            return NEVER
        if clauses is TOO_MANY and not patient:
            return TOO_MANY
        few = few and clauses is not TOO_MANY
        if few:
            joint += clauses
            if len(joint) > most:
                joint = [*dict.fromkeys(joint)]
                few = len(joint) <= most
    return joint if few else TOO_MANY


def product_of(
    parts: Iterable[list[Clause]], most: int, *, patient: bool = True
) -> list[Clause]:
    """The clauses of a disjunction: one clause from each part, joined. patient: as of `joint`.

    Of many, those that always hold or follow from others are left out after each part.
    """
    kept: list[list[Clause]] = []
    for clauses in parts:
        if not clauses:
            return TRIVIAL
        if clauses is TOO_MANY and not patient:
            return TOO_MANY
        kept.append(clauses)
    if any(clauses is TOO_MANY for clauses in kept):
        return TOO_MANY
    if prod(map(len, kept)) > FEW:
        return _least_product(kept, most)
    joined = NEVER
    for clauses in kept:
        joined = [one + two for one in joined for two in clauses]
    return joined


def _least_product(parts: Sequence[list[Clause]], most: int) -> list[Clause]:
    """The product of the parts, without clauses that always hold or follow from others."""
    literals = _Literals()
    joined, cells = [0], 0
    for part in parts:
        own = strongest_sets([*map(literals.set_of, part)])
        here = reduce(or_, (literal.mask for clause in part for literal in clause), 0)
        apart, cells = not cells & here, cells | here
        if apart and len(joined) * len(own) > most:
            return TOO_MANY  # none of them follows from another one
        made = {} if apart else _kept_by_both(joined, own)
        first, second = ([one for one in sets if one not in made] for sets in (joined, own))
        if len(first) * len(second) > JOINED * most:
            return TOO_MANY
        pairs = [(two, 0 if apart else literals.denied(two)) for two in second]
        for one in first:
            made.update(dict.fromkeys(one | two for two, denied in pairs if not one & denied))
            if len(made) > MADE * most:
                return TOO_MANY
        joined = [*made] if apart else strongest_sets([*made])
        if len(joined) > most:
            return TOO_MANY
    return [literals.clause(one) for one in joined]


def _kept_by_both(one: Sequence[int], two: Sequence[int]) -> dict[int, None]:
    """The sets of either side that contain a set of the other side. Joined with that one, such a
    set stays as it is; joined with any other, it makes a clause that follows from it.
    """
    of_one, of_two = _Parts(one), _Parts(two)
    return dict.fromkeys([*filter(of_two.any_in, one), *filter(of_one.any_in, two)])


def strongest(clauses: Iterable[Clause]) -> list[Clause]:
    """The clauses without those that follow from another one, whose literals they all have."""
    literals = _Literals()
    return [literals.clause(one) for one in strongest_sets([*map(literals.set_of, clauses)])]


class _Literals:
    """Clauses as sets of literals: bit i of a number stands for the i-th literal that was met."""

    def __init__(self) -> None:
        self._bits: Final[dict[Literal, int]] = {}
        self._order: Final[list[Literal]] = []

    def set_of(self, clause: Clause) -> int:
        """The literals of a clause."""
        whole = 0
        for literal in clause:
            bit = self._bits.get(literal)
            if bit is None:
                bit = self._bits[literal] = 1 << len(self._order)
                self._order.append(literal)
            whole |= bit
        return whole

    def denied(self, one: int) -> int:
        """The literals that hold where one of these does not: those of cells of one bit."""
        whole = 0
        for mask, value in self.clause(one):
            if not mask & (mask - 1):
                whole |= self._bits.get(Literal(mask, mask ^ value), 0)
        return whole

    def clause(self, one: int) -> Clause:
        """The clause of these literals."""
        return tuple(self._order[bit.bit_length() - 1] for bit in bits(one))


class _Parts:
    """Sets of bits, each kept under its rarest bit: only a set with this bit can contain it."""

    def __init__(self, sets: Sequence[int], *, empty: bool = False) -> None:
        """empty: none of them is found before it is added."""
        self._often: Final = Counter(bit for one in sets for bit in bits(one))
        self._found: Final[dict[int, list[int]]] = {}
        self._rarest = 0  # the bits under which sets are kept
        for one in () if empty else sets:
            self.add(one)

    def add(self, one: int) -> None:
        """Have this set found too."""
        rarest = min(bits(one), key=self._often.__getitem__, default=0)
        self._found.setdefault(rarest, []).append(one)
        self._rarest |= rarest

    def any_in(self, whole: int) -> bool:
        """Whether one of the sets is a part of this one."""
        return any(one | whole == whole
                   for bit in (0, *bits(whole & self._rarest)) for one in self._found.get(bit, ()))


def strongest_sets(sets: Sequence[int]) -> list[int]:
    """Those of the sets of bits of which no other one is a part, each once, in their order."""
    distinct = [*dict.fromkeys(sets)]
    sizes = {one.bit_count() for one in distinct}
    if len(sizes) < 2:
        return distinct
    found = _Parts(distinct, empty=True)
    kept = set()
    for one in sorted(distinct, key=int.bit_count):
        if not found.any_in(one):
            found.add(one)
            kept.add(one)
    return [one for one in distinct if one in kept]


def bits(mask: int) -> Iterator[int]:
    """Each bit of the mask by itself, the lowest first."""
    while mask:
        yield mask & -mask
        mask &= mask - 1
