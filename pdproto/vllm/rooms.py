"""The rooms of a prefill server, and which of them nobody will open any more.

vLLM gives a request no number that both servers know, so prefill's scheduler draws one when the
request has been computed. A number says which run of the server drew it, and how many it had drawn
before. So a worker can tell a room that its scheduler has just drawn, and has not told it of yet,
from one that is over: decode is refused at once, and does not wait for a clock.
"""

from secrets import randbits
from typing import Final

RUN_BITS: Final = 30  # rooms have 63 bits as messages carry them
COUNT_BITS: Final = 32
LAST: Final = (1 << COUNT_BITS) - 1

OVER: Final = ("prefill has handed this request over already, or has given its blocks back: "
               "send the whole request again")
OTHER_RUN: Final = ("this prefill server has drawn no such room: it has been started anew, "
                    "or another server has its address: send the whole request again")


class Rooms:
    """Draws rooms, in prefill's scheduler."""

    def __init__(self, run: int | None = None) -> None:
        self.run: Final = randbits(RUN_BITS) if run is None else run
        self._drawn = 0

    def draw(self) -> int:
        """One that nobody else has, in ascending order."""
        self._drawn += 1
        return self.run << COUNT_BITS | self._drawn & LAST


class ToldRooms:
    """What a prefill worker knows of the rooms that its scheduler has drawn."""

    def __init__(self) -> None:
        self._run: int | None = None
        self._last = 0

    def told(self, room: int) -> None:
        """The scheduler has told of this room; rooms come in the order in which they were drawn."""
        self._run, self._last = room >> COUNT_BITS, room & LAST

    def refusal(self, room: int) -> str | None:
        """Of a room that is not open: why nobody will open it, or None if somebody may."""
        if self._run is None:
            return None
        if room >> COUNT_BITS != self._run:
            return OTHER_RUN
        return OVER if room & LAST <= self._last else None
