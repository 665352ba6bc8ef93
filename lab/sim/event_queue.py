"""The event queue of a simulation in virtual time. Events run in the order of their time; events of
the same time run in the order in which they were added. An event takes no virtual time.

The events of the present span of time are a heap. Later events wait unsorted, by span. So the heap
is small, and the next event is found quickly.
"""

from collections.abc import Callable, Iterable
from heapq import heapify, heappop, heappush
from math import inf
from typing import Any, Final, TypeAlias

Entry: TypeAlias = tuple[float, int, Callable[..., None], tuple[Any, ...]]

SPANS_PER_S: Final = 500


class EventQueue:
    """The events of a run. now: virtual time, in seconds since the run began."""

    __slots__ = ("_entries", "_foreseen", "_later", "_number", "_present", "_spans", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._number = 0
        self._present = 0
        self._entries: Final[list[Entry]] = []  # of the present span, and of those before it
        self._later: Final[dict[int, list[Entry]]] = {}
        self._spans: Final[list[int]] = []  # a heap of the later ones
        self._foreseen: list[Entry] = []  # in reverse order

    @property
    def done(self) -> int:
        """The number of events that have run."""
        later = sum(map(len, self._later.values()))
        return self._number - len(self._entries) - later - len(self._foreseen)

    def at(self, when: float, do: Callable[..., None], *arguments: Any) -> None:
        """Add an event: call `do` with the arguments at this time, or now if that is past."""
        if when < self.now:  # noqa: PLR1730 - a call takes longer, for each event
            when = self.now
        self._number = number = self._number + 1
        span = int(when * SPANS_PER_S)
        if span <= self._present:
            heappush(self._entries, (when, number, do, arguments))
        elif span in self._later:
            self._later[span].append((when, number, do, arguments))
        else:
            self._later[span] = [(when, number, do, arguments)]
            heappush(self._spans, span)

    def after(self, seconds: float, do: Callable[..., None], *arguments: Any) -> None:
        """Add an event: call `do` with the arguments after `seconds`."""
        self.at(self.now + seconds, do, *arguments)

    def foresee(
        self, entries: Iterable[tuple[float, Callable[..., None], tuple[Any, ...]]]
    ) -> None:
        """Add many events at once: time, function and arguments. Call it once, before `run`.

        They are kept in a list of their own, so that the heap stays small.
        """
        first = self._number
        self._foreseen = sorted(((when, number, do, arguments) for number, (when, do, arguments)
                                 in enumerate(entries, first + 1)), reverse=True)
        self._number = first + len(self._foreseen)

    def run(self, until: float) -> None:
        """Run all events up to this time."""
        entries, foreseen, last = self._entries, self._foreseen, (until, inf)
        while True:
            if not entries and self._spans:
                self._next_span()
            if foreseen and (not entries or foreseen[-1] < entries[0]):
                if foreseen[-1] > last:
                    break
                entry = foreseen.pop()
            elif entries and entries[0] < last:
                entry = heappop(entries)
            else:
                break
            self.now, _, do, arguments = entry
            do(*arguments)
        self.now = max(self.now, until)

    def _next_span(self) -> None:
        self._present = heappop(self._spans)
        self._entries.extend(self._later.pop(self._present))
        heapify(self._entries)
