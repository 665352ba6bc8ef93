"""Pools as pages of fewer tokens: to hand over between pools whose pages differ in size.

    ours = split_pages(layout, tokens)          # of both ends, with the same number of tokens
    pack_chunk(ours.layout, ours.numbers(pages), chunk)

A page of a pool is cut into parts of as many tokens as both page sizes are multiples of. Each end
names the parts of its own pages, so no kernel knows that pages differ: chunks, digests, slices and
casts are those of the parts. An end that fills only some parts of a page gives their numbers alone.

A part is where page * page_step + part * part_step says, in units of memory that evenly divide the
strides of pages and tokens. So numbers that `numbers` does not give are parts of no page.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, Final

import numpy as np

from pdproto.kernels.arguments import page_numbers
from pdproto.kernels.layout import EntryGroup, Geometry, KVLayout

PAGES_MAX: Final = (1 << 31) - 1  # kernels count pages in 32 bits


@dataclass(frozen=True, slots=True)
class SplitPages:
    """The pools of the layout `pages`, whose parts are the pages of `layout`.

    parts: of a page. See the top of the module for the steps.
    """

    layout: KVLayout
    pages: KVLayout
    parts: int
    page_step: int
    part_step: int

    def numbers(self, pages: Any) -> Any:
        """The numbers of all parts of these pages, in order, int64 [page * parts].

        pages: int32 or int64 [page], in host memory, where each must exist (else ValueError); or a
        tensor on the pools' GPU, where a page that does not exist gets parts that do not exist.
        """
        if getattr(pages, "is_cuda", False):
            import torch  # noqa: PLC0415 - only where a tensor was given

            exist = (pages >= 0) & (pages < self.pages.pages)
            begins = torch.where(exist, pages.long() * self.page_step, -PAGES_MAX)
            parts = torch.arange(self.parts, device=pages.device) * self.part_step
            return (begins[:, None] + parts).reshape(-1)
        firsts = page_numbers(self.pages, pages)[:, None] * self.page_step
        return (firsts + np.arange(self.parts) * self.part_step).reshape(-1)


def split_pages(layout: KVLayout, tokens: int) -> SplitPages:
    """Cut the pages of `layout` into parts of `tokens` tokens. Keep the result, as a layout.

    Raises ValueError unless every page is a whole number of parts, the same for all pools, and the
    parts of all pools can be numbered alike; then hand pools over by themselves (`entries_of`).
    """
    steps = {_steps(group.geometry, tokens) for group in layout.groups}
    if len(steps) > 1:
        raise ValueError(f"tokens: the pools have pages of different sizes or strides, so parts of "
                         f"{tokens} tokens have different numbers: hand over each kind by itself")
    parts, ratio = steps.pop()
    page_step, part_step = ratio.numerator, ratio.denominator
    pages = (layout.pages - 1) * page_step + (parts - 1) * part_step + 1
    if pages > PAGES_MAX:
        raise ValueError(f"tokens: parts of {tokens} tokens get numbers up to {pages:,}, "
                         f"{PAGES_MAX:,} is the limit")
    groups = tuple(_split(group, tokens, page_step) for group in layout.groups)
    made = replace(layout, pages=pages, chunk_pages_max=layout.chunk_pages_max * parts,
                   groups=groups)
    return SplitPages(made, layout, parts, page_step, part_step)


def _steps(geometry: Geometry, tokens: int) -> tuple[int, Fraction]:
    """The parts of a page, and how many steps between parts there are between pages."""
    shape = geometry.shape
    if tokens < 1 or shape.tokens % tokens:
        raise ValueError(f"tokens: a page of {shape.tokens} tokens has no parts of {tokens}")
    if shape.tokens == tokens:
        return 1, Fraction(1)  # whatever the stride of a single token is
    return shape.tokens // tokens, Fraction(geometry.page_stride, tokens * geometry.token_stride)


def _split(group: EntryGroup, tokens: int, page_step: int) -> EntryGroup:
    geometry = group.geometry
    shape = replace(geometry.shape, tokens=tokens)
    return replace(group, geometry=replace(
        geometry, shape=shape, page_stride=geometry.page_stride // page_step))
