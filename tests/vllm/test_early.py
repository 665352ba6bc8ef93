"""Both servers are asked at once, under vLLM's own scheduler: blocks go while prefill computes.

Every token is compared with those of an engine that computes alone (engine.py says how). A step of
prefill computes 256 tokens.
"""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from vllm.v1.kv_cache_interface import KVCacheSpec

from pdproto.transport.keys import new_secret
from pdproto.vllm.early import SERVER, TRANSFER_ID
from pdproto.vllm.offer import VERSION
from tests.vllm.engine import Engine, Servers, ours
from tests.vllm.layers import full, latent, states, window
from tests.vllm.test_scheduler import NEW, check, prompt
from tests.waiting import until

SOON = {"waits": {"bootstrap_timeout": 0.3, "no_news": 0.1, "no_other_life": 0.1}}
Pair = Callable[..., Servers]


@pytest.fixture
def pair(closing: ExitStack, folder: Path) -> Pair:
    def make(*, there: int = 64, here: int = 64, **named: Any) -> Servers:
        return Servers(Engine(closing, folder, "kv_producer", blocks=there, **named),
                       Engine(closing, folder, "kv_consumer", blocks=here, **named))
    return make


def served(servers: Servers, name: str, asked: list[int]) -> None:
    servers.until(lambda: name in servers.decode.ends)
    check(servers, name, asked)


@pytest.mark.parametrize("decode_first", [False, True])
@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 256, 257, 600])
def test_a_request_is_served(pair: Pair, tokens: int, *, decode_first: bool) -> None:
    servers = pair()
    asked = prompt(tokens, tokens)
    servers.begin("r", asked, NEW, decode_first=decode_first)
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.loaded == tokens
    servers.until_idle()
    check(servers, "r", asked)


def chunks(servers: Servers) -> int:
    """How many chunks of all open hand-overs have landed."""
    worker = ours(servers.prefill.connector).worker._offering
    assert worker is not None
    return sum(sender.landed_chunks for one in worker._sendings.values() for sender in one.legs)


@pytest.mark.parametrize("specs", [(full(),), (latent(),), (full(), window(600))],
                         ids=["full", "latent", "two groups"])
def test_blocks_go_while_the_request_is_computed(
    pair: Pair, specs: tuple[KVCacheSpec, ...]
) -> None:
    """The first chunk has landed before prefill begins the last one."""
    servers = pair(specs=specs, there=100, here=100)
    asked = prompt(1, 900)
    servers.introduction()
    servers.begin("r", asked, NEW)
    servers.decode.step()
    for _ in range(2 if len(specs) == 1 else 3):
        servers.prefill.step()
    assert "r" not in servers.prefill.ends
    until(lambda: chunks(servers) > 0)
    assert servers.prefill.scheduler.requests["r"].num_computed_tokens < 900
    servers.until_idle()
    check(servers, "r", asked)


@pytest.mark.parametrize("spec", [window(40), window(33), window(100), window(700)])
@pytest.mark.parametrize("tokens", [40, 64, 65, 72, 96, 103, 600])
def test_windows_and_full_attention_are_served(
    pair: Pair, spec: KVCacheSpec, tokens: int
) -> None:
    servers = pair(specs=(full(), spec), prefix=False)
    servers.begin("r", prompt(tokens, tokens), NEW)
    served(servers, "r", prompt(tokens, tokens))
    servers.until_idle()


@pytest.mark.parametrize("specs", [(states(), full()), (states(),), (full(), window(40), states())],
                         ids=["beside", "alone", "beside a window"])
@pytest.mark.parametrize("tokens", [1, 2, 33, 600])
def test_states_are_served(pair: Pair, specs: tuple[KVCacheSpec, ...], tokens: int) -> None:
    servers = pair(specs=specs, prefix=False)
    servers.begin("r", prompt(tokens, tokens), NEW)
    served(servers, "r", prompt(tokens, tokens))
    servers.until_idle()


@pytest.mark.parametrize(("there", "here"), [(16, 64), (64, 16)])
@pytest.mark.parametrize("tokens", [15, 65, 600])
def test_parts_of_blocks_are_served(
    closing: ExitStack, folder: Path, there: int, here: int, tokens: int
) -> None:
    servers = Servers(*(
        Engine(closing, folder, role, specs=(full(size), window(50, size)), prefix=False,
               tokens_outermost=True, extra={"page_tokens": 16})
        for role, size in (("kv_producer", there), ("kv_consumer", here))))
    servers.begin("r", prompt(tokens, tokens), NEW)
    served(servers, "r", prompt(tokens, tokens))
    servers.until_idle()


