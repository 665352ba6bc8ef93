"""Pages of a KV cache as what a source writes: a chunk whose payload is posted where it lies.

    places = places_in(layout)                        # once; None where packing is better
    engine.post(address, offset, chunk_views(places, pages, key))

It is the chunk that chunks.pack_pages makes, byte for byte, without a copy of the payload. So the
pages must stay as they are until the outcome has been read, as the tables of the source have it.
If they do not, the digest, which is taken first, says so to the sink.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

from pdproto.engine.contract import Buffer
from pdproto.engine.page_target import PagePlaces
from pdproto.kernels.chunk import KVLayout, digest_pages, plan_for

# What a view costs on its way, in Python and in the system, is about the copy of so many bytes.
VIEW_BYTES_MIN: Final = 16 << 10


def places_in(layout: KVLayout) -> PagePlaces | None:
    """Where its pages lie; None if they lie in several pieces, on a device, or in small ones."""
    smallest = min((shape.page_bytes for _, shape in layout.shapes), default=0)
    if layout.device != "cpu" or smallest < VIEW_BYTES_MIN:
        return None
    try:
        return PagePlaces(layout)
    except ValueError:
        return None


def chunk_views(places: PagePlaces, pages: Sequence[int], key: int) -> list[Buffer]:
    """The bytes of a chunk of these pages, back to back; see above.

    Raises ValueError for a page that there is not.
    """
    plan = plan_for(places.layout, len(pages)).only
    behind = np.zeros(plan.bytes - plan.payload_bytes, np.uint8)  # padding and digests
    digests = behind[plan.digest_offset - plan.payload_bytes :].view("<u8")
    digest_pages(places.layout, pages, digests, key=key)
    return [*places.places(pages), behind]
