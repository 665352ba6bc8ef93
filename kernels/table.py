"""The table that a copy kernel reads: where each entry's pages lie, for each peer.

A table depends on the layout, the peers and the order of the chunk. None of them changes from chunk
to chunk, so it is computed and sent to the device once. Its columns are named in `page_copy`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from math import gcd
from typing import Final

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels.layout import Geometry, KVLayout, Order
from pdproto.kernels.plan import ChunkPart, ChunkPlan

COLUMNS: Final = 14
ATOMS: Final = (16, 8, 4, 2, 1)
NUMERATOR_MAX: Final = (1 << 31) - 1

TILES_MAX: Final = 1 << 30
"""Of one launch: a program looks one step of all programs past the last tile, in 31 bits."""


@dataclass(frozen=True, slots=True)
class Axis:
    """One axis of a page in chunk order: its length, and its stride in the pool (bytes)."""

    count: int
    stride: int


@dataclass(frozen=True)
class Table:
    """A table and the numbers that its rows have in common.

    atom: the widest access, in bytes, that is aligned everywhere. depth: axes of a page that are
    not contiguous in the pool. wide: whether a stride of them is 2**31 bytes or more. page_bytes:
    of the largest page of a chunk. even: whether all pages have that size.
    """

    rows: NDArray[np.int64]
    atom: int
    depth: int
    wide: bool
    page_bytes: int
    even: bool


def division(divisor: int) -> tuple[int, int]:
    """The (factor, shift) with n // divisor == ((n + 1) * factor >> 32) >> shift, 0 <= n < 2**31.

    With M = 2**(32 + shift), and shift the bits of divisor but one, factor = (M - e) / divisor for
    an e of 1 to divisor. So (n + 1) * factor / M is (n + 1) / divisor, less at most 1 / divisor
    since (n + 1) * e <= M, and less by something: it rounds down to n // divisor. As factor
    fits 32 bits, n * factor + factor is one instruction.
    """
    if not 1 <= divisor <= NUMERATOR_MAX:
        raise ValueError(f"divisor: want 1 to {NUMERATOR_MAX}, got {divisor}")
    shift = divisor.bit_length() - 1
    return ((1 << (32 + shift)) - 1) // divisor, shift


def axes_of(geometry: Geometry, part: ChunkPart, order: Order) -> tuple[int, list[Axis]]:
    """The bytes that are contiguous in chunk and pool, and the axes around them, outer first."""
    axes = [
        Axis(part.tokens, geometry.token_stride),
        Axis(part.heads.count, geometry.head_stride),
    ]
    if order is Order.HND:
        axes.reverse()
    run = geometry.shape.row_bytes
    while axes and (axes[-1].count == 1 or axes[-1].stride == run):
        run *= axes.pop().count
    return run, [axis for axis in axes if axis.count > 1]


def _row(address: int, page_stride: int, part: ChunkPart, run: int, axes: list[Axis]) -> list[int]:
    """One row, with sizes in bytes that are turned into atoms later."""
    outer, inner = (*axes, Axis(1, 0), Axis(1, 0))[:2]
    inner_bytes = run if inner.count > 1 else part.page_bytes // outer.count
    return [
        address, page_stride, part.page_bytes, 0,
        part.page_bytes // outer.count, 0, 0, outer.stride,
        inner_bytes, 0, 0, inner.stride,
        0, 0,
    ]  # fmt: skip


def table_of(layout: KVLayout, plan: ChunkPlan) -> Table:
    """Work out the table of the chunks of `plan`: int64 [entry * peers + peer, column]."""
    peers = len(plan.peers)
    rows = np.zeros((layout.entries, peers, COLUMNS), np.int64)
    depth, steps, farthest = 0, [0], 0
    for (index, group), (number, peer) in product(enumerate(layout.groups), enumerate(plan.peers)):
        part, geometry = peer.parts[index], group.geometry
        run, axes = axes_of(geometry, part, plan.order)
        depth = max(depth, len(axes))
        steps += [run, geometry.page_stride, part.page_bytes, part.prefix_bytes]
        steps += [axis.stride for axis in axes]
        farthest = max(farthest, sum((axis.count - 1) * axis.stride for axis in axes) + run)
        for entry, pool in enumerate(group.addresses):
            address = pool + part.heads.first * geometry.head_stride
            steps.append(address)
            row = _row(address, geometry.page_stride, part, run, axes)
            row[3] = part.prefix_bytes + entry * part.page_bytes
            rows[group.first + entry, number] = row
    common = gcd(*steps)
    atom = next(atom for atom in ATOMS if common % atom == 0)
    flat = rows.reshape(-1, COLUMNS)
    _in_atoms(flat, atom)
    sizes = flat[:, 2]
    return Table(
        rows=flat,
        atom=atom,
        depth=depth,
        wide=farthest > NUMERATOR_MAX,
        page_bytes=int(sizes.max()),
        even=bool((sizes == sizes[0]).all()),
    )


def _in_atoms(rows: NDArray[np.int64], atom: int) -> None:
    """Turn sizes that the kernel divides by into atoms, each with its factor and shift.

    A stride becomes a gap: the length of a step in the pool less that in the chunk, in atoms.
    """
    for row in rows:
        for size, place, stride in ((4, 5, 7), (8, 9, 11)):
            row[size] //= atom
            row[place : place + 2] = division(int(row[size]))
            row[stride] = row[stride] // atom - row[size]
        row[12:14] = division(int(row[2]) // atom)
