"""The server of `pdproto explore`: the page, and answers about the system, on loopback only.

It keeps nothing between two requests, because each names its path. A page of another site could
send requests to a port of this machine, and a name of that site could lead here. So each request
must name this server in `Host`, and in `Origin` if it has one, and each question must be JSON.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from aiohttp import web

from pdproto.check.stepping import page, view
from pdproto.check.stepping.as_test import SystemImport
from pdproto.check.stepping.dialogue import STALE
from pdproto.check.stepping.formulas import FormulaError, example
from pdproto.check.stepping.walk import PathError, Walker
from pdproto.check.stepping.ways import NEIGHBOURS_MAX

HOST: Final = "127.0.0.1"
NAMES: Final = (HOST, "localhost")
BODY_BYTES_MAX: Final = 1 << 20
PATH_MAX: Final = 10_000  # steps of one path
HEADERS: Final = {
    "Content-Security-Policy": page.POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
Answer = Callable[[Mapping[str, Any]], dict[str, Any]]


class QuestionError(Exception):
    """The body of a request is not what the question wants."""


class ExploreApp:
    """The application over one walker. facts: what the page's head says of the system's sizes.

    changed: the name of a file of the system that has been saved since, or empty.
    """

    def __init__(
        self, walker: Walker, source: SystemImport, facts: Sequence[tuple[str, str]],
        changed: Callable[[], str] = str,
    ) -> None:
        self._changed: Final = changed
        self.walker: Final = walker
        self.source: Final = source
        self.facts: Final = tuple(facts)
        self._lock: Final = asyncio.Lock()  # a search runs in a thread, one at a time
        self.app: Final = web.Application(client_max_size=BODY_BYTES_MAX,
                                          middlewares=[self._guarded])
        self.app.add_routes([
            web.get("/", self._page),
            web.get("/style.css", _text(page.style, "text/css")),
            web.get("/script.js", _text(page.script, "text/javascript")),
            web.post("/api/view", self._answer(self._view)),
            web.post("/api/why", self._answer(self._why)),
            web.post("/api/way", self._answer(self._way)),
            web.post("/api/map", self._answer(self._map)),
        ])

    @web.middleware
    async def _guarded(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse requests that another site has made, and add the headers to every answer."""
        port = (request.transport.get_extra_info("sockname")[1] if request.transport else 0)
        names = {f"{name}:{port}" for name in NAMES}
        origin = request.headers.get("Origin")
        if request.headers.get("Host") not in names:
            response: web.StreamResponse = _failed(403, "this name is not of this server")
        elif origin is not None and origin not in {f"http://{name}" for name in names}:
            response = _failed(403, "this page is not of this server")
        elif request.method == "POST" and request.content_type != "application/json":
            response = _failed(415, "a question is JSON")
        else:
            try:
                response = await handler(request)
            except web.HTTPException as error:
                response = _failed(error.status, error.reason)
        response.headers.update(HEADERS)
        return response

    async def _page(self, _: web.Request) -> web.Response:
        system = self.walker.system
        text = page.shell(system.name, system.about, self.facts, example(self.walker.ground))
        return web.Response(text=text, content_type="text/html")

    def _answer(self, answer: Answer) -> Handler:
        async def handler(request: web.Request) -> web.Response:
            if file := self._changed():
                return _failed(409, STALE.format(file))
            try:
                body = await request.json()
                if not isinstance(body, dict):
                    raise QuestionError("the body is no JSON object")
                async with self._lock:
                    found = await asyncio.to_thread(answer, body)
            except (PathError, FormulaError, QuestionError) as error:
                return _failed(400, str(error))
            except (ValueError, RecursionError):
                return _failed(400, "the body is no JSON")
            return web.json_response(found)

        return handler

    def _view(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return view.view(self.walker, self.source, _path(body))

    def _why(self, body: Mapping[str, Any]) -> dict[str, Any]:
        return view.why(self.walker, _path(body), _word(body, "row"))

    def _way(self, body: Mapping[str, Any]) -> dict[str, Any]:
        if "claim" in body:
            return view.way(self.walker, _path(body), claim=_word(body, "claim"))
        return view.way(self.walker, _path(body), formula=_word(body, "formula"))

    def _map(self, body: Mapping[str, Any]) -> dict[str, Any]:
        states = body.get("states", NEIGHBOURS_MAX)
        if not isinstance(states, int) or not 1 <= states <= NEIGHBOURS_MAX:
            raise QuestionError(f"`states` is no number from 1 to {NEIGHBOURS_MAX}")
        return view.around(self.walker, _path(body), states)


def _text(content: Callable[[], str], kind: str) -> Handler:
    async def handler(_: web.Request) -> web.Response:
        return web.Response(text=content(), content_type=kind)

    return handler


def _failed(status: int, why: str) -> web.Response:
    return web.Response(status=status, text=json.dumps({"error": why}),
                        content_type="application/json")


def _path(body: Mapping[str, Any]) -> list[str]:
    path = body.get("path")
    if not isinstance(path, list) or not all(isinstance(label, str) for label in path):
        raise QuestionError("`path` is no list of rows")
    if len(path) > PATH_MAX:
        raise QuestionError(f"a path may have {PATH_MAX:,} steps, not {len(path):,}")
    return path


def _word(body: Mapping[str, Any], name: str) -> str:
    word = body.get(name)
    if not isinstance(word, str) or not word.strip():
        raise QuestionError(f"`{name}` is missing")
    return word


async def serve(app: ExploreApp, port: int, began: Callable[[str], None]) -> None:
    """Serve until the task is cancelled. began: is called with the address of the page.

    port: 0 takes a free port. Raises OSError if it cannot listen there.
    """
    runner = web.AppRunner(app.app, access_log=None, shutdown_timeout=0.5)
    await runner.setup()
    try:
        site = web.TCPSite(runner, HOST, port)
        await site.start()
        taken = runner.addresses[0][1]
        began(f"http://{HOST}:{taken}/")
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
    finally:
        await runner.cleanup()
