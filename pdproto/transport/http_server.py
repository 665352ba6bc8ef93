"""An HTTP server in a thread of its own, with a bounded number of connections.

Rule 1: a connection needs a file, and a process has few. When the bound is reached, a new
        connection replaces the oldest one without a complete handshake. If all are complete, it
        replaces the one that has had no answer for longest. So a client that sends half a request
        and waits is closed first. Our own clients connect again by themselves.
Rule 2: if files still run out, the log has a line now and then, without a traceback.
Rule 3: an answer goes out in pieces, as its client reads it. A client that has not read it within
        ANSWER_S is disconnected. So are those whose answers wait for longest, while the answers
        that wait have more than UNREAD_BYTES_MAX bytes.
Rule 4: a connection without a whole request for IDLE_S is closed.
Rule 5: a body is not decompressed, because a small one may hold a great one. A malformed request is
        answered with 400, and not logged.
"""

import asyncio
import errno
import logging
import socket
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from ssl import SSLContext
from time import monotonic
from typing import Any, Final, Self, TypeVar

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from pdproto.net import threads
from pdproto.net.hosts import PORT_MAX, joined, listening
from pdproto.runtime import checked
from pdproto.runtime.limits import ANSWER_S, HANDSHAKE_S, IDLE_S, UNREAD_BYTES_MAX
from pdproto.runtime.repeats import is_told
from pdproto.transport.files import connections_max
from pdproto.transport.patience import within

log = logging.getLogger("pdproto.http")

CLOSING_S: Final = 1.0  # for requests that are served when the server stops, and to end TLS
ACCEPTED_MAX: Final = 16  # at once, before the loop serves others
PAUSE_S: Final = 0.05  # before another attempt to accept, when no file is free
HOST_MAX: Final = 255  # characters, as in names of hosts
PIECE: Final = 1 << 16  # bytes of an answer that are written at once
SPENT: Final = errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM

Told = TypeVar("Told")


