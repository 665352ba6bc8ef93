"""Registration reads a geometry off the pools, or names the pool that it cannot serve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from pdproto.kernels.chunk import (
    Order,
    entries_of,
    pack_chunk,
    plan_for,
    register,
    unpack_chunk,
)
from tests.kernels.paths import Path, on_cpu
from tests.kernels.pools import Geometry, new_pools


def test_groups_are_consecutive_entries_of_one_geometry() -> None:
    latent = [np.zeros((5, 4, 1, 1152), np.uint8) for _ in range(3)]
    index = [np.zeros((5, 4, 1, 132), np.uint8) for _ in range(2)]
    layout = register([*latent, *index, latent[0].copy()])
    assert [(group.first, group.entries) for group in layout.groups] == [(0, 3), (3, 2), (5, 1)]
    assert [entries for entries, _ in layout.shapes] == [3, 2, 1]
    assert layout.shapes[1][1].page_bytes == 4 * 132


@pytest.mark.parametrize("order", Order)
def test_the_order_says_which_axis_holds_tokens(order: Order) -> None:
    pool = np.zeros((2, 3, 5, 7), np.uint16)
    shape = register([pool], order=order).shapes[0][1]
    assert (shape.tokens, shape.heads) == ((3, 5) if order is Order.NHD else (5, 3))
    assert (shape.row_bytes, shape.element) == (14, "uint16")


def test_pools_may_be_interleaved_views() -> None:
    both = np.zeros((6, 2, 4, 2, 16), np.uint8)  # [page, K or V, token, head, dim]
    layout = register([both[:, 0], both[:, 1]])
    geometry = layout.groups[0].geometry
    assert geometry.page_stride == 2 * 4 * 2 * 16
    assert geometry.extent(6) == both.nbytes - 4 * 2 * 16


def test_overlapping_rows_are_refused() -> None:
    base = np.zeros(64, np.uint8)
    windows = np.lib.stride_tricks.as_strided(base, (4, 2, 1, 16), (8, 16, 16, 1))
    with pytest.raises(ValueError, match=r"pools\[0\]: rows overlap"):
        register([windows])


WHOLE = np.zeros((6, 4, 2, 96), np.uint8)


@pytest.mark.parametrize(
    ("pools", "message"),
    [
        ([WHOLE, WHOLE], r"pools\[1\]: shares memory with pools\[0\]"),
        ([WHOLE[3:], np.zeros((3, 4, 2, 8), np.uint8), WHOLE[2:5]], r"pools\[2\]: .* pools\[0\]"),
        ([WHOLE[..., :65], WHOLE[..., 64:]], r"pools\[1\]: shares memory with pools\[0\]"),
        ([WHOLE[:, 1:3], WHOLE[:, 2:4]], r"pools\[1\]: shares memory with pools\[0\]"),
    ],
    ids=["one address", "some pages", "a byte of each row", "a token of each page"],
)
def test_pools_that_share_memory_are_refused(pools: list[Any], message: str) -> None:
    """Written through one of them, a page of the other would change without a word."""
    with pytest.raises(ValueError, match=message):
        register(pools)


def test_interleaved_pools_that_share_no_byte_are_served() -> None:
    rows = [WHOLE[..., :64], WHOLE[..., 64:]]
    layers = np.zeros((9, 20, 2, 4, 2, 16), np.uint8)  # [page, layer, K or V, token, head, dim]
    heads = np.zeros((2, 9, 4, 16), np.uint8)  # [head, page, token, dim]: the outermost of a pool
    both = np.zeros((2, 10, 4, 32), np.uint8)
    for pools in (
        rows,
        [layers[:, layer, half] for layer in range(20) for half in range(2)],
        [heads.transpose(1, 2, 0, 3)],
        [both.transpose(1, 2, 0, 3)[:5], both.transpose(1, 2, 0, 3)[5:]],
    ):
        layout = register(pools)
        starts, ends = layout.reach
        assert all(start < end for start, end in zip(starts, ends, strict=True))
        assert layout.entries == len(pools)


def test_an_unservable_pool_is_named() -> None:
    good = np.zeros((2, 2, 1, 8), np.uint8)
    cases: list[tuple[list[Any], str]] = [
        ([], r"at least one pool"),
        ([good, np.zeros((3, 2, 1, 8), np.uint8)], r"pools\[1\]: 3 pages"),
        ([np.zeros((2, 8), np.uint8)], r"pools\[0\]: want a non-empty"),
        ([np.zeros((2, 2, 8, 2), np.uint8).transpose(0, 1, 3, 2)], r"pools\[0\]: its last axis"),
        ([good[::-1]], r"pools\[0\]: rows overlap or run backwards"),
    ]
    for pools, message in cases:
        with pytest.raises(ValueError, match=message):
            register(pools)
    read_only = good.copy()
    read_only.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        register([read_only])
    with pytest.raises(ValueError, match="chunk_pages_max"):
        register([good], chunk_pages_max=0)


def test_other_objects_than_arrays_are_a_type_error() -> None:
    with pytest.raises(TypeError, match=r"pools\[0\]: want a numpy array or a torch tensor"):
        register([bytearray(8)])
    for element in (object, [("key", np.uint8), ("value", np.uint8)]):
        with pytest.raises(TypeError, match=r"pools\[0\]: elements of type .* are no numbers"):
            register([np.zeros((1, 1, 1, 1), element)])


def test_torch_tensors_are_read_like_arrays() -> None:
    torch = pytest.importorskip("torch")
    pool = torch.zeros((3, 4, 2, 8), dtype=torch.bfloat16)
    shape = register([pool]).shapes[0][1]
    assert (shape.tokens, shape.heads, shape.row_bytes, shape.element) == (4, 2, 16, "bfloat16")


# Some of what torch has; not those with a scale outside of the memory.
ELEMENTS = ("bfloat16", "float8_e4m3fn", "float8_e5m2", "float8_e8m0fnu", "float4_e2m1fn_x2",
            "int4", "uint4", "int1", "uint7", "bits8", "bits16", "complex64", "bool", "uint64")


@pytest.mark.parametrize("name", ELEMENTS)
def test_elements_of_any_type_are_copied_as_bytes(name: str) -> None:
    """Seen red with the list of types that was here, which did not know half of them."""
    torch = pytest.importorskip("torch")
    element = getattr(torch, name)
    bytes_of = np.random.default_rng(0).integers(0, 2, (2, 5, 4, 2, 16), np.uint8)
    theirs, ours = (torch.from_numpy(one).view(element) for one in bytes_of)
    layout = register([theirs])
    assert layout.shapes[0][1].element == name
    chunk = np.zeros(plan_for(layout, 2).only.bytes, np.uint8)
    pack_chunk(layout, [4, 1], chunk)
    unpack_chunk(register([ours]), [0, 3], chunk)
    assert (bytes_of[1][[0, 3]] == bytes_of[0][[4, 1]]).all()


def test_a_tensor_whose_elements_are_not_in_its_memory_is_a_type_error() -> None:
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match="a tensor on the device meta has no memory"):
        register([torch.empty((2, 4, 2, 8), device="meta")])
    for lazy in (torch.zeros((2, 4, 2, 8), dtype=torch.complex64).conj(),
                 torch.zeros((2, 4, 2, 8), dtype=torch.complex64).conj().imag):
        with pytest.raises(TypeError, match=r"want tensor.resolve_conj\(\)"):
            register([lazy])


def test_latents_need_no_axis_of_heads() -> None:
    pool = np.random.default_rng(0).integers(0, 256, (5, 4, 24), np.uint8)
    for order in Order:
        found = register([pool], order=order)
        four = register([pool[:, :, None] if order is Order.NHD else pool[:, None]], order=order)
        assert (found.shapes, found.pages) == (four.shapes, 5)
        chunks = [np.zeros(plan_for(four, 2).only.bytes, np.uint8) for _ in range(2)]
        for layout, chunk in zip((found, four), chunks, strict=True):
            pack_chunk(layout, [4, 1], chunk)
        assert np.array_equal(chunks[0], chunks[1])


@pytest.mark.parametrize(("axis", "shape"), [(0, (2, 5, 4, 3, 24)), (1, (5, 2, 4, 3, 24)),
                                             (0, (2, 5, 4, 24)), (1, (5, 2, 4, 24))])
def test_keys_and_values_of_a_layer_may_be_one_pool(axis: int, shape: tuple[int, ...]) -> None:
    chance = np.random.default_rng(0)
    pools = [chance.integers(0, 256, shape, np.uint8) for _ in range(2)]
    parts = [np.take(pool, half, axis) for half in range(2) for pool in pools]
    layout, apart, pages = register(pools, kv_axis=axis), register(parts), [4, 0]
    plan = plan_for(layout, 2).only
    assert plan == plan_for(apart, 2).only
    chunks = [np.zeros(plan.bytes, np.uint8) for _ in range(2)]
    pack_chunk(layout, pages, chunks[0])
    pack_chunk(apart, pages, chunks[1])
    assert np.array_equal(chunks[0], chunks[1])


def test_an_axis_of_keys_and_values_is_named_and_has_two() -> None:
    with pytest.raises(ValueError, match="of five axes; name that of keys and values with kv_axis"):
        register([np.zeros((2, 5, 4, 3, 24), np.uint8)])
    with pytest.raises(ValueError, match=r"pools\[0\]: want keys and values on axis 1, got shape"):
        register([np.zeros((2, 5, 4, 3, 24), np.uint8)], kv_axis=1)
    with pytest.raises(ValueError, match="kv_axis: want 0 or 1, got 2"):
        register([np.zeros((2, 5, 4, 3, 24), np.uint8)], kv_axis=2)


@on_cpu
def test_some_layers_are_handed_over_by_themselves(path: Path) -> None:
    pools = new_pools(Geometry(entries=5, pages=6, tokens=2, heads=2, row_bytes=48))
    layout = path.layout(pools)
    part = entries_of(layout, 1, 4)
    plan = plan_for(part, 2).only
    chunk = path.put(np.zeros(plan.bytes, np.uint8))
    pack_chunk(part, [5, 2], chunk)
    wanted = np.concatenate([pool[[5, 2]].reshape(-1) for pool in pools[1:4]])
    assert np.array_equal(path.get(chunk)[:plan.payload_bytes], wanted)
    for first, last in ((-1, 2), (2, 2), (3, 6)):
        with pytest.raises(ValueError, match=f"entries {first} to {last}: the layout has 5"):
            entries_of(layout, first, last)
