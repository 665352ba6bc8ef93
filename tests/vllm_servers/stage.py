"""Which servers run: one pair with its proxy at a time, kept for the cells that share a layout."""

import json
import time
import urllib.error
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from http.client import HTTPException
from math import prod
from pathlib import Path
from typing import Any, Final, NamedTuple

import aiohttp

from examples.servers.serving import HOST, Server, free_port
from examples.vllm_servers import tiny_model
from examples.vllm_servers.proxy import FOR_DECODE
from examples.vllm_servers.serving import (
    CONSUMER,
    MODEL,
    OURS,
    PRODUCER,
    Servers,
    gauge,
    transfer_config,
)
from pdproto.transport.keys import SUFFIX, write_members
from tests.servers.kept_pair import NUMBERS, SIDES, KeptPair, ServerPair
from tests.servers.load import Answer, Ask, Through
from tests.servers.reference import Reference
from tests.servers.standstill import Signal
from tests.vllm_servers.adapters import adapters_of
from tests.vllm_servers.cells import DEFECT, ORPHANED_S, PLUGIN_OFF, Layout
from tests.vllm_servers.figures import Size, size_of
from tests.vllm_servers.routers import ROUTERS

SETTLE_S: Final = ORPHANED_S + 15.0
WRITES: Final = "num_prefill_writes"
NODES: Final = 1  # where ports are fixed, the first of a server's nodes lies so much above its port
OPERATOR: Final = 10  # the operator's port of its first worker
DATA_RANKS: Final = "--data-parallel-size"
RANKS: Final = "--tensor-parallel-size", DATA_RANKS
MORE: Final = 4  # threads or files: a thread pool takes a thread, an HTTP request a file
OK: Final = 200
FAILED: Final = 500  # vLLM's, of a request whose KV cache was not loaded
NO_ANSWER: Final = 0
HELD: Final = ("kv_cache_usage_perc", "num_requests_running", "num_requests_waiting")


@dataclass(frozen=True)
class Completions(Through):
    """A server of vLLM, or the proxy: asked in OpenAI's words. body: in place of each request's."""

    body: dict[str, Any] | None = None

    async def send(
        self, session: aiohttp.ClientSession, body: dict[str, Any], answer: Answer
    ) -> None:
        asked = self.body or completion(
            body["input_ids"], body["sampling_params"]["max_new_tokens"])
        try:
            async with session.post(f"{self.url}/v1/completions", json=asked) as reply:
                read(answer, reply.status, await reply.json(content_type=None))
        except (aiohttp.ClientError, OSError, ValueError) as error:
            answer.error = f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Streamed(Completions):
    """The answers come token by token, and at the end their number."""

    async def send(
        self, session: aiohttp.ClientSession, body: dict[str, Any], answer: Answer
    ) -> None:
        prompt, new = body["input_ids"], body["sampling_params"]["max_new_tokens"]
        asked = {**completion(prompt, new), "stream": True,
                 "stream_options": {"include_usage": True}}
        began = time.monotonic()
        try:
            async with session.post(f"{self.url}/v1/completions", json=asked) as reply:
                async for line in reply.content:
                    if line.startswith(b"data: {"):
                        told = json.loads(line[6:])
                        answer.error = str(told["error"]) if "error" in told else answer.error
                        answer.first = answer.first or time.monotonic() - began
                        if "choices" in told:
                            read(answer, reply.status, told)
                        counts = told.get("usage") or {}
                        if counts and (counts["prompt_tokens"], counts["completion_tokens"]) != (
                                len(prompt), new):
                            answer.error = f"usage of {len(prompt)} and {new} tokens: {counts}"
        except (aiohttp.ClientError, OSError, ValueError) as error:
            answer.error = f"{type(error).__name__}: {error}"
        if not answer.tokens:
            answer.error = answer.error or "no tokens"


