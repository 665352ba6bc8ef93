"""What a turn of a node's loop costs: no hand-over may hold up the others.

Rule 1: a turn is cut short when it has gone on for a while: what is left comes in the next, after
        all others have had their part.
Rule 2: a turn that has taken more than `SLOW_S` of processor time all the same is counted and
        logged, with the part of it that took longest. Processor time is asked for once a turn: it
        costs a microsecond, ten times as much as the clock.
Rule 3: Python's collection of garbage is no part of a turn: it looks through all objects of the
        process, in whichever thread has made the last of them. It is measured apart. A process
        that cannot afford it calls `gc.freeze` when it has started, as our own do.
"""

import gc
import logging
from collections.abc import Mapping
from threading import get_ident
from time import monotonic, thread_time
from typing import Final

from pdproto.node.metrics import Metrics

log = logging.getLogger("pdproto.transport")

SLOW_S: Final = 0.010
PART_S: Final = 0.002  # after which one part of a turn leaves the rest to the next turn


class Collections:
    """Processor time that threads have spent on collecting garbage, in seconds, by thread."""

    def __init__(self) -> None:
        self.seconds: Final[dict[int, float]] = {}
        self._began: Final[dict[int, float]] = {}
        gc.callbacks.append(self._note)

    def _note(self, phase: str, _about: Mapping[str, int]) -> None:
        thread, now = get_ident(), thread_time()
        if phase == "start":
            self._began[thread] = now
        elif thread in self._began:
            spent = now - self._began.pop(thread)
            self.seconds[thread] = self.seconds.get(thread, 0.0) + spent


COLLECTIONS: Final = Collections()  # of this process


class Watchdog:
    """See the rules above. slow: turns that took too long. longest_s: the longest of them.

    collecting_s: the longest that a collection of garbage has held up one turn.
    """

    def __init__(self, name: str) -> None:
        self.slow = 0
        self.longest_s = self.collecting_s = 0.0
        self._name: Final = name
        self._used: float | None = None  # processor time of the loop's thread, in seconds,
        self._collected = 0.0  # and what of it went into collections
        self._began = 0.0
        self._part = ""
        self._longest = (0.0, "")  # part of this turn

    def measure(self, metrics: Metrics) -> None:
        """Have these numbers read among the node's."""
        metrics.counter("slow_turns", "Turns of the loop that took over 10 ms of processor time",
                        lambda: self.slow)
        metrics.gauge("longest_turn_seconds", "Processor time of the longest of them",
                      lambda: self.longest_s)
        metrics.gauge("longest_collection_seconds", "Processor time of the longest collection of "
                      "garbage in a turn of the loop", lambda: self.collecting_s)

    def begin(self, part: str) -> None:
        """A turn begins, with this part; the one before, if there was one, is over."""
        used, collected = thread_time(), COLLECTIONS.seconds.get(get_ident(), 0.0)
        if self._used is not None:
            collecting = collected - self._collected
            self.collecting_s = max(self.collecting_s, collecting)
            took = used - self._used - collecting
            if took > SLOW_S:
                self._tell(took)
        self._used, self._collected, self._longest = used, collected, (0.0, "")
        self.part(part)

    def part(self, name: str) -> None:
        """The next part of the turn begins."""
        now = monotonic()
        if self._part:
            self._longest = max(self._longest, (now - self._began, self._part))
        self._began, self._part = now, name

    @property
    def has_time(self) -> bool:
        """Whether the part may go on with what is left of it; always, where no loop turns."""
        return self._used is None or monotonic() - self._began < PART_S

    def _tell(self, seconds: float) -> None:
        self.slow += 1
        self.longest_s = max(self.longest_s, seconds)
        if self.slow & (self.slow - 1) == 0:  # the 1st, 2nd, 4th, 8th ...
            log.warning("node %s: a turn of its loop took %.1f ms of processor time, the "
                        "longest part %r in %.1f ms (%d such turns so far)", self._name,
                        seconds * 1e3, self._longest[1], self._longest[0] * 1e3, self.slow)
