"""Pools whose pages differ in size hand over parts of pages, which have one size at both ends.

    source = SourcePages(pools, engine, page_tokens=16)     # and SinkPages at the other end
    sender.send(source.parts(pages, range(0, tokens)))

Everything that the protocol calls a page is then a part: chunks, leases and digests are those of
parts. So a digest is bound to the position of a part and to its pool, as it is to that of a page.
"""

from collections.abc import Sequence
from typing import Final

from pdproto.kernels.chunk import KVLayout, split_pages


class PageParts:
    """The parts of the pages of some pools. tokens: of a part; None hands over whole pages.

    layout: of the parts, or of the pages. Raises ValueError where pages have no such parts.
    """

    def __init__(self, pools: KVLayout, tokens: int | None) -> None:
        self._tokens: Final = tokens
        try:
            self._split: Final = None if tokens is None else split_pages(pools, tokens)
        except ValueError as error:  # it names `tokens`, which callers know as page_tokens
            raise ValueError(f"page_{error}") from None
        self.layout: Final = pools if self._split is None else self._split.layout

    def numbers(self, pages: Sequence[int], tokens: range) -> list[int]:
        """The numbers of the parts that hold these tokens of a request, in order.

        pages: all that the request has in these pools, in order. The last part may be filled in
        part only; the others are whole, so tokens begin where a part does. Raises ValueError
        for other tokens, and for a page that does not exist.
        """
        split, size = self._split, self._tokens
        if split is None or size is None:
            raise ValueError("page_tokens: not set, so whole pages are handed over: give their "
                             "numbers, or set it at both ends")
        each = split.parts
        first, last = tokens.start // size, -(-tokens.stop // size)
        if tokens.step != 1 or tokens.start % size or not 0 <= first <= last <= len(pages) * each:
            raise ValueError(f"tokens {tokens.start} to {tokens.stop}: want them to begin at a "
                             f"multiple of {size}, within {len(pages)} pages of {each * size}")
        numbers = split.numbers(pages[first // each:-(-last // each)])
        begin = first - first // each * each
        found: list[int] = numbers[begin:begin + last - first].tolist()
        return found
