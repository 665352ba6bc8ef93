"""Which blocks go over, for any prompt, prefix and window."""

from itertools import chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.vllm.blocks import (
    BAND_TOKENS,
    NULL_BLOCK,
    LayerGroup,
    firsts,
    has_what_is_needed,
    held,
    runs,
    wanted,
)

SIZES = st.integers(1, 8)
GROUPS = st.lists(
    st.builds(LayerGroup, SIZES) | st.builds(LayerGroup, SIZES, st.integers(1, 20))
    | st.builds(LayerGroup, SIZES, chunk=st.integers(1, 20)), min_size=1, max_size=3)


def read_from(group: LayerGroup, token: int) -> int:
    """The first token that this one reads."""
    if group.chunk is not None:
        return token - token % group.chunk
    return 0 if group.window is None else max(0, token - group.window + 1)


def kept(group: LayerGroup, tokens: int, made: int) -> list[int]:
    """As vLLM leaves a request of so many tokens with it: block 1 + i for tokens from i blocks on,
    and the null block for what the next token does not look back at.
    """
    gone = read_from(group, tokens) // group.block_tokens
    return [NULL_BLOCK if place < gone else 1 + place
            for place in range(group.blocks(tokens + made))]


@given(GROUPS, st.integers(1, 60), st.integers(0, 4), st.data())
def test_decode_gets_every_block_that_it_lacks(
    groups: list[LayerGroup], tokens: int, made: int, data: st.DataObject
) -> None:
    """And each comes from the same place of the prompt."""
    computed = data.draw(st.integers(0, (tokens - 1) // max(g.block_tokens for g in groups)))
    computed *= max(group.block_tokens for group in groups)
    theirs = held(groups, [kept(group, tokens, made) for group in groups], tokens)
    ours = [[1_000 + place for place in range(group.blocks(tokens + made))] for group in groups]
    found = wanted(groups, ours, tokens, computed)
    for group, blocks in zip(groups, found, strict=True):
        looked_at = range(read_from(group, tokens - 1), tokens)
        needed = {token // group.block_tokens for token in looked_at if token >= computed}
        assert {block - 1_000 for block in blocks} >= needed
    has = has_what_is_needed(groups, firsts(theirs), tokens, computed)
    starts = [group.first_kept(tokens) for group in groups]
    assert has == has_what_is_needed(groups, starts, tokens, computed), "known before the end"
    sent = [theirs[run.group][run.first:run.end]
            for run in runs(groups, [len(blocks) for blocks in found], tokens)]
    assert has == (NULL_BLOCK not in chain(*sent))
    if has:
        assert sorted(block - 1 for block in chain(*sent)) == sorted(
            block - 1_000 for block in chain(*found))


@given(GROUPS, st.integers(1, 3_000), st.data())
def test_blocks_go_over_in_the_order_of_their_tokens(
    groups: list[LayerGroup], tokens: int, data: st.DataObject
) -> None:
    """So each may go as soon as its tokens are computed; bands keep groups together."""
    counts = [data.draw(st.integers(0, group.blocks(tokens))) for group in groups]
    found = runs(groups, counts, tokens)
    assert [sum(run.end - run.first for run in found if run.group == place)
            for place in range(len(groups))] == counts
    ends = [min(tokens, run.end * groups[run.group].block_tokens) for run in found]
    for earlier, later in pairwise(ends):
        assert later > earlier - BAND_TOKENS - max(group.block_tokens for group in groups)
    for place, group in enumerate(groups):
        of_group = [(run.first, run.end) for run in found if run.group == place]
        assert all(one[1] == other[0] for one, other in pairwise(of_group))
        assert not of_group or of_group[-1][1] == group.blocks(tokens)


@given(GROUPS, st.integers(1, 60), st.integers(1, 60))
def test_a_block_is_ready_when_its_last_token_is_computed(
    groups: list[LayerGroup], tokens: int, computed: int
) -> None:
    for group in groups:
        ready = group.ready(computed, tokens)
        assert ready == sum(min((place + 1) * group.block_tokens, tokens) <= computed
                            for place in range(group.blocks(tokens)))


def test_a_window_that_ends_at_a_block_leaves_decode_one_short() -> None:
    """vLLM lets go of what the next token does not look back at, and decode computes the last."""
    group = LayerGroup(4, window=7)
    assert kept(group, 10, 0) == [NULL_BLOCK, 2, 3]
    assert group.first_needed(10) == 0
    assert not has_what_is_needed([group], [1], 10, 0)
    assert has_what_is_needed([group], [1], 10, 4)


@given(st.integers(1, 8), st.integers(1, 60), st.integers(0, 3))
def test_of_states_the_one_of_all_tokens_goes_over(size: int, tokens: int, scratch: int) -> None:
    """Whatever else vLLM keeps: states of earlier tokens before it, and scratch behind it."""
    group, places = LayerGroup(size, state="a state"), -(-tokens // size)
    theirs = held([group], [list(range(1, 1 + places + scratch))], tokens)
    assert theirs == [[places]]
    assert firsts(theirs) == [0]
    ours = [*[NULL_BLOCK] * (places - 1), *range(100, 101 + scratch)]
    assert wanted([group], [ours], tokens, tokens - 1) == [[100]]
    assert has_what_is_needed([group], [0], tokens, tokens - 1)
    assert not has_what_is_needed([group], firsts([[NULL_BLOCK]]), tokens, tokens - 1)


def test_another_number_of_groups_is_refused() -> None:
    with pytest.raises(ValueError, match="1 groups of blocks there and 2 here"):
        runs([LayerGroup(4), LayerGroup(4)], [1], 8)


def test_more_blocks_than_the_prompt_has_are_refused() -> None:
    with pytest.raises(ValueError, match="wants 3 blocks of a group, and the prompt has 2"):
        runs([LayerGroup(4)], [3], 8)
