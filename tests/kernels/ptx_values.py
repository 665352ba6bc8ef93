"""What PTX instructions compute from values alone: bits in, bits out, lane by lane.

`operation` finds an instruction by its name, and says how many bits each operand has.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

Bits = NDArray[Any]
UNSIGNED: Final[dict[int, Any]] = {8: np.uint8, 16: np.uint16, 32: np.uint32, 64: np.uint64}
SIGNED: Final[dict[int, Any]] = {8: np.int8, 16: np.int16, 32: np.int32, 64: np.int64}

Operation = tuple[tuple[int, ...], Callable[..., NDArray[Any]]]


def joined(parts: Sequence[Bits]) -> Bits:
    """Registers side by side, the first one lowest."""
    width = 8 * parts[0].dtype.itemsize
    wide = UNSIGNED[width * len(parts)]
    low, high = (part.astype(wide) for part in parts)
    both: Bits = low | (high << wide(width))
    return both


def halves(value: Bits) -> tuple[Bits, Bits]:
    """The lower and the upper half."""
    width = 4 * value.dtype.itemsize
    return value.astype(UNSIGNED[width]), (value >> value.dtype.type(width)).astype(UNSIGNED[width])


def operation(name: tuple[str, ...]) -> Operation:
    """The widths of the operands, and what computes the result. KeyError: not known here."""
    kind = name[-1]
    if name[0] == "cvt":
        return _convert(name[1:])
    if kind == "pred":
        logic = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}
        if name[0] in logic:
            return (1, 1), logic[name[0]]
        one: dict[str, Callable[[Bits], Bits]] = {"mov": lambda a: a, "not": np.logical_not}
        return (1,), one[name[0]]
    width = int(kind[1:])
    if name[0] == "mov":
        return (width,), lambda a: a
    if name[0] == "selp":
        return (width, width, 1), _selected
    if name[0] == "setp":
        compare = getattr(np, COMPARE[name[1]])
        return (width, width), lambda a, b: compare(_as(kind, a), _as(kind, b))
    if kind == "f32":
        return _float(name)
    return _integer(name, kind, width)


def _selected(a: Bits, b: Bits, chosen: Bits) -> Bits:
    picked: Bits = np.where(chosen, a, b)
    return picked


COMPARE: Final = {
    "eq": "equal", "ne": "not_equal", "lt": "less", "le": "less_equal", "gt": "greater",
    "ge": "greater_equal",
}  # fmt: skip


def _as(kind: str, value: Bits) -> NDArray[Any]:
    """Bits as numbers of a kind such as s32, u64, b16 or f32."""
    if kind == "f32":
        return value.view(np.float32)
    return value.view(SIGNED[int(kind[1:])]) if kind[0] == "s" else value


def _bits(value: NDArray[Any]) -> Bits:
    return value.view(UNSIGNED[8 * value.dtype.itemsize])


def _integer(name: tuple[str, ...], kind: str, width: int) -> Operation:
    op, same = name[0], (width, width)
    wide = f"{kind[0]}{2 * width}"

    def product(a: Bits, b: Bits) -> Bits:
        """All bits of a product of 32-bit numbers."""
        into = SIGNED[64] if kind[0] == "s" else UNSIGNED[64]
        return _bits(_as(kind, a).astype(into) * _as(kind, b).astype(into))

    if op in {"mul", "mad"} and name[1] == "wide":
        if wide not in {"s64", "u64"}:
            raise KeyError(wide)
        return (same, product) if op == "mul" else ((*same, 64), lambda a, b, c: product(a, b) + c)
    if op == "mul" and name[1] == "hi":
        return same, lambda a, b: (product(a, b) >> np.uint64(32)).astype(np.uint32)
    if op == "mad":
        return (width, width, width), lambda a, b, c: a * b + c
    if op in {"shl", "shr"}:
        return (width, 32), lambda a, by: _shift(op, kind, a, by)
    if op == "bfe":
        return (width, 32, 32), lambda a, at, length: _field(kind, a, at, length)
    if op == "prmt":
        return (32, 32, 32), _permute
    if op in {"neg", "not", "abs"}:
        one: dict[str, Callable[[Bits], Bits]] = {
            "neg": lambda a: -a, "not": np.invert, "abs": lambda a: _bits(np.abs(_as(kind, a))),
        }  # fmt: skip
        return (width,), one[op]
    two: dict[str, Callable[[Bits, Bits], Bits]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply,
        "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
        "min": lambda a, b: _bits(np.minimum(_as(kind, a), _as(kind, b))),
        "max": lambda a, b: _bits(np.maximum(_as(kind, a), _as(kind, b))),
    }  # fmt: skip
    if kind[0] == "u":
        two |= {"div": np.floor_divide, "rem": np.remainder}
    return same, two[op]


def _shift(op: str, kind: str, value: Bits, by: Bits) -> Bits:
    """Shifts by the width and more leave nothing, or the sign."""
    width = 8 * value.dtype.itemsize
    number = _as(kind, value)
    most = np.minimum(by, np.uint32(width - 1)).astype(number.dtype)
    if op == "shr" and kind[0] == "s":
        return _bits(number >> most)
    shifted = value << most if op == "shl" else value >> most
    kept: Bits = np.where(by >= width, value.dtype.type(0), shifted)
    return kept


def _field(kind: str, value: Bits, at: Bits, length: Bits) -> Bits:
    """Bits `at` to at + length - 1, with their sign where the kind has one."""
    width = 8 * value.dtype.itemsize
    left = (width - at.astype(np.int64) - length).astype(value.dtype)
    if (left > width).any() or not length.all():
        raise KeyError("bfe past the end")
    return _bits(_as(kind, value << left) >> (left + at.astype(value.dtype)).astype(
        SIGNED[width] if kind[0] == "s" else value.dtype))  # fmt: skip


def _permute(a: Bits, b: Bits, selector: Bits) -> Bits:
    """Each byte one of the eight of a and b, or that byte's sign."""
    both, result = joined([a, b]), np.zeros(a.shape, np.uint32)
    for number in range(4):
        chosen = (selector >> np.uint32(4 * number)) & np.uint32(15)
        shift = (np.uint64(8) * (chosen & np.uint32(7))).astype(np.uint64)
        byte = ((both >> shift) & np.uint64(255)).astype(np.uint32)
        sign = np.where(byte >= 128, np.uint32(255), np.uint32(0))
        result |= np.where(chosen >= 8, sign, byte) << np.uint32(8 * number)
    return result