def test_ranks_of_two_sizes_are_served(closing: ExitStack, folder: Path) -> None:
    servers = Servers(Engine(closing, folder, "kv_producer", tp=2),
                      Engine(closing, folder, "kv_consumer"))
    servers.begin("r", prompt(1, 600), NEW)
    served(servers, "r", prompt(1, 600))
    servers.until_idle()


def test_what_either_end_has_cached_is_used(pair: Pair) -> None:
    servers = pair()
    asked = prompt(1, 600)
    for name, tokens in (("first", asked), ("again", asked), ("longer", asked[:500] + [7] * 200)):
        servers.begin(f"{name} one", tokens, NEW)
        served(servers, f"{name} one", tokens)
    servers.until_idle()
    assert servers.decode.loaded == 600 + 24 + (700 - 480)


@pytest.mark.parametrize("prefix", [True, False])
def test_many_are_served_while_some_leave(pair: Pair, *, prefix: bool) -> None:
    servers = pair(here=60, prefix=prefix)
    asked = {f"r{number}": prompt(number, 20 + 17 * number) for number in range(24)}
    for number, (name, tokens) in enumerate(asked.items()):
        servers.begin(name, tokens, NEW, decode_first=number % 2 == 0)
        for _ in range(number % 4):
            servers.step()
        if number % 3 == 0:
            (servers.decode if number % 2 else servers.prefill).abort(name)
    servers.until_idle()
    for number, (name, tokens) in enumerate(asked.items()):
        if number % 3:
            check(servers, name, tokens)


@pytest.mark.parametrize("prefix", [True, False])
def test_a_request_that_is_preempted_before_its_blocks_are_read_is_served(
    pair: Pair, *, prefix: bool
) -> None:
    """vLLM takes its blocks, and computes others into all that are free, before decode comes."""
    servers = pair(there=43, here=200, prefix=prefix, step_tokens=64)
    there, here = servers.legs("r")
    asked = prompt(1, 900)
    for number in range(3):  # soon each of them needs another block
        servers.prefill.add(f"filler {number}", prompt(50 + number, 96 + 8 * number), 80)
        for _ in range(8):
            servers.prefill.step()
    servers.prefill.add("r", asked, 1, there)
    for _ in range(100):
        servers.prefill.step()
    assert servers.prefill.requests["r"].num_preemptions, "it was not preempted"
    servers.decode.add("r", asked, NEW, here)
    servers.until(lambda: "r" in servers.decode.ends, seconds=60.0)
    check(servers, "r", asked)
    servers.until_idle()


@pytest.mark.parametrize("steps", range(6))
def test_a_request_that_is_aborted_at_decode_leaves_nothing(pair: Pair, steps: int) -> None:
    """vLLM frees the blocks of a request only when it has ended at prefill, too."""
    servers = pair()
    servers.begin("r", prompt(steps, 900), NEW)
    for _ in range(steps):
        servers.step()
    servers.decode.abort("r")
    servers.until(lambda: "r" in servers.prefill.ends or not servers.prefill.scheduler.requests)
    servers.until_idle()
    servers.begin("next", prompt(99), NEW)
    served(servers, "next", prompt(99))


