"""The time limit and the cost of a node's turns, so that no hand-over delays the others.

Rule 1: a part of a turn ends when the turn has taken `TURN_S`, but has at least `LATE_S`. Its other
        work waits for the next turn. So a turn of 10 parts ends within 5 ms, but for the last step
        of each of them.
Rule 2: a turn that has still taken more than `SLOW_S` of processor time is counted and logged, with
        its longest part. Processor time is read once a turn, because reading it takes a
        microsecond or more, ten times as long as reading the clock. It is read when the turn has
        sent its batches, so that they need not wait for it. After a long wait it is read at the
        beginning as well: a thread that waits for Python's interpreter wakes every 5 ms, and the
        3 ms that it used in 2 s of waiting for SGLang's scheduler are no work of the turn.
Rule 3: Python's garbage collection does not count as a part of a turn: it looks through all objects
        of the process, in the thread that happens to trigger it. It is measured separately. A
        process that cannot afford it calls `gc.freeze` after its start, as our own do.
"""

import gc
import logging
from collections.abc import Mapping
from threading import get_ident
from time import monotonic, thread_time
from typing import Final

from pdproto.node.metrics import Metrics
from pdproto.runtime.repeats import is_told

SLOW_TURNS: Final = "pdproto.transport.slow_turns"  # the logger of rule 2
log = logging.getLogger(SLOW_TURNS)

# The first 1,400 calls of a new process took 25 ms on a core that it shared with three others, so
# that a lower limit tells of the machine.
SLOW_S: Final = 0.050
TURN_S: Final = 0.002  # after so long a turn, a part ends
LATE_S: Final = 0.000_3  # that a part has in any case
LONG_WAIT_S: Final = 0.1


class Collections:
    """Processor time for garbage collection, in seconds, by thread."""

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
    """See the rules above. slow: the number of slow turns. longest_s: processor time of the
    longest.

    collecting_s: processor time of the longest garbage collection in one turn.
    """

    def __init__(self, name: str) -> None:
        self.slow = 0
        self.longest_s = self.collecting_s = 0.0
        self._name: Final = name
        self._used: float | None = None  # processor time of the loop's thread, in seconds
        self._collected = 0.0  # the part of it that garbage collection took
        self._began = 0.0  # the part, or the wait for the next turn
        self._late = 0.0  # from when on parts of this turn begin late
        self._ends = 0.0  # of this part
        self._part = ""
        self._longest_s, self._longest = 0.0, ""  # part of this turn

    def measure(self, metrics: Metrics) -> None:
        """Add these numbers to the metrics of the node."""
        metrics.counter("slow_turns", "Turns of the loop that took over 50 ms of processor time",
                        lambda: self.slow)
        metrics.gauge("longest_turn_seconds", "Processor time of the longest of them",
                      lambda: self.longest_s)
        metrics.gauge("longest_collection_seconds", "Processor time of the longest collection of "
                      "garbage in a turn of the loop", lambda: self.collecting_s)

    def begin(self, part: str) -> None:
        """Begin a turn, with this part."""
        ended, self._longest_s = self._began, 0.0
        self._began, self._part = monotonic(), part
        self._late = self._ends = self._began + TURN_S
        if self._used is None or self._began - ended > LONG_WAIT_S:
            self._used, self._collected = self._spent()

    def end(self) -> None:
        """End the turn."""
        self.part("")  # which lasts until the next turn begins
        used, collected = self._spent()
        collecting = collected - self._collected
        self.collecting_s = max(self.collecting_s, collecting)
        took = used - (self._used or 0.0) - collecting
        self._used, self._collected = used, collected
        if took > SLOW_S:
            self._tell(took)

    @staticmethod
    def _spent() -> tuple[float, float]:
        return thread_time(), COLLECTIONS.seconds.get(get_ident(), 0.0)

    def part(self, name: str) -> None:
        """Begin the next part of the turn."""
        now = monotonic()
        took = now - self._began
        if took > self._longest_s:
            self._longest_s, self._longest = took, self._part
        self._began, self._part = now, name
        least, late = now + LATE_S, self._late
        self._ends = late if late > least else least  # noqa: FURB136 - a call takes longer

    @property
    def has_time(self) -> bool:
        """Whether the part may go on. Always true before the first turn."""
        return self._used is None or monotonic() < self._ends

    def _tell(self, seconds: float) -> None:
        self.slow += 1
        self.longest_s = max(self.longest_s, seconds)
        if is_told(self.slow):
            log.warning("node %s: a turn of its loop took %.1f ms of processor time, the "
                        "longest part %r in %.1f ms (%d such turns so far)", self._name,
                        seconds * 1e3, self._longest, self._longest_s * 1e3, self.slow)
