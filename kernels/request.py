"""A request of a launch of many, and the checks that host memory and a device share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pdproto.kernels.arguments import check_count, check_unique, page_numbers
from pdproto.kernels.layout import KVLayout
from pdproto.kernels.overlap import Span


@dataclass(frozen=True, slots=True)
class Request:
    """Pages, and their chunks: one for each peer.

    digests: 64-bit [entries * pages] for each peer, which a pack fills, and an unpack expects; or
    None. key: see `digest`.
    """

    pages: Any
    chunks: Sequence[Any]
    digests: Sequence[Any] | None = None
    key: int = 0


def numbers_of(
    layout: KVLayout, requests: Sequence[Request], *, unique: bool
) -> list[NDArray[np.int64]]:
    """The page numbers of each request, from host memory. unique: no page is listed twice."""
    lists = []
    for index, request in enumerate(requests):
        with named(index):
            lists.append(page_numbers(layout, request.pages))
    check_count(layout, sum(listed.size for listed in lists))
    if unique and lists:
        check_unique(np.concatenate(lists))
    return lists


@contextmanager
def named(index: int) -> Iterator[None]:
    """Put the request's place in front of the message of an error."""
    try:
        yield
    except (TypeError, ValueError) as error:
        raise type(error)(f"requests[{index}]: {error}") from None


def spans_within(index: int, spans: Sequence[Span]) -> Iterator[Span]:
    """The memory of a request, by names that say which request has it."""
    return (span._replace(name=f"requests[{index}].{span.name}") for span in spans)
