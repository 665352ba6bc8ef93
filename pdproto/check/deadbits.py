"""Dead bits, derived from the ground rows: bits that no guard can read any more are cleared.

A message stays in the state once it is sent, so most bits of a late state are useless. A guard is
*silenced* in a state by a cell whose value, and each value that it may still get, excludes it: it
never holds again. A cell is *dead* if each guard that reads it is silenced by another cell.
Clearing a dead cell leaves the same guards silenced, so no answer changes. The conditions are
guards over the masks, which the engine evaluates as *sweeps*, one after the other. They are
computed from the rows, so a mutated table gets sweeps that are sound for it.

Two kinds of rows do not count as readers; otherwise every message would be alive for ever. One is a
row that ignores its trigger: a total table ignores late messages. The other is a fault that changes
only the cell it reads, such as the loss of a message; that cell does not silence its guard.
Coverage leaves these rows out when bits are swept.

A cell is cleared only if the protocol's own rows never move it back to an earlier value. Such a
cell is *idle* if each guard that reads it is silenced, be it by this cell itself. A state in which
the protocol's rows change idle cells only counts as stuck: such rows come to an end, and enable no
other row. Sweeps and renamings keep the idle cells, so all reductions see the same deadlocks.

decisions/092-reductions-compose.md has the proof, for each pair of reductions.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple, TypeAlias

from pdproto.ground.clauses import bits, strongest
from pdproto.ground.layout import Field, Layout
from pdproto.ground.program import Action, Clause, Guard, Literal, simplified

Futures: TypeAlias = dict[Field, list[set[int]]]  # by cell and code: the codes it may still take


class DeadBits(NamedTuple):
    """sweeps: actions that clear dead bits. idle: actions that would clear the idle cells."""

    sweeps: tuple[Action, ...] = ()
    idle: tuple[Action, ...] = ()


def dead_bits(
    layout: Layout, rows: Sequence[Action], progress: Sequence[bool], acts: Sequence[bool],
    asked: Iterable[Guard], *, exact: bool = False,
) -> DeadBits:
    """The dead bits of a ground system.

    progress: for each row, whether it is the protocol's own (faults are not). acts: whether it is,
    and does not ignore its trigger. asked: every other guard whose truth matters, as those of
    properties. exact: also keep each cell that a row of the protocol may still write. Then a row
    changes a state if and only if it changes the swept one: all runs have the same lengths.
    """
    own = [row for row, counts in zip(rows, progress, strict=True) if counts]
    one_way = {field: _one_way(codes) for field, codes in _futures(layout, own).items()}
    futures = _futures(layout, rows)
    readers = [_Reader(guard, ~0, futures) for guard in asked]
    for row, counts, acting in zip(rows, progress, acts, strict=True):
        writes = exact and counts
        readers.append(_Reader(row.guard, ~0 if acting or writes else row.clear, futures,
                               also=row.reads | (row.clear if writes else 0)))
    cleared: dict[Guard, int] = {}
    idle: dict[Guard, int] = {}
    for field in filter(one_way.__getitem__, futures):
        mine = [reader for reader in readers if reader.depends_on(field)]
        for found, clauses in (
            (cleared, [reader.silenced_by_others(field) for reader in mine]),
            (idle, [reader.silenced for reader in mine]),
        ):
            condition = simplified(strongest(clauses))
            if condition is not None:
                found[condition] = found.get(condition, 0) | field.mask
    return DeadBits(
        tuple(
            Action(Guard(condition.mask | bit, condition.value | bit, condition.clauses), bit, 0)
            for condition, mask in cleared.items()
            for bit in bits(mask)
        ),
        tuple(Action(condition, mask, 0) for condition, mask in idle.items()),
    )


class _Reader:
    """A guard whose truth matters. writes: the bits that change where it holds; -1 for all.

    also: more bits that count as read.
    """

    def __init__(self, guard: Guard, writes: int, futures: Futures, also: int = 0) -> None:
        self.reads: Final = guard.reads | also
        self.writes: Final = writes
        self._silencing: Final = [
            (field, literal) for field, literal in _silencing(guard, futures)
            if self.depends_on(field)
        ]

    def depends_on(self, field: Field) -> bool:
        """Whether the cell's value can change another cell or an answer."""
        return bool(self.reads & field.mask and self.writes & ~field.mask)

    @property
    def silenced(self) -> Clause:
        """Holds where the guard can never hold again."""
        return tuple(literal for _, literal in self._silencing)

    def silenced_by_others(self, field: Field) -> Clause:
        """Holds where a cell other than this one silences the guard."""
        return tuple(literal for where, literal in self._silencing if where != field)


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
                targets = range(len(codes)) if row.moved & field.mask else (
                    (row.assign & field.mask) >> field.offset,)
                for code in _allowed(row.guard, field, len(codes)):
                    codes[code].update(targets)
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
