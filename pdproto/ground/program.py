"""The ground form of a protocol: search engines run it and know nothing else of the protocol.

A state is one non-negative integer of `bits` bits. A ground row is enabled where its guard holds,
and leads to `state & ~clear | assign`, with some bits moved to places that are cleared. A property
is a list of patterns, which are guards too. So are the conditions under which a dead bit is
cleared. This module names no sort and no variable: layout.py knows the meaning of each bit.

Each field lies within one 64-bit word, so each literal and each stripe column does too.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import or_
from typing import Final, NamedTuple, TypeAlias

from pdproto.ground.decisions import DecisionDiagram

WORD_BITS: Final = 64


class Literal(NamedTuple):
    """Holds where `state & mask == value`; the mask lies within one 64-bit word."""

    mask: int
    value: int

    def holds(self, state: int) -> bool:
        """Whether the literal is true in the state."""
        return state & self.mask == self.value


Clause: TypeAlias = tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Guard:
    """A cube, clauses and decisions, all of which must hold. The cube may span words; a clause is
    an `or`.

    The empty guard holds in every state, an empty clause in none.
    """

    mask: int = 0
    value: int = 0
    clauses: tuple[Clause, ...] = ()
    decisions: tuple[DecisionDiagram, ...] = ()

    def holds(self, state: int) -> bool:
        """Whether the guard is true in the state."""
        return state & self.mask == self.value and (not self.clauses or all(
            any(literal.holds(state) for literal in clause) for clause in self.clauses
        )) and (not self.decisions or all(one.holds(state) for one in self.decisions))

    @property
    def is_cube(self) -> bool:
        """Whether the cube is all of it."""
        return not (self.clauses or self.decisions)

    @property
    def reads(self) -> int:
        """The mask of all bits on which the guard depends."""
        of_clauses = reduce(or_, (one.mask for each in self.clauses for one in each), self.mask)
        return reduce(or_, (one.reads for one in self.decisions), of_clauses)

    def mapped(self, bits: Callable[[int], int]) -> "Guard":
        """The same about other cells: `bits` gives the bits that stand for these."""
        return Guard(bits(self.mask), bits(self.value), tuple(
            tuple(Literal(bits(one.mask), bits(one.value)) for one in clause)
            for clause in self.clauses), tuple(one.mapped(bits) for one in self.decisions))


@dataclass(frozen=True, slots=True)
class Action:
    """A guarded masked update. `assign` is a subset of `clear`.

    moves: (mask, shift) pairs: the bits under the mask in the state before are copied `shift` up
    (or down, if < 0), to bits of `clear` that are not in `assign`. No two moves have a target in
    common. A sweep has none.
    """

    guard: Guard
    clear: int
    assign: int
    moves: tuple[tuple[int, int], ...] = ()

    def apply(self, state: int) -> int:
        """The state after the update; the guard is not tested."""
        after = state & ~self.clear | self.assign
        for mask, shift in self.moves:
            after |= shifted(state & mask, shift)
        return after

    @property
    def effect(self) -> tuple[int, int, tuple[tuple[int, int], ...]]:
        """What it does, apart from its guard."""
        return self.clear, self.assign, self.moves

    @property
    def moved(self) -> int:
        """The bits that get their values from others."""
        return reduce(or_, (shifted(mask, shift) for mask, shift in self.moves), 0)

    @property
    def reads(self) -> int:
        """The bits on which the update or its guard depends."""
        return reduce(or_, (mask for mask, _ in self.moves), self.guard.reads)


def shifted(bits: int, shift: int) -> int:
    """The bits moved so far up, or down if it is negative."""
    return bits << shift if shift >= 0 else bits >> -shift


class CellCopy(NamedTuple):
    """A cell gets the value that another one had before: the bits under the mask, so far up."""

    mask: int
    shift: int


Effect: TypeAlias = Literal | CellCopy


def copied(source: int, target: int) -> CellCopy:
    """The copy of one cell to another, by their masks."""
    return CellCopy(source, target.bit_length() - source.bit_length())


def acting(guard: Guard, effects: Iterable[Effect]) -> Action:
    """The update with these effects, each on one cell; of two on a cell the later one counts."""
    clear = assign = 0
    copies: dict[int, CellCopy] = {}  # by the mask of the cell that is written
    for effect in effects:
        mask = effect.mask
        if isinstance(effect, CellCopy):
            if not effect.shift and not clear & mask:
                continue
            mask = shifted(mask, effect.shift)
            copies[mask] = effect
        else:
            copies.pop(mask, None)
        clear |= mask
        assign = assign & ~mask | (effect.value if isinstance(effect, Literal) else 0)
    moves: dict[int, int] = {}
    for mask, shift in copies.values():
        moves[shift] = moves.get(shift, 0) | mask
    return Action(guard, clear, assign, tuple((mask, shift) for shift, mask in moves.items()))


def assignment(literals: Iterable[Literal]) -> tuple[int, int]:
    """`clear` and `assign` of the update that makes the literals hold; a later one wins."""
    clear = assign = 0
    for literal in literals:
        clear |= literal.mask
        assign = assign & ~literal.mask | literal.value
    return clear, assign


def conjoined(guard: Guard, *literals: Literal) -> Guard | None:
    """The guard and the literals together; None where unit clauses show that they cannot hold."""
    return simplified([(literal,) for literal in literals], guard)


def conjunction(*guards: Guard) -> Guard | None:
    """All of these guards together; None where unit clauses show that they cannot hold."""
    first, *others = guards
    return simplified(
        [clause for one in others for clause in ((Literal(one.mask, one.value),), *one.clauses)],
        first, [decision for one in others for decision in one.decisions])


def simplified(
    clauses: Iterable[Clause], beside: Guard = Guard(), decisions: Iterable[DecisionDiagram] = ()
) -> Guard | None:
    """The guard of a clause list: unit clauses are joined to a cube until nothing changes.

    beside: a guard that was made so, and holds as well. decisions: hold as well. None where unit
    clauses show that all of it cannot hold. A guard that is returned may still be unsatisfiable.
    """
    mask, value = beside.mask, beside.value
    held: list[Clause | None] = [*beside.clauses, *dict.fromkeys(map(_distinct, clauses))]
    due = [*range(len(beside.clauses), len(held))]
    while due:
        before = mask
        for place in due:
            left = _open(held[place] or (), mask, value)
            if left is not None and not left:
                return None
            if left is not None and len(left) == 1:
                mask, value = mask | left[0].mask, value | left[0].value
                left = None
            held[place] = left
        grown = mask & ~before
        due = [place for place, clause in enumerate(held)
               if clause is not None and any(literal.mask & grown for literal in clause)]
    left_open = [one.beside(mask, value) for one in dict.fromkeys((*beside.decisions, *decisions))]
    if False in left_open:
        return None
    return Guard(mask, value, tuple(dict.fromkeys(clause for clause in held if clause)),
                 tuple(one for one in left_open if isinstance(one, DecisionDiagram)))


def _distinct(clause: Clause) -> Clause:
    """The clause with each literal once."""
    return clause if len(clause) == len(set(clause)) else tuple(dict.fromkeys(clause))


def _open(clause: Clause, mask: int, value: int) -> Clause | None:
    """The literals of the clause that may still hold beside the cube; None if the clause holds, by
    the cube, or because it names both values of a one-bit cell.
    """
    left: list[Literal] = []
    ones = zeros = 0
    for literal in clause:
        of, wanted = literal
        known = of & mask
        if (wanted ^ value) & known:
            continue
        if known == of:
            return None
        if not of & (of - 1):
            ones, zeros = ones | wanted, zeros | of & ~wanted
        left.append(literal)
    if ones & zeros:
        return None
    return clause if len(left) == len(clause) else tuple(left)


@dataclass(frozen=True, slots=True)
class Stripe:
    """The columns of an interchangeable sort: each element has one, of `width` bits.

    offsets: bit position of the column of element 0, 1, ...; a column lies within one word.
    The representative of a state has its columns in ascending order.
    """

    offsets: tuple[int, ...]
    width: int

    def order(self, state: int) -> tuple[int, ...]:
        """The elements in ascending order of their columns; equal columns keep their order."""
        ones = (1 << self.width) - 1
        columns = [state >> offset & ones for offset in self.offsets]
        return tuple(sorted(range(len(columns)), key=columns.__getitem__))

    def permuted(self, state: int, order: Sequence[int]) -> int:
        """The state with column `order[i]` moved to place i."""
        ones = (1 << self.width) - 1
        result = state
        for place, element in zip(self.offsets, order, strict=True):
            column = state >> self.offsets[element] & ones
            result = result & ~(ones << place) | column << place
        return result


@dataclass(frozen=True, slots=True)
class Permutation:
    """A renaming of elements as masked moves: bits under `mask` move `shift` up (or down, if < 0).

    moves: (mask, shift) pairs with disjoint masks that together cover every bit of the state.
    """

    moves: tuple[tuple[int, int], ...]

    def apply(self, state: int) -> int:
        """The state with its bits moved."""
        result = 0
        for mask, shift in self.moves:
            result |= shifted(state & mask, shift)
        return result


class Renaming(NamedTuple):
    """The order of the columns of each stripe, and the permutation of each group."""

    orders: tuple[tuple[int, ...], ...] = ()
    permutations: tuple[Permutation, ...] = ()


@dataclass(frozen=True, slots=True)
class Symmetry:
    """The rule that picks the representative of an orbit.

    It sorts the columns of each stripe. Then, for each group, it takes the least image (as an
    integer) under the permutations of the group, the identity included. Stripes and groups act on
    disjoint bits, so their order does not matter.
    """

    stripes: tuple[Stripe, ...] = ()
    groups: tuple[tuple[Permutation, ...], ...] = ()

    def canonical(self, state: int) -> int:
        """The representative of the orbit of the state."""
        return self.renamed(state, self.renaming(state))

    def renaming(self, state: int) -> Renaming:
        """The renaming that leads from the state to the representative of its orbit."""
        return Renaming(
            tuple(stripe.order(state) for stripe in self.stripes),
            tuple(min(group, key=lambda one: one.apply(state)) for group in self.groups),
        )

    def renamed(self, state: int, renaming: Renaming) -> int:
        """The image of a state."""
        for stripe, order in zip(self.stripes, renaming.orders, strict=True):
            state = stripe.permuted(state, order)
        for permutation in renaming.permutations:
            state = permutation.apply(state)
        return state

    def __bool__(self) -> bool:
        return bool(self.stripes or self.groups)


@dataclass(frozen=True, slots=True)
class Program:
    """A system at given sizes, ready to be searched.

    rows: the ground rows. progress: for each row, whether it counts as progress (faults do not).
    patterns: guards to look for. sweeps: actions that clear dead bits, each applied once, in order,
    to every state before it is stored. idle: actions that would clear the bits that nothing can
    read any more. A state in which progress rows change idle bits only is *stuck*, unless a guard
    of `final` holds.
    """

    bits: int
    initial: tuple[int, ...]
    rows: tuple[Action, ...]
    progress: tuple[bool, ...]
    patterns: tuple[Guard, ...] = ()
    sweeps: tuple[Action, ...] = ()
    idle: tuple[Action, ...] = ()
    symmetry: Symmetry = Symmetry()
    final: tuple[Guard, ...] = ()

    @property
    def words(self) -> int:
        """How many 64-bit words a state has."""
        return max(1, -(-self.bits // WORD_BITS))

    def start(self, stored: int) -> int:
        """The first initial state with this stored form."""
        return next(state for state in self.initial if self.normal(state) == stored)

    def normal(self, state: int) -> int:
        """The stored form of a state: dead bits cleared, then the orbit's representative."""
        return self.symmetry.canonical(self.swept(state))

    def swept(self, state: int) -> int:
        """The state with its dead bits cleared."""
        for sweep in self.sweeps:
            if sweep.guard.holds(state):
                state = sweep.apply(state)
        return state

    def moves(self, state: int) -> bool:
        """Whether a progress row changes a bit of the state that is not idle.

        The state that it leads to is compared as it is, neither swept nor renamed.
        """
        idle = 0
        for action in self.idle:
            if action.guard.holds(state):
                idle |= action.clear
        return any(
            counts and row.guard.holds(state) and (row.apply(state) ^ state) & ~idle
            for row, counts in zip(self.rows, self.progress, strict=True)
        )

    def steps(self, state: int) -> Iterator[tuple[int, int]]:
        """Each enabled row and the stored form of the state it leads to (perhaps `state` again)."""
        for index, row in enumerate(self.rows):
            if row.guard.holds(state):
                yield index, self.normal(row.apply(state))
