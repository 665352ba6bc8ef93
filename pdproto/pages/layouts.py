"""A short description of a page layout. A peer compares it with its own (node/prefill/sinks.py)."""

from dataclasses import replace
from functools import lru_cache
from hashlib import blake2b
from itertools import groupby
from math import gcd
from typing import Final, TypeAlias

from pdproto.kernels.chunk import split_pages
from pdproto.kernels.layout import KVLayout, Order, Shape
from pdproto.pages.copies import LAYOUTS_KEPT
from pdproto.runtime.limits import LAYOUT_TOLD_MAX
from pdproto.runtime.wire import DIGEST_BYTES, PageLayout

Runs: TypeAlias = tuple[tuple[int, Shape], ...]  # how many pools in a row have which shape

PAGE_TOKENS: Final = (*range(1, 16), *range(16, 1_025, 16))  # of the pages of serving engines


def layout_of(layout: KVLayout) -> PageLayout:
    """Describe these pools: their number, and for each the tokens, heads, bytes and elements of a
    page, in order. The pools of a peer must agree in all of it, and in the order of the axes.
    """
    runs = _runs(layout)
    told = ", then ".join(
        f"{count} pools of {_axes(shape, layout.order)} x {shape.row_bytes} bytes of "
        f"{shape.element} a page" for count, shape in runs)
    return PageLayout(_digest(runs, layout.order), told[:LAYOUT_TOLD_MAX])


def common_part(layout: KVLayout, theirs: PageLayout) -> int | None:
    """The tokens of the largest part that the pages of these pools and of a peer's consist of.

    None unless the two layouts differ in the tokens of a page and in nothing else.
    """
    sizes = {shape.tokens for _, shape in layout.shapes}
    tokens = _tokens_by_digest(_runs(layout), layout.order).get(theirs.digest)
    if len(sizes) > 1 or tokens is None:
        return None
    return _part(layout, gcd(sizes.pop(), tokens))


@lru_cache(LAYOUTS_KEPT)
def _tokens_by_digest(runs: Runs, order: Order) -> dict[bytes, int]:
    """The digests of such pools with all sizes that pages have, because a digest only says
    whether two layouts agree. They are kept: a node asks in its loop, for whatever a peer sends.
    """
    return {_digest(tuple((count, replace(shape, tokens=tokens)) for count, shape in runs),
                    order): tokens for tokens in PAGE_TOKENS}


def _part(layout: KVLayout, tokens: int) -> int | None:
    try:
        split_pages(layout, tokens)
    except ValueError:
        return None
    return tokens


def _runs(layout: KVLayout) -> Runs:
    shapes = [shape for entries, shape in layout.shapes for _ in range(entries)]
    return tuple((len(list(run)), shape) for shape, run in groupby(shapes))


def _digest(runs: Runs, order: Order) -> bytes:
    orders = [order if shape.tokens > 1 < shape.heads else None for _, shape in runs]
    return blake2b(repr((runs, orders)).encode(), digest_size=DIGEST_BYTES).digest()


def _axes(shape: Shape, order: Order) -> str:
    axes = [f"{shape.tokens} tokens", f"{shape.heads} heads"]
    return " x ".join(axes if order is Order.NHD else axes[::-1])
