"""A Program as the flat arrays that search.c reads.

The structures mirror those of search.c, field for field, and their comments there give the
shapes. Guards are matched eight at a time by one of their words, the *key*: guards with the same
key word stand together in a block (blocks.py). So the engine has an order of its own, and
`PackedProgram` leads back from it.
"""

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache, reduce
from itertools import accumulate
from operator import or_
from typing import Final, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from pdproto.check.native.blocks import (
    PADDING,
    WORD,
    Block,
    by_word,
    in_order,
    in_word,
    places_of,
    word_of,
)
from pdproto.ground.decisions import ENDS, Asked, DecisionDiagram
from pdproto.ground.program import (
    WORD_BITS,
    Action,
    Clause,
    Guard,
    Literal,
    Program,
    Symmetry,
)

CHOICE_BITS: Final = 6  # a number below 64 is a bit of a word
WORDS_MAX: Final = 512  # search.c keeps 64 states on the stack
Moves: TypeAlias = Sequence[tuple[int, int]]  # of an action or a permutation
_NEVER: Final = Guard(mask=0, value=1)
_IDLE: Final = Action(_NEVER, clear=0, assign=0)


def _fields(counts: Sequence[str], arrays: Sequence[str]) -> list[tuple[str, type]]:
    return [(name, ctypes.c_uint64) for name in counts] + [(n, ctypes.c_void_p) for n in arrays]


class Guards(ctypes.Structure):
    """The struct Guards of search.c."""

    _fields_ = _fields(
        ("count", "blocks"),
        (
            *(
                "block_start",
                "block_word",
                "block_simple",
                "key_mask",
                "key_value",
                "mask",
                "value",
            ),
            *("clause_start", "literal_start", "literal_word", "literal_mask", "literal_value"),
            *("literal_shift", "literal_set"),
            *("walk_start", "walk_first", "node_word", "node_mask", "node_shift", "node_below"),
            "below",
        ),
    )


class Actions(ctypes.Structure):
    """The struct Actions of search.c."""

    _fields_ = (("guards", Guards), *_fields((), (
        "keep", "assign", "move_start", "move_from", "move_mask", "move_turn", "move_to")))


class Stripes(ctypes.Structure):
    """The struct Stripes of search.c."""

    _fields_ = _fields(("count",), ("start", "ones", "word", "shift"))


class Groups(ctypes.Structure):
    """The struct Groups of search.c."""

    _fields_ = _fields(
        ("count",), ("start", "piece_start", "piece_word", "piece_mask", "piece_turn")
    )


class Image(ctypes.Structure):
    """The struct Program of search.c."""

    _fields_ = (
        *_fields(("words",), ()),
        ("rows", Actions),
        *_fields((), ("row_number", "block_progress")),
        ("sweeps", Actions),
        ("idle", Actions),
        *_fields((), ("lasting",)),
        ("patterns", Guards),
        ("final", Guards),
        ("stripes", Stripes),
        ("groups", Groups),
    )


class FairRows(ctypes.Structure):
    """The struct Rows of fair.c."""

    _fields_ = (*_fields((), ("fair", "fault", "unit")), *_fields(("count",), ()))


class Alternative(NamedTuple):
    """Holds where `(state & mask ^ value) >> shift`, in the mask's word, is a bit of `chosen`."""

    mask: int
    value: int
    shift: int
    chosen: int


