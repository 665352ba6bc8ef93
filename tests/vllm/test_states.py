"""Layers with states (Mamba) under vLLM's own scheduler, beside layers with a KV cache.

A state cannot go back by a token, and decode computes the last token of a prompt itself. So prefill
computes all but the last one (pdproto/vllm/blocks.py).
"""

from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

import torch
from vllm.sampling_params import SamplingParams
from vllm.v1.kv_cache_interface import KVCacheConfig, KVCacheGroupSpec, KVCacheSpec
from vllm.v1.request import Request

from pdproto.items.shares import TpRank, share_for
from pdproto.vllm.configuration import groups_of
from pdproto.vllm.offering import shorten
from pdproto.vllm.pools import components
from tests.vllm.engine import DRAFTS, FOR_DECODE, Engine, Servers
from tests.vllm.layers import aligned, full, state_of, states, window
from tests.vllm.test_scheduler import (
    NEW,
    check,
    check_preempted,
    check_recomputed,
    check_while_some_leave,
    prompt,
)

LENGTHS = 2, 17, 32, 33, 63, 64, 65, 100, 193
HYBRIDS = pytest.mark.parametrize("specs", [
    (states(), full()), (full(), states()), (states(),), (full(), window(40), states()),
], ids=["first", "last", "alone", "beside a window"])


def pair_of(closing: ExitStack, folder: Path, *specs: KVCacheSpec, blocks: int = 64,
            **named: Any) -> Servers:
    return Servers(
        Engine(closing, folder, "kv_producer", specs=specs, prefix=False, **named),
        Engine(closing, folder, "kv_consumer", specs=specs, prefix=False, blocks=blocks, **named))


