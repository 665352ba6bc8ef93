"""Something between two nodes that ends their connections, and may swallow what goes through."""

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import wait

from tests.node.data_paths import OWN_HOST
from tests.waiting import ended


class Proxy:
    """Listens, and passes on to a ZeroMQ endpoint. made: connections so far. swallowed: what has
    gone no further.
    """

    def __init__(self, endpoint: str) -> None:
        host, port = endpoint.removeprefix("tcp://").split(":")
        self._target = host, int(port)
        self._listener = socket.create_server((OWN_HOST, 0))
        self.endpoint = f"tcp://{OWN_HOST}:{self._listener.getsockname()[1]}"
        self.made = 0
        self.swallows = False
        self.swallowed = bytearray()
        self._ways: dict[socket.socket, socket.socket] = {}
        self._cutting = threading.Event()
        self._ended = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def cut(self) -> None:
        """End every connection that is there; whoever calls again is served."""
        self._cutting.set()

    def close(self) -> None:
        """End every connection, and serve nobody any more."""
        self._ended = True
        ended(self._thread)

    def _run(self) -> None:
        while not self._ended:
            ready = wait([self._listener, *self._ways], 0.01)  # select takes no file above 1,023
            if self._cutting.is_set():
                self._cutting.clear()
                self._end()
                continue
            for side in ready:
                if side is self._listener:
                    self._accept()
                elif side in self._ways:
                    self._pass_on(side)
        self._end()
        self._listener.close()

    def _accept(self) -> None:
        near, _ = self._listener.accept()
        try:
            far = socket.create_connection(self._target)
        except ConnectionRefusedError:  # its node has closed: whoever calls meanwhile finds nobody
            near.close()
            return
        self._ways.update({near: far, far: near})
        self.made += 1

    def _pass_on(self, side: socket.socket) -> None:
        data = b""
        with suppress(ConnectionError):
            data = side.recv(1 << 16)
        other = self._ways[side]
        if not data:
            for end in (side, other):
                del self._ways[end]
                end.close()
        elif self.swallows:
            self.swallowed += data
        else:
            with suppress(ConnectionError):  # the other has gone, and is noticed there
                other.sendall(data)

    def _end(self) -> None:
        for side in self._ways:
            side.close()
        self._ways.clear()


@contextmanager
def proxy(endpoint: str) -> Iterator[Proxy]:
    """One that is closed, whatever becomes of the test."""
    it = Proxy(endpoint)
    try:
        yield it
    finally:
        it.close()
