"""Layers with states beside prefix caching, under vLLM's own scheduler (its mode `align`).

A request then has a place for a state behind each block of tokens, most of them empty, and the
state of all tokens so far is in the last. A hand-over is right if decode's goes into the place that
vLLM reads, and if what it keeps of it for later prompts is right.
"""

from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from vllm.v1.kv_cache_interface import KVCacheSpec

from tests.vllm.engine import FOR_DECODE, Engine, Servers
from tests.vllm.layers import aligned, full, latent, states, window
from tests.vllm.test_scheduler import (
    NEW,
    check,
    check_preempted,
    check_recomputed,
    check_while_some_leave,
    prompt,
)

LENGTHS = 2, 32, 33, 65, 100, 193
HYBRIDS = pytest.mark.parametrize("specs", [
    (aligned(), full()), (aligned(),), (full(), window(40), aligned()), (latent(), aligned()),
    (aligned(32), full(16)),
], ids=["first", "alone", "beside a window", "beside latent attention", "finer hits"])


def engine_of(closing: ExitStack, folder: Path, role: str, *specs: KVCacheSpec,
              **named: Any) -> Engine:
    return Engine(closing, folder, role, specs=specs, **{"step_tokens": 64, **named})


def pair_of(closing: ExitStack, folder: Path, *specs: KVCacheSpec, **named: Any) -> Servers:
    return Servers(engine_of(closing, folder, "kv_producer", *specs),
                   engine_of(closing, folder, "kv_consumer", *specs, **named))


@HYBRIDS
def test_requests_are_served(
    closing: ExitStack, folder: Path, specs: tuple[KVCacheSpec, ...]
) -> None:
    """In steps of 64 tokens, so prefill has several states of a request."""
    servers = pair_of(closing, folder, *specs)
    asked = {f"r{tokens}": prompt(tokens, tokens) for tokens in LENGTHS}
    for name, tokens in asked.items():
        servers.serve(name, tokens, 20)
        servers.until(lambda of=name: of in servers.decode.ends)  # type: ignore[misc]
    assert servers.decode.loaded == sum(LENGTHS) - len(LENGTHS)
    servers.until_idle()
    for name, tokens in asked.items():
        check(servers, name, tokens, 20)


@HYBRIDS
def test_what_either_end_has_of_a_prompt_is_right_for_the_next(
    closing: ExitStack, folder: Path, specs: tuple[KVCacheSpec, ...]
) -> None:
    """The second prompt is the first with its answer and more behind; the third begins as both."""
    servers = pair_of(closing, folder, *specs)
    first = prompt(1, 100)
    servers.serve("first", first, 40)
    servers.until(lambda: "first" in servers.decode.ends)
    second = first + servers.decode.answers["first"] + prompt(2, 50)
    servers.serve("second", second, NEW)
    servers.until(lambda: "second" in servers.decode.ends)
    servers.serve("third", first[:97] + prompt(3, 30), NEW)
    servers.until_idle()
    check(servers, "first", first, 40)
    check(servers, "second", second)
    check(servers, "third", first[:97] + prompt(3, 30))


def test_many_are_served_while_some_leave(closing: ExitStack, folder: Path) -> None:
    servers = pair_of(closing, folder, aligned(), full(), blocks=40)
    shared = prompt(0, 64)
    asked = {f"r{number}": shared[:16 * (number % 5)] + prompt(number, 20 + 7 * number)
             for number in range(18)}
    check_while_some_leave(servers, asked)


def test_preempted_requests_are_computed_again(closing: ExitStack, folder: Path) -> None:
    servers = pair_of(closing, folder, aligned(), full(), blocks=24)
    check_preempted(servers)


def test_a_load_that_fails_is_computed_by_decode(closing: ExitStack, folder: Path) -> None:
    servers = pair_of(closing, folder, aligned(), full(), policy="recompute")
    check_recomputed(servers)


@pytest.mark.parametrize("caching", [True, False], ids=["at prefill", "at decode"])
def test_one_end_may_do_without_prefix_caching(
    closing: ExitStack, folder: Path, *, caching: bool
) -> None:
    """A state is in its request's only block there."""
    both = {True: (aligned(), full()), False: (states(), full())}
    servers = Servers(
        engine_of(closing, folder, "kv_producer", *both[caching], prefix=caching),
        engine_of(closing, folder, "kv_consumer", *both[not caching], prefix=not caching))
    for tokens in (2, 65, 100):
        servers.serve(f"r{tokens}", prompt(tokens, tokens), NEW)
    servers.until_idle()
    assert servers.decode.loaded == 1 + 64 + 99
    for tokens in (2, 65, 100):
        check(servers, f"r{tokens}", prompt(tokens, tokens))


@pytest.mark.parametrize("decode_first", [False, True])
def test_both_ends_asked_at_once_are_served(
    closing: ExitStack, folder: Path, *, decode_first: bool
) -> None:
    servers = pair_of(closing, folder, aligned(), full())
    for tokens in (33, 150):
        servers.begin(f"r{tokens}", prompt(tokens, tokens), NEW, decode_first=decode_first)
    servers.until_idle()
    for tokens in (33, 150):
        check(servers, f"r{tokens}", prompt(tokens, tokens))


def test_a_request_that_leaves_prefill_is_forgotten(closing: ExitStack, folder: Path) -> None:
    servers = pair_of(closing, folder, aligned(), full())
    servers.prefill.add("r", prompt(1), 1, FOR_DECODE)
    servers.prefill.step()
    servers.prefill.abort("r")
    servers.until_idle()
    servers.prefill.assert_empty()
