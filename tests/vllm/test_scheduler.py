"""vLLM's own scheduler with the connector: aborts at every point, failures, prefixes, preemption.

Every token is compared with those of an engine that computes alone (engine.py says how).
"""

import random
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

import torch
from vllm.v1 import kv_cache_interface as kinds
from vllm.v1.core.single_type_kv_cache_manager import get_manager_for_kv_cache_spec
from vllm.v1.kv_cache_interface import KVCacheSpec

from pdproto.vllm.blocks import LayerGroup
from pdproto.vllm.configuration import groups_of
from pdproto.vllm.loading import LoadingScheduler
from tests.vllm.engine import FOR_DECODE, Engine, Servers, ours
from tests.vllm.layers import chunked, full, latent, latent_window, reference_window, window

NEW = 6
CLOCKS = "seconds", "cpu_seconds"


Pair = Callable[..., Servers]


@pytest.fixture
def pair(closing: ExitStack, folder: Path) -> Pair:
    def make(*, blocks: int = 64, **named: Any) -> Servers:
        return Servers(Engine(closing, folder, "kv_producer", **named),
                       Engine(closing, folder, "kv_consumer", blocks=blocks, **named))
    return make


def prompt(seed: int, tokens: int = 100) -> list[int]:
    return random.Random(seed).choices(range(300), k=tokens)  # noqa: S311


def check(servers: Servers, name: str, asked: list[int], new: int = NEW,
          engine: Engine | None = None) -> None:
    """The answer is that of an engine that computes everything itself (default: prefill's)."""
    engine = engine or servers.prefill
    engine.add(f"{name} alone", asked, new)
    while f"{name} alone" not in engine.ends:
        engine.step()
    want = engine.answers[f"{name} alone"]
    assert servers.decode.answers[name] == want
    assert servers.decode.ends[name] == "length"


def check_while_some_leave(servers: Servers, asked: Mapping[str, list[int]]) -> None:
    """Each third request is aborted at decode, and the others are served. asked: by name."""
    for number, (name, tokens) in enumerate(asked.items()):
        servers.serve(name, tokens, NEW)
        for _ in range(number % 4):
            servers.step()
        if number % 3 == 0:
            servers.decode.abort(name)
    servers.until_idle()
    for number, (name, tokens) in enumerate(asked.items()):
        if number % 3:
            check(servers, name, tokens)


def check_preempted(servers: Servers) -> None:
    """Four long answers, for which decode has too few blocks, are served."""
    asked = {f"r{number}": prompt(number, 90) for number in range(4)}
    for name, tokens in asked.items():
        servers.serve(name, tokens, 60)
    servers.until_idle()
    assert servers.decode.preemptions() > 0, "nothing was preempted"
    for name, tokens in asked.items():
        check(servers, name, tokens, 60)


def check_recomputed(servers: Servers) -> None:
    """Decode computes a request itself whose load has failed."""
    servers.serve("r", prompt(1), NEW)
    kill_prefill(servers)
    while servers.decode.scheduler.requests:
        servers.decode.step()
    check(servers, "r", prompt(1), engine=servers.decode)
    servers.decode.settle()

