"""Dead bits, derived from the ground rows: what nobody can read any more is cleared.

Messages are sets that never retire, so most of a late state is of no use to anyone. A cell is
*dead* in a state if every guard that reads it has a literal, on another cell, that no row can make
true again. Clearing it leads to a bisimilar state: the same rows are enabled for ever, and the
same patterns hold. The conditions are guards over the masks, evaluated by the engine as *sweeps*;
nothing is written by hand, so a mutated table gets the sweeps that are sound for it.

Two kinds of rows read nothing that matters, or every message would be alive for ever: one that
ignores its trigger, since a total table ignores what comes late, and a fault that changes nothing
but the cell it reads, as losing a message does. Coverage leaves them out when bits are swept.

Only cells that the protocol's own rows move one way are cleared: two rows that set and clear a cell
that nobody reads run for ever, and a search that cleared it would call their state a deadlock.

Why clearing one cell cannot resurrect the reader of another: each sweep is sound in the very state
it is applied to, by the argument above, and they are applied one after the other.
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
    whose truth matters to somebody: those of the protocol's rows that act, and of properties.
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
        condition = simplified(clauses)
        if condition is not None:
            merged[condition] = merged.get(condition, 0) | field.mask
    return tuple(Action(condition, mask, 0) for condition, mask in merged.items())


class _Reader:
    """A guard that somebody evaluates. writes: the bits that change where it holds; -1 for all."""

    def __init__(self, guard: Guard, writes: int, futures: Futures) -> None:
        self.reads: Final = guard.reads
        self.writes: Final = writes
        self.silencing: Final = list(_silencing(guard, futures))

    def depends_on(self, field: Field) -> bool:
        """Whether the cell's value makes a difference to anything but the cell."""
        return bool(self.reads & field.mask and self.writes & ~field.mask)


def _silencing(guard: Guard, futures: Futures) -> Iterator[tuple[Field, Literal]]:
    """The literals that show that the guard can never hold again, each with its cell."""
    for field, wanted in _conjuncts(guard, futures):
        for code, future in enumerate(futures[field]):
            if not future & wanted:
                yield field, Literal(field.mask, code << field.offset)


def _conjuncts(guard: Guard, futures: Futures) -> Iterator[tuple[Field, set[int]]]:
    """The conjuncts that speak of one cell: the cell and the codes that satisfy them."""
    for field in futures:
        if guard.mask & field.mask:
            yield field, {(guard.value & field.mask) >> field.offset}
    for clause in guard.clauses:
        if len({literal.mask for literal in clause}) == 1:
            field = next(f for f in futures if f.mask == clause[0].mask)
            yield field, {literal.value >> field.offset for literal in clause}


def _futures(layout: Layout, rows: Sequence[Action]) -> Futures:
    """For each cell and code, the codes that rows may still bring it to, its own included.

    A row moves a cell from any code that its guard does not exclude for this cell alone.
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
