"""The order of the guards in search.c, which matches eight of them at a time by one word.

Guards with the same key word stand together in a block, and every block is filled up to a multiple
of eight with guards that never hold.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final

from pdproto.ground.program import WORD_BITS, Action, Guard

LANES: Final = 8  # most guards that one instruction compares
BLOCK_MAX: Final = 64  # guards of a block: their verdicts are the bits of one word
PADDING: Final = -1  # instead of the number of a guard: the engine adds guards to fill a block
WORD: Final = (1 << WORD_BITS) - 1


@dataclass(frozen=True, slots=True)
class Block:
    """Guards whose keys are about one word, by their places in the program; PADDING at the end."""

    word: int
    places: tuple[int, ...]


def by_word(guards: Sequence[Guard]) -> list[Block]:
    """Blocks for guards in any order. The key of a guard is the word with most of its bits."""
    keys = [
        max(words_of(guard), key=lambda w: in_word(guard.mask, w).bit_count()) for guard in guards
    ]
    places = sorted(range(len(guards)), key=keys.__getitem__)
    groups = groupby(places, key=keys.__getitem__)
    return [block for word, group in groups for block in _filled(word, list(group))]


def in_order(actions: Sequence[Action], guards: Sequence[Guard]) -> list[Block]:
    """Blocks for actions that are applied in order, with these guards.

    An action joins the last block of one of its words, if it commutes with all actions after that.
    """
    blocks: list[tuple[int, list[int]]] = []
    for place, guard in enumerate(guards):
        words = words_of(guard)
        for word, members in reversed(blocks):
            if word in words:
                members.append(place)
                break
            if not all(_commute(actions[place], actions[other]) for other in members):
                blocks.append((words[0], [place]))
                break
        else:
            blocks.append((words[0], [place]))
    return [block for word, members in blocks for block in _filled(word, members)]


def _commute(one: Action, two: Action) -> bool:
    """Whether the two actions lead to the same state in either order, by the bits they touch."""
    return not (one.clear & (two.reads | two.clear) or two.clear & one.reads)


def _filled(word: int, members: Sequence[int]) -> Iterator[Block]:
    for start in range(0, len(members), BLOCK_MAX):
        part = members[start : start + BLOCK_MAX]
        yield Block(word, (*part, *[PADDING] * (-len(part) % LANES)))


def places_of(blocks: Iterable[Block]) -> list[int]:
    """The places of the guards in the program, in the order of the engine."""
    return [place for block in blocks for place in block.places]


def words_of(guard: Guard) -> list[int]:
    """The words that the cube reads; the first if it reads none."""
    return [w for w in range(word_of(guard.mask) + 1) if in_word(guard.mask, w)] or [0]


def word_of(mask: int) -> int:
    """The word that holds the top bit of the mask."""
    return max(mask.bit_length() - 1, 0) // WORD_BITS


def in_word(value: int, word: int) -> int:
    """The bits of the value that lie in one word."""
    return value >> word * WORD_BITS & WORD
