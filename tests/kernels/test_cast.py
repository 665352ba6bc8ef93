"""Chunks cast to fp8 hold the codes and scales of the definition, on every path.

Triton's interpreter rounds to fp8 wrongly (it loses the carry out of the mantissa), so there
the data are products of a code's value and a power of two, which no rounding touches.
"""

from __future__ import annotations

from typing import Any, Final
from unittest import mock

import numpy as np
import pytest
from numpy.typing import NDArray

from lab.casts import cast, fp8
from lab.casts.cast import pack_cast, unpack_cast
from lab.casts.scales import static_scales
from pdproto.kernels.chunk import (
    ChunkPlan,
    Order,
    new_report,
    plan_for,
)
from pdproto.kernels.plan import Scale
from tests.kernels.paths import Path, on_device
from tests.kernels.pools import POISON, Guarded

torch = pytest.importorskip("torch")

SHAPES: Final = {
    "nhd": ((5, 4, 3, 64), Order.NHD),
    "hnd": ((5, 3, 4, 64), Order.HND),
    "one head": ((5, 4, 1, 576), Order.NHD),
    "odd rows": ((4, 2, 3, 20), Order.NHD),
}
BY_SHAPE: Final = pytest.mark.parametrize(("shape", "order"), SHAPES.values(), ids=SHAPES)


def _pools(path: Path, shape: tuple[int, ...], element: str) -> list[Any]:
    """Tensors of `element`: any finite values and some that are not, or exact ones."""
    generator = np.random.default_rng(11)
    pools = []
    for entry in range(2):
        if path.name == "interpreter":
            codes = generator.integers(0, 0x7F, shape, dtype=np.uint8)
            codes[:, 0, :, 0] = codes[:, :, 0, 0] = 0x7E  # every page and head reaches 448
            codes |= generator.integers(0, 2, shape, dtype=np.uint8) << 7
            values = fp8.decode(codes) * np.float32(2.0**-entry)
        else:
            values = generator.normal(0, 30, shape).astype(np.float32)
            values[0, 0, 0, :4] = [np.nan, np.inf, -np.inf, 1e-6]
            values[1] = 0
        pools.append(torch.from_numpy(values).to(getattr(torch, element)))
    return pools


def _by_token(pool: Any, order: Order) -> NDArray[np.float32]:
    values: NDArray[np.float32] = pool.float().numpy()
    return values if order is Order.NHD else values.transpose(0, 2, 1, 3)


def _expected(
    pools: list[Any], order: Order, pages: list[int], scale: Scale, static: NDArray[np.float32]
) -> tuple[list[NDArray[np.uint8]], list[NDArray[np.float32]]]:
    """Codes [page, token, head, dim] and scales of each entry."""
    codes, scales = [], []
    for entry, pool in enumerate(pools):
        values = _by_token(pool, order)[pages]
        if scale is Scale.STATIC:
            told = static[entry].reshape(1, 1, 1, 1)
        else:
            told = fp8.scale_for(values, (1, 2, 3) if scale is Scale.PAGE else (1, 3))
        codes.append(fp8.encode(values * (np.float32(1) / told)))
        scales.append(told.ravel())
    return codes, scales


def _placed(path: Path, pools: list[Any]) -> list[Any]:
    return [pool.cuda() if path.name == "cuda" else pool for pool in pools]


def _unpacked_codes(chunk: NDArray[np.uint8], plan: ChunkPlan) -> NDArray[np.uint8]:
    """The codes of a chunk as [entry, page, token, head, dim]."""
    part = plan.only.parts[0]
    middle = (part.tokens, part.heads.count)
    outer = middle if plan.order is Order.NHD else middle[::-1]
    shaped = chunk[: plan.only.payload_bytes].reshape(part.entries, plan.pages, *outer, -1)
    return shaped if plan.order is Order.NHD else shaped.swapaxes(2, 3)


