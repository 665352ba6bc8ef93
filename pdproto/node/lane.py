"""What a sender has on its way to one sink.

It is bounded, so that a failure finds little that has begun to move: what was not posted when a
hand-over fails is never posted. Two large chunks are enough to keep an engine busy: one is packed
while the other moves.
"""

from typing import Final

from pdproto.node.data_path import Posted

BYTES_MAX: Final = 8 << 20  # of one hand-over to one sink; the last chunk may pass it


class Lane:
    """posted: so many chunks. offset: where the next goes (data_path.py)."""

    __slots__ = ("_bytes", "offset", "posted")

    def __init__(self) -> None:
        self.posted = self.offset = self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether another chunk may be posted now."""
        return self._bytes < BYTES_MAX

    def begin(self, posted: Posted) -> None:
        """A chunk has been posted."""
        self.posted += 1
        self.offset = posted.behind
        self._bytes += posted.bytes

    def end(self, length: int) -> None:
        """A write of so many bytes has ended."""
        self._bytes -= length
