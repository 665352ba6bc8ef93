"""fp8 (e4m3: 4 exponent bits, 3 mantissa bits, no infinity) in numpy, bit for bit.

A chunk may carry bfloat16 or float16 elements as fp8 with scales. Both ends compute:

    scale  = given (static), or max(largest finite magnitude / 448, 2^-126), 1 where all are zero
    code   = e4m3(float32(element) * (1 / scale)), to nearest even, saturating at 448
    value  = element type(float32(code) * scale), to nearest even

A NaN stays a NaN, of unspecified sign and payload; an infinity becomes 448 times the scale.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

E4M3_MAX: Final = 448.0
SCALE_MIN: Final = 2.0**-126  # so that 1 / scale is finite
_NAN_CODE: Final = 0x7F

Float32 = NDArray[np.float32]


def to_float32(data: NDArray[np.uint8], element: str) -> Float32:
    """Widen bfloat16 or float16 elements, given as bytes [..., 2 * n], to float32 [..., n]."""
    if element == "float16":
        return data.view("<f2").astype(np.float32)
    return (data.view("<u2").astype(np.uint32) << np.uint32(16)).view(np.float32)


def from_float32(values: Float32, element: str) -> NDArray[np.uint8]:
    """Round to bfloat16 or float16, to nearest even; returns bytes [..., 2 * n]."""
    if element == "float16":
        with np.errstate(over="ignore"):
            return np.ascontiguousarray(values.astype("<f2")).view(np.uint8)
    bits = np.ascontiguousarray(values).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    halves = np.where(np.isnan(values), np.uint32(0x7FFF), rounded).astype("<u2")
    return np.ascontiguousarray(halves).view(np.uint8)


def encode(values: Float32) -> NDArray[np.uint8]:
    """Round float32 to e4m3 codes, saturating."""
    bits = np.ascontiguousarray(values).view(np.uint32)
    magnitude = np.minimum(bits & np.uint32(0x7FFF_FFFF), np.float32(E4M3_MAX).view(np.uint32))
    # 20 mantissa bits go; exponents 127 and 7 are the two biases.
    carried = magnitude + np.uint32(0x7_FFFF) + ((magnitude >> np.uint32(20)) & np.uint32(1))
    normal = (carried >> np.uint32(20)) - np.uint32((127 - 7) << 3)
    subnormal = np.rint(magnitude.view(np.float32) * np.float32(512)).astype(np.uint32)
    code = np.where(magnitude >= np.float32(2.0**-6).view(np.uint32), normal, subnormal)
    signed = code | ((bits >> np.uint32(24)) & np.uint32(0x80))
    return np.where(np.isnan(values), np.uint32(_NAN_CODE), signed).astype(np.uint8)


def _decoded() -> Float32:
    codes = np.arange(256)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    magnitude = np.where(
        exponent == 0, mantissa * 2.0**-9, (1 + mantissa / 8) * np.exp2(exponent - 7.0)
    )
    magnitude[codes & 0x7F == _NAN_CODE] = np.nan
    return np.where(codes & 0x80, -magnitude, magnitude).astype(np.float32)


VALUES: Final = _decoded()


def decode(codes: NDArray[np.uint8]) -> Float32:
    """The float32 value of e4m3 codes."""
    return VALUES[codes]


def scale_for(values: Float32, axes: tuple[int, ...]) -> Float32:
    """The scale of every slice of `values` over `axes`, which stay as axes of length one."""
    magnitude = np.abs(values)
    finite = np.where(magnitude < np.inf, magnitude, np.float32(0))
    largest = finite.max(axis=axes, keepdims=True)
    scale = np.maximum(largest / np.float32(E4M3_MAX), np.float32(SCALE_MIN))
    return np.where(largest == 0, np.float32(1), scale)