@BY_SHAPE
@pytest.mark.parametrize("scale", Scale)
def test_codes_and_scales_are_those_of_the_definition(
    path: Path, shape: tuple[int, ...], order: Order, scale: Scale
) -> None:
    element = "bfloat16" if shape[0] == 5 else "float16"
    pools = _pools(path, shape, element)
    like = path.layout([np.zeros((1, 1, 1, 1), np.uint8)])
    layout = path.relayout(like, _placed(path, pools), order)
    pages, static = [2, 0, 1, 3], np.array([1.0, 0.5], np.float32)
    plan = plan_for(layout, len(pages), scale=scale)
    guarded = Guarded.of(plan.only.bytes)
    memory = path.put(guarded.memory)
    chunk = guarded.within(memory)
    told = path.put(static) if scale is Scale.STATIC else None
    pack_cast(layout, pages, chunk, scale=scale, static=told)
    guarded.memory[:] = path.get(memory)
    guarded.check_red_zones()
    got = guarded.chunk
    codes, scales = _expected(pools, order, pages, scale, static)
    assert np.array_equal(_unpacked_codes(got, plan), np.stack(codes))
    got_scales = got[plan.only.scale_offset :][: 4 * plan.only.scales].view(np.float32)
    assert np.array_equal(got_scales, np.concatenate(scales))

    back = [torch.zeros_like(pool) for pool in layout.pools]
    target = path.relayout(layout, back)
    unpack_cast(target, pages, chunk, scale=scale)
    for entry, pool in enumerate(back):
        axis = (-1, 1, 1, 1) if scale is not Scale.PAGE_HEAD else (len(pages), 1, -1, 1)
        values = fp8.decode(codes[entry]) * scales[entry].reshape(axis)
        want = torch.from_numpy(values).to(pool.dtype).float().numpy()
        assert np.array_equal(_by_token(pool.cpu(), order)[pages], want, equal_nan=True)
        assert not pool.float().cpu()[4:].any(), "wrote a page that was not named"


@pytest.mark.parametrize("element", ["bfloat16", "float16"])
@pytest.mark.parametrize("dim", [64, 20])
@pytest.mark.parametrize("scale", [Scale.PAGE, Scale.PAGE_HEAD])
def test_scales_are_those_of_any_bits(path: Path, element: str, dim: int, scale: Scale) -> None:
    """Infinities, NaNs and subnormal numbers of either sign, mixed and in pages of their own."""
    bits = np.random.default_rng(12).integers(0, 1 << 16, (6, 2, 3, dim), dtype=np.uint16)
    infinity = 0x7F80 if element == "bfloat16" else 0x7C00
    bits[1] = np.where(bits[1] & infinity == infinity, bits[1] ^ 0x4000, bits[1])  # all finite
    bits[2] = infinity | bits[2]  # none
    bits[3] &= 0x8000  # zeros of either sign
    bits[4] &= 0x8003  # subnormal, and equal but for the sign
    bits[5, :, :, ::2], bits[5, :, :, 1::2] = 0x8001, infinity  # one half of each pair
    values = fp8.to_float32(bits.view(np.uint8), element)
    pool = torch.from_numpy(bits.view(np.int16)).view(getattr(torch, element))
    like = path.layout([np.zeros((1, 1, 1, 1), np.uint8)])
    layout = path.relayout(like, _placed(path, [pool]))
    plan = plan_for(layout, 6, scale=scale)
    chunk = path.put(np.zeros(plan.only.bytes, np.uint8))
    with np.errstate(all="ignore"):
        pack_cast(layout, np.arange(6), chunk, scale=scale)
        want = fp8.scale_for(values, (1, 2, 3) if scale is Scale.PAGE else (1, 3)).ravel()
    got = path.get(chunk)[plan.only.scale_offset :][: want.nbytes].view(np.float32)
    assert np.array_equal(got, want)


@pytest.mark.parametrize("scale", Scale)
@pytest.mark.parametrize("order", Order)
@pytest.mark.parametrize("chunk_order", Order)
@pytest.mark.parametrize("padding", [16, 4])
def test_rows_may_be_apart_and_in_another_order(
    path: Path, scale: Scale, order: Order, chunk_order: Order, padding: int
) -> None:
    """Every way that units of a chunk and of a pool can be apart, with 16 elements and with one."""
    tokens, heads, dim, pages = 3, 2, 32, [2, 0]
    middle = (tokens, heads) if order is Order.NHD else (heads, tokens)
    whole = torch.zeros((3, middle[0], middle[1] + 1, dim + padding), dtype=torch.bfloat16)
    (whole,) = _placed(path, [whole])
    pool = whole[:, :, : middle[1], :dim]
    like = path.layout([np.zeros((1, 1, 1, 1), np.uint8)])
    layout = path.relayout(like, [pool], order)
    plan = plan_for(layout, len(pages), order=chunk_order, scale=scale)
    generator = np.random.default_rng(13)
    chunk = np.zeros(plan.only.bytes, np.uint8)
    codes = generator.integers(1, 0x7F, plan.only.payload_bytes, dtype=np.uint8)
    chunk[: codes.size] = codes
    scales = np.exp2(generator.integers(-3, 4, plan.only.scales)).astype(np.float32)
    chunk[plan.only.scale_offset :][: scales.nbytes] = scales.view(np.uint8)
    unpack_cast(layout, pages, path.put(chunk), scale=scale, order=chunk_order)
    by_token = fp8.decode(_unpacked_codes(chunk, plan)[0]).reshape(len(pages), tokens, heads, dim)
    axis = (-1, 1, heads, 1) if scale is Scale.PAGE_HEAD else (-1, 1, 1, 1)
    want = by_token * scales.reshape(axis)
    assert np.array_equal(_by_token(pool.cpu(), order)[pages], want)
    whole[2, :, : middle[1], :dim] = whole[0, :, : middle[1], :dim] = 0
    assert not whole.float().cpu().any(), "wrote between rows"


