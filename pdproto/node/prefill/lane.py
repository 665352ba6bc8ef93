"""The chunks of one sender that are on their way to one sink.

Their bytes are bounded. So when a hand-over fails, few chunks have begun to move; the others are
never posted. Two large chunks are enough to keep an engine busy: one is packed while the other
moves.
"""

from typing import Final

from pdproto.node.data_path import Posted

BYTES_MAX: Final = 8 << 20  # of one hand-over to one sink; the last chunk may exceed it


class Lane:
    """posted: the number of chunks posted so far. offset: of the next chunk in the sink's lease."""

    __slots__ = ("_bytes", "offset", "posted")

    def __init__(self) -> None:
        self.posted = self.offset = self._bytes = 0

    @property
    def has_room(self) -> bool:
        """Whether another chunk may be posted now."""
        return self._bytes < BYTES_MAX

    def begin(self, posted: Posted) -> None:
        """Count a chunk that has been posted."""
        self.posted += 1
        self.offset = posted.behind
        self._bytes += posted.bytes

    def end(self, length: int) -> None:
        """Count the end of a write of `length` bytes."""
        self._bytes -= length
