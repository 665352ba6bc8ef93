"""A chunk is laid out by arithmetic that both ends can do, and nothing in it overlaps."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pdproto.kernels.chunk import HeadRange, Order, plan_chunk, plan_for, register
from pdproto.kernels.layout import Shape
from pdproto.kernels.plan import Scale

SHAPES = st.lists(
    st.tuples(
        st.integers(1, 3),
        st.builds(Shape, st.integers(1, 4), st.sampled_from([1, 4]), st.sampled_from([16, 132]),
                  st.just("bfloat16")),
    ),
    min_size=1, max_size=3,
).map(tuple)  # fmt: skip


@given(shapes=SHAPES, pages=st.integers(0, 5), scale=st.sampled_from([None, *Scale]))
def test_pages_tile_the_payload_and_trailers_follow(
    shapes: tuple[tuple[int, Shape], ...], pages: int, scale: Scale | None
) -> None:
    peer = plan_chunk(shapes, pages, scale=scale).only
    covered = []
    for part in peer.parts:
        for entry in range(part.first, part.first + part.entries):
            starts = [peer.offset(entry, page) for page in range(pages)]
            covered += [(start, start + part.page_bytes) for start in starts]
    ends = [0, *(end for _, end in covered)]
    assert [start for start, _ in covered] == ends[:-1]
    assert ends[-1] == peer.payload_bytes <= peer.scale_offset
    assert peer.scale_offset + 4 * peer.scales <= peer.digest_offset
    assert peer.scale_offset % 128 == peer.digest_offset % 128 == 0
    assert peer.bytes - peer.digest_offset == 8 * pages * peer.entries


def test_sizes_of_a_known_model() -> None:
    """Llama-3-70B, one of eight ranks: 80 layers of K and V, 256 bytes per token and entry."""
    shapes = ((160, Shape(16, 1, 256, "bfloat16")),)
    plain = plan_chunk(shapes, 1).only
    assert plain.payload_bytes == 160 * 16 * 256 == 655_360
    assert plain.bytes == 655_360 + 160 * 8
    cast = plan_chunk(shapes, 1, scale=Scale.PAGE_HEAD).only
    assert (cast.payload_bytes, cast.scales) == (655_360 // 2, 160)


def test_a_single_head_goes_to_every_peer() -> None:
    shapes = ((1, Shape(4, 8, 32, "uint8")), (1, Shape(4, 1, 64, "uint8")))
    plan = plan_chunk(shapes, 2, peers=(HeadRange(0, 3), HeadRange(3, 5)))
    assert [peer.payload_bytes for peer in plan.peers] == [
        2 * 4 * (3 * 32 + 64), 2 * 4 * (5 * 32 + 64),
    ]  # fmt: skip


def test_heads_outside_an_entry_are_refused() -> None:
    shapes = ((1, Shape(4, 8, 32, "uint8")),)
    for first, count in [(-1, 2), (0, 0), (7, 2), (8, 1)]:
        with pytest.raises(ValueError, match=r"peers\[0\]: heads"):
            plan_chunk(shapes, 2, peers=(HeadRange(first, count),))


def test_other_limits_are_named() -> None:
    shapes = ((1, Shape(4, 8, 32, "uint8")),)
    with pytest.raises(ValueError, match="pages: want 0 or more"):
        plan_chunk(shapes, -1)
    with pytest.raises(ValueError, match="uint8 cannot become fp8"):
        plan_chunk(shapes, 1, scale=Scale.PAGE)
    with pytest.raises(ValueError, match="entries times peers"):
        plan_chunk(shapes, 1, peers=(HeadRange(0, 1),) * 65_536)
    with pytest.raises(IndexError, match="entry 1 does not exist: the chunk has 1"):
        plan_chunk(shapes, 1).only.offset(1, 0)


def test_sender_and_receiver_sign_the_same_chunk() -> None:
    """The sender slices two of eight heads; the receiver has two, and a pool of its own."""
    sender = register([np.zeros((9, 4, 8, 32), np.uint8)])
    receiver = register([np.zeros((5, 4, 2, 32), np.uint8)])
    sent = plan_for(sender, 3, peers=[HeadRange(2, 2)]).only
    plan_for(receiver, 3).only.expect(sent.signature)
    for other in (
        plan_for(receiver, 4),
        plan_for(receiver, 3, order=Order.HND),
        plan_for(register([np.zeros((5, 2, 4, 32), np.uint8)]), 3),
        plan_for(register(list(np.zeros((2, 5, 4, 2, 32), np.uint8))), 3),
    ):
        with pytest.raises(ValueError, match="signature"):
            other.only.expect(sent.signature)
