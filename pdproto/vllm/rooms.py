"""The rooms of a prefill server, and the rooms that are over.

vLLM gives a request no number that both servers know. So prefill's scheduler draws one when the
request has been computed. The number contains the run of the server and a counter. With it a worker
can distinguish a room that is over from a new room that its scheduler has not sent it yet. So
decode is refused at once if the room is over, and need not wait for a timeout. Of rooms that a
proxy has drawn (early.py), a worker remembers those that it has opened.
"""

from secrets import randbits
from typing import Final

from pdproto.node.prefill.keeps import OVER
from pdproto.vllm.early import DRAWN_BY_PROXY, DrawnRooms

RUN_BITS: Final = 30  # rooms have 63 bits as messages carry them
COUNT_BITS: Final = 32
LAST: Final = (1 << COUNT_BITS) - 1

OTHER_RUN: Final = ("this prefill server has drawn no such room: it has been started anew, "
                    "or another server has its address: send the whole request again")


class Rooms:
    """Draws rooms, in prefill's scheduler."""

    def __init__(self, run: int | None = None) -> None:
        self.run: Final = randbits(RUN_BITS) if run is None else run
        self._drawn = 0

    def draw(self) -> int:
        """A new room. Numbers ascend."""
        self._drawn += 1
        return self.run << COUNT_BITS | self._drawn & LAST


class ToldRooms:
    """The rooms that a prefill worker knows from its scheduler."""

    def __init__(self) -> None:
        self._run: int | None = None
        self._last = 0
        self._drawn: Final = DrawnRooms()

    def told(self, room: int) -> None:
        """Note a room that has been opened. Those of the scheduler are opened in the order in which
        it has drawn them.
        """
        if room & DRAWN_BY_PROXY:
            self._drawn.is_first(room)
        else:
            self._run, self._last = room >> COUNT_BITS, max(self._last, room & LAST)

    def refusal(self, room: int) -> str | None:
        """Why a room that is not open will never be opened; None if it may be opened later."""
        if room & DRAWN_BY_PROXY:
            return OVER if room in self._drawn else None
        if self._run is None:
            return None
        if room >> COUNT_BITS != self._run:
            return OTHER_RUN
        return OVER if room & LAST <= self._last else None
