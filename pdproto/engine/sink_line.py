"""The sink's end of a TCP connection: it reads and writes frames that arrive in pieces.

Its first frame is a challenge, about which the source has to prove that it has the tokens.

tcp_sink.py and one_sided_sink.py give the frames their meaning.
"""

import socket
from collections import deque
from contextlib import suppress
from secrets import token_bytes
from typing import Final

from pdproto.engine.frames import (
    FRAME_BYTES,
    TOKEN_BYTES,
    VERSION,
    Frame,
    Kind,
    Why,
    challenge,
    decode,
)


class SinkLine:
    """A sink.Line over TCP without the meaning of the frames: a subclass adds it."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.sock: Final = sock
        self.peer = "{}:{}".format(*sock.getpeername()[:2])
        self.source: str | None = None
        self.challenge: Final = token_bytes(TOKEN_BYTES)
        self.version = VERSION  # of the source's frames; answers have it too
        first = challenge(self.challenge).encode()
        self.outbox: deque[tuple[bytes, int | None]] = deque([(first, None)])
        self._frame: Final = bytearray(FRAME_BYTES)
        self._frame_bytes = 0  # bytes of it that have come

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

    def receive_frame(self, expected: frozenset[Kind]) -> Frame | None:
        """Read bytes of a frame. Returns the frame if it is complete.

        Raises BlockingIOError if no byte has come, RemoteProtocolError for a malformed frame or an
        unexpected kind.
        """
        self._frame_bytes += self.checked(
            self.sock.recv_into(memoryview(self._frame)[self._frame_bytes :]))
        if self._frame_bytes < FRAME_BYTES:
            return None
        self._frame_bytes = 0
        frame = decode(self._frame, expected)
        self.version = frame.version
        return frame

    def landed(self, write: int) -> bytes:
        """The frame about a write of the source that has ended well."""
        return Frame(Kind.LANDED, write, version=self.version).encode()

    def refused(self, write: int, why: Why) -> bytes:
        """The frame about a write of the source that is refused."""
        return Frame(Kind.REFUSED, write, length=why, version=self.version).encode()

    def name(self, source: str) -> None:
        """Name the peer after the source of the lease whose token it has shown."""
        if self.source is None:
            self.source = source
            self.peer = f"{source} at {self.peer}"

    @staticmethod
    def checked(count: int) -> int:
        """The number of received bytes. Raises ConnectionResetError for 0: the peer has closed."""
        if not count:
            raise ConnectionResetError("it has closed the connection")
        return count
