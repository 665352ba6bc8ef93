"""Answers over HTTP that come in time as a whole.

A time-out of a socket bounds each wait for bytes. A server that sends a byte now and then would
hold its caller for ever.
"""

import http.client
from contextlib import suppress
from io import BufferedReader, RawIOBase
from socket import SocketIO, socket
from ssl import SSLWantReadError
from time import monotonic
from typing import Any, Final, cast


class _InTime(RawIOBase):
    """Reads a socket until its time-out, from now on, has passed, and then what is there already: a
    process that was stopped meanwhile has it all. Raises TimeoutError where nothing is.
    """

    def __init__(self, raw: SocketIO, source: socket) -> None:
        self._raw: Final = raw
        self._socket: Final = source
        self._seconds: Final = source.gettimeout() or 0.0
        self._ends: Final = monotonic() + self._seconds

    def readable(self) -> bool:
        return True

    def readinto(self, into: Any, /) -> int:
        self._socket.settimeout(max(0.0, self._ends - monotonic()))
        read = None
        with suppress(SSLWantReadError):
            read = self._raw.readinto(into)
        if read is None:
            raise TimeoutError(f"its answer is not there after {self._seconds:g} s")
        return read

    def close(self) -> None:
        self._raw.close()
        super().close()


class AnswerInTime(http.client.HTTPResponse):
    """For `response_class` of a connection that has a time-out. It leaves the socket with a shorter
    one.
    """

    def __init__(self, sock: socket, *given: Any, **named: Any) -> None:
        super().__init__(sock, *given, **named)
        raw = cast("SocketIO", self.fp.detach())
        self.fp = BufferedReader(_InTime(raw, sock))
