"""The registry as an HTTP server in a thread of its own: routes, metrics, health.

    PUT /route              a rank registers             DELETE /route, POST /keepalive     (ours)
    GET /route              one rank, or the server      GET /ranks, POST /ranks            (ours)
    POST /register_dp_rank  a room's rank                POST /retire_dp_rank               (ours)
    POST /query_dp_ranks    which ranks run rooms        POST /withdraw_dp_ranks            (ours)
    GET /health             200 if all ranks are registered and agree, and some take new requests;
                            else 503 with the reason
    GET /metrics            for Prometheus
    GET /openapi.json       this interface, as openapi.py describes it

This module only translates: registry.py decides, by the tables. Every request gets an answer. A
refusal names the fault, and is counted by route and status.
"""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from time import monotonic
from typing import Any, Final

import msgspec
from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from pdproto.net.hosts import is_elsewhere, is_loopback
from pdproto.node.link import member_of, require_private
from pdproto.registry import changes, openapi
from pdproto.registry.changes import Orderer
from pdproto.registry.log import Log
from pdproto.registry.registry import Registry
from pdproto.registry.replica import Alone, Replica
from pdproto.registry.rooms import Limits
from pdproto.registry.wire import (
    COORDINATES,
    EXCEED,
    Lookup,
    Rank,
    RefusedError,
    Registration,
    Room,
    Rooms,
    Run,
    read,
)
from pdproto.runtime import checked
from pdproto.runtime.limits import BODY_BYTES_MAX, BODY_S, ROOM_MAX
from pdproto.runtime.own_clock import REST_S
from pdproto.runtime.trace_shared import SharedTrace
from pdproto.transport.http_server import HOST_MAX, HttpServer
from pdproto.transport.incarnation import is_too_late
from pdproto.transport.keys import Keys
from pdproto.transport.patience import within