def _float(name: tuple[str, ...]) -> Operation:
    """float32; numpy rounds as `.rn` does, and keeps what `.ftz` would flush."""

    def smallest(a: NDArray[np.float32], b: NDArray[np.float32]) -> NDArray[np.float32]:
        sign = np.signbit(a) ^ np.signbit(b)
        least = np.minimum(np.abs(a), np.abs(b))
        return np.where(sign, -least, least)

    known: dict[str, Callable[..., NDArray[Any]]] = {
        "add": np.add, "sub": np.subtract, "mul": np.multiply, "div": np.divide,
        "max": np.fmax, "min": np.fmin, "abs": np.abs, "neg": np.negative,
    }  # fmt: skip
    compute = known[name[0]]
    if set(name[1:-1]) - {"rn", "ftz"}:
        if name[:-1] != ("min", "NaN", "xorsign", "abs"):
            raise KeyError(name)
        compute = smallest
    count = 1 if name[0] in {"abs", "neg"} else 2
    return (32,) * count, lambda *told: _bits(compute(*(v.view(np.float32) for v in told)))


def _convert(name: tuple[str, ...]) -> Operation:
    """cvt: between integers, and between floats where our casts have them."""
    to, source = name[-2:]
    if name in FLOATS:
        return FLOATS[name]
    if to[0] not in "us" or source[0] not in "us":
        raise KeyError(name)
    return (int(source[1:]),), lambda a: _bits(_as(source, a).astype(
        (SIGNED if to[0] == "s" else UNSIGNED)[int(to[1:])]))  # fmt: skip


def _pair(low: Bits, high: Bits) -> Bits:
    return joined([low, high])


def _rounded(value: Bits, kind: torch.dtype) -> Bits:
    """float32 in the bits of a narrower type, by torch: to nearest even."""
    numbers = torch.from_numpy(np.ascontiguousarray(value).view(np.float32)).to(kind)
    bits: Bits = numbers.view(torch.uint16 if kind.itemsize == 2 else torch.uint8).numpy()
    return bits


def _bfloat16(value: Bits) -> Bits:
    return _rounded(value, torch.bfloat16)


def _float16(value: Bits) -> Bits:
    return _rounded(value, torch.float16)


def _code(value: Bits) -> Bits:
    """e4m3, saturating at 448; a NaN stays one."""
    return _rounded(_bits(np.clip(value.view(np.float32), -448, 448)), torch.float8_e4m3fn)


def _decoded(code: Bits) -> Bits:
    codes = torch.from_numpy(code).view(torch.float8_e4m3fn)
    return _bits(codes.to(torch.float16).numpy())


# The first operand of a pair is the upper one.
FLOATS: Final[dict[tuple[str, ...], Operation]] = {
    ("f32", "bf16"): ((16,), lambda a: a.astype(np.uint32) << np.uint32(16)),
    ("f32", "f16"): ((16,), lambda a: _bits(a.view(np.float16).astype(np.float32))),
    ("rn", "bf16", "f32"): ((32,), _bfloat16),
    ("rn", "f16", "f32"): ((32,), _float16),
    ("rn", "bf16x2", "f32"): ((32, 32), lambda a, b: _pair(_bfloat16(b), _bfloat16(a))),
    ("rn", "f16x2", "f32"): ((32, 32), lambda a, b: _pair(_float16(b), _float16(a))),
    ("rn", "satfinite", "e4m3x2", "f32"): ((32, 32), lambda a, b: _pair(_code(b), _code(a))),
    ("rn", "f16x2", "e4m3x2"): ((16,), lambda a: _pair(*map(_decoded, halves(a)))),
}
