"""From pages to the bytes of a lease and back: the kernels' copies, joined with their digests.

    payload = pack_pages(layout, pages, key)          # the source posts this
    outcome = unpack_verified(layout, view, pages, key)   # the sink commits if it is clean

A digest is keyed by the life, so that bytes of another life are as spoilt as damaged ones, and
bound to the place of the page in it: `pdproto.kernels.digest` says what it finds. Pages are stored
before they are known to be clean: they belong to the hand-over until it commits.

Pools in host memory only, since engines move bytes of host memory.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from pdproto.engine.contract import Buffer
from pdproto.kernels.chunk import (
    KVLayout,
    Outcome,
    digests_in,
    new_report,
    pack_chunk,
    plan_for,
    unpack_chunk,
)
from pdproto.kernels.digest import key_at


def key_of(*identity: int | str) -> int:
    """The key of a life, unsigned 64-bit: what names it, in an order that both ends keep to."""
    return int.from_bytes(blake2b(repr(identity).encode(), digest_size=8).digest(), "little")


def key_of_chunk(key: int, offset: int) -> int:
    """The key of a chunk, from the key of its life and where in the lease the chunk begins (bytes).

    With it, chunks that changed places are as spoilt as pages that did.
    """
    return key_at(key, position=offset)


def chunk_bytes(layout: KVLayout, pages: int) -> int:
    """What so many pages take in a lease, digests included; 0 for none."""
    return plan_for(layout, pages).only.bytes


def chunk_offset(layout: KVLayout, page: int) -> int:
    """Where in a lease a chunk begins whose first page is this one of all that its source writes.

    A page a chunk is the most that padding can take, so chunks never overlap; and either end knows
    it without knowing into what chunks the pages before have been cut.
    """
    return page * chunk_bytes(layout, 1)


def pack_pages(
    layout: KVLayout, pages: Sequence[int], key: int, into: NDArray[np.uint8] | None = None
) -> NDArray[np.uint8]:
    """Pack pages and their digests, uint8 [chunk_bytes]; into memory that is given, if it is.

    Raises ValueError for a page that there is not, or memory that is too small.
    """
    host_only(layout)
    length = chunk_bytes(layout, len(pages))
    if into is None:
        into = np.empty(length, np.uint8)
    if into.size < length:
        raise ValueError(f"into: {length} bytes needed, got {into.size}")
    chunk = into[:length]
    plan = plan_for(layout, len(pages)).only
    # What lies between payload and digests is sent as well, and is nobody's secret.
    chunk[plan.payload_bytes : plan.digest_offset] = 0
    pack_chunk(layout, pages, chunk, digests=digests_in(plan, chunk), key=key)
    return chunk


def unpack_verified(layout: KVLayout, landed: Buffer, pages: Sequence[int], key: int) -> Outcome:
    """Store what has landed into `pages`, and compare the digests of the bytes stored.

    landed: [chunk_bytes] or more. Commit to the pages only if the outcome is `clean`; its
    `mismatched` are the positions of pages, within the chunk, that are not what was packed for
    this life. Raises ValueError for a page that there is not, or is given twice.
    """
    host_only(layout)
    plan = plan_for(layout, len(pages)).only
    report = new_report(layout)
    expected = digests_in(plan, landed)
    unpack_chunk(layout, pages, landed, expected=expected, key=key, report=report)
    return report.read()


def host_only(layout: KVLayout) -> None:
    """Raise ValueError for pools in memory that engines do not reach."""
    if layout.device != "cpu":
        raise ValueError(f"pools are on {layout.device}; engines move bytes of host memory")
