"""A short description of a page layout. A peer compares it with its own layout (node/fit.py)."""

from hashlib import blake2b
from itertools import groupby

from pdproto.kernels.layout import KVLayout, Order, Shape
from pdproto.runtime.limits import LAYOUT_TOLD_MAX
from pdproto.runtime.wire import DIGEST_BYTES, PageLayout


def layout_of(layout: KVLayout) -> PageLayout:
    """Describe these pools: their number, and for each the tokens, heads, bytes and elements of a
    page, in order. The pools of a peer must agree in all of it, and in the order of the axes.
    """
    shapes = [shape for entries, shape in layout.shapes for _ in range(entries)]
    runs = [(len(list(run)), shape) for shape, run in groupby(shapes)]
    told = ", then ".join(
        f"{count} pools of {_axes(shape, layout.order)} x {shape.row_bytes} bytes of "
        f"{shape.element} a page" for count, shape in runs)
    order = [layout.order if shape.tokens > 1 < shape.heads else None for shape in shapes]
    digest = blake2b(repr((runs, order)).encode(), digest_size=DIGEST_BYTES).digest()
    return PageLayout(digest, told[:LAYOUT_TOLD_MAX])


def _axes(shape: Shape, order: Order) -> str:
    axes = [f"{shape.tokens} tokens", f"{shape.heads} heads"]
    return " x ".join(axes if order is Order.NHD else axes[::-1])