CLIENT_GONE: Final = 499  # the client left before it had sent its request: it reads no status
OK: Final = "OK"
NUMBER: Final = re.compile("-?[0-9]{1,19}")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class RegistryApp:
    """The HTTP routes and the metrics of one registry."""

    def __init__(
        self, registry: Registry, orderer: Orderer | None = None, *, names_members: bool = False
    ) -> None:
        self._names_members: Final = names_members
        self._orderer: Final = orderer or Alone(registry)
        self.http: HttpServer | None = None  # that serves it
        self.registry: Final = registry
        self.answers: Final[Counter[tuple[str, str, int]]] = Counter()  # method, route, status
        self._metrics: Final = CollectorRegistry()
        self._metrics.register(self)
        self.app: Final = web.Application(
            client_max_size=BODY_BYTES_MAX, middlewares=[self._count]
        )
        self.app.add_routes([
            web.put("/route", self._register),
            web.delete("/route", self._deregister),
            web.get("/route", self._route, allow_head=False),
            web.get("/ranks", self._ranks, allow_head=False),
            web.post("/ranks", self._look_up),
            web.post("/keepalive", self._keep_alive),
            web.post("/register_dp_rank", self._publish),
            web.post("/retire_dp_rank", self._retire),
            web.post("/query_dp_ranks", self._query),
            web.post("/withdraw_dp_ranks", self._withdraw),
            web.get("/health", self._health),
            web.get("/metrics", self._show_metrics),
            web.get("/openapi.json", self._describe, allow_head=False),
        ])

    def collect(self) -> Iterator[Metric]:
        """The metrics that GET /metrics shows."""
        requests = CounterMetricFamily(
            "pdproto_registry_requests", "Requests by route and status",
            labels=["method", "route", "status"],
        )
        for (method, route, status), count in sorted(self.answers.items()):
            requests.add_metric([method, route, str(status)], count)
        yield requests
        rows = CounterMetricFamily(
            "pdproto_registry_rows", "Rows of the tables that have fired", labels=["row"]
        )
        by_row: Counter[str] = Counter()
        for (_, row), count in self.registry.rows.items():
            by_row[row] += count
        for row, count in sorted(by_row.items()):
            rows.add_metric([row], count)
        yield rows
        unread = 0 if self.http is None else self.http.unread_answers
        yield CounterMetricFamily("pdproto_registry_unread_answers",
                                  "Connections that were ended with an unread answer", unread)
        for name, told, value in (
            ("ranks", "Ranks that are registered", self.registry.present_ranks),
            ("draining", "Ranks that drain: new requests do not find them",
             self.registry.draining_ranks),
            ("rooms", "Lives of rooms that are kept", self.registry.open_rooms),
            ("ready", "Whether every rank is there, and they agree", int(self.registry.ready)),
        ):
            yield GaugeMetricFamily(f"pdproto_registry_{name}", told, value)

    def metrics(self) -> bytes:
        """The metrics, as Prometheus reads them. In the loop of the server only."""
        return generate_latest(self._metrics)

    def require_ready(self) -> None:
        """Raise RefusedError if the prefill server cannot be served from here now. In the loop of
        the server only.
        """
        self._orderer.require_current()
        self.registry.require_open()

    @web.middleware
    async def _count(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Turn a refusal into an answer, and count every answer."""
        resource = request.match_info.route.resource
        route = "none" if resource is None else resource.canonical
        status = 500
        try:
            await _received(request)
            response = await handler(request)
            status = response.status
        except RefusedError as refusal:
            status = refusal.status
            headers = None if refusal.exceed is None else {EXCEED: str(refusal.exceed)}
            response = web.Response(status=status, text=refusal.reason, headers=headers)
        except web.HTTPException as error:
            status = error.status
            raise
        except ConnectionError:
            status = CLIENT_GONE
            response = web.Response(status=status)
        finally:
            self.answers[request.method if resource else "any", route, status] += 1
        return response

    async def _register(self, request: web.Request) -> web.Response:
        registration = read(await request.read(), Registration)
        member = self._member(request)
        if member is not None and member_of(registration.name) != member:
            raise RefusedError(403, f"name: {registration.name!r} is not of the member {member}: "
                                    f"want {member} or {member}/NAME")
        self._check_owner(member, registration.rank)
        _check_number(registration.incarnation)
        caller = request.remote or ""
        if is_loopback(registration.rank_ip) and is_elsewhere(caller):
            raise RefusedError(400, f"rank_ip: {registration.rank_ip} is for callers on its own "
                                    f"host, and the registry is called from {caller}")
        registration.check()
        await self._orderer.order(changes.Register(registration))
        return web.Response(text=OK)

    async def _deregister(self, request: web.Request) -> web.Response:
        run = read(await request.read(), Run)
        self._check_owner(self._member(request), run.rank)
        _check_number(run.incarnation)
        await self._orderer.order(changes.Deregister(run))
        return web.Response(text=OK)

    async def _keep_alive(self, request: web.Request) -> web.Response:
        run = read(await request.read(), Run)
        self._check_owner(self._member(request), run.rank)
        await self._orderer.order(changes.KeepAlive(run))
        return web.Response(text=OK)

    def _member(self, request: web.Request) -> str | None:
        """The member that the client's certificate names; None where all have the same keys."""
        if not self._names_members:
            return None
        certificate = request.get_extra_info("peercert")
        return str(certificate["subject"][0][0][1])

    def _check_owner(self, member: str | None, rank: Rank) -> None:
        """Raise RefusedError if another member has registered the rank."""
        owner = self.registry.owner(rank)
        if member is not None and owner is not None and member_of(owner) != member:
            raise RefusedError(403, f"{rank} is registered by the member {member_of(owner)}")

    def _check_group(self, member: str | None, dp_rank: int) -> None:
        """Raise RefusedError if the member has registered no rank of this data-parallel rank."""
        owners = self.registry.owners(dp_rank)
        if member is not None and owners and member not in map(member_of, owners):
            raise RefusedError(403, f"dp_rank: {dp_rank} is not of the member {member}")

    async def _read_store(self) -> None:
        """Before a look-up: know enough of the store. Before one that may be turned away, have all
        that was ordered before it (LATE in spec/handoff/registry_late.py): a rank that is missing
        or drains may have a later run.
        """
        self._orderer.require_current()
        if not self.registry.ready or self.registry.draining_ranks:
            await self._orderer.catch_up()

    async def _route(self, request: web.Request) -> web.Response:
        places = []
        for name in COORDINATES:
            text = request.query.get(name)
            if text is None:
                raise RefusedError(400, f"{name} is missing from the query")
            if NUMBER.fullmatch(text) is None:
                raise RefusedError(400, f"{name}: {text[:40]!r} is no number")
            places.append(int(text))
        await self._read_store()
        if places == [-1, -1, -1, -1]:
            return _json(self.registry.info())
        return _json(self.registry.look_up(Rank(*places)))

    async def _ranks(self, request: web.Request) -> web.Response:
        text = request.query.get("room")
        if text is not None and (NUMBER.fullmatch(text) is None or not 0 <= int(text) <= ROOM_MAX):
            raise RefusedError(400, f"room: {text[:40]!r}: want a number from 0 to {ROOM_MAX:,}")
        await self._read_store()
        return _json(self.registry.directory(room=None if text is None else int(text)))

    async def _look_up(self, request: web.Request) -> web.Response:
        question = read(await request.read(), Lookup)
        await self._read_store()
        return _json(self.registry.directory(question))

    async def _publish(self, request: web.Request) -> web.Response:
        room = read(await request.read(), Room)
        self._check_group(self._member(request), room.dp_rank)
        await self._orderer.order(changes.Publish(room))
        return web.Response(text=OK)

    async def _retire(self, request: web.Request) -> web.Response:
        room = read(await request.read(), Room)
        self._check_group(self._member(request), room.dp_rank)
        await self._orderer.order(changes.Retire(room))
        return web.Response(text=OK)

    async def _query(self, request: web.Request) -> web.Response:
        rooms = read(await request.read(), Rooms)
        await self._read_store()
        book = self.registry.rooms
        answer = (book.query(rooms, monotonic()) if book.is_asked(rooms)
                  else await self._orderer.order(changes.Query(rooms)))
        return _json(answer if rooms.full else answer.dp_ranks)

    async def _withdraw(self, request: web.Request) -> web.Response:
        await self._orderer.order(changes.Withdraw(read(await request.read(), Rooms)))
        return web.Response(text=OK)

    async def _health(self, _: web.Request) -> web.Response:
        self.require_ready()
        return web.Response(text=OK)

    async def _show_metrics(self, _: web.Request) -> web.Response:
        return web.Response(body=self.metrics(),
                            headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})

    async def _describe(self, _: web.Request) -> web.Response:
        return web.Response(body=openapi.encoded(), content_type="application/json")


