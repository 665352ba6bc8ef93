"""A proxy in front of vLLM servers that prefill and decode apart: small enough to copy.

    python -m examples.vllm_servers.proxy --port 8000 \\
        --prefill http://10.0.0.1:8100 --decode http://10.0.0.2:8200

Each request goes to a prefill server first, which computes the prompt and one token. What it
answers as `kv_transfer_params` goes to a decode server with the same request; decode computes all
tokens, and its answer goes to the client as it comes. Servers take turns. The proxy needs to know
nothing about the connector: it passes on what prefill has answered, whole.

With --at-once it asks both servers at once, under PdprotoConnector: it draws a transfer id for each
request, so that blocks go while prefill computes (pdproto/vllm/early.py). The first request to a
prefill server goes one after the other, and brings its introduction. If one half fails, the other
is ended.

With --first-token the token that prefill has sampled goes to the client of a streamed completion
before decode is asked (first_token.py). This needs PdprotoConnector, too.

A client that leaves ends both halves: vLLM notices that its own client, the proxy, has gone.

If a decode server dies before it answers, the next one is asked with the same parameters: prefill
keeps the KV cache for a while, so no prompt is computed twice.
"""

import argparse
import asyncio
import json
import logging
import sys
from collections.abc import Sequence
from contextlib import suppress
from itertools import cycle
from math import inf
from typing import Any, Final
from uuid import uuid4

from aiohttp import ClientError, ClientResponse, ClientSession, ClientTimeout, TCPConnector, web

from examples.vllm_servers.first_token import (
    GOES_ON,
    WITH_TOKENS,
    Begun,
    events,
    failed,
    fits,
)

log = logging.getLogger("proxy")
PATHS: Final = ("/v1/completions", "/v1/chat/completions")
FOR_DECODE: Final[dict[str, Any]] = {  # vLLM's words for: keep the KV cache, another will fetch it
    "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
    "remote_block_ids": None, "remote_host": None, "remote_port": None,
}
SERVER: Final = "pdproto_server"  # prefill's introduction
REPEATED: Final = "no answer of"  # a line of the log for each request that another is asked for
ONE_TOKEN: Final[dict[str, Any]] = {
    "max_tokens": 1, "max_completion_tokens": 1, "min_tokens": 0, "stream": False,
}


