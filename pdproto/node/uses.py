"""Which request of a room a sender is of, in a name that all ranks of a prefill server share.

A room may come again, for a retry or another sample of a prompt, and each rank binds the lives of a
room to its senders by itself. All ranks of a server open the same requests in the same order, so
the number of an opening names one request on all of them: the *use* of the room. A source says it
with what it has sent, and a sink whose sources name different uses fails the request: it would be
made of two. The tables are those of `binding-guarded` (spec/handoff/binding.py).
"""

from collections.abc import Mapping
from typing import Final

ROOMS_MAX: Final = 1 << 16  # that are remembered; of a room that is forgotten counting begins anew


class Uses:
    """How often each room has been opened here, of those that were opened last."""

    def __init__(self, most: int = ROOMS_MAX) -> None:
        self._opened: Final[dict[int, int]] = {}
        self._most: Final = most

    def next(self, room: int) -> int:
        """The use of a sender that is opened now: 0 for the first of its room."""
        use = self._opened.pop(room, -1) + 1
        self._opened[room] = use
        if len(self._opened) > self._most:
            del self._opened[next(iter(self._opened))]
        return use


def mixed(uses: Mapping[str, int], use: int) -> str:
    """Why what a source has sent is of another request than what others have, if so; else "".

    uses: by source, of those that have sent all of their part.
    """
    for other, theirs in uses.items():
        if theirs != use:
            return (f"has sent request {use} of the room, and {other} request {theirs}: they have "
                    f"bound different requests to it")
    return ""
