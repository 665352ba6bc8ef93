"""A short description of a page layout. A peer compares it with its own layout (node/fit.py)."""

from collections.abc import Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import groupby
from math import gcd
from typing import Final

from pdproto.kernels.chunk import split_pages
from pdproto.kernels.layout import KVLayout, Order, Shape
from pdproto.runtime.limits import LAYOUT_TOLD_MAX
from pdproto.runtime.wire import DIGEST_BYTES, PageLayout

PAGE_TOKENS_MAX: Final = 1_024  # of the pages of serving engines


def layout_of(layout: KVLayout) -> PageLayout:
    """Describe these pools: their number, and for each the tokens, heads, bytes and elements of a
    page, in order. The pools of a peer must agree in all of it, and in the order of the axes.
    """
    shapes = [shape for entries, shape in layout.shapes for _ in range(entries)]
    told = ", then ".join(
        f"{count} pools of {_axes(shape, layout.order)} x {shape.row_bytes} bytes of "
        f"{shape.element} a page" for count, shape in _runs(shapes))
    return PageLayout(_digest(shapes, layout.order), told[:LAYOUT_TOLD_MAX])


def common_part(layout: KVLayout, theirs: PageLayout) -> int | None:
    """The tokens of the largest part that the pages of these pools and of a peer's consist of.

    None unless the two layouts differ in the tokens of a page and in nothing else. A digest only
    says whether two layouts agree, so this tries the sizes that pages have.
    """
    sizes = {shape.tokens for _, shape in layout.shapes}
    if len(sizes) > 1:
        return None
    ours = sizes.pop()
    shapes = [shape for entries, shape in layout.shapes for _ in range(entries)]
    for tokens in range(1, PAGE_TOKENS_MAX + 1):
        if _digest([replace(shape, tokens=tokens) for shape in shapes],
                   layout.order) == theirs.digest:
            return _part(layout, gcd(ours, tokens))
    return None


def _part(layout: KVLayout, tokens: int) -> int | None:
    try:
        split_pages(layout, tokens)
    except ValueError:
        return None
    return tokens


def _runs(shapes: Sequence[Shape]) -> list[tuple[int, Shape]]:
    return [(len(list(run)), shape) for shape, run in groupby(shapes)]


def _digest(shapes: Sequence[Shape], order: Order) -> bytes:
    orders = [order if shape.tokens > 1 < shape.heads else None for shape in shapes]
    return blake2b(repr((_runs(shapes), orders)).encode(), digest_size=DIGEST_BYTES).digest()


def _axes(shape: Shape, order: Order) -> str:
    axes = [f"{shape.tokens} tokens", f"{shape.heads} heads"]
    return " x ".join(axes if order is Order.NHD else axes[::-1])
