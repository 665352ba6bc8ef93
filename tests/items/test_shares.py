"""Which ranks a hand-over joins, and which bytes go between two of them; without SGLang."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest

from pdproto.items.components import Component, Heads
from pdproto.items.shares import (
    Share,
    TpRank,
    everything,
    header_bytes_max,
    header_in,
    share_for,
    share_of,
)
from pdproto.kernels.chunk import pack_chunk, unpack_chunk

HEADS, TOKENS, ROW, PAGES = 4, 2, 3, 5


def whole(layers: int) -> np.ndarray:
    """A model's KV, uint8 [buffer, page, token, head, byte]: no two bytes in a row are alike."""
    shape = 2 * layers, PAGES, TOKENS, HEADS, ROW
    return np.random.default_rng(1).integers(0, 256, shape, np.uint8)


def rank(of: np.ndarray, place: TpRank, layers: range) -> list[Component]:
    """What a rank holds of it: K of its layers, then V."""
    count = len(of) // 2
    heads = place.heads(HEADS)
    buffers = [of[kind * count + layer][:, :, heads.start:heads.stop].reshape(PAGES, -1).copy()
               for kind in range(2) for layer in layers]
    return [Component("kv", tuple(buffers), tuple(layers) * 2, Heads(HEADS, TOKENS))]


@pytest.mark.parametrize(("there", "here"), [(1, 1), (1, 2), (2, 1), (4, 2), (2, 8), (8, 2)])
def test_the_shares_of_all_partners_make_up_a_rank(there: int, here: int) -> None:
    of = whole(layers=2)
    for sink in (TpRank(here, number) for number in range(here)):
        right = rank(of, sink, range(2))
        ours = rank(np.zeros_like(of), sink, range(2))
        covered: set[tuple[int, int, int]] = set()
        for stage, number in product((0, 1), sink.partners(there)):
            source = TpRank(there, number)
            assert sink.rank in source.partners(here)
            sent = share_for(theirs := rank(of, source, range(stage, stage + 1)), source, sink)
            taken, covers = share_of(ours, sink, sent.header)
            assert taken.signature == sent.signature
            assert len(theirs) == len(sent.parts) == 1
            move(sent, taken)
            covered |= covers
        assert covered == everything(ours, sink)
        for got, want in zip(ours[0].buffers, right[0].buffers, strict=True):
            assert (got == want).all()


def move(sent: Share, taken: Share) -> None:
    """Every page of what one end sends into the other's."""
    source, sink = sent.parts[0].layout, taken.parts[0].layout
    assert source is not None
    assert sink is not None
    chunk = np.empty(sent.parts[0].bytes(PAGES), np.uint8)
    assert chunk.size == taken.parts[0].bytes(PAGES)
    pack_chunk(source, range(PAGES), chunk)
    unpack_chunk(sink, range(PAGES), chunk)


def test_of_ranks_that_hold_the_same_one_sends_it() -> None:
    latent = [Component("kv", (np.zeros((PAGES, 6), np.uint8),), (0,))]
    sink = TpRank(1, 0)
    shares = [share_for(latent, TpRank(2, number), sink) for number in range(2)]
    assert [share.parts[0].sizes for share in shares] == [(6,), ()]
    covers = [share_of(latent, sink, share.header)[1] for share in shares]
    assert covers == [everything(latent, sink), frozenset()]


