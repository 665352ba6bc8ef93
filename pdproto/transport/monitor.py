"""Reports when connections end and come back: ZeroMQ's own events, of many sockets in one file.

When a process ends, the kernel closes its connections at once; a timeout would notice seconds
later. But connections also end for other reasons: a proxy restarts, or a firewall drops them. So
the end of a connection proves nothing. ZeroMQ connects again by itself, and does not say why that
fails. A probe does: a kernel refuses a connection where no process listens, and accepts one for a
process that stands still.
"""

import errno
import select
import socket
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

import zmq
from zmq.utils.monitor import parse_monitor_message

from pdproto.net.hosts import family_of, place_in_kernel
from pdproto.node.link import host_of, place_of
from pdproto.node.ports import Connection, ConnectionChange

EVENTS_MAX: Final = 64  # sockets whose events are read in one turn; the next turn reads others
IPC: Final = "ipc://"
NOBODY: Final = (errno.ECONNREFUSED, errno.ENOENT)  # no process listens there


class Monitor:
    """Watches the sockets of connections. Only the loop's thread calls it."""

    def __init__(self) -> None:
        self._files: Final = select.epoll()
        # By file: the connection, its socket, and the socket that reports its events.
        self._watched: Final[
            dict[int, tuple[Connection, zmq.Socket[bytes], zmq.Socket[bytes]]]] = {}

        # By file: the connection that is probed, the socket, and the first result.
        self._probes: Final[dict[int, tuple[Connection, socket.socket, int]]] = {}

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

    def probe(self, connection: Connection, endpoint: str) -> None:
        """See Connection. endpoint: with an address, or a path."""
        if any(probed is connection for probed, _, _ in self._probes.values()):
            return
        host, problem = host_of(endpoint), errno.ECONNREFUSED
        family = socket.AF_UNIX if host is None else family_of(host)
        with suppress(OSError):  # no file is to be had: a later probe may have one
            sock = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            if endpoint.startswith(IPC):
                problem = sock.connect_ex(endpoint.removeprefix(IPC))
            elif host is not None:
                problem = sock.connect_ex(place_in_kernel(*place_of(endpoint)))
            # One that is refused at once is readable at once.
            self._probes[sock.fileno()] = connection, sock, problem
            self._files.register(sock.fileno(), select.EPOLLOUT)

    def _end_probe(self, file: int) -> ConnectionChange | None:
        """Close the socket of a probe. Returns the change, if the connection is refused."""
        connection, sock, problem = self._probes.pop(file)
        self._files.unregister(file)
        if problem == errno.EINPROGRESS:
            problem = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        sock.close()
        is_refused = problem in NOBODY
        return ConnectionChange(connection, up=False, refused=True) if is_refused else None

    def remove(self, connection: Connection) -> None:
        """Stop watching the connection, if it is watched."""
        for file in [file for file, probe in self._probes.items() if probe[0] is connection]:
            self._end_probe(file)
        for file, (watched, caller, monitor) in list(self._watched.items()):
            if watched is connection:
                self._files.unregister(file)
                del self._watched[file]
                caller.disable_monitor()
                monitor.close(linger=0)

    def changes(self) -> Iterator[ConnectionChange]:
        """The changes since the last call, in order for each connection."""
        for file, _ in self._files.poll(0, EVENTS_MAX):
            if file in self._probes:
                if (change := self._end_probe(file)) is not None:
                    yield change
                continue
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
