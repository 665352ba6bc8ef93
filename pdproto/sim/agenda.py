"""Virtual time: what is to happen, in the order of its time, and of two at one time the first put
down. Nothing here takes time, and nothing happens beside it.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final


class Agenda:
    """now: in seconds since the run began. done: how many entries have happened."""

    __slots__ = ("_entries", "_number", "done", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self.done = 0
        self._number = 0
        self._entries: Final[list[tuple[float, int, Callable[..., None], tuple[Any, ...]]]] = []

    def at(self, when: float, do: Callable[..., None], *arguments: Any) -> None:
        """Have it done then, or now if that is past."""
        self._number += 1
        heappush(self._entries, (max(when, self.now), self._number, do, arguments))

    def after(self, seconds: float, do: Callable[..., None], *arguments: Any) -> None:
        self.at(self.now + seconds, do, *arguments)

    def run(self, until: float) -> None:
        """Let everything happen up to this time."""
        entries = self._entries
        while entries and entries[0][0] <= until:
            self.now, _, do, arguments = heappop(entries)
            self.done += 1
            do(*arguments)
        self.now = max(self.now, until)
