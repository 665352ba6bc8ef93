"""fp8 chunks of some heads, and digests of their content, are those of the definitions."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from lab.casts import fp8
from lab.casts.cast import pack_cast, unpack_cast
from lab.casts.derived import content_of, heads_of
from pdproto.kernels.chunk import (
    HeadRange,
    KVLayout,
    Order,
    digest_pages,
    pack_chunk,
    plan_for,
    register,
)
from pdproto.kernels.digest import key_at, page_digests
from pdproto.kernels.plan import Scale
from tests.kernels.paths import Path

torch = pytest.importorskip("torch")

HEADS: Final = 5
PAGES: Final = (3, 0, 2)
KEY: Final = 91
COMMON: Final = settings(max_examples=6, deadline=None,
                         suppress_health_check=[HealthCheck.function_scoped_fixture])
SLICES: Final = st.sampled_from((
    (HeadRange(0, 5),), (HeadRange(0, 2), HeadRange(2, 3)),
    (HeadRange(1, 1), HeadRange(3, 2), HeadRange(0, 1), HeadRange(2, 1))))


def pools_of(order: Order, dim: int, seed: int) -> list[Any]:
    """Two tensors [page, token, head, dim] or HND, of values that no path rounds; every page and
    head reaches 448 times a power of two.
    """
    chance, pools = np.random.default_rng(seed), []
    for entry in range(2):
        codes = chance.integers(0, 0x7F, (4, 3, HEADS, dim), dtype=np.uint8)
        codes[:, 0, :, 0] = 0x7E
        codes |= chance.integers(0, 2, codes.shape, dtype=np.uint8) << 7
        values = fp8.decode(codes) * np.float32(2.0**-entry)
        values = values if order is Order.NHD else values.swapaxes(1, 2)
        pools.append(torch.from_numpy(np.ascontiguousarray(values)).to(torch.bfloat16))
    return pools


def placed(path: Path, pools: list[Any], order: Order) -> KVLayout:
    like = path.layout([np.zeros((1, 1, 1, 1), np.uint8)])
    return path.relayout(like, [pool.cuda() if path.name == "cuda" else pool for pool in pools],
                         order)


def sliced(pool: Any, heads: HeadRange, order: Order) -> Any:
    of = slice(heads.first, heads.first + heads.count)
    return (pool[:, :, of] if order is Order.NHD else pool[:, of]).contiguous()


def packed(path: Path, layout: KVLayout, scale: Scale) -> Any:
    static = path.put(np.array([1.0, 0.5], np.float32)) if scale is Scale.STATIC else None
    chunk = path.put(np.zeros(plan_for(layout, len(PAGES), scale=scale).only.bytes, np.uint8))
    pack_cast(layout, list(PAGES), chunk, scale=scale, static=static)
    return chunk


@COMMON
@given(order=st.sampled_from(Order), scale=st.sampled_from(Scale), peers=SLICES,
       dim=st.sampled_from((32, 12)), seed=st.integers(0, 1000))
def test_each_peer_gets_the_chunk_of_its_heads(
    path: Path, order: Order, scale: Scale, peers: tuple[HeadRange, ...], dim: int, seed: int
) -> None:
    """As if its heads were pools of their own; and what all bring together is everything."""
    pools = pools_of(order, dim, seed)
    layout = placed(path, pools, order)
    back = placed(path, [torch.zeros_like(pool) for pool in pools], order)
    for heads in peers:
        chunk = packed(path, heads_of(layout, heads), scale)
        alone = placed(path, [sliced(pool, heads, order) for pool in pools], order)
        assert np.array_equal(path.get(chunk), path.get(packed(path, alone, scale)))
        unpack_cast(heads_of(back, heads), list(PAGES), chunk, scale=scale)
    for pool, other in zip(pools, back.pools, strict=True):
        assert torch.equal(pool[list(PAGES)], other.cpu()[list(PAGES)])
        assert not other[1].any(), "wrote a page that was not named"


def definition(chunk: NDArray[np.uint8], layout: KVLayout, scale: Scale) -> NDArray[np.uint64]:
    """The digests of codes and scales, by numpy."""
    peer = plan_for(layout, len(PAGES), scale=scale).only
    rows = layout.entries * len(PAGES)
    entries = [chunk[:peer.payload_bytes].reshape(rows, -1)]
    if scale is not Scale.STATIC:
        entries.append(chunk[peer.scale_offset:][:4 * peer.scales].reshape(rows, -1))
    sums, first = [], 0
    for data in entries:
        sums.append(page_digests(data, key_at(KEY, entry=first), entries=layout.entries))
        first += layout.entries
    return np.concatenate(sums)


def digests(path: Path, layout: KVLayout, scale: Scale, chunk: Any) -> NDArray[np.uint64]:
    plan = plan_for(layout, len(PAGES), scale=scale)
    content = content_of(layout, plan, chunk)
    found = path.put(np.zeros(content.entries * len(PAGES), np.uint64))
    digest_pages(content, list(range(len(PAGES))), found, key=KEY)
    return np.asarray(path.get(found)).view(np.uint64)


@COMMON
@given(order=st.sampled_from(Order), scale=st.sampled_from(Scale), peers=SLICES,
       dim=st.sampled_from((32, 12)), seed=st.integers(0, 1000), data=st.data())
def test_digests_are_of_codes_and_scales(
    path: Path, order: Order, scale: Scale, peers: tuple[HeadRange, ...], dim: int, seed: int,
    data: st.DataObject,
) -> None:
    """They are those of the definition, and a flipped bit of either changes one of them."""
    layout = heads_of(placed(path, pools_of(order, dim, seed), order), peers[0])
    chunk = packed(path, layout, scale)
    before = digests(path, layout, scale, chunk)
    assert np.array_equal(before, definition(path.get(chunk), layout, scale))
    peer = plan_for(layout, len(PAGES), scale=scale).only
    places = [*range(peer.payload_bytes)]
    if scale is not Scale.STATIC:
        places += range(peer.scale_offset, peer.scale_offset + 4 * peer.scales)
    chunk[data.draw(st.sampled_from(places))] ^= 1 << data.draw(st.integers(0, 7))
    assert (digests(path, layout, scale, chunk) != before).sum() == 1


def test_copies_of_some_heads_are_those_of_slices(path: Path) -> None:
    pools = [np.random.default_rng(5).integers(0, 256, (4, 3, HEADS, 16), dtype=np.uint8)]
    heads, layout = HeadRange(1, 3), path.layout(pools)
    theirs = heads_of(layout, heads)
    chunk = path.put(np.zeros(plan_for(theirs, 3).only.bytes, np.uint8))
    pack_chunk(theirs, list(PAGES), chunk)
    want = pools[0][list(PAGES)][:, :, 1:4]
    assert np.array_equal(path.get(chunk)[:want.size], want.ravel())


def test_what_is_not_there_is_refused() -> None:
    layout = register([np.zeros((4, 3, 2, 16), np.float16)])
    with pytest.raises(ValueError, match="heads 1 to 3: an entry has 2"):
        heads_of(layout, HeadRange(1, 2))
    plan = plan_for(layout, 2, scale=Scale.PAGE)
    with pytest.raises(ValueError, match=r"chunk: want uint8 \[byte\] of \d+ bytes"):
        content_of(layout, plan, np.zeros(3, np.uint8))
    with pytest.raises(ValueError, match="plan: want one of a cast chunk"):
        content_of(layout, plan_for(layout, 2), np.zeros(4096, np.uint8))