def completion(prompt: Sequence[int] | Sequence[Sequence[int]], new: int) -> dict[str, Any]:
    """The body of a greedy request, of one prompt or of several."""
    return {"model": MODEL, "prompt": list(prompt), "max_tokens": new, "temperature": 0,
            "ignore_eos": True, "return_token_ids": True, "logprobs": 0}


def read(answer: Answer, status: int, told: Any) -> None:
    """What a server says."""
    if status != 200 or not isinstance(told, dict) or "choices" not in told:
        answer.error = f"{status} {str(told)[:600]}"
        return
    for choice in told["choices"]:
        answer.tokens += choice["token_ids"]
        answer.logprobs += (choice.get("logprobs") or {}).get("token_logprobs") or []


def operator_of(server: Server, rank: int = 0) -> Server:
    """The operator's port of a worker of the server."""
    return replace(server, port=server.port + OPERATOR + rank)


class Told(NamedTuple):
    """Decode's answer. status: of HTTP; NO_ANSWER if the client has left, or the server is gone."""

    status: int
    tokens: list[int] = []  # noqa: RUF012 - nobody changes it


def at_prefill(server: Server, ask: Ask, model: str = MODEL) -> dict[str, Any]:
    """Ask as the proxy does. Returns the parameters for decode. model: or an adapter's name."""
    told = server.post("/v1/completions", {
        **completion(ask.prompt, 1), "model": model, "kv_transfer_params": FOR_DECODE})
    params: dict[str, Any] = told["kv_transfer_params"]
    return params


def at_decode(server: Server, ask: Ask, params: dict[str, Any], seconds: float,
              model: str = MODEL) -> Told:
    """seconds: after these the client leaves. model: or an adapter's name."""
    body = {**completion(ask.prompt, ask.new), "model": model, "kv_transfer_params": params}
    try:
        told = server.post("/v1/completions", body, seconds)
    except urllib.error.HTTPError as error:
        error.close()
        return Told(error.code)
    except (OSError, HTTPException):
        return Told(NO_ANSWER)
    return Told(OK, told["choices"][0]["token_ids"])


@dataclass
class Pair(ServerPair[Layout, Server]):
    """Its router is the proxy. sizes: of the servers, by name, when they held nothing first."""

    sizes: dict[str, Size] = field(default_factory=dict)

    @property
    def through(self) -> Completions:
        assert self.router is not None
        return Completions(self.router.url)

    @property
    def signals(self) -> dict[str, Signal]:
        """For a standstill."""
        return {"prefill": self.prefill.signal_all, "decode": self.decode.signal_all}

    def left(self) -> str:
        """See standstill.Pair."""
        try:
            self.check_nothing_is_held()
        except AssertionError as error:
            return str(error)
        return ""

    def writes(self) -> float:
        """How many writes prefill has posted that have not ended."""
        lines = str(operator_of(self.prefill).get("/metrics")).splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(WRITES))

    def check_nothing_is_held(self, *servers: Server, seconds: float = SETTLE_S) -> None:
        """No request, no block of the KV cache and no hand-over, before long, on these servers
        (default: both); and hardly more threads and open files than when that was seen first.
        """
        end = time.monotonic() + seconds
        for server in servers or self.servers:
            while (held := self._held(server)) and time.monotonic() < end:
                time.sleep(0.25)
            assert not held, f"{server.name} still holds {held} after {seconds:.0f} s"
            assert server.is_alive(), f"{server.name} has died: {server.tail()}"
            size = size_of(server)
            first = self.sizes.setdefault(server.name, size)
            while not size.is_within(first, MORE) and time.monotonic() < end:
                time.sleep(0.25)
                size = size_of(server)
            assert size.is_within(first, MORE), f"{server.name}'s engine has {size}, of {first}"

    def _held(self, server: Server) -> dict[str, float]:
        with suppress(OSError):
            held = {name: value for name in HELD if (value := gauge(server, name))}
            opened = sum(operator_of(server, rank).get("/debug/handoffs?limit=1")["open"]
                         for rank in range(self._ranks(server)))
            return held | ({"hand-overs": opened} if opened else {})
        return {"no answer": 1.0}

    def _ranks(self, server: Server) -> int:
        """How many operator's ports a server has."""
        flags = self.layout.prefill if server is self.prefill else self.layout.decode
        if self.layout.connector != OURS:
            return 0
        return prod(int(flags[flags.index(name) + 1]) for name in RANKS if name in flags)


