"""An HTTP port for the operator of a node. It is closed by default.

    GET /metrics            for Prometheus
    GET /health             200 while the node's loop and device run; else 503 and why: restart it
    GET /ready              200 while the node takes requests; else 503 and why: send none
    POST /drain             begin to drain: 202 and the requests left, and 200 when there are none
    GET /debug/handoffs     the open hand-overs: the events that each waits for, and the timers that
                            would end it (?limit=100, ?room=7, ?state=bootstrapping)
    GET /debug/faults       the faults in force, such as bootstrap=0.1,transfer=0 (node/faults.py)
    PUT /debug/faults       replace them by those of the body: hand-overs fail on purpose. Only with
                            `Authorization: Bearer TOKEN`, and only if the port has a token

Every process that can reach it can begin a drain, and can read names, addresses, rooms and rates,
but no KV cache.
"""

import hmac
import logging
import sys
from asyncio import Lock, Task, create_task, shield, to_thread
from typing import Final

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from pdproto.net.hosts import PORT_MAX, split
from pdproto.node.faults import FaultsError
from pdproto.runtime import checked
from pdproto.runtime.errors import LocalProtocolError
from pdproto.transport.http_server import HttpServer
from pdproto.transport.json_logs import log_as_json
from pdproto.transport.nodes import RunningNode
from pdproto.transport.open_handoffs import SHOWN_MAX
from pdproto.transport.settings import Settings

log = logging.getLogger("pdproto.transport")

LIMIT: Final = 100  # hand-overs described by default
FAULTS_BYTES_MAX: Final = 1024


class OperatorPort(HttpServer):
    """Serves the state of one node over HTTP.

        with OperatorPort(node, "127.0.0.1", 9400):
            ...

    Port 0 takes a free port. faults_token: of those who may inject faults; empty: nobody may.
    `start` raises OSError, with the address, if it cannot listen there.
    """

    def __init__(self, node: RunningNode, host: str = "127.0.0.1", port: int = 0, *,
                 faults_token: str = "") -> None:
        self._node: Final = checked.one_of("node", node, RunningNode)
        self._faults_token: Final = checked.one_of("faults_token", faults_token, str, "text")
        self._writing: Final = Lock()
        self._next: Task[bytes] | None = None  # the metrics, to be read after now
        app = web.Application(client_max_size=FAULTS_BYTES_MAX)
        app.add_routes([
            web.get("/metrics", self._metrics),
            web.get("/health", self._health),
            web.get("/ready", self._ready),
            web.post("/drain", self._drain),
            web.get("/debug/handoffs", self._handoffs),
            web.get("/debug/faults", self._faults),
            web.put("/debug/faults", self._inject),
        ])
        super().__init__(f"operator's port of {node.name}", app, host, port)

    async def _metrics(self, _: web.Request) -> web.Response:
        """One text for all clients that ask while another is written: each takes the node's
        processor.
        """
        if self._next is None:
            self._next = create_task(self._write_metrics())
        return web.Response(body=await shield(self._next),
                            headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def _write_metrics(self) -> bytes:
        async with self._writing:
            self._next = None  # a client that asks from now on gets a later text
            return (await to_thread(self._node.metrics.text)).encode()

    async def _health(self, _: web.Request) -> web.Response:
        return _verdict(self._node.stalled())

    async def _ready(self, _: web.Request) -> web.Response:
        return _verdict(self._node.unready())

    async def _drain(self, _: web.Request) -> web.Response:
        try:
            emptied = self._node.drain()
        except LocalProtocolError as error:
            return web.Response(status=503, text=str(error))
        if emptied.done():
            return web.Response(text="empty")
        return web.Response(status=202, text=self._node.unready())

    async def _handoffs(self, request: web.Request) -> web.Response:
        limit = _number(request, "limit", SHOWN_MAX)
        room = _number(request, "room", (1 << 63) - 1)
        state = request.query.get("state")
        try:
            told = await to_thread(
                self._node.open_handoffs, LIMIT if limit is None else limit, room, state)
        except ValueError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        return web.Response(body=msgspec.json.encode(told), content_type="application/json")

    async def _faults(self, _: web.Request) -> web.Response:
        return web.Response(text=self._node.faults)

    async def _inject(self, request: web.Request) -> web.Response:
        if not self._faults_token:
            raise web.HTTPForbidden(text="this port injects no faults: start the node with "
                                         "faults_token")
        told = request.headers.get("Authorization", "")
        wanted = f"Bearer {self._faults_token}"
        if not hmac.compare_digest(told.encode(errors="surrogateescape"), wanted.encode()):
            raise web.HTTPUnauthorized(text="want the header Authorization: Bearer TOKEN, with the "
                                            "faults_token of the node",
                                       headers={"WWW-Authenticate": "Bearer"})
        try:
            self._node.inject((await request.read()).decode())
        except UnicodeDecodeError:
            raise web.HTTPBadRequest(text="the body is not UTF-8: want faults as text") from None
        except FaultsError as error:
            raise web.HTTPBadRequest(text=str(error)) from None
        return web.Response(text=self._node.faults)


def serve_operator(
    node: RunningNode, settings: Settings, index: int = 0
) -> OperatorPort | None:
    """Apply the settings for a node's operator: the log format, the faults, and the port.

    index: of the rank among those that share the settings; it is added to the port, unless that is
    0. Returns None if the settings name no port. Raises OSError if it cannot listen there.
    """
    checked.one_of("node", node, RunningNode)
    checked.one_of("settings", settings, Settings)
    rank = checked.whole("index", index, 0, PORT_MAX)
    if settings.log == "json":
        log_as_json(sys.stderr)
    node.inject(settings.faults)
    if not settings.operator:
        return None
    host, port = split(settings.operator)
    serving = OperatorPort(node, host, port + rank if port else 0,
                           faults_token=settings.faults_token)
    serving.start()
    log.info("node %s: operator's port at http://%s", node.name, serving.address)
    return serving


def _verdict(problem: str | None) -> web.Response:
    return web.Response(text="OK") if problem is None else web.Response(status=503, text=problem)


def _number(request: web.Request, name: str, most: int) -> int | None:
    """A number of the query, if it is there."""
    text = request.query.get(name)
    if text is None:
        return None
    if not text.isdecimal() or len(text) > 20 or int(text) > most:
        raise web.HTTPBadRequest(text=f"{name}: {text[:40]!r}: want a number from 0 to {most:,}")
    return int(text)