async def _received(request: web.Request) -> None:
    """Read the body within BODY_S.

    Raises RefusedError: 408 if it takes longer, 415 if it is compressed.
    """
    encoding = request.headers.get("Content-Encoding", "identity")
    if encoding != "identity":
        raise RefusedError(415, f"Content-Encoding: {encoding[:40]!r}: send the body as it is")
    try:
        async with within(BODY_S):
            await request.read()
    except TimeoutError:
        raise RefusedError(408, f"the body has not come within {BODY_S:g} s") from None


def _check_number(incarnation: int | None) -> None:
    """Raise RefusedError for a number that no run has by now: no later run could exceed it."""
    if incarnation is not None and is_too_late(incarnation):
        raise RefusedError(400, f"incarnation: {incarnation} is more than a year ahead of the "
                                f"registry's clock: correct the clock of one of the two hosts")


def _json(answer: Any) -> web.Response:
    return web.Response(body=msgspec.json.encode(answer), content_type="application/json")


class RegistryServer(HttpServer):
    """Serves one registry at an address, in a thread with an event loop of its own.

        with RegistryServer("127.0.0.1", 0) as server:
            print(server.host, server.port)

    host: an address or a name; 0.0.0.0 takes calls at every IPv4 address of this host, and :: at
    the IPv6 ones as well. Port 0 takes a free port. traces: see `Registry`. keys: only clients with
    keys of the same cluster are served then, by mutual TLS. insecure: listen beyond this host
    without keys. store: the log that it shares with other registries. Raises PermissionError if
    neither allows that host. `start` raises OSError with the address, if it cannot listen there.
    """

    def __init__(
        self, host: str = "127.0.0.1", port: int = 0, limits: Limits | None = None,
        traces: Mapping[str, SharedTrace] | None = None, *, keys: Keys | None = None,
        insecure: bool = False, store: Log | None = None,
    ) -> None:
        checked.text("host", host, HOST_MAX)
        if keys is not None:
            checked.one_of("keys", keys, Keys)
        if limits is not None:
            checked.one_of("limits", limits, Limits)
        for name, trace in ({} if traces is None else checked.mapping("traces", traces)).items():
            checked.one_of(f"traces[{checked.shown(name)}]", trace, SharedTrace)
        if store is not None:
            checked.parts("store", store, Log)
        checked.flag("insecure", insecure)
        require_private("the registry", host, keyed=keys is not None, insecure=insecure)
        registry = Registry(limits, traces)
        limits = registry.limits
        replica = None if store is None else Replica(registry, store)
        orderer = replica or Alone(registry)
        self.app: Final = RegistryApp(
            registry, orderer, names_members=keys is not None and bool(keys.curve.members))
        super().__init__("registry", self.app.app, host, port,
                         tls=None if keys is None else keys.server_tls(),
                         tick=orderer.tick,
                         pause_s=min(REST_S, limits.silent_s / 4, limits.room_s / 4))
        self.app.http = self
        if replica is not None:
            self.app.app.cleanup_ctx.append(replica.running)
