"""A copy that is made again and again with the same chunk: checks and arguments are made once.

    packing = prepare_pack(layout, chunk, numbers, digests=digests_in(plan, chunk))
    packing.tell(pages)             # as often as wanted: checks the pages, and notes their numbers
    packing.enqueue(key, launch)    # the stream of the launch is the current one

A call of `pack_chunk` looks up the table and the kernel, checks every tensor, and takes a turn of
the layout's ring for its page numbers. Here the numbers have memory of their own, so nothing is
left but to write them down, to send them, and to launch. A pool in host memory is copied at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol

from pdproto.kernels.arguments import DEFAULT, Launch, Numbers, write_numbers
from pdproto.kernels.chunk import pack_chunk, unpack_chunk
from pdproto.kernels.layout import KVLayout
from pdproto.kernels.report import Report


class Prepared(Protocol):
    """A copy of the pages of one chunk, whose checks and arguments are made already."""

    def tell(self, pages: Any) -> None:
        """Note the page numbers of the next copy: as many as it was prepared for.

        Raises ValueError for another count, for a number that no pool has, and for one that is
        listed twice where pages are written.
        """

    def enqueue(self, key: int, launch: Launch = DEFAULT) -> None:
        """Enqueue the copy. key: 0 to 2**64 - 1, see `digest`."""

    def warm(self, launch: Launch = DEFAULT) -> None:
        """Compile and load its kernel, and launch it without work."""


def prepare_pack(layout: KVLayout, chunk: Any, numbers: Numbers, *, digests: Any) -> Prepared:
    """Prepare `pack_chunk` of as many pages as there are numbers."""
    if layout.device != "cpu":
        from pdproto.kernels import device  # noqa: PLC0415 - needs torch and triton

        return device.prepared(layout, numbers, chunk, digests)
    return _OnHost(layout, numbers, lambda pages, key: pack_chunk(
        layout, pages, chunk, digests=digests, key=key), unique=False)


def prepare_unpack(
    layout: KVLayout, chunk: Any, numbers: Numbers, *, expected: Any, report: Report
) -> Prepared:
    """Prepare `unpack_chunk` of as many pages as there are numbers."""
    if layout.device != "cpu":
        from pdproto.kernels import device  # noqa: PLC0415 - needs torch and triton

        return device.prepared(layout, numbers, chunk, expected, report)
    return _OnHost(layout, numbers, lambda pages, key: unpack_chunk(
        layout, pages, chunk, expected=expected, key=key, report=report), unique=True)


class _OnHost:
    """A copy of a host, which reads the numbers when it is made, as a device does."""

    def __init__(
        self, layout: KVLayout, numbers: Numbers, copy: Callable[[Any, int], object], *,
        unique: bool,
    ) -> None:
        self._layout: Final = layout
        self._host: Final = numbers.host.numpy()
        self._copy: Final = copy
        self._unique: Final = unique

    def tell(self, pages: Any) -> None:
        """See Prepared."""
        write_numbers(self._host, self._layout, pages, unique=self._unique)

    def enqueue(self, key: int, launch: Launch = DEFAULT) -> None:  # noqa: ARG002 - see Prepared
        """See Prepared."""
        self._copy(self._host, key)

    def warm(self, launch: Launch = DEFAULT) -> None:
        """See Prepared: nothing is compiled."""
