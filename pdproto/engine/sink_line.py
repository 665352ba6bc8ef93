"""A source's connection over TCP, as a sink holds it: frames come in, frames go out, in pieces.

What the frames are about is the engine's; see tcp_sink.py and one_sided_sink.py.
"""

import socket
from collections import deque
from contextlib import suppress
from typing import Final

from pdproto.engine.frames import FRAME_BYTES, Frame, Kind, decode


class SinkLine:
    """Whatever a sink's line over TCP needs to be one of sink.Line, but for what frames mean."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock: Final = sock
        self.peer = "{}:{}".format(*sock.getpeername()[:2])
        self.source: str | None = None
        self.outbox: deque[tuple[bytes, int | None]] = deque()
        self._frame: Final = bytearray(FRAME_BYTES)
        self._frame_bytes = 0  # that have come

    def flush(self) -> None:
        """See sink.Line."""
        with suppress(BlockingIOError):
            while self.outbox:
                frame, _ = self.outbox[0]
                sent = self.sock.send(frame)
                if sent < len(frame):
                    self.outbox[0] = frame[sent:], None
                    return
                self.outbox.popleft()

    def receive_frame(self, expected: frozenset[Kind]) -> tuple[int, Frame | None]:
        """Take what has come of a frame: how many bytes, and the frame if these were its last.

        Raises BlockingIOError when nothing has come, RemoteProtocolError for what is no frame of
        the kinds expected.
        """
        count = self.took(self.sock.recv_into(memoryview(self._frame)[self._frame_bytes :]))
        self._frame_bytes += count
        if self._frame_bytes < FRAME_BYTES:
            return count, None
        self._frame_bytes = 0
        return count, decode(self._frame, expected)

    def name(self, source: str) -> None:
        """A lease that it has shown the token of says who it is."""
        if self.source is None:
            self.source = source
            self.peer = f"{source} at {self.peer}"

    @staticmethod
    def took(count: int) -> int:
        """So many bytes were received; none is how a connection ends."""
        if not count:
            raise ConnectionResetError("it has closed the connection")
        return count
