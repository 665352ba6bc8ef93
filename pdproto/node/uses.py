"""The use of a room: a number that names one request of it on all ranks of a prefill server.

The same room may be opened again, for a retry or for another sample of a prompt. Each rank binds
the lives of a room to its senders by itself. All ranks of a server open the same requests in the
same order. So the first opening of a room is use 0 on every rank, the next is use 1, and so on. A
source sends the use with its last message. If the sources of a sink name different uses, the sink
fails the request, because it would be made of two. The tables are those of `binding-guarded`
(spec/handoff/binding.py) and `binding-ordered` (binding_ordered.py).
"""

from collections.abc import Mapping
from typing import Final

from pdproto.runtime.limits import USED_ROOMS_MAX


class Uses:
    """Counts how often each room has been opened here.

    most: how many rooms are remembered. A room is forgotten when so many others have been opened
    since then, and not before half as many have.
    """

    def __init__(self, most: int = USED_ROOMS_MAX) -> None:
        self._half: Final = most // 2
        self._recent: dict[int, int] = {}
        self._before: dict[int, int] = {}  # the rooms until `_recent` was begun

    def next(self, room: int) -> int:
        """The use of a sender that is opened now: 0 for the first sender of its room."""
        use = self._recent.get(room, self._before.get(room, -1)) + 1
        self._recent[room] = use
        if len(self._recent) == self._half:
            self._before, self._recent = self._recent, {}
        return use


def mixed(uses: Mapping[str, int], use: int) -> str:
    """Why the use of a source does not agree with the other sources; "" if it does.

    use: of that source. uses: by name, of the sources that have sent their whole part.
    """
    for other, theirs in uses.items():
        if theirs != use:
            return (f"has sent request {use} of the room, and {other} request {theirs}: they have "
                    f"bound different requests to it")
    return ""
