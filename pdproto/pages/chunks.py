"""From pages to the bytes of a lease and back: the kernels' copies, joined with their digests.

    payload = pack_pages(layout, pages, key)          # the source posts this
    outcome = unpack_verified(layout, view, pages, key)   # the sink commits if it is clean

A digest depends on the life and on the place of the page in it. So bytes of another life, and pages
that changed places, count as damaged (`pdproto.kernels.digest` lists the damage that it finds).
Pages are stored before they are known to be clean: they belong to the hand-over until it commits.

The pools must be in host memory, because engines move bytes of host memory.
"""

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np
from numpy.typing import NDArray

from pdproto.engine.contract import Buffer
from pdproto.kernels.arguments import DEFAULT
from pdproto.kernels.chunk import (
    KVLayout,
    Launch,
    Outcome,
    digests_in,
    new_report,
    pack_chunk,
    plan_for,
    unpack_chunk,
)
from pdproto.kernels.digest import key_at
from pdproto.runtime.wire import Life


def key_of(*identity: int | str) -> int:
    """The key of a life, unsigned 64-bit: a hash of its identity. Both ends use the same order."""
    return int.from_bytes(blake2b(repr(identity).encode(), digest_size=8).digest(), "little")


def key_of_chunk(key: int, offset: int) -> int:
    """The key of a chunk, from the key of its life and where in the lease the chunk begins (bytes).

    With it, the digests also find chunks that changed places.
    """
    return key_at(key, position=offset)


def chunk_bytes(layout: KVLayout, pages: int) -> int:
    """The bytes of a chunk of so many pages in a lease, digests included; 0 for no pages."""
    return plan_for(layout, pages).only.bytes


def chunk_offset(layout: KVLayout, page: int) -> int:
    """The offset in a lease (bytes) of the chunk that begins with page number `page` of its source.

    It leaves the padding of one chunk for each earlier page, so chunks never overlap. Either end
    computes it without knowing how the earlier pages were cut into chunks.
    """
    return page * chunk_bytes(layout, 1)


def pack_pages(
    layout: KVLayout, pages: Sequence[int], key: int, into: NDArray[np.uint8] | None = None,
    launch: Launch = DEFAULT,
) -> NDArray[np.uint8]:
    """Pack pages and their digests, uint8 [chunk_bytes]. into: memory to pack into, if given.

    Raises ValueError for a page that does not exist, and for memory that is too small.
    """
    host_only(layout)
    length = chunk_bytes(layout, len(pages))
    if into is None:
        into = np.empty(length, np.uint8)
    if into.size < length:
        raise ValueError(f"into: {length} bytes needed, got {into.size}")
    chunk = into[:length]
    plan = plan_for(layout, len(pages)).only
    # The padding between payload and digests is sent as well: it must hold no secret.
    chunk[plan.payload_bytes : plan.digest_offset] = 0
    pack_chunk(layout, pages, chunk, digests=digests_in(plan, chunk), key=key, launch=launch)
    return chunk


def unpack_verified(
    layout: KVLayout, landed: Buffer, pages: Sequence[int], key: int, launch: Launch = DEFAULT
) -> Outcome:
    """Store a landed chunk into `pages`, and compare the digests of the stored bytes.

    landed: uint8 [chunk_bytes] or more. Use the pages only if the outcome is `clean`; its
    `mismatched` are the positions, within the chunk, of pages that differ from those that were
    packed for this life. Raises ValueError for a page that does not exist, or is given twice.
    """
    host_only(layout)
    plan = plan_for(layout, len(pages)).only
    report = new_report(layout)
    expected = digests_in(plan, landed)
    unpack_chunk(layout, pages, landed, expected=expected, key=key, report=report, launch=launch)
    return report.read()


def host_only(layout: KVLayout) -> None:
    """Raise ValueError for pools outside host memory: engines do not reach them."""
    if layout.device != "cpu":
        raise ValueError(f"pools are on {layout.device}; engines move bytes of host memory")


def key_of_life(life: Life) -> int:
    """The key of the digests of this life's pages. Both ends derive the same one."""
    return key_of(life.room, life.incarnation, life.generation)
