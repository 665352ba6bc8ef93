"""Senders that wait for a life, and lives that wait for a sender, by room."""

from collections import Counter
from collections.abc import Iterator
from typing import Final

from pdproto.node.prefill.sender import Sender
from pdproto.runtime.limits import EARLY_LIVES_MAX
from pdproto.runtime.wire import Life


class ByRoom:
    """Senders that wait, by room, first come first served."""

    def __init__(self) -> None:
        self._senders: Final[dict[int, list[Sender]]] = {}
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, sender: Sender) -> None:
        """Have the sender wait behind others of its room."""
        self._count += 1
        waiting = self._senders.get(sender.room)
        if waiting is None:
            self._senders[sender.room] = [sender]
        else:
            waiting.append(sender)

    def first(self, room: int, prompt: bytes | None) -> Sender | None:
        """The first sender of this room and prompt; None if none waits."""
        return next((sender for sender in self._senders.get(room, ())
                     if sender.prompt == prompt), None)

    def of_room(self, room: int) -> list[Sender]:
        """The senders that wait in this room."""
        return list(self._senders.get(room, ()))

    def of_life(self, life: Life) -> Sender | None:
        """The sender that waits with this life; None if there is none."""
        for sender in self._senders.get(life.room, ()):
            if sender.endpoint.life == life:
                return sender
        return None

    def __iter__(self) -> Iterator[Sender]:
        """All senders that wait now, room by room. For any thread, while the loop adds and removes.
        """
        return iter([sender for waiting in list(self._senders.values())
                     for sender in list(waiting)])

    def drop(self, sender: Sender) -> None:
        """Remove the sender, if it waits."""
        waiting = self._senders.get(sender.room)
        if waiting and sender in waiting:
            waiting.remove(sender)
            self._count -= 1
            if not waiting:
                del self._senders[sender.room]


class EarlyLives(ByRoom):
    """Lives that sinks have begun, and that have no sender yet.

    Each decode server, or each member, may have as many as there are places left: one that begins
    lives without end has half of the places, two have a third each, and the others find some.
    Switches divide their memory among queues by this rule (Choudhury and Hahne, Dynamic Queue
    Length Thresholds, 1998). A member is one, because it may say any number of incarnations.
    """

    def __init__(self) -> None:
        super().__init__()
        self._of_server: Final[Counter[str | int]] = Counter()

    def full_for(self, life: Life) -> str | None:
        """Why there is no place for this life; None if there is one."""
        left = EARLY_LIVES_MAX - len(self)
        if (of_server := self._of_server[life.server]) < left:
            return None
        return (f"{of_server:,} lives of its server wait for their sender already, and "
                f"{left:,} places are left")

    def add(self, sender: Sender) -> None:
        """See ByRoom. It has its life already."""
        super().add(sender)
        self._count_server(sender, 1)

    def drop(self, sender: Sender) -> None:
        """See ByRoom."""
        before = len(self)
        super().drop(sender)
        if len(self) < before:
            self._count_server(sender, -1)

    def _count_server(self, sender: Sender, more: int) -> None:
        life = sender.endpoint.life
        assert life is not None  # noqa: S101 - an early life is one
        self._of_server[life.server] += more
        if not self._of_server[life.server]:
            del self._of_server[life.server]