class Stage(KeptPair[Servers, Server, Layout, Pair]):
    """defect: of defective.py. few: fewer requests are enough. alone: flags of the reference beside
    those of its layout.
    """

    def __init__(self, servers: Servers, folder: Path, defect: str | None = None, *,
                 few: bool = False, alone: Sequence[str] = ()) -> None:
        super().__init__(servers, folder, defect)
        self.few: Final = few
        self._alone: Final = alone

    def reference(self, wanted: Sequence[Ask]) -> Reference:
        """Of the model of the running pair, with answers to all of these. It may start a third
        server for them.
        """
        layout = self._pair.layout if self._pair is not None else Layout()
        return self.answers_of(layout.at_prefill, (*layout.common, *self._alone), wanted,
                               Completions)

    def model(self, name: str) -> Path:
        """The folder of a model: all but the hybrid have the same shape and weights."""
        return tiny_model.make(self._folder / name)

    def open(self, layout: Layout) -> Pair:
        """See KeptPair."""
        prefill, decode = self.start(layout, "prefill"), self.start(layout, "decode")
        for server in (prefill, decode):
            server.wait_healthy()
        return Pair(layout, prefill, decode, self._router(layout, prefill, decode))

    def _router(self, layout: Layout, prefill: Server, decode: Server) -> Server:
        if layout.router:
            return ROUTERS[layout.router](
                self.servers, f"{layout.router}-{self.number}", prefill, decode)
        proxy = self.servers.proxy(f"proxy-{self.number}", [prefill], [decode], *layout.way)
        proxy.wait_healthy()
        return proxy

    @contextmanager
    def another_decode(self, layout: Layout) -> Iterator[tuple[Server, Server]]:
        """A second decode server beside the running pair, and a proxy in front of all three."""
        pair = self.pair(layout)
        self.number = next(NUMBERS)
        started = [self.start(layout, "decode")]
        try:
            self.wait_for(started[0])
            started.append(self.servers.proxy(
                f"proxy-{self.number}", [pair.prefill], [pair.decode, started[0]]))
            self.wait_for(started[1])
            yield started[0], started[1]
        finally:
            self.servers.end(*started)

    def start(self, layout: Layout, side: str, like: Server | None = None) -> Server:
        """See KeptPair."""
        is_prefill, port = side == "prefill", free_port() if like is None else like.port
        transfer = transfer_config(
            PRODUCER if is_prefill else CONSUMER, layout.connector, layout.extra,
            **({"kv_connector_module_path": layout.module} if layout.module else {}),
            kv_load_failure_policy=layout.policy)
        env = {DEFECT: self.defect or "", "PDPROTO_OPERATOR": f"{HOST}:{port + OPERATOR}"}
        if DATA_RANKS in layout.prefill:
            env["PDPROTO_PORT"] = f"{port + NODES}"
        if layout.members:
            write_members(folder := str(self._folder / "members"), SIDES)
            env["PDPROTO_KEYS"] = f"{folder}/{side}{SUFFIX}"
        adapters = adapters_of(self._folder / "adapters", layout.adapters)
        if self.defect == PLUGIN_OFF:
            env["VLLM_PLUGINS"] = "none"
        return self.servers.start(
            f"{side}-{self.number}", self.model(layout.at_prefill if is_prefill else layout.model),
            (*layout.common, *adapters, *(layout.prefill if is_prefill else layout.decode)),
            transfer=transfer, port=port, env=env)

