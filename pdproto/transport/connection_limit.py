"""The limit for the connections that peers open to a node. ZeroMQ itself has none.

Rule 1: past the limit, the oldest connection without a complete handshake is ended, for a
        stranger has no keys to complete it. If all are complete, the newest is ended.
Rule 2: a file is ended only if it still is the accepted connection. ZeroMQ may have closed it, and
        the process may have opened another one under its number.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import zmq
from zmq.utils.monitor import parse_monitor_message

from pdproto.transport.files import connections_max

EVENTS_MAX: Final = 256  # read in one turn of the loop; the next turn reads others


class ConnectionLimit:
    """Limits the connections to a listening socket. Only the loop's thread calls it.

    ended: how many connections were ended to keep the limit.
    """

    def __init__(self, listener: "zmq.Socket[bytes]") -> None:
        self.ended = 0
        self._most: Final = connections_max()
        self._listener: Final = listener
        self._monitor: Final = listener.get_monitor_socket(
            zmq.EVENT_ACCEPTED | zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        # By file, the oldest first: both addresses of a connection.
        self._begun: Final[dict[int, tuple[Any, Any]]] = {}
        self._complete: Final[dict[int, tuple[Any, Any]]] = {}
        # A file to look at a connection with, also when the process can open no more.
        self._nothing: Final = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
        self._spare: Final = os.dup(self._nothing)
        self.unread = True  # ZeroMQ signals new events only after a reader has found none

    def fileno(self) -> int:
        """A file that is readable when there may be events."""
        return int(self._monitor.getsockopt(zmq.FD))

    @property
    def connections(self) -> int:
        """How many connections are open. For any thread."""
        return len(self._begun) + len(self._complete)

    def interfaces_of(self, host: str) -> set[int]:
        """The numbers of the interfaces by which this link-local IPv6 address calls. For any
        thread.
        """
        callers = [theirs for _, theirs in (*self._begun.values(), *self._complete.values())]
        return {theirs[3] for theirs in callers if len(theirs) == 4 and theirs[0] == host}

    def look(self) -> None:
        """Read what has happened to the connections, and keep the limit."""
        for _ in range(EVENTS_MAX):
            self.unread = bool(int(self._monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN)
            if not self.unread:
                break
            event = parse_monitor_message(self._monitor.recv_multipart(zmq.NOBLOCK))
            self._note(event["event"], int(event["value"]))
        while self.connections > self._most:
            self._end_one()

    def close(self) -> None:
        """Stop looking. The connections stay open."""
        self._listener.disable_monitor()
        self._monitor.close(linger=0)
        os.close(self._spare)
        os.close(self._nothing)

    def _note(self, event: int, file: int) -> None:
        if event == zmq.EVENT_ACCEPTED:
            with suppress(OSError), self._seen(file) as connection:  # it may have ended already
                self._begun[file] = _ends_of(connection)
        elif event == zmq.EVENT_HANDSHAKE_SUCCEEDED and file in self._begun:
            self._complete[file] = self._begun.pop(file)
        elif event == zmq.EVENT_DISCONNECTED:
            self._begun.pop(file, None)
            self._complete.pop(file, None)

    def _end_one(self) -> None:
        """Keep rule 1, by rule 2."""
        known = self._begun or self._complete
        file = next(iter(known) if self._begun else reversed(known))
        ends = known.pop(file)
        with suppress(OSError), self._seen(file) as connection:
            if _ends_of(connection) == ends:
                connection.shutdown(socket.SHUT_RDWR)
                self.ended += 1

    @contextmanager
    def _seen(self, file: int) -> Iterator[socket.socket]:
        """The socket of this file, under a number that only this object uses."""
        os.dup2(file, self._spare, inheritable=False)
        seen = socket.socket(fileno=self._spare)
        try:
            yield seen
        finally:
            seen.detach()
            os.dup2(self._nothing, self._spare, inheritable=False)


def _ends_of(connection: socket.socket) -> tuple[Any, Any]:
    """The addresses of both ends. Raises OSError if it is not connected."""
    return connection.getsockname(), connection.getpeername()
