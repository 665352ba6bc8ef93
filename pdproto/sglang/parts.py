"""Pages of SGLang in parts, for two servers whose pages have different numbers of tokens.

SGLang names the pages of a request behind the prefix that decode has cached. Every part has as many
tokens as the setting page_tokens says, at both ends, and an item of the KV cache (pools.py) is a
part. The rest of the backend counts parts as it counts pages.

The prefix ends where a page of decode does, and perhaps within one of prefill. There prefill names
its pages from the one with that token on, and the parts before the token are left out.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

WHOLE: Final = ("mamba",)  # states whose items are not pages, so they are handed over whole


class RankParts:
    """The parts of a rank's pages. tokens: of a part. each: the parts of a page.

    page_tokens: of a page. asked: the setting; 0 hands over whole pages. states: SGLang's types of
    the states beside the KV cache. Raises ValueError for pages and states without such parts.
    """

    def __init__(self, page_tokens: int, asked: int, states: Sequence[Any] = ()) -> None:
        self.tokens: Final = asked or page_tokens
        if page_tokens % self.tokens:
            raise ValueError(f"page_tokens={asked}: pages of {page_tokens} tokens have no parts of "
                             f"{asked}: want a number that divides the --page-size of both servers")
        self.each: Final = page_tokens // self.tokens
        self._page_tokens: Final = page_tokens
        paged = sorted({str(getattr(state, "value", state)) for state in states}.difference(WHOLE))
        if self.each > 1 and paged:
            raise ValueError(f"page_tokens={asked}: states of type {', '.join(paged)} have pages of"
                             f" {page_tokens} tokens, too, and the pdproto backend hands over parts"
                             f" of the KV cache only: give both servers one --page-size")

    def begin(self, prefix: int) -> int:
        """The token at which the page begins that has the token behind the prefix."""
        return prefix - prefix % self._page_tokens

    def numbers(self, pages: Any, tokens: int | None = None, prefix: int = 0) -> Any:
        """The numbers of the parts with so many tokens of these pages, in order, int64 [part].

        tokens: None for all, as whole pages always are. prefix: tokens of the prefix, if the first
        page begins before its end; its parts are left out.
        """
        firsts = np.asarray(pages, np.int64).reshape(-1, 1) * self.each
        last = None if tokens is None or self.each == 1 else -(-tokens // self.tokens)
        first = prefix % self._page_tokens // self.tokens
        return (firsts + np.arange(self.each)).reshape(-1)[first:last]
