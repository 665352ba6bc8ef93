"""The port between a node and its driver: the event loop (transport/) or the simulator (sim/).

A node takes values and the time, and returns effects (core.py). The node calls its driver for few
things: to open a connection, because a refusal fails a hand-over in the same step, and to serve
threads of the application.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol


class Connection(Protocol):
    """A connection to one peer."""

    def send(self, data: bytes) -> bool:
        """Queue a batch for the peer. Returns False if the queue is full: the batch is not sent."""

    def probe(self) -> None:
        """Try whether the peer's host refuses a connection. If it does, a ConnectionChange follows.
        """

    def close(self) -> None:
        """End the connection, and drop what it has not sent."""


class Pace(Protocol):
    """Bounds the time of one turn, and measures its parts."""

    def begin(self, part: str) -> None:
        """Begin a turn. part: the name of its first part."""

    def part(self, name: str) -> None:
        """Begin the next part of the turn."""

    @property
    def has_time(self) -> bool:
        """Whether the part may go on. If not, its other work waits for the next turn."""


class Transport(Protocol):
    """The calls that a driver provides for its node."""

    @property
    def pace(self) -> Pace:
        """The time limits of the node's turns."""

    def clock(self) -> float:
        """Seconds of a clock that never goes back. For any thread."""

    def ask(self, request: Callable[[], None]) -> None:
        """Run a request in the next turn. For any thread.

        Raises LocalProtocolError when the node is closed.
        """

    def ask_later(self, request: Callable[[], None]) -> None:
        """As `ask`, but the request brings no turn by itself. One comes within a sign of life. For
        any thread.
        """

    def wake(self) -> None:
        """Take a turn soon. For any thread."""

    def address_for(self, endpoint: str) -> str:
        """The endpoint at which the peer at `endpoint` can call this node. For any thread.

        Raises RemoteProtocolError if one of the two cannot call the other; the message says how to
        change that.
        """

    def connect(self, name: str, endpoint: str) -> Connection:
        """Open a connection to the peer of this name. Raises RemoteProtocolError if it fails."""


class ConnectionChange(NamedTuple):
    """A connection was made (up), with a complete handshake, or it has ended (not up).

    refused: the host of the peer refuses connections: no process listens there.
    """

    connection: Connection
    up: bool
    refused: bool = False


class Arrived(NamedTuple):
    """The input of a turn: everything since the last turn. A turn stops taking when its time is up.

    requests: calls of the application. batches: the name of each sender, and the parts of its
    message. changes: of connections.
    """

    requests: Iterable[Callable[[], None]] = ()
    batches: Iterable[tuple[str, Sequence[bytes]]] = ()
    changes: Iterable[ConnectionChange] = ()
