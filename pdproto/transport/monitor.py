"""Says when connections end and come back: ZeroMQ's own events, of many sockets behind one file.

A process that dies closes its connections, and the kernel says so at once: silence would take
seconds to say the same. But a connection ends for other reasons too: a proxy restarts, a firewall
forgets. So an end proves nothing by itself. ZeroMQ connects again by itself, and only a process
that is there answers its handshake: whoever does not do so for a while is gone (event_loop.py).
"""

import select
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import zmq
from zmq.utils.monitor import parse_monitor_message

EVENTS_MAX: Final = 64  # read in one turn; the rest is there in the next


@dataclass(frozen=True, slots=True)
class Change:
    """up: a connection of the socket has been made, and greeted at the other end. Or it ended."""

    socket: "zmq.Socket[bytes]"
    up: bool


class Watch:
    """The sockets whose connections are watched. Only the loop's thread touches it."""

    def __init__(self) -> None:
        self._files: Final = select.epoll()
        self._watched: Final[dict[int, tuple[zmq.Socket[bytes], zmq.Socket[bytes]]]] = {}

    def fileno(self) -> int:
        """A file that is readable when there may be changes."""
        return self._files.fileno()

    def add(self, socket: "zmq.Socket[bytes]") -> None:
        """Watch a socket. Raises zmq.ZMQError where there can be no more sockets."""
        monitor = socket.get_monitor_socket(
            zmq.EVENT_HANDSHAKE_SUCCEEDED | zmq.EVENT_DISCONNECTED)
        file = int(monitor.getsockopt(zmq.FD))
        self._watched[file] = socket, monitor
        # ZeroMQ tells of what comes only a reader that has found nothing.
        monitor.getsockopt(zmq.EVENTS)
        self._files.register(file, select.EPOLLIN)

    def remove(self, socket: "zmq.Socket[bytes]") -> None:
        """Watch it no longer, if it is watched."""
        for file, (watched, monitor) in list(self._watched.items()):
            if watched is socket:
                self._files.unregister(file)
                del self._watched[file]
                socket.disable_monitor()
                monitor.close(linger=0)

    def changes(self) -> Iterator[Change]:
        """What has become of connections since the last call, in order for each socket."""
        for file, _ in self._files.poll(0, EVENTS_MAX):
            if file not in self._watched:
                continue  # what came of an earlier change has ended this one
            socket, monitor = self._watched[file]
            # ZeroMQ's file says only that something may have come, until all of it is read.
            while int(monitor.getsockopt(zmq.EVENTS)) & zmq.POLLIN:
                event = parse_monitor_message(monitor.recv_multipart(zmq.NOBLOCK))["event"]
                yield Change(socket, up=event == zmq.EVENT_HANDSHAKE_SUCCEEDED)

    def close(self) -> None:
        """Watch nothing any more. The sockets stay as they are."""
        for socket, _ in list(self._watched.values()):
            self.remove(socket)
        self._files.close()
