"""A chunk as views of the pages: a source posts the payload without packing it first.

    places = places_in(layout)                        # once; None if packing is better
    engine.post(address, offset, chunk_views(places, pages, key))

The views are the same bytes as the chunk of chunks.pack_pages. So the pages must not change until
the outcome has been read; the tables of the source see to that. If they do change, the sink finds
it: the digest was taken before.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from pdproto.engine.contract import Buffer
from pdproto.kernels.chunk import KVLayout, digest_pages, plan_for
from pdproto.pages.page_target import PagePlaces

# Handling one view in Python and in the system costs about as much as copying so many bytes.
VIEW_BYTES_MIN: Final = 16 << 10


def places_in(layout: KVLayout) -> PagePlaces | None:
    """The places of the pages; None if a page is not contiguous, small, or on a device."""
    smallest = min((shape.page_bytes for _, shape in layout.shapes), default=0)
    if layout.device != "cpu" or smallest < VIEW_BYTES_MIN:
        return None
    try:
        return PagePlaces(layout)
    except ValueError:
        return None


def chunk_views(places: PagePlaces, pages: Sequence[int], key: int) -> list[Buffer]:
    """The bytes of a chunk of these pages, back to back; see above.

    Raises ValueError for a page that does not exist.
    """
    plan = plan_for(places.layout, len(pages)).only
    behind = np.zeros(plan.bytes - plan.payload_bytes, np.uint8)  # padding and digests
    digests = behind[plan.digest_offset - plan.payload_bytes :].view("<u8")
    digest_pages(places.layout, pages, digests, key=key)
    return [*places.places(pages), behind]