class Arena:
    """Keeps the arrays alive whose addresses are in the structures."""

    def __init__(self, words: int) -> None:
        self.words = words
        self._arrays: list[NDArray[np.uint64]] = []
        self._clauses: dict[Clause, Clause] = {}

    def array(self, values: Iterable[int]) -> int:
        """The address of the values as 64-bit words."""
        array = np.array(list(values), dtype=np.uint64)
        self._arrays.append(array)
        return int(array.ctypes.data)

    def states(self, values: Iterable[int]) -> int:
        """The address of the words of states or masks, one after the other."""
        array = np.array([self.split(value) for value in values], dtype=np.uint64)
        self._arrays.append(array)
        return int(array.ctypes.data)

    def split(self, value: int) -> NDArray[np.uint64]:
        """The words of a state or a mask, the lowest first; OverflowError if it has more."""
        data = value.to_bytes(self.words * WORD_BITS // 8, "little")
        return np.frombuffer(data, dtype="<u8").astype(np.uint64)

    @property
    def everything(self) -> int:
        """A mask of all bits in the words of a state."""
        return (1 << self.words * WORD_BITS) - 1

    def possible(self, guards: Iterable[Guard]) -> list[Guard]:
        """The same guards, with all masks within a state and all values within their masks."""
        within = self.everything
        return [_NEVER if guard.value & ~(guard.mask & within) else Guard(
            guard.mask & within, guard.value, tuple(map(self._possible, guard.clauses)),
            guard.decisions)
            for guard in guards]

    def _possible(self, clause: Clause) -> Clause:
        """The same, made once: guards share their clauses."""
        if (known := self._clauses.get(clause)) is None:
            within = self.everything
            known = self._clauses[clause] = tuple(
                one if not one.mask & ~within else Literal(one.mask & within, one.value)
                for one in clause if not one.value & ~(one.mask & within))
        return known

    def guards(self, guards: Sequence[Guard], blocks: Sequence[Block]) -> Guards:
        """The guards in the order of the blocks. Each must be satisfiable."""
        placed = [_NEVER if p == PADDING else guards[p] for p in places_of(blocks)]
        key_words = [block.word for block in blocks for _ in block.places]
        keys = [WORD << word * WORD_BITS for word in key_words]
        simple = [
            g.is_cube and not (g.mask | g.value) & ~key
            for g, key in zip(placed, keys, strict=True)
        ]
        clauses = [
            clause
            for guard in placed
            for clause in sorted(map(_choices, guard.clauses), key=_likelihood)
        ]
        literals = [literal for clause in clauses for literal in clause]
        words = [word_of(literal.mask) for literal in literals]
        return Guards(
            count=len(placed),
            blocks=len(blocks),
            block_start=self.array(_starts(len(block.places) for block in blocks)),
            block_word=self.array(block.word for block in blocks),
            block_simple=self.array(_bits(simple, blocks)),
            key_mask=self.array(map(in_word, (g.mask for g in placed), key_words)),
            key_value=self.array(map(in_word, (g.value for g in placed), key_words)),
            mask=self.states(g.mask for g in placed),
            value=self.states(g.value for g in placed),
            clause_start=self.array(_starts(len(g.clauses) for g in placed)),
            literal_start=self.array(_starts(map(len, clauses))),
            literal_word=self.array(words),
            literal_mask=self.array(map(in_word, (x.mask for x in literals), words)),
            literal_value=self.array(map(in_word, (x.value for x in literals), words)),
            literal_shift=self.array(x.shift for x in literals),
            literal_set=self.array(x.chosen for x in literals),
            walk_start=self.array(_starts(len(g.decisions) for g in placed)),
            **self._walks(placed),
        )

    def _walks(self, placed: Iterable[Guard]) -> dict[str, int]:
        """The nodes of all decisions, each of which is packed once."""
        nodes = [Asked(0, ())] * ENDS
        firsts: dict[DecisionDiagram, int] = {}
        walks = [decision for guard in placed for decision in guard.decisions]
        for one in walks:
            if one not in firsts:
                offset = len(nodes) - ENDS
                firsts[one] = one.first + offset
                nodes += [Asked(mask, tuple(n if n < ENDS else n + offset for n in below))
                          for mask, below in one.nodes]
        words = [word_of(node.mask) for node in nodes]
        return {
            "walk_first": self.array(firsts[one] for one in walks),
            "node_word": self.array(words),
            "node_mask": self.array(map(in_word, (node.mask for node in nodes), words)),
            "node_shift": self.array(node.shift % WORD_BITS for node in nodes),
            "node_below": self.array(_starts(len(node.below) for node in nodes)),
            "below": self.array(number for node in nodes for number in node.below),
        }


class PackedProgram(Arena):
    """The arrays of a program.

    image: what search.c takes. rows, patterns: for each row and pattern of the engine its place
    in the program, or PADDING.
    """

    def __init__(self, program: Program) -> None:
        """Raises ValueError for a state that is too wide, OverflowError for a too wide value."""
        if program.words > WORDS_MAX:
            raise ValueError(f"a state of {program.bits} bits: at most {WORDS_MAX * WORD_BITS}")
        super().__init__(program.words)
        rows = by_word(self.possible(row.guard for row in program.rows))
        sweeps = in_order(program.sweeps, self.possible(sweep.guard for sweep in program.sweeps))
        fleeting = reduce(or_, (action.clear for action in program.idle), 0)
        idle = by_word(self.possible(action.guard for action in program.idle))
        patterns, final = self.possible(program.patterns), self.possible(program.final)
        self.rows = places_of(rows)
        self.patterns = places_of(by_word(patterns))
        progress = [place != PADDING and program.progress[place] for place in self.rows]
        self.image = Image(
            words=self.words,
            rows=self._actions(program.rows, rows),
            row_number=self.array(max(place, 0) for place in self.rows),
            block_progress=self.array(_bits(progress, rows)),
            sweeps=self._actions(program.sweeps, sweeps),
            idle=self._actions(program.idle, idle),
            lasting=self.states([self.everything & ~fleeting]),
            patterns=self.guards(patterns, by_word(patterns)),
            final=self.guards(final, by_word(final)),
            stripes=self._stripes(program.symmetry),
            groups=self._groups(program.symmetry),
        )

    def _actions(self, actions: Sequence[Action], blocks: Sequence[Block]) -> Actions:
        placed = [_IDLE if p == PADDING else actions[p] for p in places_of(blocks)]
        moves = [_moved(action.moves, self.words) for action in placed]
        flat = [move for each in moves for move in each]
        return Actions(
            guards=self.guards(self.possible(action.guard for action in actions), blocks),
            keep=self.states(self.everything & ~action.clear for action in placed),
            assign=self.states(action.assign for action in placed),
            move_start=self.array(_starts(map(len, moves))),
            move_from=self.array(origin for _, (origin, _, _) in flat),
            move_mask=self.array(mask for _, (_, mask, _) in flat),
            move_turn=self.array(turn for _, (_, _, turn) in flat),
            move_to=self.array(target for target, _ in flat),
        )

    def _stripes(self, symmetry: Symmetry) -> Stripes:
        offsets = [offset for stripe in symmetry.stripes for offset in stripe.offsets]
        if any(offset >= self.words * WORD_BITS for offset in offsets):
            raise ValueError(f"a stripe has columns outside the {self.words} words of a state")
        return Stripes(
            count=len(symmetry.stripes),
            start=self.array(_starts(len(stripe.offsets) for stripe in symmetry.stripes)),
            ones=self.array((1 << stripe.width) - 1 for stripe in symmetry.stripes),
            word=self.array(offset // WORD_BITS for offset in offsets),
            shift=self.array(offset % WORD_BITS for offset in offsets),
        )

    def _groups(self, symmetry: Symmetry) -> Groups:
        """The top word's pieces come first, because images are compared from the top word down."""
        pieces = [
            _pieces(permutation.moves, target, self.words)
            for group in symmetry.groups
            for permutation in group
            for target in reversed(range(self.words))
        ]
        flat = [piece for part in pieces for piece in part]
        return Groups(
            count=len(symmetry.groups),
            start=self.array(_starts(map(len, symmetry.groups))),
            piece_start=self.array(_starts(map(len, pieces))),
            piece_word=self.array(word for word, _, _ in flat),
            piece_mask=self.array(mask for _, mask, _ in flat),
            piece_turn=self.array(turn for _, _, turn in flat),
        )


@lru_cache(1 << 16)  # guards share their clauses
def _choices(clause: Clause) -> tuple[Alternative, ...]:
    """The clause with one choice for each mask: a cell has one of several values.

    A mask that reaches over more than CHOICE_BITS keeps a choice for each of its values.
    """
    chosen: dict[int, int] = {}
    wide: list[Alternative] = []
    for mask, value in clause:
        low = max((mask & -mask).bit_length() - 1, 0)
        if mask >> low >= 1 << CHOICE_BITS:
            wide.append(Alternative(mask, value, 0, 1))
        else:
            chosen[mask] = chosen.get(mask, 0) | 1 << (value >> low)
    narrow = (
        Alternative(mask, 0, max((mask & -mask).bit_length() - 1, 0) % WORD_BITS, values)
        for mask, values in chosen.items()
    )
    return *narrow, *wide


def _likelihood(clause: Sequence[Alternative]) -> float:
    """The clause's share of all states, roughly. The unlikely ones of a guard are tested first."""
    return sum(one.chosen.bit_count() / (1 << one.mask.bit_count()) for one in clause)


def _bits(flags: Sequence[bool], blocks: Iterable[Block]) -> Iterator[int]:
    """A word for each block: bit i is the flag of its i-th guard."""
    rest = iter(flags)
    for block in blocks:
        yield sum(next(rest) << i for i, _ in enumerate(block.places))


def _starts(lengths: Iterable[int]) -> list[int]:
    return [0, *accumulate(lengths)]


def _moved(moves: Moves, words: int) -> list[tuple[int, tuple[int, int, int]]]:
    """The moves into each word: (target, (word, mask there, rotation to the left))."""
    return [(target, piece) for target in range(words if moves else 0)
            for piece in _pieces(moves, target, words)]


def _pieces(moves: Moves, target: int, words: int) -> list[tuple[int, int, int]]:
    """The moves into word `target`: (word, mask there, rotation to the left)."""
    pieces = []
    for mask, shift in moves:
        window = WORD << target * WORD_BITS
        origin = mask & (window >> shift if shift >= 0 else window << -shift)
        for word in range(words):
            if part := in_word(origin, word):
                pieces.append((word, part, shift % WORD_BITS))
    return pieces
