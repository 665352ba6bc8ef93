"""An HTTP server in a thread of its own, with a bounded number of connections.

Rule 1: a connection needs a file, and a process has few. When the bound is reached, a new
        connection replaces the one that has had no answer for longest. So a client that sends half
        a request and waits is closed first. Our own clients connect again by themselves.
Rule 2: if files still run out, the log has a line now and then, without a traceback.
"""

import asyncio
import errno
import logging
import resource
import threading
from collections.abc import Callable, Mapping
from ssl import SSLContext
from time import monotonic
from typing import Any, Final, Self

from aiohttp import web

from pdproto.engine.contract import EngineError
from pdproto.engine.hosts import is_wildcard, joined, listening

log = logging.getLogger("pdproto.http")

CLOSING_S: Final = 1.0  # for requests that are served when the server stops
CONNECTIONS_MAX: Final = 1_024  # open at once
HANDSHAKE_S: Final = 5.0  # for the TLS handshake of a client, which holds a file meanwhile
SPENT: Final = errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM


def connections_max() -> int:
    """How many connections a server may have open: half of the files that the process may have."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    half = CONNECTIONS_MAX if soft == resource.RLIM_INFINITY else soft // 2
    return max(1, min(CONNECTIONS_MAX, half))


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
        self.host: Final = host
        self.port = port
        self._title: Final = title
        self._app: Final = app
        self._tls: Final = tls
        self._tick: Final = tick
        self._pause_s: Final = pause_s
        self._most: Final = connections_max()
        self._heard: Final[dict[object, float]] = {}  # when a connection had its last answer
        self._spent = 0  # how often there was no file for a connection
        self._loop: asyncio.AbstractEventLoop | None = None
        self._ending: asyncio.Event | None = None
        self._begun: Final = threading.Event()
        self._error: OSError | None = None
        self._thread: threading.Thread | None = None
        app.middlewares.append(self._note)

    @property
    def address(self) -> str:
        """host:port, or [host]:port of an IPv6 address."""
        return joined(self.host, self.port)

    def start(self) -> None:
        """Start the thread. Returns when the port is open. Raises OSError if it cannot listen."""
        if self._thread is not None:
            raise RuntimeError(f"{self._title}: a server starts only once; create another one")
        self._thread = threading.Thread(target=self._run, name=f"pdproto-{self._title}",
                                        daemon=True)
        self._thread.start()
        self._begun.wait()
        if self._error is not None:
            self._thread.join()
            raise self._error

    def stop(self) -> None:
        """Close the port and every connection. It may be called twice."""
        if self._loop is not None and self._ending is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._ending.set)
        if self._thread is not None:
            self._thread.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        finally:
            self._begun.set()

    async def _serve(self) -> None:
        self._loop, self._ending = asyncio.get_running_loop(), asyncio.Event()
        self._loop.set_exception_handler(self._on_error)
        runner = web.AppRunner(self._app, access_log=None, shutdown_timeout=CLOSING_S)
        await runner.setup()
        server: asyncio.Server | None = None
        try:
            try:
                server = await self._listening(runner)
            except (EngineError, OSError) as error:
                why = getattr(error, "strerror", None) or str(error)
                self._error = OSError(f"{self._title} at {self.address}: {why}")
                return
            self.port = int(server.sockets[0].getsockname()[1])
            self._begun.set()
            await self._tick_until(self._ending)
        finally:
            if server is not None:
                server.close()
            await runner.cleanup()

    async def _listening(self, runner: web.AppRunner) -> asyncio.Server:
        """Listen. asyncio's own servers at :: accept no IPv4 connections."""
        loop, admitted = asyncio.get_running_loop(), self._admitting(runner)
        handshake_s = None if self._tls is None else HANDSHAKE_S
        # asyncio accepts so many at once before it asks for a protocol, and each has a file then.
        backlog = max(1, self._most // 4)
        if is_wildcard(self.host) and ":" in self.host:
            return await loop.create_server(admitted, sock=listening(self.host, self.port),
                                            ssl=self._tls, ssl_handshake_timeout=handshake_s,
                                            backlog=backlog)
        return await loop.create_server(admitted, self.host, self.port, ssl=self._tls,
                                        ssl_handshake_timeout=handshake_s, backlog=backlog)

    def _admitting(self, runner: web.AppRunner) -> Callable[[], asyncio.Protocol]:
        """The factory for the protocols of new connections, which keeps rule 1."""
        server = runner.server
        assert server is not None  # noqa: S101 - the runner has been set up

        def admitted() -> asyncio.Protocol:
            connections = [one for one in server.connections if one.transport is not None]
            if len(connections) >= self._most:
                for gone in self._heard.keys() - set(connections):
                    del self._heard[gone]
                oldest = min(connections, key=lambda one: self._heard.get(one, 0.0))
                oldest.force_close()
            return server()

        return admitted

    @web.middleware
    async def _note(
        self, request: web.Request, handler: Callable[[web.Request], Any]
    ) -> web.StreamResponse:
        response: web.StreamResponse = await handler(request)
        self._heard[request.protocol] = monotonic()
        return response

    def _on_error(self, loop: asyncio.AbstractEventLoop, context: Mapping[str, Any]) -> None:
        error = context.get("exception")
        if isinstance(error, OSError) and error.errno in SPENT:
            self._spent += 1
            if self._spent & (self._spent - 1) == 0:  # the 1st, 2nd, 4th, 8th ...
                log.warning("%s at %s: a connection waits, because no file is free: %s (%d times)",
                            self._title, self.address, error.strerror, self._spent)
            return
        loop.default_exception_handler(dict(context))

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
