"""Dead bits, derived from the ground rows: bits that no guard can read any more are cleared.

A message stays in the state once it is sent, so most bits of a late state are useless. A cell is
*dead* in a state if every guard that reads it has a literal, on another cell, that no row can make
true again. Clearing it leads to a bisimilar state: the same rows are enabled for ever, and the same
patterns hold. The conditions are guards over the masks, which the engine evaluates as *sweeps*.
They are computed from the rows, so a mutated table gets sweeps that are sound for it.

Two kinds of rows do not count as readers; otherwise every message would be alive for ever. One is a
row that ignores its trigger: a total table ignores late messages. The other is a fault that changes
only the cell it reads, such as the loss of a message. Coverage leaves these rows out when bits are
swept.

A cell is cleared only if the protocol's own rows never move it back to an earlier value. Otherwise
two rows could set and clear a cell without readers for ever, and a search that clears it would call
their state a deadlock.

A sweep cannot make a reader of another cell possible again: each sweep is sound in the state to
which it is applied, by the argument above, and the sweeps are applied one after the other.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, TypeAlias

from pdproto.ground.layout import Field, Layout
from pdproto.ground.program import Action, Clause, Guard, Literal, simplified

Futures: TypeAlias = dict[Field, list[set[int]]]  # by cell and code: the codes it may still take


def sweeps(
    layout: Layout, rows: Sequence[Action], progress: Sequence[bool], asked: Iterable[Guard]
) -> tuple[Action, ...]:
    """The sweeps of a ground system.

    progress: for each row, whether it is the protocol's own (faults are not). asked: every guard
    whose truth matters: the guards of the protocol's rows that act, and those of properties.
    """
    own = [row for row, counts in zip(rows, progress, strict=True) if counts]
    one_way = {field: _one_way(codes) for field, codes in _futures(layout, own).items()}
    futures = _futures(layout, rows)
    faults = [row for row, counts in zip(rows, progress, strict=True) if not counts]
    readers = [_Reader(row.guard, row.clear, futures) for row in faults]
    readers += [_Reader(guard, ~0, futures) for guard in asked]
    merged: dict[Guard, int] = {}
    for field in filter(one_way.__getitem__, futures):
        clauses: list[Clause] = []
        for reader in readers:
            if reader.depends_on(field):
                clauses.append(tuple(t for where, t in reader.silencing if where != field))
        condition = simplified(strongest(clauses))
        if condition is not None:
            merged[condition] = merged.get(condition, 0) | field.mask
    return tuple(
        Action(Guard(condition.mask | bit, condition.value | bit, condition.clauses), bit, 0)
        for condition, mask in merged.items()
        for bit in _bits(mask)
    )


def strongest(clauses: Iterable[Clause]) -> list[Clause]:
    """The clauses without those that follow from another one, whose literals they all have."""
    kept: list[tuple[frozenset[Literal], Clause]] = []
    for clause in sorted(dict.fromkeys(clauses), key=lambda clause: len({*clause})):
        if not any(shorter <= {*clause} for shorter, _ in kept):
            kept.append((frozenset(clause), clause))
    return [clause for _, clause in kept]


def _bits(mask: int) -> Iterator[int]:
    while mask:
        yield mask & -mask
        mask &= mask - 1


class _Reader:
    """A guard whose truth matters. writes: the bits that change where it holds; -1 for all."""

    def __init__(self, guard: Guard, writes: int, futures: Futures) -> None:
        self.reads: Final = guard.reads
        self.writes: Final = writes
        self.silencing: Final = list(_silencing(guard, futures))

    def depends_on(self, field: Field) -> bool:
        """Whether the cell's value can change another cell or an answer."""
        return bool(self.reads & field.mask and self.writes & ~field.mask)


def _silencing(guard: Guard, futures: Futures) -> Iterator[tuple[Field, Literal]]:
    """Literals with their cells: if one is true, the guard can never hold again."""
    for field, wanted in _conjuncts(guard, futures):
        for code, future in enumerate(futures[field]):
            if not future & wanted:
                yield field, Literal(field.mask, code << field.offset)


def _conjuncts(guard: Guard, futures: Futures) -> Iterator[tuple[Field, set[int]]]:
    """The conjuncts about a single cell: the cell, and the codes that satisfy the conjunct."""
    for field in futures:
        if guard.mask & field.mask:
            yield field, {(guard.value & field.mask) >> field.offset}
    for clause in guard.clauses:
        if len({literal.mask for literal in clause}) == 1:
            field = next(f for f in futures if f.mask == clause[0].mask)
            yield field, {literal.value >> field.offset for literal in clause}


def _futures(layout: Layout, rows: Sequence[Action]) -> Futures:
    """For each cell and code, the codes that the cell may have later, its own included.

    A row moves a cell from every code that its guard does not exclude for this cell alone.
    """
    moves: dict[Field, list[set[int]]] = {}
    for (symbol, _), field in layout.fields.items():
        moves[field] = [{code} for code in range(len(symbol.values))]
    for row in rows:
        for field, codes in moves.items():
            if row.clear & field.mask:
                target = (row.assign & field.mask) >> field.offset
                for code in _allowed(row.guard, field, len(codes)):
                    codes[code].add(target)
    return {field: _closed(codes) for field, codes in moves.items()}


def _allowed(guard: Guard, field: Field, codes: int) -> Iterable[int]:
    if guard.mask & field.mask:
        return ((guard.value & field.mask) >> field.offset,)
    for clause in guard.clauses:
        if all(literal.mask == field.mask for literal in clause):
            return tuple(literal.value >> field.offset for literal in clause)
    return range(codes)


def _one_way(futures: Sequence[set[int]]) -> bool:
    """Whether a cell with these futures never comes back to a code it has left."""
    return not any(
        code in futures[other]
        for code, future in enumerate(futures)
        for other in future
        if other != code
    )


def _closed(codes: Sequence[set[int]]) -> list[set[int]]:
    """The transitive closure of one cell's moves."""
    closed = [set(future) for future in codes]
    changed = True
    while changed:
        changed = False
        for future in closed:
            wider = set().union(*(closed[code] for code in future))
            if wider - future:
                future.update(wider)
                changed = True
    return closed
