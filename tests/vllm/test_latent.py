"""Latent attention (MLA) under vLLM's own scheduler, over devices that do their work late.

A layer is one tensor, without heads and without halves for K and V, and every rank of a tensor
parallelism holds all of it. Every token is compared with those of an engine that computes alone
(engine.py says how).
"""

from collections.abc import Callable
from contextlib import ExitStack
from math import gcd
from pathlib import Path
from typing import Any, Final

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from vllm.v1.kv_cache_interface import KVCacheSpec

from tests.vllm.engine import Engine, Servers
from tests.vllm.layers import BLOCK, LATENT, latent, states
from tests.vllm.test_scheduler import check, prompt

NEW: Final = 6
Pair = Callable[..., Servers]
SIZES: Final = pytest.mark.parametrize(
    ("there", "here"), [(16, 64), (64, 16), (32, 48)],
    ids=["larger at decode", "larger at prefill", "neither divides the other"])


@pytest.fixture
def pair(closing: ExitStack, folder: Path, late: list[Any]) -> Pair:
    """Two servers. tp, sizes: ranks, and tokens of a block, at prefill and at decode."""
    del late

    def make(tp: tuple[int, int] = (1, 1), sizes: tuple[int, int] = (BLOCK, BLOCK),
             more: tuple[KVCacheSpec, ...] = (), **named: Any) -> Servers:
        part = {"page_tokens": gcd(*sizes)} if sizes[0] != sizes[1] else {}
        named["extra"] = part | named.get("extra", {})
        prefill, decode = (
            Engine(closing, folder, role, specs=(latent(size), *more), tp=ranks, **named)
            for role, ranks, size in zip(("kv_producer", "kv_consumer"), tp, sizes, strict=True))
        return Servers(prefill, decode)
    return make


def serve(servers: Servers, *lengths: int) -> None:
    for tokens in lengths:
        asked, name = prompt(tokens, tokens), f"r{tokens}"
        servers.serve(name, asked, NEW)
        servers.until(lambda of=name: of in servers.decode.ends)  # type: ignore[misc]
        check(servers, name, asked)
    servers.until_idle()
    assert servers.decode.loaded == sum(lengths), "decode has computed some of it"


@pytest.mark.parametrize(("engine", "there", "here"), [
    ("tcp", 1, 1), ("tcp", 2, 1), ("tcp", 1, 2), ("tcp", 4, 2), ("shm", 2, 1), ("cuda-ipc", 1, 2)])
def test_requests_are_served_whatever_the_number_of_ranks(
    pair: Pair, engine: str, there: int, here: int
) -> None:
    servers = pair((there, here), extra={"engine": engine})
    assert {layer.shape for rank in servers.decode.ranks for layer in rank.values()} == {
        (64, BLOCK, LATENT)}
    serve(servers, 31, 64, 100)


@pytest.mark.parametrize(("there", "here"), [(2, 1), (1, 2), (4, 2), (2, 2)])
def test_one_rank_of_prefill_sends_to_each_of_decode(pair: Pair, there: int, here: int) -> None:
    """All ranks of prefill have the same bytes."""
    servers = pair((there, here))
    serve(servers, 64)
    sent = [worker._offering.node.metrics.read()["transfer_bytes"]
            for worker in servers.prefill.workers() if worker._offering is not None]
    assert len(sent) == there
    assert [one > 64 * LATENT for one in sent].count(True) == min(there, here)


@SIZES
@pytest.mark.parametrize("tp", [(1, 1), (2, 1), (1, 2)])
def test_parts_of_blocks_are_served(
    pair: Pair, there: int, here: int, tp: tuple[int, int]
) -> None:
    """A vector has no heads, so tokens are the outermost axis of a block in every layout."""
    serve(pair(tp, (there, here)), 15, 64, 200)


@SIZES
def test_parts_that_decode_has_are_not_loaded_again(pair: Pair, there: int, here: int) -> None:
    servers = pair(sizes=(there, here))
    asked = prompt(1, 200)
    servers.serve("first", asked, NEW)
    servers.until_idle()
    longer = asked[:150] + prompt(2, 50)
    servers.serve("second", longer, NEW)
    cached = 150 // here * here
    (blocks,) = servers.prefill.scheduler.kv_cache_manager.get_block_ids("second")
    whole = {name: layer.clone() for name, layer in servers.prefill.layers.items()}
    for layer in servers.prefill.layers.values():
        layer[blocks[:cached // there]] = -1.0  # what is loaded all the same is wrong
    servers.until_idle()
    assert servers.decode.loaded == 200 + 200 - cached
    for name, layer in servers.prefill.layers.items():
        layer.copy_(whole[name])
    check(servers, "second", longer)


def test_a_state_beside_latent_attention_is_served(pair: Pair) -> None:
    servers = pair(more=(states(),), prefix=False)
    servers.serve("r", prompt(1), NEW)
    servers.until_idle()
    assert servers.decode.loaded == 99
    check(servers, "r", prompt(1))


@pytest.mark.parametrize("tp", [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("steps", range(4))
def test_a_request_that_is_aborted_while_it_is_loaded_spoils_no_other(
    pair: Pair, steps: int, tp: tuple[int, int]
) -> None:
    servers = pair(tp, (16, 64))
    servers.serve("gone", prompt(1), NEW)
    for _ in range(steps):
        servers.step()
    servers.decode.abort("gone")
    servers.serve("r", prompt(2), NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    check(servers, "r", prompt(2))
    servers.until_idle()
