"""The proxy that asks both servers at once, before two servers that note what they are asked."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("aiohttp", reason=VLLM)

from aiohttp import ClientSession, web
from aiohttp.test_utils import TestClient, TestServer

from examples.vllm_servers.proxy import SERVER, Proxy

PATH = "/v1/completions"
Act = Callable[[], Awaitable[int]]


async def answered() -> int:
    return 200


async def refused() -> int:
    return 400


async def for_ever() -> int:
    await asyncio.sleep(60.0)
    return 200


class Noting:
    """A server. act: until it answers. left: its client has gone before."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.act: Act = answered
        self.left = asyncio.Event()

    async def answer(self, request: web.Request) -> web.Response:
        params = (await request.json())["kv_transfer_params"]
        self.asked.append(params)
        try:
            status = await self.act()
        except asyncio.CancelledError:
            self.left.set()
            raise
        told = {SERVER: {"ranks": len(self.asked)}} if SERVER in params or "transfer_id" in params \
            else {}
        return web.json_response({"kv_transfer_params": told, "at": len(self.asked)}, status=status)


async def behind(
    check: Callable[[ClientSession | Any, Noting, Noting], Awaitable[None]]
) -> None:
    prefill, decode = Noting(), Noting()
    runners, urls = [], []
    for one in (prefill, decode):
        app = web.Application()
        app.add_routes([web.post(PATH, one.answer)])
        runners.append(server := TestServer(app))
        await server.start_server()
        urls.append(str(server.make_url("")).rstrip("/"))
    proxy = TestServer(Proxy([urls[0]], [urls[1]], at_once=True).application())
    async with TestClient(proxy) as client:
        async with client.post(PATH, json={"prompt": [1]}) as reply:
            assert reply.status == 200
        await check(client, prefill, decode)
    for server in runners:
        await server.close()


def test_the_second_request_is_asked_at_once_with_the_introduction_of_the_first() -> None:
    async def check(client: Any, prefill: Noting, decode: Noting) -> None:
        assert prefill.asked[0][SERVER] is True
        assert SERVER not in decode.asked[0]
        async with client.post(PATH, json={"prompt": [1]}) as reply:
            assert (reply.status, (await reply.json())["at"]) == (200, 2)
        there, here = prefill.asked[1], decode.asked[1]
        assert there["do_remote_decode"]
        assert here["do_remote_prefill"]
        assert len(there["transfer_id"]) >= 16
        assert there["transfer_id"] == here["transfer_id"]
        assert here[SERVER] == {"ranks": 1}
        async with client.post(PATH, json={"prompt": [1]}):
            pass
        assert decode.asked[2][SERVER] == {"ranks": 2}, "that of the latest answer"
        assert decode.asked[2]["transfer_id"] != here["transfer_id"]

    asyncio.run(asyncio.wait_for(behind(check), 30.0))


@pytest.mark.parametrize("first", ["prefill", "decode"])
def test_a_half_that_is_refused_ends_the_other(first: str) -> None:
    async def check(client: Any, prefill: Noting, decode: Noting) -> None:
        one, other = (prefill, decode) if first == "prefill" else (decode, prefill)
        one.act, other.act = refused, for_ever
        async with client.post(PATH, json={"prompt": [1]}) as reply:
            assert reply.status == 400
        await asyncio.wait_for(other.left.wait(), 10.0)

    asyncio.run(asyncio.wait_for(behind(check), 30.0))
