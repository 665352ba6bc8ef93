"""How often the log tells of a mistake that a peer repeats, such as a malformed batch.

A line each would fill a disk as fast as messages come. The counters have all of them.
"""

from typing import Final

from pdproto.runtime.limits import TOLD_MAX


def is_told(count: int) -> bool:
    """Whether to write a line now that it has happened so often: the 1st, 2nd, 4th, 8th time ..."""
    return count & (count - 1) == 0


class Repeats:
    """Counts mistakes by their text: `TOLD_MAX` of them one by one, and the others together."""

    def __init__(self) -> None:
        self._counts: Final[dict[str, int]] = {}

    def told(self, text: str) -> int:
        """Count it. Returns how often it has happened, if a line is to be written, and else 0."""
        key = text if text in self._counts or len(self._counts) < TOLD_MAX else ""
        count = self._counts[key] = self._counts.get(key, 0) + 1
        return count if is_told(count) else 0
