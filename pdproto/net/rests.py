"""The rests of a thread that serves files, so that the other threads of its process run.

A read of a socket lets go of Python's interpreter for a moment. That is too short for a thread that
waits for the interpreter and has to wake up on a busy machine, and it begins the wait of that
thread anew (`sys.getswitchinterval`). So under a flood of messages other threads waited for 0.3 s
each time (decision 090).
"""

from time import monotonic, sleep
from typing import Final

BUSY_S: Final = 0.005  # without a rest
REST_S: Final = 0.000_2


class Rests:
    """The rests of one thread, which are due when it has not waited for files for `BUSY_S`."""

    def __init__(self) -> None:
        self._rested = self._asked = monotonic()

    def ask(self) -> None:
        """Before the thread asks for files that are ready."""
        self._asked = monotonic()

    def take(self) -> None:
        """After that: rest, if it is due. A wait of that length was a rest."""
        now = monotonic()
        if now - self._asked < REST_S:
            if now - self._rested < BUSY_S:
                return
            sleep(REST_S)
        self._rested = now
