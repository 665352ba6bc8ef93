"""The calls of the application about the hand-overs of a decode rank."""

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pdproto.node.core import Core
from pdproto.node.decode.numbered_lives import NumberedLives
from pdproto.node.decode.receiver import Receiver
from pdproto.node.endpoints import Endpoints
from pdproto.node.handle import ENDED, handles_of
from pdproto.node.node import Handles
from pdproto.runtime import checked
from pdproto.runtime.limits import SINKS_MAX
from pdproto.runtime.role import SinkRole
from pdproto.spec.handoff.presence import Presence


class Receivers(Handles):
    """The node of a receiver (receiver.py). want_memory: queues the request for staging memory; it
    has its pages now.
    """

    want_memory: Callable[[Receiver], None]

    def __init__(
        self, core: Core, endpoints: Endpoints, lives: NumberedLives, role: SinkRole,
        mark: Callable[[Sequence[int]], tuple[int, ...]],
    ) -> None:
        super().__init__(core, endpoints, mark, {
            "open_receiver": self.begin, "finish": self.finish, "abort_receiver": self.give_up})
        self.role: Final = role
        self._lives: Final = lives
        self._alone: Final = (core.name,)

    def new(
        self, room: int, sources: tuple[str, ...], sinks: Sequence[str],
        generation: int | None, use: int | None, prompt: bytes | None,
    ) -> Receiver:
        """A receiver for the next life, or for the one of this number. One thread at a time."""
        life = self._lives.next(
            checked.room(room), checked.whole_or_none("generation", generation),
            checked.whole_or_none("use", use), checked.prompt(prompt))
        told = checked.node_names("sinks", sinks, SINKS_MAX) or self._alone
        if self._core.name not in told:  # prefill would wait for a sink that there is not
            raise ValueError(f"sinks {checked.shown(told)}: want {self._core.name} among them")
        return Receiver(self, life, sources, told)

    def begin(self, receiver: Receiver) -> None:
        """The application has its request."""
        self._endpoints.call(receiver.endpoint, "open_receiver")

    def give_up(self, receiver: Receiver, reason: str, *, transient: bool = False) -> None:
        """Abort the hand-over, for this reason (see Handle.note)."""
        receiver.note(reason, transient=transient)
        self._endpoints.call(receiver.endpoint, "abort_receiver")

    def finish(self, receiver: Receiver) -> None:
        """The application no longer uses a hand-over that has ended."""
        self._endpoints.call(receiver.endpoint, "finish")

    def close_handoff(self, receiver: Receiver, reason: str) -> None:
        """Finish a hand-over that has ended; abort one that has not, for this reason."""
        if receiver.poll() in ENDED:
            self.finish(receiver)
        else:
            self.give_up(receiver, reason)

    def open_ends(self) -> Iterator[Receiver]:
        """The receivers that may not have ended. For any thread."""
        return handles_of(self._endpoints.lives)

    def is_awaited(self, receiver: Receiver) -> bool:
        """Whether a source of which signs of life come may still send a message about it."""
        peers = [self._core.peers.get(name) for name in receiver.endpoint.peers]
        return receiver.life in self._endpoints.lives and any(
            peer is not None and peer.presence is Presence.PRESENT for peer in peers)
