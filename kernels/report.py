"""Reports of copies: bad page numbers and pages whose digests differ.

A copy writes its report on its own device, and only if it finds an error: after a clean hand-over
nothing has to be cleared. Reading a report is the only call here that can wait for a device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np
from numpy.typing import NDArray

NO_BAD_INDEX: Final = (1 << 31) - 1


@dataclass(frozen=True, slots=True)
class Outcome:
    """The findings of a report about one chunk. Positions count within the chunk, from 0.

    `bad_index` is the first position whose page number no pool has: pack shipped zeros there,
    unpack stored nothing. `mismatched` are the positions of pages with a digest, of any entry,
    that is not the expected one.
    """

    bad_index: int | None
    mismatched: tuple[int, ...]

    @property
    def clean(self) -> bool:
        """Whether there is no bad index and no mismatch."""
        return self.bad_index is None and not self.mismatched


CLEAN: Final = Outcome(None, ())


class Report(Protocol):
    """The findings of one copy at a time: the first bad index, and a bit for each page."""

    def fetch(self) -> None:
        """Enqueue a copy of the findings so far to host memory; waits for nothing."""

    def ready(self) -> bool:
        """Whether the findings are in host memory, so that `read` does not wait."""
        ...

    def read(self) -> Outcome:
        """Return the outcome that was fetched, else that of the copies so far.

        Waits for the device.
        """
        ...

    def clear(self) -> None:
        """Clear the findings. Call it after a read that was not clean."""


def report_words(pages_max: int) -> int:
    """32-bit words of a report: the first bad index, then a bit per page."""
    return 1 + -(-pages_max // 32)


def outcome_of(words: NDArray[np.int32]) -> Outcome:
    """Read the words of a report, int32 [report_words]."""
    if words[0] == NO_BAD_INDEX and not np.count_nonzero(words[1:]):  # `any` takes 2 us
        return CLEAN
    bits = np.unpackbits(words[1:].view(np.uint8), bitorder="little")
    first = int(words[0])
    mismatched = tuple(int(position) for position in np.flatnonzero(bits))
    return Outcome(None if first == NO_BAD_INDEX else first, mismatched)


class HostReport:
    """A report in host memory."""

    def __init__(self, pages_max: int) -> None:
        self.words = np.zeros(report_words(pages_max), np.int32)
        self.clear()

    def mark(self, positions: NDArray[np.integer]) -> None:
        """Set the bits of mismatched pages."""
        bits = np.left_shift(np.uint32(1), (positions % 32).astype(np.uint32))
        np.bitwise_or.at(self.words[1:].view(np.uint32), positions // 32, bits)

    def fetch(self) -> None:
        """Nothing to do: the outcome is in host memory already."""

    def ready(self) -> bool:
        """See Report."""
        return True

    def read(self) -> Outcome:
        """See Report."""
        return outcome_of(self.words)

    def clear(self) -> None:
        """See Report."""
        self.words[:] = 0
        self.words[0] = NO_BAD_INDEX