@on_device
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("scale", [Scale.PAGE, Scale.PAGE_HEAD])
def test_bad_pages_on_the_device_are_cast_to_zeros(path: Path, scale: Scale, kind: str) -> None:
    pools = [torch.full((4, 2, 3, 32), 448.0, dtype=torch.float16) for _ in range(2)]
    like = path.layout([np.zeros((1, 1, 1, 1), np.uint8)])
    layout = path.relayout(like, _placed(path, pools))
    pages = path.put(np.array([1, 3, 4, -1, 2**31 - 1], kind))
    plan, report = plan_for(layout, 5, scale=scale), new_report(layout)
    chunk = path.put(np.full(plan.only.bytes, POISON, np.uint8))
    pack_cast(layout, pages, chunk, scale=scale, report=report)
    assert report.read().bad_index == 2
    codes = _unpacked_codes(path.get(chunk), plan)
    assert (codes[:, :2] == 0x7E).all()
    assert not codes[:, 2:].any()
    report.clear()
    target = [torch.zeros_like(pool) for pool in layout.pools]
    unpack_cast(path.relayout(layout, target), pages, chunk, scale=scale, report=report)
    assert report.read().bad_index == 2
    for pool in target:
        assert (pool[[1, 3]] == 448).all()
        assert not pool[[0, 2]].any()


def test_an_uncastable_pool_is_named(path: Path) -> None:
    pool = path.put(np.zeros((2, 2, 1, 32), np.float16))
    layout = path.relayout(path.layout([np.zeros((1, 1, 1, 1), np.uint8)]), [pool])
    chunk = path.put(np.zeros(200, np.uint8))
    for scale, static in ((Scale.PAGE, np.ones(1, np.float32)), (Scale.STATIC, None)):
        with pytest.raises(ValueError, match="static: scales belong to"):
            pack_cast(layout, [0], chunk, scale=scale, static=static)
    with pytest.raises(ValueError, match="static: want"):
        pack_cast(layout, [0], chunk, scale=Scale.STATIC, static=path.put(np.ones(2, np.float32)))
    for wrong in (0.0, -1.0, np.inf, np.nan):
        with pytest.raises(ValueError, match=rf"static\[0\]: want a positive .*, got {wrong}"):
            pack_cast(layout, [0], chunk, scale=Scale.STATIC,
                      static=path.put(np.full(1, wrong, np.float32)))  # fmt: skip
    if path.triton:
        pools = [path.put(np.zeros((2, 2, 1, 32), np.float16)) for _ in range(2)]
        two = path.relayout(layout, pools)
        apart = path.put(np.ones(4, np.float32))[::2]
        with pytest.raises(ValueError, match="static: want contiguous"):
            pack_cast(two, [0], chunk, scale=Scale.STATIC, static=apart)
        mixed = path.relayout(layout, [pools[0], pools[1].to(torch.bfloat16)])
        with pytest.raises(ValueError, match="pools: one cast is of one element type"):
            pack_cast(mixed, [0], chunk, scale=Scale.PAGE)
    with pytest.raises(ValueError, match=r"chunks\[0\]: 136 .*needed"):
        pack_cast(layout, [0, 1], path.put(np.zeros(128, np.uint8)), scale=Scale.PAGE)


@on_device
def test_static_scales_on_a_device_are_looked_at_when_they_were_written_to(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once for a tensor, since each look waits for the device."""
    pool = path.put(np.zeros((2, 2, 1, 32), np.float16))
    layout = path.relayout(path.layout([np.zeros((1, 1, 1, 1), np.uint8)]), [pool])
    chunk, scales = path.put(np.zeros(300, np.uint8)), path.put(np.ones(1, np.float32))
    look = mock.Mock(wraps=static_scales)
    monkeypatch.setattr("lab.casts.device.static_scales", look)
    for _ in range(3):
        pack_cast(layout, [0], chunk, scale=Scale.STATIC, static=scales)
    look.assert_called_once()
    scales.fill_(float("inf"))
    with pytest.raises(ValueError, match=r"static\[0\]: want a positive finite scale, got inf"):
        pack_cast(layout, [0], chunk, scale=Scale.STATIC, static=scales)


def test_warmup_makes_the_casts_too(path: Path) -> None:
    pool = path.put(np.zeros((2, 2, 1, 32), np.float16))
    layout = path.relayout(path.layout([np.zeros((1, 1, 1, 1), np.uint8)]), [pool])
    # Three scales, there and back, with page numbers of three kinds.
    assert cast.warmup(layout, Scale) == (3 * 2 * 3 if path.triton else 0)
