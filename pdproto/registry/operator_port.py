"""An HTTP port for the operator of a registry. It is closed by default.

    GET /metrics    for Prometheus
    GET /health     200 while the registry's loop runs; else 503 and why: restart it
    GET /ready      200 while the prefill server can be served from here; else 503 and why

It speaks plain HTTP also where the registry has keys: Prometheus has none. Every process that can
reach it can read counts of ranks, rooms and requests, and the coordinates of a rank that is
missing. It learns no address, and changes nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Final, TypeVar

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from pdproto.net.hosts import split
from pdproto.registry.app import RegistryServer
from pdproto.registry.wire import RefusedError
from pdproto.transport.http_server import HttpServer
from pdproto.transport.patience import within
from pdproto.transport.settings import Settings

LOOP_S: Final = 3.0  # after so long without an answer, the loop of the registry counts as hung

Told = TypeVar("Told")


class RegistryOperatorPort(HttpServer):
    """Serves the state of one registry over HTTP.

        with RegistryServer(keys=keys) as server, RegistryOperatorPort(server, "127.0.0.1", 9402):
            ...

    Port 0 takes a free port. `start` raises OSError, with the address, if it cannot listen there.
    """

    def __init__(self, server: RegistryServer, host: str = "127.0.0.1", port: int = 0) -> None:
        self._server: Final = server
        app = web.Application()
        app.add_routes([web.get("/metrics", self._metrics), web.get("/health", self._health),
                        web.get("/ready", self._ready)])
        super().__init__("operator's port of the registry", app, host, port)

    async def _metrics(self, _: web.Request) -> web.Response:
        text = await self._of_registry(self._server.app.metrics)
        return web.Response(body=text, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def _health(self, _: web.Request) -> web.Response:
        await self._of_registry(lambda: None)
        return web.Response(text="OK")

    async def _ready(self, _: web.Request) -> web.Response:
        try:
            await self._of_registry(self._server.app.require_ready)
        except RefusedError as refusal:
            return web.Response(status=503, text=refusal.reason)
        return web.Response(text="OK")

    async def _of_registry(self, question: Callable[[], Told]) -> Told:
        """The answer of the registry's loop, which alone may read its state. Raises
        HTTPServiceUnavailable if there is none.
        """
        async def answer() -> Told:
            return question()

        try:
            async with within(LOOP_S):
                return await asyncio.wrap_future(self._server.run(answer()))
        except TimeoutError:
            raise web.HTTPServiceUnavailable(
                text=f"the registry's loop has not answered for {LOOP_S:g} s") from None
        except RuntimeError as error:
            raise web.HTTPServiceUnavailable(text=str(error)) from None


def serve_registry_operator(
    server: RegistryServer, settings: Settings
) -> RegistryOperatorPort | None:
    """Open the port that the settings name for the registry's operator. Returns None if they name
    none. Raises OSError if it cannot listen there.
    """
    if not settings.registry_operator:
        return None
    serving = RegistryOperatorPort(server, *split(settings.registry_operator))
    serving.start()
    return serving
