"""Pools of random bytes and chunks with red zones, for the tests of kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels.chunk import Order

Bytes = NDArray[np.uint8]
POISON: Final = 0xA5
RED_ZONE: Final = 4096


@dataclass(frozen=True, slots=True)
class Geometry:
    """The axes of the pools of one test."""

    entries: int
    pages: int
    tokens: int
    heads: int
    row_bytes: int
    order: Order = Order.NHD

    @property
    def shape(self) -> tuple[int, int, int, int]:
        middle = (self.tokens, self.heads)
        return (self.pages, *(middle if self.order is Order.NHD else middle[::-1]), self.row_bytes)


def new_pools(geometry: Geometry, seed: int = 0) -> list[Bytes]:
    """Pools of random bytes, so that every bit pattern of every type occurs."""
    generator = np.random.default_rng(seed)
    return [
        generator.integers(0, 256, geometry.shape, dtype=np.uint8) for _ in range(geometry.entries)
    ]


@dataclass(frozen=True, slots=True)
class Guarded:
    """A poisoned chunk between two red zones."""

    memory: Bytes
    chunk: Bytes

    @classmethod
    def of(cls, length: int) -> Guarded:
        memory = np.full(length + 2 * RED_ZONE + 128, POISON, np.uint8)
        start = RED_ZONE + -(memory.ctypes.data + RED_ZONE) % 128
        return cls(memory, memory[start : start + length])

    def within(self, memory: Any) -> Any:
        """The chunk in a copy of the memory, wherever that is."""
        start = self.chunk.ctypes.data - self.memory.ctypes.data
        return memory[start : start + self.chunk.size]

    def check_red_zones(self) -> None:
        before = self.chunk.ctypes.data - self.memory.ctypes.data
        assert (self.memory[:before] == POISON).all(), "wrote before the chunk"
        assert (self.memory[before + self.chunk.size :] == POISON).all(), "wrote past the chunk"