class Proxy:
    """prefill, decode: the addresses of servers, which take turns. at_once, first_token: see above.
    """

    def __init__(
        self, prefill: Sequence[str], decode: Sequence[str], *, at_once: bool = False,
        first_token: bool = False,
    ) -> None:
        self._prefill: Final = cycle(prefill)
        self._decode: Final = list(decode)
        self._turn = 0
        self._at_once: Final = at_once
        self._first_token: Final = first_token
        self._introductions: Final[dict[str, Any]] = {}  # by address of a prefill server
        self._lengths: Final[dict[str, float]] = {}  # of a model, by address of a decode server
        self._session: ClientSession | None = None

    def application(self) -> web.Application:
        app = web.Application(client_max_size=1 << 28)
        app.cleanup_ctx.append(self._open_session)
        app.add_routes([web.post(path, self._complete) for path in PATHS])
        app.add_routes([web.get("/health", self._health)])
        return app

    async def _open_session(self, _: web.Application) -> Any:
        connector = TCPConnector(limit=0, force_close=True)
        async with ClientSession(connector=connector, timeout=ClientTimeout(None)) as session:
            self._session = session
            yield

    @property
    def session(self) -> ClientSession:
        assert self._session is not None  # noqa: S101 - requests come after the start
        return self._session

    async def _health(self, _: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def _complete(self, request: web.Request) -> web.StreamResponse:
        try:
            body = await request.json()
        except json.JSONDecodeError as error:
            raise web.HTTPBadRequest(text=f"the body is no JSON: {error}") from None
        server = next(self._prefill)
        try:
            if server in self._introductions:
                return await self._ask_both(request, body, server)
            asked, is_first = FOR_DECODE, self._first_token and fits(request.path, body)
            if self._at_once:
                asked = asked | {SERVER: True}
            if is_first:
                asked = asked | {GOES_ON: True}
            status, answer = await self._compute_prompt(
                server, request.path, body | ({WITH_TOKENS: True} if is_first else {}), asked)
            if status != 200:
                return web.json_response(answer, status=status)
            if is_first and (begun := Begun(body, answer, await self._length())).is_good:
                return await self._go_on(request, begun)
            body["kv_transfer_params"] = answer.get("kv_transfer_params")
            async with await self._ask_decode(request.path, body) as reply:
                return await self._pass_on(request, reply)
        except ClientError as error:
            return web.json_response({"error": {"message": f"{type(error).__name__}: {error}"}},
                                     status=502)

    async def _ask_both(
        self, request: web.Request, body: dict[str, Any], server: str
    ) -> web.StreamResponse:
        """At once. If one half fails, or the client leaves, both end."""
        drawn = {"transfer_id": uuid4().hex}
        here = {"do_remote_decode": False, "do_remote_prefill": True, **drawn,
                SERVER: self._introductions[server]}
        computed = asyncio.create_task(self._compute_prompt(
            server, request.path, body, FOR_DECODE | drawn))
        loaded = asyncio.create_task(self._ask_decode(
            request.path, {**body, "kv_transfer_params": here}))
        try:
            await asyncio.wait((computed, loaded), return_when=asyncio.FIRST_COMPLETED)
            if not loaded.done() or (await loaded).status == 200:
                status, answer = await computed
                if status != 200:
                    return web.json_response(answer, status=status)
            return await self._pass_on(request, await loaded)
        finally:
            computed.cancel()
            if not loaded.cancel() and loaded.exception() is None:
                loaded.result().close()

    async def _go_on(self, request: web.Request, begun: Begun) -> web.StreamResponse:
        """Pass on the first token, and what decode computes behind it."""
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream; charset=utf-8"})
        await answer.prepare(request)
        await answer.write(begun.event())
        try:
            async with await self._ask_decode(request.path, begun.asked()) as reply:
                if reply.status != 200:
                    await answer.write(failed(reply.status, await reply.text()))
                else:
                    async for event in events(reply.content):
                        await answer.write(begun.later(event))
        except ClientError as error:
            await answer.write(failed(502, f"{type(error).__name__}: {error}"))
        await answer.write_eof()
        return answer

    async def _length(self) -> float:
        """The most tokens of a prompt and its answer at the decode server that is asked next. It is
        asked for them once, and no other one is: that may never answer.
        """
        server = self._decode[(self._turn + 1) % len(self._decode)]
        if server not in self._lengths:
            with suppress(ClientError):
                async with self.session.get(server + "/v1/models", raise_for_status=True) as reply:
                    models = (await reply.json())["data"]
                self._lengths[server] = min(model["max_model_len"] or inf for model in models)
        return self._lengths.get(server, inf)

    async def _compute_prompt(
        self, server: str, path: str, body: dict[str, Any], asked: dict[str, Any]
    ) -> tuple[int, Any]:
        """At prefill. Returns the status and what it answers. Its introduction is kept."""
        asked = {**body, **ONE_TOKEN, "kv_transfer_params": asked}
        asked.pop("stream_options", None)
        if "messages" not in body:
            del asked["max_completion_tokens"]
        async with self.session.post(server + path, json=asked) as reply:
            answer = await reply.json(content_type=None)
            told = (answer.get("kv_transfer_params") or {}).pop(SERVER, None)
            if told is not None:
                self._introductions[server] = told
            return reply.status, answer

    @staticmethod
    async def _pass_on(request: web.Request, reply: ClientResponse) -> web.StreamResponse:
        """Decode's answer, as it comes."""
        kind = reply.headers.get("Content-Type", "application/json")
        answer = web.StreamResponse(status=reply.status, headers={"Content-Type": kind})
        await answer.prepare(request)
        async for piece in reply.content.iter_any():
            await answer.write(piece)
        await answer.write_eof()
        return answer

    async def _ask_decode(self, path: str, body: dict[str, Any]) -> ClientResponse:
        """The answer of the first decode server, from the next one on, that gives one. Raises
        ClientError if none does.
        """
        first = self._turn = (self._turn + 1) % len(self._decode)
        for server in (*self._decode[first:], *self._decode[:first]):
            try:
                return await self.session.post(server + path, json=body)
            except ClientError as error:
                last = error
                log.warning("%s %s: %s", REPEATED, server, type(error).__name__)
        raise last


async def serve(proxy: Proxy, host: str, port: int) -> None:
    """Until it is cancelled. Raises OSError if the port is taken."""
    runner = web.AppRunner(proxy.application(), handler_cancellation=True)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        await asyncio.Event().wait()
    finally:
        await runner.cleanup()


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--prefill", nargs="+", required=True, metavar="URL")
    parser.add_argument("--decode", nargs="+", required=True, metavar="URL")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--at-once", action="store_true", help="ask both servers at once")
    way.add_argument("--first-token", action="store_true",
                     help="pass on the token that prefill has sampled")
    told = parser.parse_args(argv)
    proxy = Proxy(told.prefill, told.decode, at_once=told.at_once, first_token=told.first_token)
    asyncio.run(serve(proxy, told.host, told.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
