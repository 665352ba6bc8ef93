"""A short description of a page layout. A peer compares it with its own layout (node/fit.py)."""

from hashlib import blake2b
from itertools import groupby

from pdproto.kernels.chunk import KVLayout
from pdproto.runtime.wire import DIGEST_BYTES, LAYOUT_TOLD_MAX, PageLayout


def layout_of(layout: KVLayout) -> PageLayout:
    """Describe these pools: their number, and for each the tokens, heads, bytes and elements of a
    page, in order. The pools of a peer must agree in all of it.
    """
    shapes = [shape for entries, shape in layout.shapes for _ in range(entries)]
    runs = [(len(list(run)), shape) for shape, run in groupby(shapes)]
    told = ", then ".join(
        f"{count} pools of {shape.tokens} tokens x {shape.heads} heads x {shape.row_bytes} bytes "
        f"of {shape.element} a page" for count, shape in runs)
    digest = blake2b(repr(runs).encode(), digest_size=DIGEST_BYTES).digest()
    return PageLayout(digest, told[:LAYOUT_TOLD_MAX])