@HYBRIDS
@pytest.mark.parametrize("tokens", [2, 31, 33, 100, 600])
def test_a_request_is_served(
    closing: ExitStack, folder: Path, specs: tuple[KVCacheSpec, ...], tokens: int
) -> None:
    servers = pair_of(closing, folder, *specs)
    asked = prompt(tokens, tokens)
    servers.serve("r", asked, NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.loaded == tokens - 1
    servers.until_idle()
    check(servers, "r", asked)


def test_a_prompt_of_one_token_is_computed_by_decode(closing: ExitStack, folder: Path) -> None:
    servers = pair_of(closing, folder, states(), full())
    servers.serve("r", prompt(1, 1), NEW)
    servers.until_idle()
    assert servers.decode.loaded == 0
    check(servers, "r", prompt(1, 1))


def test_prefill_generates_one_token_whatever_a_proxy_asks_for(
    closing: ExitStack, folder: Path
) -> None:
    """Each further one would be in the state that decode gets."""
    servers = pair_of(closing, folder, states(), full())
    servers.decode.add("r", prompt(1), NEW, servers.compute("r", prompt(1), new=8))
    servers.until_idle()
    assert len(servers.prefill.answers["r"]) == 1
    check(servers, "r", prompt(1))


def test_a_request_that_prefill_keeps_for_itself_is_not_shortened(
    closing: ExitStack, folder: Path
) -> None:
    servers = pair_of(closing, folder, states(), full())
    servers.prefill.add("own", prompt(1), NEW)
    servers.until(lambda: "own" in servers.prefill.ends)
    assert servers.prefill.requests["own"].num_prompt_tokens == 100


def test_many_are_served_while_some_leave(closing: ExitStack, folder: Path) -> None:
    servers = pair_of(closing, folder, states(), full(), blocks=40)
    asked = {f"r{number}": prompt(number, 20 + 7 * number) for number in range(24)}
    check_while_some_leave(servers, asked)
    offering = servers.prefill.half._offering
    assert offering is not None
    assert not offering._requests


def test_a_request_that_leaves_prefill_is_forgotten(closing: ExitStack, folder: Path) -> None:
    servers = pair_of(closing, folder, states(), full())
    servers.prefill.add("r", prompt(1), 1, FOR_DECODE)
    servers.prefill.abort("r")
    servers.until_idle()
    offering = servers.prefill.half._offering
    assert offering is not None
    assert not offering._requests


def test_preempted_requests_are_computed_again(closing: ExitStack, folder: Path) -> None:
    servers = pair_of(closing, folder, states(), full(), blocks=20)
    check_preempted(servers)


@pytest.mark.parametrize("specs", [
    (states, full), (aligned, full), (partial(aligned, 16), partial(full, 16)),
], ids=["one state", "a state behind each block", "small blocks"])
@pytest.mark.parametrize("at_prefill", [True, False], ids=["both ends", "at decode"])
def test_drafts_behind_a_load_may_be_right_or_wrong(
    closing: ExitStack, folder: Path, specs: tuple[Callable[..., KVCacheSpec], ...], *,
    at_prefill: bool,
) -> None:
    """Decode has a block for the state behind each draft, and goes on from the last right one. The
    first step behind a load has drafts, too, which are no tokens: vLLM fills it up.
    """
    prefix = specs[0] is not states
    right: dict[str, list[int]] = {}
    made = Engine(closing, folder, "kv_producer", specs=[make() for make in specs], prefix=prefix)
    for tokens in LENGTHS:
        name = f"r{tokens}"
        made.add(name, prompt(tokens, tokens), 24)
        while name not in made.ends:
            made.step()
        right[name] = made.answers[name]

    def guess(name: str, answered: int) -> list[int]:
        """The number of drafts that are right is another one each time."""
        of = right[name][answered:answered + DRAFTS] + [0] * DRAFTS
        return [of[place] if place < answered % (DRAFTS + 1) else of[place] ^ 1
                for place in range(DRAFTS)]

    both = [states(num_speculative_blocks=DRAFTS), full()] if not prefix else [
        specs[0](num_speculative_blocks=DRAFTS), specs[1]()]
    there = both if at_prefill else [make() for make in specs]
    servers = Servers(
        Engine(closing, folder, "kv_producer", specs=there, prefix=prefix, blocks=256,
               guess=guess if at_prefill else None),
        Engine(closing, folder, "kv_consumer", specs=both, prefix=prefix, blocks=256, guess=guess))
    for tokens in LENGTHS:
        servers.serve(f"r{tokens}", prompt(tokens, tokens), 24)
    servers.until_idle()
    assert servers.decode.loaded == sum(LENGTHS) - len(LENGTHS)
    assert {name: servers.decode.answers[name] for name in right} == right
    assert servers.decode.drafted[0] > servers.decode.drafted[1] > 0, "all were right, or none"


def test_a_load_that_fails_is_computed_by_decode(closing: ExitStack, folder: Path) -> None:
    servers = pair_of(closing, folder, states(), full(), policy="recompute")
    check_recomputed(servers)


def test_prompts_of_other_lengths_are_told_with_both(
    closing: ExitStack, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """With the lengths that the clients have asked for, of which prefill computes one less."""
    servers = pair_of(closing, folder, states(), full())
    servers.decode.add("r", prompt(1, 90), NEW, servers.compute("r", prompt(1, 100)))
    servers.until_idle()
    assert servers.decode.ends["r"] == "error"
    assert "the prompt has 100 tokens at prefill and 90 at decode" in caplog.text


def test_a_prompt_of_embeddings_is_shortened_too() -> None:
    request = Request("r", None, SamplingParams(max_tokens=8), None,
                      prompt_embeds=torch.arange(20.0).view(5, 4))
    shorten(request, 1)
    assert torch.equal(request.prompt_embeds, torch.arange(16.0).view(4, 4))
    assert (request.num_prompt_tokens, request.num_tokens, request.max_tokens) == (4, 4, 1)


def test_the_list_that_the_caller_passed_keeps_its_tokens() -> None:
    """Where vLLM runs in the caller's process, a request holds the very list."""
    asked = prompt(5, 5)
    request = Request("r", asked, SamplingParams(max_tokens=8), None)
    assert request.prompt_token_ids is asked
    shorten(request, 1)
    assert len(asked) == 5
    assert request.prompt_token_ids == list(request.all_token_ids) == asked[:4]


def test_states_are_described() -> None:
    (group,) = groups_of(cache_of(states()))
    assert str(group) == "states of float16 1 x 6 and float32 2 x 8"


@pytest.mark.parametrize(("changes", "words"), [
    ({"mamba_cache_mode": "all"}, "mamba_cache_mode is all: .* set --no-enable-prefix-caching"),
])
def test_states_of_another_kind_are_refused(changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        groups_of(cache_of(states(**changes)))


def cache_of(spec: KVCacheSpec) -> KVCacheConfig:
    return KVCacheConfig(64, [], [KVCacheGroupSpec(["layers.0.mixer"], spec)])


def test_states_of_unequal_tensor_parallelism_are_refused_by_name() -> None:
    found = components({"layers.0.mixer": state_of(states(), 8)}, [["layers.0.mixer"]], 2)
    assert [buffer.shape for one in found for buffer in one.buffers] == [(8, 12 + 64)]
    share_for(found, TpRank(2, 0), TpRank(2, 0))
    with pytest.raises(ValueError, match="does not split states yet"):
        share_for(found, TpRank(1, 0), TpRank(2, 0))


def test_every_byte_of_a_state_is_an_item_whatever_its_parts_are_made_of() -> None:
    """On a device it is a view of the same kind."""
    spec = states(shapes=((1, 4), (3,)), dtypes=(torch.float32, torch.float16))
    parts = state_of(spec, 8)
    ((buffer,),) = (one.buffers for one in components({"layers.0.mixer": parts},
                                                      [["layers.0.mixer"]], 2))
    assert buffer.shape == (8, 16 + 6)
    buffer[5] = 255
    assert int((parts[1].view(torch.uint8) == 255).sum()) == 6
    assert bool((parts[1].view(torch.uint8)[5] == 255).all())


def test_a_state_in_several_pieces_is_refused() -> None:
    parts = [torch.zeros(8, 6), torch.zeros(8, 4)]
    with pytest.raises(ValueError, match=r"layers\.0\.mixer: a state of 24 and 16 bytes at 0 and"):
        components({"layers.0.mixer": parts}, [["layers.0.mixer"]], 2)
