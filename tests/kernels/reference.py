"""The definition of packing, in plain numpy: tests and benchmarks compare with it.

Pools are uint8 [page, token, head, byte] (NHD) or [page, head, token, byte] (HND). This module
shares only the plan with the code that is compared with it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels.layout import Order
from pdproto.kernels.plan import ChunkPlan, PeerPlan

Bytes = NDArray[np.uint8]


def _sliced(page: Bytes, order: Order, first: int, count: int, chunk_order: Order) -> Bytes:
    """One page's heads, as [outer, inner, byte] in the order of the chunk."""
    by_token = page if order is Order.NHD else page.transpose(1, 0, 2)
    part = by_token[:, first : first + count]
    return part if chunk_order is Order.NHD else part.transpose(1, 0, 2)


def pack_reference(
    pools: Sequence[Bytes], order: Order, pages: Sequence[int], plan: ChunkPlan, peer: PeerPlan
) -> Bytes:
    """Return the payload of one peer's chunk, uint8 [payload_bytes]."""
    pieces = []
    for part in peer.parts:
        for pool in pools[part.first : part.first + part.entries]:
            heads = part.heads
            pieces += [
                _sliced(pool[page], order, heads.first, heads.count, plan.order) for page in pages
            ]
    if not pieces:
        return np.empty(0, np.uint8)
    return np.concatenate([piece.reshape(-1) for piece in pieces])


def unpack_reference(
    pools: Sequence[Bytes],
    order: Order,
    pages: Sequence[int],
    plan: ChunkPlan,
    peer: PeerPlan,
    chunk: Bytes,
) -> None:
    """Store one peer's chunk into `pools`."""
    for part in peer.parts:
        for entry in range(part.first, part.first + part.entries):
            for position, page in enumerate(pages):
                start = peer.offset(entry, position)
                heads = part.heads
                target = _sliced(pools[entry][page], order, heads.first, heads.count, plan.order)
                target[...] = chunk[start : start + part.page_bytes].reshape(target.shape)
