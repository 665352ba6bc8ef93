"""The calls of the application about the hand-overs of a prefill rank."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from typing import Final

from pdproto.node.core import Core
from pdproto.node.endpoints import Endpoints
from pdproto.node.faults import TRANSFER
from pdproto.node.handle import handles_of
from pdproto.node.node import Handles
from pdproto.node.prefill.sender import Sender
from pdproto.runtime import checked
from pdproto.runtime.role import SourceRole
from pdproto.spec.handoff.ends import Sending


class Senders(Handles):
    """The node of a sender (sender.py). unbound: senders without a life.

    put: begins the hand-over of a sender that the router has put here, with the data-parallel rank
    that its request names.
    """

    put: Callable[[Sender, int | None], None]

    def __init__(
        self, core: Core, endpoints: Endpoints, role: SourceRole,
        mark: Callable[[Sequence[int]], tuple[int, ...]], unbound: Iterable[Sender],
    ) -> None:
        super().__init__(core, endpoints, mark, {
            "open_sender": self.begin, "send": self.hand_over, "abort_sender": self.give_up})
        self.role: Final = role
        self._unbound: Final = unbound

    def open(
        self, room: int, on_released: Callable[[], None] | None = None,
        watcher: Callable[[Sender], None] | None = None, named: int | None = None,
        use: int | None = None, prompt: bytes | None = None,
    ) -> Sender:
        """Open a sender for a room; see PrefillNode.open. For any thread."""
        rank = checked.whole_or_none("named", named)
        sender = Sender(self, checked.room(room), checked.whole_or_none("use", use),
                        checked.prompt(prompt))
        sender.watch(on_released, watcher)
        self.ask(lambda: self.put(sender, rank))
        return sender

    def stood(self, seconds: float) -> float:
        """See Sender.stood. For any thread."""
        now = self._core.now
        return self._core.connections.suspicions.of_any(self, now - seconds, now)

    def begin(self, sender: Sender) -> None:
        """The application has its request."""
        self._endpoints.call(sender.endpoint, "open_sender")

    def hand_over(
        self, sender: Sender, pages: tuple[int, ...], last: bool, metadata: bytes
    ) -> None:
        """Give the table one more chunk. See Sender.send."""
        endpoint = sender.endpoint
        count = sum(map(len, sender.chunks)) + len(pages)
        if last:
            for lane in sender.lanes:
                if lane is not None and lane.wanted != count:
                    self.give_up(sender, f"{count} pages are sent, and decode has given it "
                                         f"{lane.wanted}")
                    break
        self._endpoints.take(endpoint, endpoint.hand_over(last=last))
        endpoint.handed_over()
        sender.chunks.append(pages)
        sender.metadata = metadata
        if not sender.began:
            sender.began = self._core.turned
            self.injection.draw(TRANSFER, endpoint)

    def give_up(self, sender: Sender, reason: str, *, transient: bool = False) -> None:
        """Abort the hand-over, for this reason (see Handle.note)."""
        sender.note(reason, transient=transient)
        self._endpoints.call(sender.endpoint, "abort_sender")

    def open_ends(self) -> Iterator[Sender]:
        """The senders that may not have ended. For any thread."""
        return (sender for sender in chain(handles_of(self._endpoints.lives), list(self._unbound))
                if sender.stage is not Sending.UNKNOWN)
