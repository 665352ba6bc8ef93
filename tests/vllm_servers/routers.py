"""Routers that pip has, in front of a pair of real servers."""

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from examples.servers.serving import HOST, Server, ServerError, free_port
from examples.vllm_servers.serving import NIXL, Servers

VLLM_ROUTER: Final = "vllm-router"
SMG: Final = "smg"
READY_S: Final = 60.0


def _run(servers: Servers, name: str, health: str, *argv: str) -> Server:
    port = free_port()
    server = Server(name, 0, port, servers.folder / f"{name}.log", [
        *argv, "--host", HOST, "--port", str(port), "--prometheus-port", str(free_port())], health)
    servers.run("program", server)
    server.wait_healthy()
    return server


def _vllm_router(servers: Servers, name: str, prefill: Server, decode: Server) -> Server:
    return _run(servers, name, "/health", "vllm_router.launch_router", "--vllm-pd-disaggregation",
                "--prefill", prefill.url, "--decode", decode.url)


def _smg(servers: Servers, name: str, prefill: Server, decode: Server) -> Server:
    """Under the name of a connector that it knows: see docs/how-to/vllm.md."""
    router = _run(servers, name, "/workers", "smg", "launch", "--pd-disaggregation",
                  "--backend", "vllm", "--enable-igw")
    for kind, server in ("prefill", prefill), ("decode", decode):
        router.post("/workers", {"url": server.url, "worker_type": kind, "runtime_type": "vllm",
                                 "kv_connector": NIXL})
    end = time.monotonic() + READY_S
    while time.monotonic() < end:
        with suppress(OSError):
            states = [one["status"] for one in router.get("/workers")["workers"]]
            if states == ["ready", "ready"]:
                return router
        time.sleep(0.1)
    raise ServerError(f"{name} has no ready workers after {READY_S:.0f} s: {router.tail()}")


ROUTERS: Final[Mapping[str, Callable[[Servers, str, Server, Server], Server]]] = {
    VLLM_ROUTER: _vllm_router, SMG: _smg}
