"""What the backend does not do is refused when SGLang starts, in one line."""

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.arg_groups.fields.disagg import Disagg

from pdproto.engine.engines import open_sink
from pdproto.items.components import Component
from pdproto.items.shares import TpRank
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import RegistryClient
from pdproto.registry.wire import Registration
from pdproto.sglang import asked as asked_of
from pdproto.sglang import manager
from pdproto.sglang.parts import RankParts
from pdproto.sglang.prefills import Feed, Kind, Prefills
from pdproto.transport.settings import load
from tests.sglang.releases import of_newest
from tests.sglang.schedulers import scheduler_of
from tests.waiting import until


def refusal(monkeypatch: pytest.MonkeyPatch, *, prefill: bool, policy: str, **asked: Any) -> str:
    """Of a rank that is asked for this."""
    parallel: dict[str, Any] = {
        "attn_cp_size": 1, "attn_dcp_size": 1, "pp_size": 1, "enable_kv_cache_sharding": False,
        "enable_dsa_cache_layer_split": False, "enable_cp_tp_group_sharing": False,
    } | {name: value for name, value in asked.items() if name != "hybrid"}
    disagg = Disagg(disaggregation_decode_allocation_policy=policy)
    monkeypatch.setattr(asked_of, "get_disagg", lambda: disagg)
    args = SimpleNamespace(is_hybrid_mla_backend=asked.get("hybrid", False))
    try:
        asked_of.refuse(args, SimpleNamespace(**parallel), is_prefill=prefill)
    except ValueError as error:
        return str(error)
    return ""


@pytest.mark.parametrize(("prefill", "asked", "why"), [
    (True, {}, ""),
    (False, {}, ""),
    (True, {"pp_size": 2, "attn_cp_size": 2}, ""),
    (False, {"pp_size": 2}, ""),
    pytest.param(True, {"enable_kv_cache_sharding": True}, "context-parallel ranks share",
                 marks=of_newest),  # 0.5.22 has no such setting
    (True, {"enable_dsa_cache_layer_split": True}, "context-parallel ranks share"),
    (True, {"attn_cp_size": 2, "hybrid": True}, "context-parallel ranks share"),
    (False, {"attn_cp_size": 2}, r"decode ranks of a context parallelism \(2\)"),
    (False, {"attn_dcp_size": 2}, r"decode context parallelism \(2\)"),
], ids=str)
def test_a_refusal_names_its_setting(
    monkeypatch: pytest.MonkeyPatch, prefill: bool, asked: dict[str, Any], why: str
) -> None:
    told = refusal(monkeypatch, prefill=prefill, **{"policy": "early"} | asked)
    wanted = rf"the pdproto backend does not transfer .*{why}.* yet" if why else ""
    assert re.fullmatch(wanted, told), told


@pytest.mark.parametrize(("device", "why"), [
    ("cuda", r"--device cuda: cuda:64: torch .* finds \d+ GPUs here"),
    ("xpu", "--device xpu: a KV cache on xpu:64: want it on one of cpu, cuda"),
])
def test_a_device_that_cannot_be_used_is_named_with_its_flag(device: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"the pdproto backend does not start with {why}"):
        manager._device(SimpleNamespace(device=device), SimpleNamespace(gpu_id=64))
    assert manager._device(SimpleNamespace(device="cpu"), SimpleNamespace(gpu_id=64)) is None


def test_a_setting_that_keeps_the_backend_from_starting_is_named(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    told = refusal(monkeypatch, prefill=True, policy="prefill_complete")
    assert "does not start with --disaggregation-decode-allocation-policy=prefill_comp" in told
    monkeypatch.setenv("SGLANG_DISAGG_STAGING_BUFFER", "1")
    told = refusal(monkeypatch, prefill=True, policy="early")
    assert "does not start with SGLANG_DISAGG_STAGING_BUFFER=True: SGLang itself takes it" in told


@pytest.mark.parametrize("side", ["prefill", "decode"])
@pytest.mark.parametrize(("variable", "told"), [
    ("PDPROTO_WAITS_KEEP", "waits.keep=5"), ("PDPROTO_KEEP_PAGES", "keep_pages=5")])
def test_rooms_that_prefill_should_keep_are_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, side: str, variable: str, told: str
) -> None:
    """SGLang makes the manager. Seen red without the call: the setting had no effect."""
    monkeypatch.setenv(variable, "5")
    with ExitStack() as closing, pytest.raises(ValueError, match=f"does not start with {told}: "):
        scheduler_of(closing, side, None, tmp_path)


@of_newest
@pytest.mark.parametrize(("engine", "part", "why"), [
    (SimpleNamespace(use=print), 0, "the engine lands bytes on the GPU: set PDPROTO_ENGINE"),
    (None, 16, "SGLang names whole pages there, and page_tokens=16 parts of them"),
])
def test_a_host_pool_that_cannot_be_filled_is_refused(
    monkeypatch: pytest.MonkeyPatch, engine: Any, part: int, why: str
) -> None:
    monkeypatch.setattr(asked_of, "get_disagg",
                        lambda: Disagg(disaggregation_decode_host_receive_threshold=0.5))
    flag = "--disaggregation-decode-host-receive-threshold=0.5"
    with pytest.raises(ValueError, match=f"does not start with {flag}: {why}"):
        asked_of.refuse_host_receive(engine, RankParts(64, part))
    asked_of.refuse_host_receive(open_sink("tcp"), RankParts(64, 0))


