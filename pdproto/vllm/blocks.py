"""Which blocks of a request are handed over, group by group.

vLLM keeps the blocks of layers alike in a *group*, each with a list of block ids in the order of
the tokens. A group with a sliding window lets go of blocks that have left it, and has the null
block in their place. Prefill and decode count the same tokens of the same prompt, so the last block
of one is that of the other, and a number of blocks says which.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

NULL_BLOCK: Final = 0  # vLLM's, in place of a block that is not there


@dataclass(frozen=True, slots=True)
class Group:
    """block_tokens: of a block. window: tokens that attention looks back at, itself included;
    None for all.
    """

    block_tokens: int
    window: int | None = None

    def blocks(self, tokens: int) -> int:
        """How many blocks so many tokens take."""
        return -(-tokens // self.block_tokens)

    def first_needed(self, tokens: int) -> int:
        """The first block that decode needs to compute the last of these tokens, which it does."""
        if self.window is None:
            return 0
        return max(0, tokens - self.window) // self.block_tokens

    def __str__(self) -> str:
        window = "" if self.window is None else f", window {self.window}"
        return f"{self.block_tokens} tokens a block{window}"


def held(groups: Sequence[Group], blocks: Sequence[Sequence[int]], tokens: int) -> list[list[int]]:
    """Of prefill: the blocks of a prompt, without those of tokens that were made from it."""
    return [list(ids[:group.blocks(tokens)])
            for group, ids in zip(groups, blocks, strict=True)]


def firsts(blocks: Sequence[Sequence[int]]) -> list[int]:
    """Of each group: the first block that prefill has, and all behind it."""
    found = []
    for ids in blocks:
        missing = [place for place, block in enumerate(ids) if block == NULL_BLOCK]
        found.append(missing[-1] + 1 if missing else 0)
    return found


def has_what_is_needed(groups: Sequence[Group], firsts: Sequence[int], tokens: int,
                       computed: int) -> bool:
    """Whether prefill still has every block that decode does not have. computed: tokens that decode
    has.
    """
    return all(first <= max(group.first_needed(tokens), computed // group.block_tokens)
               for group, first in zip(groups, firsts, strict=True))


def wanted(groups: Sequence[Group], blocks: Sequence[Sequence[int]], tokens: int,
           computed: int) -> list[list[int]]:
    """Of decode: in each group the blocks that it has allocated and whose content is missing."""
    found = []
    for group, ids in zip(groups, blocks, strict=True):
        first = max(group.first_needed(tokens), computed // group.block_tokens)
        found.append([block for block in ids[first:group.blocks(tokens)] if block != NULL_BLOCK])
    return found


def last(blocks: Sequence[Sequence[int]], counts: Sequence[int]) -> list[list[int]]:
    """Of prefill: the last so many blocks of each group. Raises ValueError if they are not there.
    """
    if len(blocks) != len(counts):
        raise ValueError(f"{len(counts)} groups of blocks there and {len(blocks)} here: want the "
                         f"same model at both ends")
    found = []
    for ids, count in zip(blocks, counts, strict=True):
        chosen = list(ids[len(ids) - count:]) if count <= len(ids) else []
        if len(chosen) < count or NULL_BLOCK in chosen:
            raise ValueError(f"decode wants {count} blocks of a group, and prefill has "
                             f"{sum(block != NULL_BLOCK for block in ids)}: want the same prompt "
                             f"and the same block size at both ends")
        found.append(chosen)
    return found