@pytest.mark.parametrize("steps", range(4))
def test_a_request_that_is_aborted_at_prefill_is_told_to_decode_at_once(
    pair: Pair, steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    servers = pair()
    servers.begin("r", prompt(steps, 900), NEW)
    for _ in range(steps):
        servers.step()
    assert "r" not in servers.prefill.ends
    servers.prefill.abort("r")
    servers.until(lambda: "r" in servers.decode.ends, seconds=5.0)
    assert servers.decode.ends["r"] == "error"
    assert "the request has ended at prefill before it was computed" in caplog.text
    servers.until_idle()


def test_a_prefill_that_refuses_the_request_tells_decode(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    """vLLM's API then adds a stand-in of one token, which it aborts."""
    servers = pair(extra=SOON | {"waits": {**SOON["waits"], "bootstrap_timeout": 60.0}})
    there, here = servers.legs("r")
    servers.decode.add("r", prompt(1), NEW, here)
    servers.step()
    servers.prefill.add("r", [0], 1, there, refused=True)
    servers.until(lambda: "r" in servers.decode.ends, seconds=5.0)
    assert servers.decode.ends["r"] == "error"
    assert "prefill's API has refused the request" in caplog.text
    servers.until_idle()


def test_a_decode_that_never_comes_leaves_nothing(pair: Pair) -> None:
    servers = pair(extra=SOON)
    there, _ = servers.legs("r")
    servers.prefill.add("r", prompt(1, 600), 1, there)
    servers.until(lambda: not servers.prefill.scheduler.requests, seconds=5.0)
    servers.until_idle()


def test_a_prefill_that_is_never_asked_fails_the_request(pair: Pair) -> None:
    servers = pair(extra={"waits": {**SOON["waits"], "no_bytes": 0.1, "transfer_timeout": 0.5}})
    _, here = servers.legs("r")
    servers.decode.add("r", prompt(1, 600), NEW, here)
    servers.until(lambda: "r" in servers.decode.ends, seconds=5.0)
    assert servers.decode.ends["r"] == "error"
    servers.until_idle()


@pytest.mark.parametrize("later", [False, True])
def test_an_id_that_is_drawn_twice_hands_over_one_request(
    pair: Pair, caplog: pytest.LogCaptureFixture, *, later: bool
) -> None:
    servers = pair()
    there, here = servers.legs("r")
    servers.begin("r", prompt(1), NEW)
    if later:
        served(servers, "r", prompt(1))
        servers.until_idle()
    servers.prefill.add("twin", prompt(1), 1, there)
    servers.until(lambda: "twin" in servers.prefill.ends)
    assert "the proxy has given this transfer_id to two requests" in caplog.text
    if later:
        servers.decode.add("twin", prompt(1), NEW, here)
        servers.until(lambda: "twin" in servers.decode.ends, seconds=5.0)
    else:
        served(servers, "r", prompt(1))
    servers.until_idle()


def test_another_prompt_is_refused_with_both_names(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    servers = pair(extra=SOON | {"waits": {**SOON["waits"], "bootstrap_timeout": 60.0}})
    there, here = servers.legs("r")
    servers.prefill.add("r", prompt(1), 1, there)
    servers.decode.add("r", prompt(2), NEW, here)
    servers.until(lambda: "r" in servers.decode.ends, seconds=10.0)
    assert (servers.decode.ends["r"], servers.decode.answers["r"]) == ("error", [])
    servers.until_idle()
    told = [line for line in caplog.messages if "has two prompts" in line]
    assert any("was not loaded" in line for line in told)
    assert any("did not take its KV cache" in line for line in told)


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no introduction": ({SERVER: None}, "have 'transfer_id' and no 'pdproto_server'"),
    "a short id": ({TRANSFER_ID: "7"}, "transfer_id is '7': want 16 to 256 characters"),
    "a number": ({TRANSFER_ID: 7}, "transfer_id is 7: want 16 to 256 characters"),
    "another version": ({SERVER: {"version": 0}},
                        f"pdproto_server of version 0, and {VERSION} is known"),
    "a part of one": ({SERVER: {"version": VERSION}},
                      "pdproto_server: Object missing required field"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_parameters_are_refused_by_name(
    pair: Pair, caplog: pytest.LogCaptureFixture, case: str
) -> None:
    servers = pair()
    _, here = servers.legs("r")
    changed, why = WRONG[case]
    servers.decode.add("r", prompt(1), NEW, here | changed)
    servers.until(lambda: "r" in servers.decode.ends, seconds=5.0)
    assert servers.decode.ends["r"] == "error"
    assert why in caplog.text
    servers.until_idle()


def test_an_introduction_of_another_cluster_is_refused(
    closing: ExitStack, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prefill, decode = (Engine(closing, folder, role, extra={"secret": new_secret()})
                       for role in ("kv_producer", "kv_consumer"))
    prefill.add("first", prompt(1), 1, {"do_remote_decode": True, SERVER: True})
    while "first" not in prefill.ends:
        prefill.step()
    told = prefill.params["first"][SERVER]
    assert told["seal"]
    decode.add("r", prompt(1), NEW, {
        "do_remote_prefill": True, TRANSFER_ID: "a transfer id for r", SERVER: told})
    while "r" not in decode.ends:
        decode.step()
    assert "have no seal of this cluster" in caplog.text


def test_another_layout_of_the_kv_cache_is_refused_with_both(
    closing: ExitStack, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = Servers(Engine(closing, folder, "kv_producer"),
                      Engine(closing, folder, "kv_consumer", tokens_outermost=True))
    servers.prefill.add("first", prompt(1), 1, {"do_remote_decode": True, SERVER: True})
    while "first" not in servers.prefill.ends:
        servers.prefill.step()
    servers._introduction = {SERVER: servers.prefill.params["first"][SERVER]}
    servers.begin("r", prompt(1), NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.ends["r"] == "error"
    assert "KV cache layout is LBHNC at prefill and LBNHC at decode" in caplog.text


def test_a_proxy_that_asks_one_after_the_other_gets_no_introduction(pair: Pair) -> None:
    assert SERVER not in pair().compute("r", prompt(1))
