"""The gateways smg and vllm-router, each before two servers that note what they are asked.

smg knows connectors by name. One that is not in its table, it takes for one that works by itself:
it marks no request of prefill, and passes nothing on. Its workers can be given another name.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from subprocess import DEVNULL, Popen
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("smg", reason=VLLM)
pytest.importorskip("vllm_router", reason=VLLM)
pytest.importorskip("aiohttp", reason=VLLM)

from aiohttp import ClientConnectionError, ClientSession, web
from aiohttp.test_utils import TestServer

from examples.servers.serving import free_port
from tests.vllm.engine import FOR_DECODE
from tests.waiting import PATIENCE_S

AS = "NixlConnector"  # to smg; `kv_connector` of a worker in its request to POST /workers
MODEL = "tiny"
ANSWERED = {"do_remote_prefill": True, "pdproto": {"room": "12"}}  # whatever prefill says
BODIES: dict[str, dict[str, Any]] = {
    "completions": {"prompt": "a b c"},
    "chat/completions": {"messages": [{"role": "user", "content": "a"}]},
}


class Noting:
    """A server of vLLM. asked: the kv_transfer_params of each request."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any] | None] = []
        self.app = web.Application()
        self.app.router.add_get("/v1/models", self._models)
        for path in ("/health", "/metrics", "/version"):
            self.app.router.add_get(path, self._models)
        for path in BODIES:
            self.app.router.add_post(f"/v1/{path}", self._answer)

    async def _models(self, _: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [
            {"id": MODEL, "object": "model", "owned_by": "vllm", "root": MODEL}]})

    async def _answer(self, request: web.Request) -> web.Response:
        params = (await request.json()).get("kv_transfer_params")
        self.asked.append(params)
        told = ANSWERED if (params or {}).get("do_remote_decode") else None
        return web.json_response({
            "id": "x", "object": "text_completion", "created": 1, "model": MODEL,
            "choices": [{"index": 0, "finish_reason": "length", "text": "b",
                         "message": {"role": "assistant", "content": "b"}}],
            "usage": {"prompt_tokens": 3, "completion_tokens": 1, "total_tokens": 4},
            "kv_transfer_params": told})


async def reached(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not await holds():
            await asyncio.sleep(0.05)


@asynccontextmanager
async def gateway(session: ClientSession, path: str, *arguments: str) -> AsyncIterator[str]:
    """The address of one, which answers at this path when it serves."""
    port = free_port()
    address = f"http://127.0.0.1:{port}"
    made = Popen([sys.executable, "-m", *arguments, "--host", "127.0.0.1", "--port", str(port),
                  "--prometheus-port", str(free_port())], stdout=DEVNULL, stderr=DEVNULL)

    async def serves() -> bool:
        try:
            return (await session.get(f"{address}{path}")).ok
        except ClientConnectionError:
            return False
    try:
        await reached(serves)
        yield address
    finally:
        made.terminate()
        made.wait(PATIENCE_S)


Begin = Callable[[AsyncExitStack, ClientSession, Mapping[str, str]], Awaitable[str]]


def smg(**named: str) -> Begin:
    """named: more about both workers."""
    async def begin(stack: AsyncExitStack, session: ClientSession, urls: Mapping[str, str]) -> str:
        address = await stack.enter_async_context(gateway(
            session, "/workers", "smg", "launch", "--pd-disaggregation", "--backend", "vllm",
            "--enable-igw"))
        for kind, url in urls.items():
            told = await session.post(f"{address}/workers", json={
                "url": url, "worker_type": kind, "runtime_type": "vllm", **named})
            assert told.ok, await told.text()

        async def ready() -> bool:
            found = await (await session.get(f"{address}/workers")).json()
            return [one["status"] for one in found["workers"]] == ["ready", "ready"]
        await reached(ready)
        return address
    return begin


async def vllm_router(
    stack: AsyncExitStack, session: ClientSession, urls: Mapping[str, str]
) -> str:
    return await stack.enter_async_context(gateway(
        session, "/health", "vllm_router.launch_router", "--vllm-pd-disaggregation",
        "--prefill", urls["prefill"], "--decode", urls["decode"]))


async def asked_through(begin: Begin, path: str) -> tuple[Any, Any]:
    """What prefill and decode were asked."""
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(ClientSession())
        servers, urls = {"prefill": Noting(), "decode": Noting()}, {}
        for kind, of in servers.items():
            server = await stack.enter_async_context(TestServer(of.app))
            urls[kind] = f"http://127.0.0.1:{server.port}"
        address = await begin(stack, session, urls)
        body = {"model": MODEL, "max_tokens": 4, **BODIES[path]}
        assert (await session.post(f"{address}/v1/{path}", json=body)).ok
        (of_prefill,), (of_decode,) = (of.asked for of in servers.values())
        return of_prefill, of_decode


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("begin", [smg(kv_connector=AS), vllm_router], ids=["smg", "vllm-router"])
def test_decode_gets_what_prefill_has_answered(begin: Begin, path: str) -> None:
    """Prefill's requests are those of the tests of the connector."""
    of_prefill, of_decode = asyncio.run(asked_through(begin, path))
    assert {name: value for name, value in of_prefill.items() if value is not None} == FOR_DECODE
    assert of_decode == ANSWERED


def test_smg_hands_nothing_over_for_a_connector_that_it_does_not_know() -> None:
    """Decode counts such requests, and warns of the first (test_interface.py)."""
    assert asyncio.run(asked_through(smg(), "completions")) == (None, None)
