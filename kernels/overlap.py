"""Refuse memory that a copy would read and write at once: pools, chunks and digests lie apart.

Addresses are compared, and no memory is read, so this is the same for host and device memory.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

import numpy as np

from pdproto.kernels.layout import Geometry, KVLayout

WORK_MAX: Final = 1_000_000
"""The most work to prove that two strided pools share no byte: see `numpy.shares_memory`."""


class Span(NamedTuple):
    """A contiguous range of bytes that a call reads or writes, and the name of its argument."""

    address: int
    length: int
    name: str


def span_of(array: Any, length: int, name: str) -> Span:
    """The first `length` bytes of a contiguous numpy array or torch tensor."""
    if hasattr(array, "data_ptr"):
        return Span(array.data_ptr(), length, name)
    return Span(array.__array_interface__["data"][0], length, name)


def check_pools_apart(pools: Sequence[tuple[int, Geometry]], pages: int) -> None:
    """Refuse pools, given as (address, geometry), of which two share a byte.

    Pools may be interleaved: views of one tensor that take turns row by row.
    """
    order = sorted(range(len(pools)), key=lambda index: pools[index][0])
    open_pools: list[int] = []  # pools that end behind the start of the current one
    for index in order:
        address, geometry = pools[index]
        open_pools = [o for o in open_pools if pools[o][0] + pools[o][1].extent(pages) > address]
        for other in open_pools:
            if _share(pools[other], (address, geometry), pages):
                first, second = sorted((other, index))
                raise ValueError(f"pools[{second}]: shares memory with pools[{first}]")
        open_pools.append(index)


def _share(one: tuple[int, Geometry], other: tuple[int, Geometry], pages: int) -> bool:
    """Whether two pools have a byte in common. Their memory is not touched."""
    if one[0] == other[0]:
        return True
    try:
        rows = _rows(*one, pages), _rows(*other, pages)
        # numpy's stubs know two of its limits only.
        return bool(np.shares_memory(*rows, max_work=WORK_MAX))  # type: ignore[arg-type]
    except np.exceptions.TooHardError:
        return True  # strange strides: pools that cannot be proved apart are refused


def _rows(address: int, geometry: Geometry, pages: int) -> Any:
    """The rows of a pool as an array of which only the addresses are used."""
    shape = geometry.shape
    interface = {
        "version": 3, "typestr": "|u1", "data": (address, False),
        "shape": (pages, shape.tokens, shape.heads, shape.row_bytes),
        "strides": (geometry.page_stride, geometry.token_stride, geometry.head_stride, 1),
    }  # fmt: skip
    return np.asarray(SimpleNamespace(__array_interface__=interface))


def check_spans(layout: KVLayout, spans: Sequence[Span], *, written: bool) -> None:
    """Refuse a span that overlaps a pool or, if the spans are `written`, another span."""
    starts, ends = layout.reach
    for span in spans:
        place = bisect_right(ends, span.address)
        if place < len(starts) and starts[place] < span.address + span.length:
            _check_span(layout, span)
    if written and len(spans) > 1:
        ordered = sorted(span for span in spans if span.length)
        for lower, upper in pairwise(ordered):
            if lower.address + lower.length > upper.address:
                raise ValueError(f"{upper.name}: shares memory with {lower.name}")


def _check_span(layout: KVLayout, span: Span) -> None:
    """Refuse a span that overlaps a row of a pool. A span between the rows of a pool is allowed."""
    piece = {"version": 3, "typestr": "|u1", "data": (span.address, False), "shape": (span.length,)}
    bytes_of_span = np.asarray(SimpleNamespace(__array_interface__=piece))
    index = 0
    for group in layout.groups:
        extent = group.geometry.extent(layout.pages)
        for address in group.addresses:
            if (
                span.address < address + extent and span.address + span.length > address
                and np.shares_memory(_rows(address, group.geometry, layout.pages), bytes_of_span)
            ):  # fmt: skip
                raise ValueError(f"{span.name}: shares memory with pools[{index}]")
            index += 1
