"""Prefill and decode with blocks of two sizes, under vLLM's own scheduler: parts of blocks go over.

Every token is compared with those of an engine that computes alone (engine.py says how).
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

from pdproto.vllm.blocks import LayerGroup
from tests.vllm.engine import Engine, Servers
from tests.vllm.layers import full, states, window
from tests.vllm.test_scheduler import check, check_while_some_leave, prompt

NEW: Final = 6
SIZES: Final = pytest.mark.parametrize(
    ("there", "here"), [(16, 64), (64, 16), (32, 48)],
    ids=["larger at decode", "larger at prefill", "neither divides the other"])
Pair = Callable[..., Servers]


@pytest.fixture
def pair(closing: ExitStack, folder: Path) -> Pair:
    def engine(role: str, size: int, part: int, *windows: int, blocks: int = 64,
               more: tuple[KVCacheSpec, ...] = (), **named: Any) -> Engine:
        specs = (full(size), *(window(reach, size) for reach in windows), *more)
        extra = {"page_tokens": part} if part else {}
        return Engine(closing, folder, role, specs=specs, blocks=blocks, tokens_outermost=True,
                      **{**named, "extra": extra | named.get("extra", {})})

    def make(there: int, here: int, *windows: int, blocks: int = 64, **named: Any) -> Servers:
        part = gcd(there, here)
        return Servers(engine("kv_producer", there, part, *windows, **named),
                       engine("kv_consumer", here, part, *windows, blocks=blocks, **named))
    return make


@SIZES
@pytest.mark.parametrize("tokens", [1, 15, 16, 17, 63, 64, 65, 200])
def test_a_request_is_served(pair: Pair, there: int, here: int, tokens: int) -> None:
    servers = pair(there, here)
    asked = prompt(tokens, tokens)
    servers.serve("r", asked, NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.loaded == tokens
    servers.until_idle()
    check(servers, "r", asked)


def test_an_end_whose_blocks_are_parts_needs_no_setting(closing: ExitStack, folder: Path) -> None:
    servers = Servers(
        Engine(closing, folder, "kv_producer", specs=(full(16),), tokens_outermost=True),
        Engine(closing, folder, "kv_consumer", specs=(full(64),), tokens_outermost=True,
               extra={"page_tokens": 16}))
    servers.serve("r", prompt(1), NEW)
    servers.until_idle()
    assert servers.decode.loaded == 100
    check(servers, "r", prompt(1))


@SIZES
def test_blocks_that_decode_has_are_not_loaded_again(pair: Pair, there: int, here: int) -> None:
    servers = pair(there, here)
    asked = prompt(1, 200)
    servers.serve("first", asked, NEW)
    servers.until_idle()
    longer = asked[:150] + prompt(2, 50)
    servers.serve("second", longer, NEW)
    servers.until_idle()
    assert servers.decode.loaded == 200 + 200 - 150 // here * here
    check(servers, "second", longer)


@SIZES
def test_many_are_served_while_some_leave(pair: Pair, there: int, here: int) -> None:
    servers = pair(there, here, blocks=64 * 16 // here)
    asked = {f"r{number}": prompt(number, 20 + 7 * number) for number in range(16)}
    check_while_some_leave(servers, asked)


@SIZES
@pytest.mark.parametrize("reach", [40, 33, 50, 100])
@pytest.mark.parametrize("tokens", [40, 65, 72, 103, 200])
def test_windows_are_served(pair: Pair, there: int, here: int, reach: int, tokens: int) -> None:
    """Where prefill has freed a part of a block of decode, decode computes the request itself."""
    servers = pair(there, here, reach, prefix=False)
    asked = prompt(tokens, tokens)
    servers.serve("r", asked, NEW)
    servers.until_idle()
    check(servers, "r", asked)


@SIZES
def test_a_block_of_a_window_that_is_kept_for_later_prompts_is_whole(
    pair: Pair, there: int, here: int
) -> None:
    """A later prompt that ends within the last one looks back further."""
    for reach in (10, 40):
        servers = pair(there, here, reach)
        for tokens in range(60, 140, 5):
            asked = prompt(tokens, tokens)
            servers.serve(f"long {tokens}", asked, NEW)
            servers.until_idle()
            for kept in range(tokens // here * here, 0, -here):
                shorter = asked[:kept] + prompt(kept, 3)
                name = f"of {tokens}, {kept}"
                servers.decode.add(name, shorter, NEW)
                servers.until_idle()
                check(servers, name, shorter)


@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_vllm_hears_of_blocks_and_not_of_parts_that_are_bad(pair: Pair, policy: str) -> None:
    servers = pair(16, 64, policy=policy, prefix=False)
    asked = prompt(1, 200)
    servers.serve("r", asked, NEW)
    servers.prefill.connector.shutdown()
    bad: set[int] = set()
    blocks: set[int] = set()
    while servers.decode.scheduler.requests:
        for ids in servers.decode.scheduler.kv_cache_manager.get_block_ids("r"):
            blocks.update(ids)
        servers.decode.step(hear=lambda said: bad.update(said.invalid_block_ids))
    assert bad
    assert bad <= blocks
    if policy == "recompute":
        check(servers, "r", asked, engine=servers.decode)
    else:
        assert servers.decode.ends["r"] == "error"
    servers.decode.settle()


@SIZES
def test_blocks_go_from_device_to_device(
    pair: Pair, there: int, here: int, late: list[Any]
) -> None:
    del late
    servers = pair(there, here)
    for tokens in (31, 64, 200):
        asked = prompt(tokens, tokens)
        servers.serve(f"r{tokens}", asked, NEW)
        servers.until(lambda of=f"r{tokens}": of in servers.decode.ends)  # type: ignore[misc]
        check(servers, f"r{tokens}", asked)
    servers.until_idle()


def test_a_state_beside_parts_is_handed_over_whole(pair: Pair) -> None:
    servers = pair(16, 64, more=(states(),), prefix=False)
    asked = prompt(1, 100)
    servers.serve("r", asked, NEW)
    servers.until_idle()
    assert servers.decode.loaded == 99
    check(servers, "r", asked)


def test_two_sizes_without_the_setting_are_refused_with_both_and_the_setting(
    closing: ExitStack, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = Servers(
        Engine(closing, folder, "kv_producer", specs=(full(16),), tokens_outermost=True),
        Engine(closing, folder, "kv_consumer", specs=(full(64),), tokens_outermost=True))
    servers.serve("r", prompt(1), NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.ends["r"] == "error"
    assert ("blocks is 16 tokens a block at prefill and 64 tokens a block at decode: want the same "
            "at both ends, or set page_tokens") in caplog.text
    servers.until_idle()


@pytest.fixture
def opened(closing: ExitStack, folder: Path) -> Callable[..., Engine]:
    def open_(*specs: KVCacheSpec, tokens_outermost: bool) -> Engine:
        return Engine(closing, folder, "kv_consumer", specs=specs, extra={"page_tokens": 16},
                      tokens_outermost=tokens_outermost, prefix=False)
    return open_


def test_heads_outside_tokens_are_refused_with_the_layout(opened: Callable[..., Engine]) -> None:
    """A part of a block is in as many pieces as it has heads, as on a CPU."""
    with pytest.raises(ValueError, match=r"layers\.0\.attn: page_tokens .* not in one piece .*: "
                                         "set VLLM_KV_CACHE_LAYOUT to LBNHC, or use one block"):
        opened(full(64), tokens_outermost=False)


def test_heads_outside_tokens_are_no_matter_where_blocks_are_parts(
    opened: Callable[..., Engine]
) -> None:
    assert opened(full(16), tokens_outermost=False).half._block_groups == [LayerGroup(16)]


def test_a_size_that_does_not_divide_a_block_is_refused(opened: Callable[..., Engine]) -> None:
    with pytest.raises(ValueError, match="page_tokens=16: blocks of 24 tokens have no parts of 16"):
        opened(full(16), window(40, 24), tokens_outermost=True)
