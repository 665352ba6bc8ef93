"""The port between a node and its driver: the event loop (transport/) or the simulator (sim/).

A node takes values and the time, and returns effects (core.py). Only a few calls go the other way:
they open a connection, whose refusal fails a hand-over in the same step, and they serve threads of
the application.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol


class Connection(Protocol):
    """A connection to one peer."""

    def send(self, data: bytes) -> bool:
        """Queue a batch for the peer. False: the queue is full, and the batch is not taken."""

    def close(self) -> None:
        """End the connection, and drop what it has not sent."""


class Pace(Protocol):
    """Bounds one turn, and measures its parts."""

    def begin(self, part: str) -> None:
        """A turn begins with this part."""

    def part(self, name: str) -> None:
        """The next part of the turn begins."""

    @property
    def has_time(self) -> bool:
        """Whether the part may go on. If not, the rest of it is left to the next turn."""


class Transport(Protocol):
    """What a driver provides for its node."""

    @property
    def pace(self) -> Pace: ...

    def clock(self) -> float:
        """Seconds of a clock that never goes back. For any thread."""

    def ask(self, request: Callable[[], None]) -> None:
        """Have the next turn run a request. For any thread.

        Raises LocalProtocolError when the node is closed.
        """

    def wake(self) -> None:
        """Have a turn soon. For any thread."""

    def address_for(self, endpoint: str) -> str:
        """The endpoint at which the peer at `endpoint` can call this node. For any thread.

        Raises RemoteProtocolError, with the way out, where one of the two cannot call the other.
        """

    def connect(self, endpoint: str) -> Connection:
        """Open a connection. Raises RemoteProtocolError if there can be none."""


class ConnectionChange(NamedTuple):
    """up: the connection has been made, and greeted at the other end. Otherwise it has ended."""

    connection: Connection
    up: bool


class Arrived(NamedTuple):
    """All that has come since the last turn. A turn takes from each as long as it has time.

    requests: of the application. batches: the name of each sender, and the parts of its message.
    """

    requests: Iterable[Callable[[], None]] = ()
    batches: Iterable[tuple[str, Sequence[bytes]]] = ()
    changes: Iterable[ConnectionChange] = ()
