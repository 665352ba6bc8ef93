"""The TCP engine's source: segments of the caller's own memory go to the socket without a copy."""

import socket
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from pdproto.engine import tcp_sink
from pdproto.engine.contract import Result
from pdproto.engine.frames import FRAME_BYTES, Frame, Kind, agreed, decode
from pdproto.engine.source import (
    BYTES_MAX,
    SILENCE_MS,
    WRITES_MAX,
    Posted,
    Source,
    dial,
    opening,
)
from pdproto.runtime.errors import RemoteProtocolError

SEGMENT_BYTES: Final = 1 << 20  # a refusal stops a write at the end of a segment
VIEWS_MAX: Final = 256  # of a segment; the system allows 1024 in one call
TURN_BYTES: Final = 4 << 20  # to one connection, before the others are served
FIRST: Final = frozenset({Kind.CHALLENGE})
EXPECTED: Final = frozenset({Kind.LANDED, Kind.REFUSED})


class TcpSource(Source):
    """Writes to sinks on other hosts over TCP.

    bytes_max, writes_max: the limits of what is in flight; beyond them `post` raises EngineBusy.
    The last write may exceed bytes_max. host: an address of this host, whose zone is that of sinks
    with link-local addresses (hosts.in_zone). silence_ms: how long a sink's host may accept no
    bytes before it counts as lost.
    """

    engine = tcp_sink.ENGINE
    gathers = True

    def __init__(
        self,
        *,
        host: str = "",
        bytes_max: int = BYTES_MAX,
        writes_max: int = WRITES_MAX,
        silence_ms: int = SILENCE_MS,
    ) -> None:
        super().__init__(
            line=lambda endpoint: TcpLine(self, endpoint, silence_ms, host),
            bytes_max=bytes_max,
            writes_max=writes_max,
        )


class TcpLine:
    """The connection to one sink: its writes go one after the other."""

    def __init__(self, source: TcpSource, endpoint: str, silence_ms: int, host: str) -> None:
        self.sock: Final = dial(endpoint, silence_ms, host)
        self.open: Final[dict[int, Posted]] = {}
        self._source: Final = source
        self._queue: Final[deque[Posted]] = deque()
        self._connected = False
        self._challenge: Frame | None = None  # until it has come, nothing is sent
        self._sending: Posted | None = None
        self._pieces: Iterator[list[memoryview]] = iter(())
        self._rest: list[memoryview] = []  # the unsent part of a piece
        self._frame: Final = bytearray(FRAME_BYTES)
        self._frame_bytes = 0

    @property
    def unsent(self) -> bool:
        """See source.Line."""
        if self._challenge is None:
            return not self._connected
        return bool(self._rest or self._queue) or self._sending is not None

    def begin(self, posted: Posted) -> None:
        """See source.Line."""
        self._queue.append(posted)
        if self._challenge is not None and len(self._queue) == 1:
            self.flush()

    def receive(self) -> None:
        """See source.Line."""
        with suppress(BlockingIOError):
            while True:
                count = self.sock.recv_into(memoryview(self._frame)[self._frame_bytes :])
                if not count:
                    raise ConnectionResetError("it has closed the connection")
                self._frame_bytes += count
                if self._frame_bytes == FRAME_BYTES:
                    self._frame_bytes = 0
                    if self._challenge is not None:
                        self._answer(decode(self._frame, EXPECTED))
                    else:
                        self._challenge = agreed(decode(self._frame, FIRST))

    def flush(self) -> None:
        """See source.Line. It sends up to `TURN_BYTES`. The first call finds out whether connecting
        has succeeded.
        """
        if not self._connected:
            if failed := self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
                raise OSError(failed, "cannot connect")
            with suppress(OSError):
                self.sock.getpeername()
                self._connected = True
        left = TURN_BYTES
        with suppress(BlockingIOError):
            while left > 0 and self._next():
                sent = self.sock.sendmsg(self._rest)
                left -= sent
                if self._sending is not None:
                    self._sending.begun = True
                self._took(sent)

    def ended(self) -> None:
        """See source.Line."""
        self._queue.clear()
        self._rest.clear()
        self._pieces = iter(())

    def _next(self) -> bool:
        """Take the next piece to send, if there is none now. Returns whether there is one."""
        while not self._rest:
            self._rest = next(self._pieces, [])
            if self._rest:
                break
            self._sending = None
            if self._challenge is None or not self._queue:
                return False
            self._sending = self._queue.popleft()
            self._pieces = _pieces(self._sending, self._challenge)
        return True

    def _took(self, sent: int) -> None:
        rest = self._rest
        whole = 0
        while whole < len(rest) and sent >= rest[whole].nbytes:
            sent -= rest[whole].nbytes
            whole += 1
        del rest[:whole]
        if sent:
            rest[0] = rest[0][sent:]
        if not rest:
            # If that was the last piece, `unsent` must be False now.
            self._next()

    def _answer(self, frame: Frame) -> None:
        posted = self._source.answered(self, frame.write)
        if frame.kind is Kind.REFUSED:
            self._source.finish(posted, Result.REFUSED, frame.why)
        elif posted is self._sending or not posted.begun:
            self.open[posted.number] = posted
            raise RemoteProtocolError(f"write {posted.number} has landed before it was sent")
        else:
            self._source.finish(posted, Result.LANDED)


def _pieces(posted: Posted, challenge: Frame) -> Iterator[list[memoryview]]:
    """Yield the pieces of a write, a segment at a time, until it is refused."""
    head = opening(posted, challenge)
    for segment in _segments(posted.views):
        if posted.ended:
            return
        length = sum(piece.nbytes for piece in segment)
        head += Frame(Kind.SEGMENT, posted.number, length=length,
                      version=challenge.version).encode()
        yield [memoryview(head), *segment]
        head = b""
    if head:
        yield [memoryview(head)]


def _segments(views: tuple[memoryview, ...]) -> Iterator[list[memoryview]]:
    """The views, joined where they are short and cut where they are long."""
    segment: list[memoryview] = []
    left = SEGMENT_BYTES
    for view in views:
        start = 0
        while start < view.nbytes:
            piece = view[start : start + left]
            segment.append(piece)
            start += piece.nbytes
            left -= piece.nbytes
            if not left or len(segment) == VIEWS_MAX:
                yield segment
                segment, left = [], SEGMENT_BYTES
    if segment:
        yield segment