def test_a_mismatch_is_told_in_words() -> None:
    of, one, two = whole(layers=2), TpRank(1, 0), TpRank(2, 0)
    ours = rank(of, one, range(1))
    header = share_for(rank(of, one, range(2)), one, one).header
    with pytest.raises(ValueError, match="kv: layer 1 is there, and here are layer 0 to "):
        share_of(ours, one, header)
    wide = [Component("kv", tuple(np.zeros((2, PAGES, 9), np.uint8)), (0, 0))]
    with pytest.raises(ValueError, match=r"kv: no heads, .* there and 4 heads, 2 rows a page"):
        share_of(ours, one, share_for(wide, one, one).header)
    thin = [replace(ours[0], buffers=tuple(one[:, :12].copy() for one in ours[0].buffers))]
    with pytest.raises(ValueError, match="kv: items of 24 bytes there and 48 here: want the same"):
        share_of(ours, one, share_for(thin, one, one).header)
    for heads, tokens in ((8, 2), (4, 1)):
        other = [replace(ours[0], heads=Heads(heads, tokens))]
        with pytest.raises(ValueError, match=rf"kv: {heads} heads, {tokens} rows? a page.* there "
                                             rf"and 4 heads, 2 rows a page"):
            share_of(ours, one, share_for(other, one, one).header)
    odd = [replace(ours[0], heads=Heads(5, 2))]
    with pytest.raises(ValueError, match="an item of 24 bytes is not 2 tokens of 5 heads"):
        share_for(odd, one, two)
    state = Component("mamba", (np.zeros((PAGES, 6), np.uint8),), (0,), unsplit="mamba states")
    with pytest.raises(ValueError, match=r"parallelism 2 .* does not split mamba states"):
        share_for([state], one, two)
    with pytest.raises(ValueError, match="2 components there and 1 here"):
        share_of([state], one, share_for([state, state], one, one).header)
    with pytest.raises(ValueError, match="tensor parallelism 3 there and 2 here"):
        TpRank(2, 0).partners(3)


def test_buffers_that_nobody_names_go_only_all_together() -> None:
    one = TpRank(1, 0)
    buffers = tuple(np.zeros((PAGES, 6), np.uint8) for _ in range(3))
    ours = [Component("swa", buffers, ())]
    _, covered = share_of(ours, one, share_for(ours, one, one).header)
    assert covered == everything(ours, one)
    named = [Component("swa", buffers, (4, 5, 6))]
    for there, here in ((ours, named), (named, ours)):
        assert share_of(here, one, share_for(there, one, one).header)[1] == covered
    fewer = [Component("swa", buffers[:2], ())]
    with pytest.raises(ValueError, match="2 buffers there and 3 here, of layers without names"):
        share_of(ours, one, share_for(fewer, one, one).header)


def test_a_lease_that_begins_with_anything_else_is_refused() -> None:
    ours = rank(whole(layers=1), TpRank(1, 0), range(1))
    longest = header_bytes_max(ours)
    header = share_for(ours, TpRank(1, 0), TpRank(1, 0)).header
    landed = np.frombuffer(header + bytes(64), np.uint8)
    assert header_in(landed, longest) == header
    for spoilt in (b"", bytes(256), b"\1" * 256, (1 << 20).to_bytes(4, "little") * 64):
        with pytest.raises(ValueError, match="a header of"):
            header_in(np.frombuffer(spoilt, np.uint8), longest)
    words = np.frombuffer(header, "<u4").copy()
    words[1] = 0
    with pytest.raises(ValueError, match="rank 0 does not exist in a tensor parallelism of 0"):
        share_of(ours, TpRank(1, 0), words.tobytes())
    cut = np.array([128, 1, 0, 1, 9, *[0] * 27], "<u4").tobytes()
    with pytest.raises(ValueError, match="kv"):
        share_of(ours, TpRank(1, 0), cut)
    endless = np.array([128, 1, 0, 1, 1 << 31, *[0] * 27], "<u4").tobytes()
    with pytest.raises(ValueError, match="a header of 32 words ends within 2147483648 of them"):
        share_of(ours, TpRank(1, 0), endless)


def test_a_source_with_more_layers_than_ours_is_told_which() -> None:
    one = TpRank(1, 0)
    ours, theirs = rank(whole(3), one, range(3)), rank(whole(6), one, range(6))
    header = share_for(theirs, one, one).header
    assert header_in(np.frombuffer(header, np.uint8), header_bytes_max(ours)) == header
    with pytest.raises(ValueError, match="kv: layer 3 is there, and here are layer 0 to layer 2"):
        share_of(ours, one, header)
