"""The blocks of a request that are handed over, by group.

In vLLM, layers of one kind form a *group*, with one list of block ids in the order of the tokens. A
group with a sliding window frees blocks that have left the window, and has the null block in their
place. Prefill and decode have the same prompt, so the last blocks of both lists hold the same
tokens. So a number of blocks, counted from the end, identifies them.

Layers with states (Mamba) need one block of a request, which holds what all tokens so far came to.
With prefix caching their list has a place for each block of tokens (vLLM's mode `align`): at a few
are states for later prompts, behind them the one of all tokens so far, and behind that scratch for
speculation. So the number of tokens says where it is (`part`).
Decode always computes the last token of a prompt, to get the first one that it generates. It can do
that over a KV cache of all tokens, but not over a state that has the last one in it. So with such
layers prefill computes, and decode loads, all tokens but the last (`carried`).

Servers whose blocks differ in size hand over *parts* of blocks, of one number of tokens at both
ends (the setting page_tokens). The rest of the connector counts parts as it counts blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

NULL_BLOCK: Final = 0  # vLLM's, in place of a block that is not there
BAND_TOKENS: Final = 512  # of the blocks that are handed over together, if there are several groups


@dataclass(frozen=True, slots=True)
class LayerGroup:
    """A group of layers. block_tokens: tokens of a block, or of a part of it. window: tokens that
    attention reads, with the present one; None for all. state: the contents of a layer's state; ""
    if it has a KV cache. parts: of one of vLLM's blocks; 1 if whole blocks are handed over. chunk:
    attention reads nothing before the last multiple of so many tokens; None for all.
    """

    block_tokens: int
    window: int | None = None
    state: str = ""
    parts: int = 1
    chunk: int | None = None

    def blocks(self, tokens: int) -> int:
        """The number of blocks that are handed over for this number of tokens."""
        return min(1, tokens) if self.state else -(-tokens // self.block_tokens)

    def part(self, ids: Sequence[int], tokens: int) -> Sequence[int]:
        """Those blocks, of all that a request has."""
        end = -(-tokens // self.block_tokens)
        return ids[end - self.blocks(tokens):end]

    def behind(self, computed: int) -> int:
        """The first block that may lack something if so many tokens are computed. A state does."""
        return 0 if self.state else computed // self.block_tokens

    def first_needed(self, tokens: int) -> int:
        """The first block that decode needs in order to compute the last of these tokens.

        It is the first part of one of vLLM's blocks, which vLLM may keep for later prompts: then
        all of it must be right.
        """
        return self._looks_back(tokens - 1, self.parts)

    def first_kept(self, tokens: int, parts: int | None = None) -> int:
        """The first block that a server surely has when it has computed these tokens. parts: of one
        of its blocks, if it is another server.

        vLLM frees a block when the next token does not look back at it.
        """
        return self._looks_back(tokens, self.parts if parts is None else parts)

    def _looks_back(self, token: int, parts: int) -> int:
        """The first part of the block with the first token that this one reads."""
        first = 0
        if self.window is not None:
            first = max(0, token - self.window + 1)
        elif self.chunk is not None:
            first = max(0, token) // self.chunk * self.chunk
        return first // (self.block_tokens * parts) * parts

    def ready(self, computed: int, tokens: int) -> int:
        """Of the blocks of so many tokens, those that are final when `computed` are computed."""
        if computed >= tokens:
            return self.blocks(tokens)
        return 0 if self.state else computed // self.block_tokens

    def __str__(self) -> str:
        if self.state:
            return f"states of {self.state}"
        window = "" if self.window is None else f", window {self.window}"
        chunk = "" if self.chunk is None else f", chunks of {self.chunk}"
        return f"{self.block_tokens} tokens a block{window}{chunk}"


def in_parts(groups: Sequence[LayerGroup], tokens: int) -> list[LayerGroup]:
    """The groups with their blocks in parts of so many tokens. A state has no parts.

    Raises ValueError for blocks that have no such parts.
    """
    return [group if group.state else _in_parts(group, tokens) for group in groups]


def _in_parts(group: LayerGroup, tokens: int) -> LayerGroup:
    if group.block_tokens % tokens:
        raise ValueError(f"page_tokens={tokens}: blocks of {group.block_tokens} tokens have no "
                         f"parts of {tokens}: want a number that divides the block sizes of both "
                         f"servers")
    return replace(group, block_tokens=tokens, parts=group.block_tokens // tokens)


def parts_of(groups: Sequence[LayerGroup], blocks: Sequence[Sequence[int]]) -> list[list[int]]:
    """The numbers of the parts of these blocks, group by group. Those of the null block are null.
    """
    return [[block and block * group.parts + part for block in ids for part in range(group.parts)]
            for group, ids in zip(groups, blocks, strict=True)]


def carried(groups: Sequence[LayerGroup], tokens: int) -> int:
    """Of a prompt of so many tokens, those whose blocks are handed over."""
    return tokens - 1 if any(group.state for group in groups) else tokens


def held(
    groups: Sequence[LayerGroup], blocks: Sequence[Sequence[int]], tokens: int
) -> list[list[int]]:
    """At prefill: the blocks of the prompt, without those of generated tokens."""
    return [list(group.part(ids, tokens)) for group, ids in zip(groups, blocks, strict=True)]


def firsts(blocks: Sequence[Sequence[int]]) -> list[int]:
    """At prefill: for each group, the first block from which on no block is missing."""
    found = []
    for ids in blocks:
        missing = [place for place, block in enumerate(ids) if block == NULL_BLOCK]
        found.append(missing[-1] + 1 if missing else 0)
    return found


def has_what_is_needed(groups: Sequence[LayerGroup], firsts: Sequence[int], tokens: int,
                       computed: int) -> bool:
    """Whether prefill still has every block that decode needs, and vLLM allocates each at decode:
    it allocates none that the next token does not look back at. computed: tokens that decode has.
    """
    return all(max(first, group.first_kept(tokens))
               <= max(group.first_needed(tokens), group.behind(computed))
               for group, first in zip(groups, firsts, strict=True))


def wanted(groups: Sequence[LayerGroup], blocks: Sequence[Sequence[int]], tokens: int,
           computed: int) -> list[list[int]]:
    """At decode: for each group, the allocated blocks that must be loaded."""
    found = []
    for group, ids in zip(groups, blocks, strict=True):
        first = max(group.first_needed(tokens), group.behind(computed))
        found.append([block for block in group.part(ids, tokens)[first:] if block != NULL_BLOCK])
    return found


@dataclass(frozen=True, slots=True)
class Stretch:
    """Blocks of one group that follow one another: from the block `first` to the one before `end`.
    """

    group: int
    first: int
    end: int


def runs(groups: Sequence[LayerGroup], counts: Sequence[int], tokens: int) -> list[Stretch]:
    """The order in which blocks are handed over: the last `counts` of each group.

    Prefill sends blocks while it computes, so they go in the order of their tokens. Those of
    several groups go band by band, because a chunk has blocks of one group. Both ends compute the
    order. Raises ValueError for counts of other groups, or of more blocks than there are.
    """
    if len(counts) != len(groups):
        raise ValueError(f"{len(counts)} groups of blocks there and {len(groups)} here: want the "
                         f"same model at both ends")
    found = []
    for place, (group, count) in enumerate(zip(groups, counts, strict=True)):
        total = group.blocks(tokens)
        if count > total:
            raise ValueError(f"decode wants {count} blocks of a group, and the prompt has {total}: "
                             f"want the same prompt and the same block size at both ends")
        first = total - count
        for band, end in _bands(group, total, tokens, is_alone=len(groups) == 1):
            if end > first:
                found.append((band, Stretch(place, first, end)))
                first = end
    return [run for _, run in sorted(found, key=lambda one: (one[0], one[1].group))]


def _bands(
    group: LayerGroup, total: int, tokens: int, *, is_alone: bool
) -> list[tuple[int, int]]:
    """The bands of a group, each with its end. A state is final with the last token."""
    bands = -(-tokens // BAND_TOKENS)
    if is_alone or group.state:
        return [(bands, total)]
    ends = (-(-(band + 1) * BAND_TOKENS // group.block_tokens) for band in range(bands))
    return [(band, min(total, end)) for band, end in enumerate(ends)]