@pytest.mark.parametrize("tokens", [1, 31, 32, 33, 64, 100, 600])
def test_a_request_is_served(pair: Pair, tokens: int) -> None:
    servers = pair()
    asked = prompt(tokens, tokens)
    servers.serve("r", asked, NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.loaded == tokens
    servers.until_idle()
    check(servers, "r", asked)


@pytest.mark.parametrize("specs", [
    (full(), chunked(40)), (full(), chunked(96)), (chunked(64), window(40)),
    (latent_window(40),), (latent(), latent_window(33)), (reference_window(4),),
], ids=["chunks of 40", "of 96", "of 64 beside a window", "latent window",
        "latent window beside latent attention", "reference window"])
@pytest.mark.parametrize("prefix", [False, True], ids=["", "prefix caching"])
def test_other_kinds_of_attention_are_served(
    pair: Pair, specs: tuple[KVCacheSpec, ...], *, prefix: bool
) -> None:
    """Where a chunk ends with the prompt, prefill has freed what decode would read of it."""
    servers = pair(specs=specs, prefix=prefix, step_tokens=64)
    lengths = 31, 40, 65, 97, 150
    for tokens in lengths:
        servers.serve(f"r{tokens}", prompt(tokens, tokens), NEW)
        servers.until(lambda of=tokens: f"r{of}" in servers.decode.ends)  # type: ignore[misc]
    servers.until_idle()
    for tokens in lengths:
        check(servers, f"r{tokens}", prompt(tokens, tokens))
    assert servers.decode.loaded >= sum(lengths) - 40, "decode has computed some of it"


@pytest.mark.parametrize("spec", [window(40), window(33), window(100)])
@pytest.mark.parametrize("tokens", [40, 64, 65, 72, 96, 103])
def test_windows_and_full_attention_are_served(
    pair: Pair, spec: KVCacheSpec, tokens: int
) -> None:
    servers = pair(specs=(full(), spec), prefix=False)
    asked = prompt(tokens, tokens)
    servers.serve("r", asked, NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    servers.until_idle()
    check(servers, "r", asked)


def test_many_are_served_while_some_leave(pair: Pair) -> None:
    servers = pair(blocks=40)
    asked = {f"r{number}": prompt(number, 20 + 7 * number) for number in range(24)}
    check_while_some_leave(servers, asked)


def test_blocks_that_decode_has_are_not_loaded_again(pair: Pair) -> None:
    servers = pair()
    asked = prompt(1, 100)
    servers.serve("first", asked, NEW)
    servers.until_idle()
    longer = asked[:70] + prompt(2, 50)
    servers.serve("second", longer, NEW)
    (blocks,) = servers.prefill.scheduler.kv_cache_manager.get_block_ids("second")
    whole = {name: layer.clone() for name, layer in servers.prefill.layers.items()}
    for layer in servers.prefill.layers.values():
        layer[blocks[:2]] = -1.0  # what is loaded all the same is wrong
    servers.until_idle()
    assert servers.decode.loaded == 100 + 120 - 64
    for name, layer in servers.prefill.layers.items():
        layer.copy_(whole[name])
    check(servers, "second", longer)


def test_preempted_requests_are_computed_again(pair: Pair) -> None:
    servers = pair(blocks=14)
    check_preempted(servers)


@pytest.mark.parametrize("steps", range(8))
def test_a_request_that_is_aborted_at_decode_leaves_nothing(pair: Pair, steps: int) -> None:
    servers = pair()
    servers.serve("r", prompt(steps), NEW)
    for _ in range(steps):
        servers.decode.step()
    servers.decode.abort("r")
    servers.until_idle()
    servers.serve("next", prompt(99), NEW)
    servers.until_idle()
    check(servers, "next", prompt(99))


@pytest.mark.parametrize("steps", range(3))
def test_a_request_that_is_aborted_at_prefill_leaves_nothing(pair: Pair, steps: int) -> None:
    servers = pair()
    servers.prefill.add("r", prompt(1, 600), 1, FOR_DECODE)
    for _ in range(steps):
        servers.prefill.step()
    servers.prefill.abort("r")
    servers.until_idle()


@pytest.mark.parametrize("policy", ["fail", "recompute"])
@pytest.mark.parametrize("order", ["told, then aborted", "aborted, then loaded",
                                   "aborted, then failed"])
def test_an_abort_is_told_once_in_every_order(pair: Pair, order: str, policy: str) -> None:
    """The three orders of vllm-project/vllm#46240, of which two end EngineCore there."""
    servers = pair(policy=policy)
    servers.serve("r", prompt(1), NEW)
    decode = servers.decode
    if order == "told, then aborted":
        servers.until(lambda: bool(decode.scheduler.finished_recving_kv_req_ids))
        decode.abort("r")
    elif order == "aborted, then loaded":
        while decode.scheduler.requests:
            decode.step(hear=lambda said: decode.abort("r") if said.finished_recving else None)
            servers.prefill.step()
    else:
        decode.step()
        decode.abort("r")
    servers.until_idle()
    for _ in range(20):
        servers.step()
    servers.decode.settle()


def kill_prefill(servers: Servers) -> None:
    servers.prefill.connector.shutdown()


GROUPS = pytest.mark.parametrize("specs", [(full(),), (full(), window(100))],
                                 ids=["one group", "two groups"])


@GROUPS
def test_a_load_that_fails_is_computed_by_decode(
    pair: Pair, specs: tuple[KVCacheSpec, ...]
) -> None:
    servers = pair(policy="recompute", prefix=False, specs=specs)
    check_recomputed(servers)


@GROUPS
def test_a_load_that_fails_fails_its_request(
    pair: Pair, specs: tuple[KVCacheSpec, ...]
) -> None:
    servers = pair(specs=specs, prefix=False)
    servers.serve("r", prompt(1), NEW)
    kill_prefill(servers)
    while servers.decode.scheduler.requests:
        servers.decode.step()
    assert servers.decode.ends["r"] == "error"
    assert servers.decode.answers["r"] == []
    servers.decode.settle()


@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_blocks_that_prefill_has_given_to_others_are_never_read(pair: Pair, policy: str) -> None:
    """The late read: prefill has waited, and has used the blocks for others. vLLM's own connector
    answers with wrong tokens here.
    """
    soon = {"waits": {"bootstrap_timeout": 0.2, "no_news": 0.1}}
    servers = pair(policy=policy, prefix=False, extra=soon)
    asked = prompt(1)
    params = servers.compute("r", asked)
    servers.until(lambda: not servers.prefill.scheduler.requests)
    for number in range(20):
        servers.prefill.add(f"other {number}", prompt(100 + number), 1)
        servers.until(lambda number=number: f"other {number}" in servers.prefill.ends)  # type: ignore[misc]
    servers.decode.add("r", asked, NEW, params)
    servers.until(lambda: "r" in servers.decode.ends)
    if policy == "fail":
        assert (servers.decode.ends["r"], servers.decode.answers["r"]) == ("error", [])
    else:
        check(servers, "r", asked)
    servers.until_idle()


@pytest.mark.parametrize("policy", ["fail", "recompute"])
def test_half_a_request_does_not_end_the_scheduler(pair: Pair, policy: str) -> None:
    servers = pair(policy=policy)
    asked = prompt(1)
    servers.decode.add("r", asked, NEW, {"do_remote_prefill": True})
    servers.until(lambda: "r" in servers.decode.ends)
    if policy == "fail":
        assert servers.decode.ends["r"] == "error"
    else:
        check(servers, "r", asked)
    servers.until_idle()


def test_another_layout_of_the_kv_cache_is_refused_with_both(
    closing: ExitStack, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = Servers(Engine(closing, folder, "kv_producer"),
                      Engine(closing, folder, "kv_consumer", tokens_outermost=True))
    servers.serve("r", prompt(1), NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    assert (servers.decode.ends["r"], servers.decode.answers["r"]) == ("error", [])
    assert "KV cache layout is LBHNC at prefill and LBNHC at decode" in caplog.text
    servers.until_idle()


@pytest.mark.parametrize("tokens", [31, 100])
def test_a_kv_cache_whose_tokens_are_outermost_is_served(
    closing: ExitStack, folder: Path, tokens: int
) -> None:
    servers = Servers(Engine(closing, folder, "kv_producer", tokens_outermost=True),
                      Engine(closing, folder, "kv_consumer", tokens_outermost=True))
    servers.serve("r", prompt(tokens, tokens), NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.loaded == tokens
    check(servers, "r", prompt(tokens, tokens))


def test_a_setting_that_there_is_not_is_refused_with_the_nearest(pair: Pair) -> None:
    with pytest.raises(ValueError, match="kv_connector_extra_config: there is no setting silent: "
                                         "did you mean silent_s"):
        pair(extra={"silent": 3})


@pytest.mark.parametrize("direct", [True, False])
def test_the_setting_of_threads_reaches_both_data_paths(pair: Pair, *, direct: bool) -> None:
    servers = pair(extra={"copy_threads": 3, "direct": direct})
    offering, loading = (ours(engine.connector).worker
                         for engine in (servers.prefill, servers.decode))
    for half in (offering._offering, loading._loading):
        assert half is not None
        copies: Any = half._data_path._copies
        assert copies._launch.threads == 3


SIZES = {"block_size": 32, "num_kv_heads": 2, "head_size": 4, "dtype": torch.float32}
OTHER_KINDS = {
    "SinkFullAttentionSpec": lambda: kinds.SinkFullAttentionSpec(**SIZES, sink_len=32),
    "HiddenStateCacheSpec": lambda: kinds.HiddenStateCacheSpec(**SIZES),
    "CircularBufferSpec": lambda: kinds.CircularBufferSpec(**SIZES),
    "CrossAttentionSpec": lambda: kinds.CrossAttentionSpec(**SIZES),
}


def cache_of(*specs: KVCacheSpec) -> kinds.KVCacheConfig:
    return kinds.KVCacheConfig(64, [], [
        kinds.KVCacheGroupSpec([f"layers.{number}.attn"], spec)
        for number, spec in enumerate(specs)])


@pytest.mark.parametrize("name", OTHER_KINDS)
@pytest.mark.parametrize("uniform", [False, True], ids=["alone", "among layers of one group"])
def test_a_cache_of_another_kind_is_refused_by_name(name: str, uniform: bool) -> None:
    """Kinds that are derived from those that are handed over, too."""
    spec = OTHER_KINDS[name]()
    if uniform:
        spec = kinds.UniformTypeKVCacheSpecs(
            block_size=32, kv_cache_specs={"layers.0.attn": full(), "layers.1.attn": spec})
    with pytest.raises(ValueError, match=f"of kind {name}: PdprotoConnector hands over Full"):
        groups_of(cache_of(spec))


def test_vllm_itself_does_not_start_with_static_sinks() -> None:
    """Where it does, hand them over: a request's blocks are those of full attention."""
    with pytest.raises(TypeError, match="needs_kv_cache_zeroing"):
        get_manager_for_kv_cache_spec(OTHER_KINDS["SinkFullAttentionSpec"](), 64, 1024,
                                      needs_kv_cache_zeroing=False)


def test_a_window_that_vllm_replays_is_refused() -> None:
    spec = kinds.SlidingWindowMLASpec(**{**SIZES, "num_kv_heads": 1}, sliding_window=8,
                                      bounded_replay=True)
    with pytest.raises(ValueError, match="MLASpec with bounded_replay: vLLM computes 8 tokens "):
        groups_of(cache_of(spec))


def test_a_cache_of_another_kind_ends_the_start(closing: ExitStack, folder: Path) -> None:
    with pytest.raises(ValueError, match="CrossAttentionSpec"):
        Engine(closing, folder, "kv_consumer", specs=(OTHER_KINDS["CrossAttentionSpec"](),),
               prefix=False)


def test_groups_of_the_known_kinds_are_described() -> None:
    latent = kinds.MLAAttentionSpec(**{**SIZES, "num_kv_heads": 1})
    both = kinds.UniformTypeKVCacheSpecs(
        block_size=32, kv_cache_specs={"layers.0.attn": full(), "layers.1.attn": latent})
    assert groups_of(cache_of(full(), window(40), latent, both)) == [
        LayerGroup(32), LayerGroup(32, 40), LayerGroup(32), LayerGroup(32)]


def test_blocks_of_two_kinds_in_one_group_are_refused() -> None:
    odd = kinds.UniformTypeKVCacheSpecs(
        block_size=32, kv_cache_specs={"layers.0.attn": full(), "layers.1.attn": window(40)})
    with pytest.raises(ValueError, match="32 tokens a block and 32 tokens a block, window 40"):
        groups_of(cache_of(odd))


def test_a_step_is_timed_on_the_wall_and_by_the_cpu(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    def arrived(*_: Any) -> None:
        time.sleep(0.2)  # and has no core meanwhile

    half = pair().decode.half
    monkeypatch.setattr(LoadingScheduler, "arrived", arrived)
    half.on_new_request(None)
    stats = half.get_kv_connector_stats()
    wall, cpu = (stats.data[f"scheduler_step_{clock}"] for clock in CLOCKS)
    assert wall[0] >= 0.2
    assert 0.0 < cpu[0] < 0.1
    told = stats.reduce()
    assert told["P99 of a step in the scheduler (ms)"] == round(wall[0] * 1e3, 3)
    assert told["P99 of a step's CPU time in the scheduler (ms)"] == round(cpu[0] * 1e3, 3)
