"""Decode goes on behind the token that prefill has sampled, under vLLM's own scheduler.

The prompt of decode is prefill's with that token behind it (pdproto/vllm/offer.py, GOES_ON).
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from vllm.v1.kv_cache_interface import KVCacheSpec

from pdproto.vllm.offer import GOES_ON, KEY
from tests.vllm.engine import FOR_DECODE, Engine, Servers
from tests.vllm.layers import aligned, chunked, full, states, window
from tests.vllm.test_scheduler import NEW, check, prompt

CONTINUED = {**FOR_DECODE, GOES_ON: True}
Pair = Callable[..., Servers]


@pytest.fixture
def pair(closing: ExitStack, folder: Path) -> Pair:
    def made(*specs: KVCacheSpec) -> Servers:
        return Servers(*(Engine(closing, folder, role, specs=specs, prefix=False)
                         for role in ("kv_producer", "kv_consumer")))
    return made


def go_on(
    servers: Servers, name: str, asked: list[int], behind: list[int] | None = None
) -> list[int]:
    """As a proxy that passes prefill's first token on. behind: others in its place. Returns the
    prompt of decode.
    """
    params = servers.compute(name, asked, asked=CONTINUED)
    assert params[GOES_ON] is True
    longer = [*asked, *(servers.prefill.answers[name] if behind is None else behind)]
    servers.decode.add(name, longer, NEW, params)
    servers.until(lambda: name in servers.decode.ends)
    servers.until_idle()
    return longer


KINDS = pytest.mark.parametrize("specs", [
    (full(),), (full(), window(40)), (full(), chunked(64)), (states(), full()),
    (aligned(), full()),
], ids=["all", "a window", "chunks", "states", "a state behind each block"])


@KINDS
def test_decode_takes_the_whole_prompt_and_goes_on(
    pair: Pair, specs: tuple[KVCacheSpec, ...]
) -> None:
    servers = pair(*specs)
    for tokens in (1, 31, 32, 33, 100):
        servers.decode.loaded = 0
        longer = go_on(servers, f"r{tokens}", prompt(tokens, tokens))
        assert servers.decode.loaded == tokens
        check(servers, f"r{tokens}", longer)


def test_a_longer_prompt_takes_its_first_part_from_prefill(pair: Pair) -> None:
    """A conversation that goes on, say."""
    servers = pair(full(), window(40))
    longer = go_on(servers, "r", prompt(1), prompt(2, 70))
    assert servers.decode.loaded == 100
    check(servers, "r", longer)


def test_decode_computes_a_prompt_without_the_token_where_a_state_has_its_last_one(
    pair: Pair
) -> None:
    servers = pair(states(), full())
    asked = go_on(servers, "r", prompt(1), [])
    assert servers.decode.loaded == 0
    check(servers, "r", asked)


@pytest.mark.parametrize("carried", [1, 99, 101, 1 << 30])
def test_an_offer_of_other_tokens_than_prefill_can_have_handed_over_is_refused(
    pair: Pair, caplog: pytest.LogCaptureFixture, carried: int
) -> None:
    servers = pair(full())
    params = servers.compute("r", prompt(1), asked=CONTINUED)
    params[KEY]["carried"] = carried
    servers.decode.add("r", [*prompt(1), 7], NEW, params)
    while "r" not in servers.decode.ends:
        servers.decode.step()
    assert servers.decode.ends["r"] == "error"
    assert f"carried is {carried} of 100 tokens: want" in caplog.text


def test_a_longer_prompt_that_does_not_begin_with_that_of_prefill_is_refused(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    servers = pair(full())
    servers.decode.add("r", prompt(2, 101), NEW, servers.compute("r", prompt(1), asked=CONTINUED))
    servers.until_idle()
    assert servers.decode.ends["r"] == "error"
    assert "the prompt has 100 tokens at prefill and 101 at decode: want" in caplog.text
    servers.decode.add("again", prompt(2, 101), NEW)
    servers.until(lambda: "again" in servers.decode.ends)
    check(servers, "again", prompt(2, 101))
