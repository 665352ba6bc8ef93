"""The places of the pages of a KV cache in memory.

Words: a *pool* is one tensor of pages, one layer's K or V (one latent tensor for MLA), also
called an *entry* of the layout. A *row* is one head of one token. Offsets, strides and sizes
are bytes, always Python integers, so a pool may pass 2**32 bytes.

`pdproto.kernels.registration` makes a layout of tensors.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property
from typing import Any, Final

SEGMENTS_MAX: Final = 65_535
"""Entries times peers of one launch. The tables of a launch are sized by it."""


class Order(Enum):
    """The outer axis of a page: its tokens (NHD) or its heads (HND)."""

    NHD = "NHD"
    HND = "HND"


@dataclass(frozen=True, slots=True)
class Shape:
    """The shape of one page of an entry; it is the same at both ends of a hand-over."""

    tokens: int
    heads: int
    row_bytes: int
    element: str

    @property
    def page_bytes(self) -> int:
        """The bytes of a page."""
        return self.tokens * self.heads * self.row_bytes


class Shapes(tuple[tuple[int, Shape], ...]):
    """(entries, shape) of every group, hashed once: plans are looked up by it in every call."""

    @cached_property
    def _hashed(self) -> int:
        return super().__hash__()

    def __hash__(self) -> int:
        return self._hashed


@dataclass(frozen=True, slots=True)
class Geometry:
    """A shape and the strides of its rows. Entries with equal geometry form a group."""

    shape: Shape
    page_stride: int
    token_stride: int
    head_stride: int

    def extent(self, pages: int) -> int:
        """Bytes from the first to past the last byte of `pages` pages."""
        shape = self.shape
        steps = (
            (pages - 1) * self.page_stride
            + (shape.tokens - 1) * self.token_stride
            + (shape.heads - 1) * self.head_stride
        )
        return steps + shape.row_bytes


@dataclass(frozen=True, slots=True)
class EntryGroup:
    """Consecutive entries of one geometry, by the address of each pool."""

    geometry: Geometry
    first: int
    addresses: tuple[int, ...]

    @property
    def entries(self) -> int:
        """The number of pools in the group."""
        return len(self.addresses)


@dataclass(frozen=True, eq=False)
class KVLayout:
    """The pools of one rank. Made by `register`, compared and hashed by identity.

    `pools` keeps the memory alive for as long as anything can still copy through the layout.
    """

    order: Order
    pages: int
    chunk_pages_max: int
    device: str
    groups: tuple[EntryGroup, ...]
    pools: tuple[Any, ...] = field(repr=False)

    @property
    def entries(self) -> int:
        """The number of pools."""
        return len(self.pools)

    @cached_property
    def shapes(self) -> Shapes:
        """The part of the layout that a peer must know."""
        return Shapes((group.entries, group.geometry.shape) for group in self.groups)

    @cached_property
    def reach(self) -> tuple[list[int], list[int]]:
        """Starts and ends of the memory of the pools, in order; interleaved pools are merged."""
        starts: list[int] = []
        ends: list[int] = []
        spans = [
            (address, address + group.geometry.extent(self.pages))
            for group in self.groups for address in group.addresses
        ]  # fmt: skip
        for start, end in sorted(spans):
            if ends and start <= ends[-1]:
                ends[-1] = max(ends[-1], end)
            else:
                starts.append(start)
                ends.append(end)
        return starts, ends

    def addresses(self) -> Iterator[int]:
        """The address of each pool, in order."""
        for group in self.groups:
            yield from group.addresses
