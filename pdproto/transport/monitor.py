"""Reports when connections end and come back: ZeroMQ's own events, of many sockets in one file.

When a process ends, the kernel closes its connections at once; a timeout would notice seconds
later. But connections also end for other reasons: a proxy restarts, or a firewall drops them. So
the end of a connection proves nothing. ZeroMQ connects again by itself, and only a running process
answers its handshake. A peer that does not answer for some time counts as gone
(node/connections.py).
"""

import select
from collections.abc import Iterator
from typing import Final

import zmq
from zmq.utils.monitor import parse_monitor_message

from pdproto.node.ports import Connection, ConnectionChange

EVENTS_MAX: Final = 64  # sockets whose events are read in one turn; the next turn reads others


class Monitor:
    """Watches the sockets of connections. Only the loop's thread calls it."""

    def __init__(self) -> None:
        self._files: Final = select.epoll()
        # By file: the connection, its socket, and the socket that reports its events.
        self._watched: Final[
            dict[int, tuple[Connection, zmq.Socket[bytes], zmq.Socket[bytes]]]] = {}

    def fileno(self) -> int:
        """A file that is readable when there may be changes."""
        return self._files.fileno()

    def add(self, connection: Connection, socket: "zmq.Socket[bytes]") -> None:
        """Watch a connection. Raises zmq.ZMQError if there can be no more sockets."""
        monitor = socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        file = int(monitor.getsockopt(zmq.FD))
        self._watched[file] = connection, socket, monitor
        # ZeroMQ signals new events only after a reader has found none.
        monitor.getsockopt(zmq.EVENTS)
        self._files.register(file, select.EPOLLIN)

    def remove(self, connection: Connection) -> None:
        """Stop watching the connection, if it is watched."""
        for file, (watched, socket, monitor) in list(self._watched.items()):
            if watched is connection:
                self._files.unregister(file)
                del self._watched[file]
                socket.disable_monitor()
                monitor.close(linger=0)

    def changes(self) -> Iterator[ConnectionChange]:
        """The changes since the last call, in order for each connection."""
        for file, _ in self._files.poll(0, EVENTS_MAX):
            if file not in self._watched:
                continue  # an earlier change has ended this connection
            connection, _, monitor = self._watched[file]
            # The file says only that there may be events, so all of them must be read.
            while int(monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                event = parse_monitor_message(monitor.recv_multipart(zmq.NOBLOCK))["event"]
                yield ConnectionChange(connection, up=event == zmq.EVENT_HANDSHAKE_SUCCEEDED)

    def close(self) -> None:
        """Stop watching all connections. The connections stay open."""
        for connection, _, _ in list(self._watched.values()):
            self.remove(connection)
        self._files.close()