@pytest.mark.parametrize(("engine", "asked", "item_bytes", "direct"), [
    ("tcp", None, 16_384, True), ("tcp", "1", 16_384, True), ("tcp", "0", 16_384, False),
    ("tcp", None, 4_096, False), ("shm", None, 16_384, False)])
def test_sources_write_in_place_where_the_engine_can_fence_pages_and_nobody_forbids_it(
    monkeypatch: pytest.MonkeyPatch, engine: str, asked: str | None, item_bytes: int, direct: bool
) -> None:
    kv = Component("kv", (np.zeros((4, item_bytes), np.uint8),), (0,))
    monkeypatch.delenv("PDPROTO_DIRECT", raising=False)
    if asked is not None:
        monkeypatch.setenv("PDPROTO_DIRECT", asked)
    sink = open_sink(engine)
    try:
        assert manager._is_direct([kv], TpRank(1, 0), sink, load(os.environ)) is direct
    finally:
        sink.close()


KIND = Kind(page_size=16, kv_cache_dtype="bfloat16", kv_layout=None)
ALONE = TpRank(1, 0)


@pytest.fixture
def registry() -> Iterator[str]:
    with RegistryServer() as server:
        yield f"127.0.0.1:{server.port}"


def found(prefills: Prefills, registry: str) -> Feed:
    """What the look-up of this server brings."""
    until(lambda: prefills.feed(registry, 0) is not None)
    feed = prefills.feed(registry, 0)
    assert feed is not None
    return feed


def register(registry: str, stages: int) -> None:
    """A prefill server of one rank, and of so many stages."""
    client = RegistryClient(registry)
    for stage in range(stages):
        client.register(Registration(
            attn_tp_size=1, attn_tp_rank=0, pp_size=stages, pp_rank=stage, rank_ip="127.0.0.1",
            rank_port=1 + stage, page_size=16, kv_cache_dtype="bfloat16", kv_layout="split",
            name=f"stage-{stage}"))
    client.close()


@pytest.mark.parametrize(("stages", "ours", "feeding"), [
    (1, 1, ["stage-0"]), (3, 1, ["stage-2", "stage-1", "stage-0"]), (3, 3, ["stage-1"])])
def test_a_stage_of_decode_gets_its_layers_from_the_same_stage_of_prefill(
    registry: str, stages: int, ours: int, feeding: list[str]
) -> None:
    """And a decode rank without stages from all of them, the last one first."""
    register(registry, stages)
    prefills = Prefills(KIND, ALONE, TpRank(ours, min(1, ours - 1)), lambda: ())
    assert list(found(prefills, registry).sources) == feeding


def test_a_rank_that_there_is_not_is_not_said_to_drain(registry: str) -> None:
    register(registry, 1)
    prefills = Prefills(KIND, ALONE, ALONE, lambda: ())
    found(prefills, registry)
    with pytest.raises(LookupError, match="its data-parallel ranks are 0 to 0"):
        prefills.feed(registry, 1)


@pytest.mark.parametrize(("nodes", "leader", "host"), [
    (1, None, "10.0.0.5"), (2, "10.0.0.9:5000", "10.0.0.9"), (2, "[fd00::9]:5000", "fd00::9")])
def test_ranks_of_a_server_on_several_machines_register_at_that_of_its_leader(
    monkeypatch: pytest.MonkeyPatch, nodes: int, leader: str | None, host: str
) -> None:
    monkeypatch.setattr(manager, "get_serving", lambda: SimpleNamespace(host="10.0.0.5"))
    parallel = SimpleNamespace(nnodes=nodes, dist_init_addr=leader)
    assert manager._registry_host(parallel) == host


OTHER_SIZE = "stages of the pipeline: 3 at prefill and 2 at decode: want as many, or 1 at decode"


def test_the_first_stage_of_a_pipeline_of_another_size_tells_each_stage_of_prefill_both_sizes(
    registry: str
) -> None:
    register(registry, 3)
    feed = found(Prefills(KIND, ALONE, TpRank(2, 0), lambda: ()), registry)
    assert sorted(feed.sources) == ["stage-0", "stage-1", "stage-2"]
    assert OTHER_SIZE in feed.misfit


def test_a_later_stage_of_a_pipeline_of_another_size_fails_its_requests_with_both(
    registry: str
) -> None:
    register(registry, 3)
    with pytest.raises(LookupError, match=OTHER_SIZE):
        found(Prefills(KIND, ALONE, TpRank(2, 1), lambda: ()), registry)


@pytest.mark.parametrize(("kind", "why"), [
    (KIND, ""),
    (replace(KIND, kv_layout="split"), ""),
    (replace(KIND, kv_layout="fused"), "kv_layout is split at prefill and fused at decode"),
    (replace(KIND, page_size=64), "page_size is 16 at prefill and 64 at decode: want the same "
     "--page-size, or set page_tokens to a number that divides both"),
    (replace(KIND, kv_cache_dtype="auto (torch.float16)"),
     "kv_cache_dtype is bfloat16 at prefill and auto (torch.float16) at decode")], ids=str)
def test_a_server_of_another_kind_is_a_feed_that_says_both_values(
    registry: str, kind: Kind, why: str
) -> None:
    register(registry, 1)
    feed = found(Prefills(kind, ALONE, ALONE, lambda: ()), registry)
    assert list(feed.sources) == ["stage-0"], "it is told"
    assert feed.misfit == (f"prefill server {registry}: {why}" if why else "")