def _is_of_server(record: logging.LogRecord) -> bool:
    """Whether a line of the log is not about a malformed request (rule 5)."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, HttpProcessingError)


log.addFilter(_is_of_server)


class HttpServer:
    """Serves an application at `host` and `port`; port 0 takes a free port.

    title: the server's name in errors, and of its thread. tls: None for plain HTTP. tick: called in
    the loop every `pause_s` seconds. `start` raises OSError, with the address, if it cannot listen
    there.
    """

    def __init__(
        self, title: str, app: web.Application, host: str, port: int, *,
        tls: SSLContext | None = None, tick: Callable[[], None] | None = None, pause_s: float = 1.0,
    ) -> None:
        self.host: Final = checked.text("host", host, HOST_MAX)
        self.port = checked.whole("port", port, 0, PORT_MAX)
        self.closed_connections = 0  # to make room for new ones
        self.unread_answers = 0  # whose clients were disconnected by rule 3
        self._title: Final = title
        self._app: Final = app
        self._tls: Final = tls
        self._tick: Final = tick
        self._pause_s: Final = pause_s
        self._most: Final = connections_max()
        # When a connection had its last answer.
        self._heard: Final[dict[web.RequestHandler, float]] = {}
        # Bytes of answers of several pieces that are being read, the oldest first.
        self._unread: Final[dict[web.RequestHandler, int]] = {}
        # Handshakes, the oldest first, each with its connection unless that was ended.
        self._greeting: Final[dict[asyncio.Task[None], socket.socket | None]] = {}
        self._spent = 0  # how often there was no file for a connection
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._begun: Final = threading.Event()
        self._error: OSError | None = None
        self._thread: threads.ServiceThread | None = None
        app.middlewares.insert(0, self._answer)

    @property
    def address(self) -> str:
        """host:port, or [host]:port of an IPv6 address."""
        return joined(self.host, self.port)

    def start(self) -> None:
        """Start the thread. Returns when the port is open. Raises OSError if it cannot listen."""
        if self._thread is not None:
            raise RuntimeError(f"{self._title}: a server starts only once; create another one")
        self._thread = threads.ServiceThread(self._run, f"pdproto-{self._title}")
        self._thread.start()
        self._begun.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def leave_to_parent(self) -> None:
        """See threads.Inherited."""
        self._loop = None
        threads.close_sockets((self.port,))

    def stop(self) -> None:
        """Close the port and every connection. It may be called twice."""
        if self._loop is not None and self._ending is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ending.set)
        if self._thread is not None:
            self._thread.join()

    def run(self, question: Coroutine[Any, Any, Told]) -> Future[Told]:
        """Run a coroutine in the loop of the server. For any thread. Raises RuntimeError if the
        server does not run.
        """
        if self._loop is None or self._loop.is_closed():
            question.close()
            raise RuntimeError(f"the {self._title} does not run")
        return asyncio.run_coroutine_threadsafe(question, self._loop)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        threads.watch(self)
        try:
            asyncio.run(self._serve())
        finally:
            threads.forget(self)
            self._begun.set()

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=CLOSING_S,
                               keepalive_timeout=IDLE_S, auto_decompress=False, logger=log)
        await runner.setup()
        listeners: list[socket.socket] = []
        try:
            try:
                listeners = self._listening()
            except OSError as error:
                why = getattr(error, "strerror", None) or str(error)
                self._error = OSError(f"{self._title} at {self.address}: {why}")
                return
            server = runner.server
            assert server is not None  # noqa: S101 - the runner has been set up
            for listener in listeners:
                self._await_clients(listener, server)
            self._begun.set()
            await self._tick_until(self._ending)
        finally:
            for listener in listeners:
                self._loop.remove_reader(listener)
                listener.close()
            for greeting in self._greeting:
                self._end(greeting)
            await asyncio.gather(*self._greeting)
            await self._end_all(runner)

    def _listening(self) -> list[socket.socket]:
        """Listen at each address of the host. Raises OSError."""
        found = socket.getaddrinfo(self.host, self.port, type=socket.SOCK_STREAM,
                                   flags=socket.AI_PASSIVE)
        listeners: list[socket.socket] = []
        for host in dict.fromkeys(str(address[0]) for *_, address in found):
            listeners.append(listening(host, self.port))
            self.port = int(listeners[0].getsockname()[1])
        return listeners

    @staticmethod
    async def _end_all(runner: web.AppRunner) -> None:
        """Close the connections, also those whose clients read nothing."""
        server = runner.server
        opened = [] if server is None else [one.transport for one in server.connections]
        await runner.cleanup()
        for transport in opened:
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0)  # in which the transports close

    def _await_clients(self, listener: socket.socket, server: web.Server) -> None:
        if listener.fileno() >= 0:
            asyncio.get_running_loop().add_reader(listener, self._accept, listener, server)

    def _accept(self, listener: socket.socket, server: web.Server) -> None:
        """Accept the connections that wait, and keep both rules."""
        loop = asyncio.get_running_loop()
        for _ in range(ACCEPTED_MAX):
            try:
                connection, _ = listener.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as error:
                self._note_spent(error)
                self._make_room(server)
                loop.remove_reader(listener)
                loop.call_later(PAUSE_S, self._await_clients, listener, server)
                return
            connection.setblocking(False)
            self._make_room(server)
            greeting = loop.create_task(self._greet(connection, server))
            self._greeting[greeting] = connection
            greeting.add_done_callback(self._greeting.pop)

    async def _greet(self, connection: socket.socket, server: web.Server) -> None:
        """Complete the handshake of a connection. Then the server has it."""
        handshake_s = None if self._tls is None else HANDSHAKE_S
        with suppress(OSError):  # as the client likes
            transport, _ = await asyncio.get_running_loop().connect_accepted_socket(
                server, connection, ssl=self._tls, ssl_handshake_timeout=handshake_s,
                ssl_shutdown_timeout=None if self._tls is None else CLOSING_S)
            transport.set_write_buffer_limits(PIECE)  # for TLS it would be half a MiB

    def _make_room(self, server: web.Server) -> None:
        """End a connection if there are too many (rule 1)."""
        connections = [one for one in server.connections if one.transport is not None]
        greeting = [one for one, connection in self._greeting.items() if connection is not None]
        if len(connections) + len(greeting) < self._most:
            return
        self.closed_connections += 1
        if greeting:
            self._end(greeting[0])
            return
        for gone in self._heard.keys() - set(connections):
            del self._heard[gone]
        oldest = min(connections, key=lambda one: self._heard.get(one, 0.0))
        if oldest.transport is not None:
            oldest.transport.abort()  # to close it would wait for a client that does not read

    @web.middleware
    async def _answer(
        self, request: web.Request, handler: Callable[[web.Request], Any]
    ) -> web.StreamResponse:
        """Write each answer, by rule 3."""
        raised: web.HTTPException | None = None
        try:
            response: web.StreamResponse = await handler(request)
        except web.HTTPException as error:
            response = raised = error
        try:
            async with within(ANSWER_S):
                response = await self._write(request, response)
            self._note_answer(request.protocol)
        except TimeoutError:
            self._end_unread(request.protocol)
        except ConnectionError:
            pass  # the client has gone, or rule 3 has disconnected it: aiohttp notices, too
        if raised is not None:
            raise raised
        return response

    async def _write(
        self, request: web.Request, response: web.StreamResponse
    ) -> web.StreamResponse:
        """Write an answer. Returns the one that was written."""
        body = response.body if isinstance(response, web.Response) else None
        if not isinstance(body, bytes) or len(body) <= PIECE or request.method == "HEAD":
            await response.prepare(request)
            await response.write_eof()
            return response
        written = web.StreamResponse(status=response.status, headers=response.headers)
        written.content_length = len(body)
        self._unread[request.protocol] = len(body)
        while sum(self._unread.values()) > UNREAD_BYTES_MAX and len(self._unread) > 1:
            self._end_unread(next(iter(self._unread)))
        try:
            await written.prepare(request)
            for start in range(0, len(body), PIECE):
                await written.write(body[start:start + PIECE])
            await written.write_eof()
        finally:
            self._unread.pop(request.protocol, None)
        return written

    def _note_answer(self, connection: web.RequestHandler) -> None:
        """Note when a connection had its answer. Forget ended ones before they are too many."""
        if len(self._heard) >= 2 * self._most:
            for ended in [one for one in self._heard if one.transport is None]:
                del self._heard[ended]
        self._heard[connection] = monotonic()

    def _end_unread(self, connection: web.RequestHandler) -> None:
        """Disconnect a client that does not read its answer."""
        self.unread_answers += 1
        self._unread.pop(connection, None)
        if connection.transport is not None:
            connection.transport.abort()  # to close it would wait for the client

    def _end(self, greeting: asyncio.Task[None]) -> None:
        """End a connection before its handshake is complete."""
        connection, self._greeting[greeting] = self._greeting[greeting], None
        with suppress(OSError):  # the client has ended it already
            if connection is not None:
                connection.shutdown(socket.SHUT_RDWR)

    def _note_spent(self, error: OSError) -> None:
        """Keep rule 2."""
        if error.errno not in SPENT:
            return
        self._spent += 1
        if is_told(self._spent):
            log.warning("%s at %s: a connection waits, because no file is free: %s (%d so far)",
                        self._title, self.address, error.strerror, self._spent)

    async def _tick_until(self, ending: asyncio.Event) -> None:
        while not ending.is_set():
            try:
                if self._tick is not None:
                    self._tick()
            except Exception:
                # A defect in the tick must not end the server.
                log.exception("%s at %s: its regular tick failed", self._title, self.address)
            try:
                await asyncio.wait_for(ending.wait(), self._pause_s)
            except TimeoutError:
                continue
