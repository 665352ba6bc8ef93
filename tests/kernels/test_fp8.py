"""The numpy fp8 codec equals torch's bit for bit, over every 16-bit float."""

from __future__ import annotations

import numpy as np
import pytest

from lab.casts import fp8

torch = pytest.importorskip("torch")
EVERY = np.arange(1 << 16, dtype=np.uint16)


@pytest.mark.parametrize("element", ["bfloat16", "float16"])
def test_widening_and_rounding_agree_with_torch(element: str) -> None:
    wide = fp8.to_float32(EVERY.view(np.uint8), element)
    kind = getattr(torch, element)
    theirs = torch.from_numpy(EVERY.view(np.int16)).view(kind).float().numpy()
    assert np.array_equal(wide, theirs, equal_nan=True)
    # Halfway cases, just above and just below, of every value.
    bits = wide.view(np.uint32)
    odd = np.stack([bits + np.uint32(half) for half in (0x7FFF, 0x8000, 0x8001)], axis=1).view(
        np.float32
    )
    with np.errstate(invalid="ignore"):
        back = fp8.from_float32(odd, element).view(np.int16)
        again = torch.from_numpy(odd).to(kind)
    ours = torch.from_numpy(back).view(kind).reshape(again.shape)
    assert torch.equal(ours.isnan(), again.isnan())
    assert torch.equal(ours.nan_to_num(), again.nan_to_num())


def test_encoding_agrees_with_torch_below_saturation() -> None:
    values = (EVERY.astype(np.uint32) << np.uint32(16)).view(np.float32)
    grid = np.linspace(-448, 448, 100_001, dtype=np.float32)
    small = np.linspace(-0.02, 0.02, 100_001, dtype=np.float32)
    for data in (values[np.abs(values) <= 448], grid, small):
        theirs = torch.from_numpy(data).to(torch.float8_e4m3fn).view(torch.uint8).numpy()
        assert np.array_equal(fp8.encode(data), theirs)


def test_encoding_saturates_and_keeps_nan() -> None:
    data = np.array([449, 1e30, np.inf, -np.inf, np.nan, -0.0], np.float32)
    assert fp8.encode(data).tolist() == [0x7E, 0x7E, 0x7E, 0xFE, 0x7F, 0x80]


def test_decoding_agrees_with_torch() -> None:
    codes = np.arange(256, dtype=np.uint8)
    theirs = torch.from_numpy(codes).view(torch.float8_e4m3fn).float().numpy()
    assert np.array_equal(fp8.decode(codes), theirs, equal_nan=True)


def test_scales_ignore_elements_that_are_not_finite() -> None:
    data = np.array([[896, -2, np.nan, np.inf], [0, 0, 0, -0.0], [1e-40, 0, 0, 0]], np.float32)
    assert fp8.scale_for(data, (1,)).ravel().tolist() == [2.0, 1.0, fp8.SCALE_MIN]
