"""The connector in vLLM's own factory, plug-ins, MultiConnector and metrics."""

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

import vllm
from prometheus_client import REGISTRY
from vllm import plugins
from vllm.config import ModelConfig
from vllm.distributed.kv_transfer.kv_connector.factory import KVConnectorFactory
from vllm.distributed.kv_transfer.kv_connector.v1.base import KVConnectorBase_V1
from vllm.distributed.kv_transfer.kv_connector.v1.metrics import KVConnectorLogging, KVConnectorProm
from vllm.v1.core.block_pool import BlockPool
from vllm.v1.metrics.prometheus import unregister_vllm_metrics

from pdproto.net.releases import Releases
from pdproto.spec.handoff.timers import WAITS
from pdproto.vllm.configuration import refuse, settings_of
from pdproto.vllm.connector import PdprotoConnector, Whereabouts
from pdproto.vllm.interface import found
from pdproto.vllm.offer import offer_in, placed
from pdproto.vllm.plugin import NAME, plugin
from pdproto.vllm.versions import TESTED
from tests.vllm.beside import STEPS, Beside
from tests.vllm.engine import FOR_DECODE, Engine, Servers
from tests.vllm.test_scheduler import NEW, check, kill_prefill, prompt

LEFT = {  # the calls of vLLM's interface whose answer is vLLM's own, and why
    "bind_connector_metadata": "vLLM keeps the orders of a step",
    "bind_kv_cache_manager": "vLLM's gives the pool of blocks to bind_gpu_block_pool",
    "clear_connector_metadata": "vLLM keeps the orders of a step",
    "finish_forward": "blocks are read behind the stream of the step that ends the request",
    "get_external_cache_hit_sources": "vLLM counts the tokens; it does not name another server",
    "get_finished_count": "every worker reports each request",
    "get_kv_connector_kv_cache_events": "no block is stored anywhere",
    "get_mem_pool_context": "any memory of vLLM's is handed over",
    "get_required_kvcache_layout": "the layout is vLLM's choice, and both ends compare it",
    "has_connector_metadata": "vLLM keeps the orders of a step",
    "has_pending_block_frees": "a decode that never calls would keep requests from being preempted",
    "has_pending_push_work": "vLLM makes steps while it keeps blocks of a request",
    "register_finished_partial_tail": "no part of a block is stored anywhere",
    "requires_kv_delivery": "vLLM's answer is right: prefill's hand-overs are",
    "requires_piecewise_for_cudagraph": "nothing happens between layers",
    "reset_cache": "no block is stored anywhere",
    "reset_capture_state": "nothing happens while a graph is captured",
    "role": "vLLM's",
    "set_host_xfer_buffer_ops": "the data path copies from the device itself",
    "set_xfer_handshake_metadata": "vLLM gives all stages, by set_xfer_handshake_metadata_pp_aware",
    "supports_divergent_local_hybrid_hits": "no: every group is loaded from one token on",
    "restore_kv_caches": "vLLM refuses sleep mode, by supports_sleep_mode",
    "take_events": "no block is stored anywhere",
    "unregister_kv_caches": "vLLM refuses sleep mode, by supports_sleep_mode",
}
INHERITED = {  # what vLLM's own answers are where they have a value, of a decode server
    "get_finished_count": None, "get_kv_connector_kv_cache_events": None,
    "get_mem_pool_context": None, "has_pending_block_frees": False,
    "has_pending_push_work": False, "requires_kv_delivery": False, "reset_cache": None,
    "supports_divergent_local_hybrid_hits": False, "take_events": (),
}
LABELS = {"model_name": "tiny", "engine": "0"}


def pair(closing: ExitStack, folder: Path, **named: Any) -> Servers:
    return Servers(Engine(closing, folder, "kv_producer", **named),
                   Engine(closing, folder, "kv_consumer", **named))


def test_requests_wait_for_a_server_that_stands_still() -> None:
    """Seen red with the 30 s for which vLLM's NixlConnector leases blocks."""
    settings = settings_of(SimpleNamespace(
        kv_transfer_config=SimpleNamespace(kv_connector_extra_config={})))
    assert settings.wait("bootstrap_timeout") == WAITS["bootstrap_timeout"].seconds


def test_each_call_of_vllm_is_answered_or_left_to_vllm_for_a_reason() -> None:
    calls = {name for name in vars(KVConnectorBase_V1) if not name.startswith("_")}
    answered = calls & vars(PdprotoConnector).keys()
    assert calls - answered == LEFT.keys() & calls
    assert not LEFT.keys() & answered
    if vllm.__version__.startswith(TESTED.releases[-1]):
        assert LEFT.keys() <= calls, "vLLM has no such call any more"


def test_each_answer_that_is_left_to_vllm_is_still_the_same(
    closing: ExitStack, folder: Path
) -> None:
    """A release may answer otherwise without a new name."""
    connector = Engine(closing, folder, "kv_consumer").half
    told = {name: getattr(connector, name) for name in INHERITED}
    assert {name: answer() if callable(answer) else answer
            for name, answer in told.items()} == INHERITED
    assert not connector.requires_piecewise_for_cudagraph({})
    assert connector.get_required_kvcache_layout(connector._vllm_config) is None


def test_a_release_of_another_interface_does_not_start(
    closing: ExitStack, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = "KVConnectorBase_V1.get_transfer_results(self, finished_req_ids)"
    assert name in found()
    monkeypatch.setattr(vllm, "__version__", "0.99.0+cpu")
    monkeypatch.setattr(Releases, "recorded", lambda _: found() - {name} | {"Request.prompt"})
    with pytest.raises(ValueError, match=(
            r"vLLM 0\.99\.0\+cpu is installed, .* tested with .* and 0\.33\.0\. Of the interface "
            rf"of 0\.33\.0, Request\.prompt is gone, {re.escape(name)} is new: install 0")):
        Engine(closing, folder, "kv_consumer")


@pytest.mark.parametrize(("owner", "name"), [
    (BlockPool, "touch"), (BlockPool, "free_blocks"), (ModelConfig, "get_head_size"),
], ids=lambda of: getattr(of, "__name__", of))
def test_a_name_that_a_release_has_changed_is_told(
    owner: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where found() does not name it, the connector starts, and fails at the first request."""
    recorded = found()
    monkeypatch.setattr(Releases, "recorded", lambda _: recorded)
    monkeypatch.delattr(owner, name)
    with pytest.raises(ValueError, match=rf"{owner.__name__}\.{name}.* is gone"):
        TESTED.check("0.99.0", found, logging.getLogger())


@pytest.mark.parametrize("version", ["0.99.0+cpu", "0.33.0rc1", "dev", ""])
def test_a_release_of_the_same_interface_starts_with_a_warning(
    version: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(Releases, "recorded", lambda _: found())
    TESTED.check(version, found, logging.getLogger())
    (line,) = caplog.messages
    assert line.startswith(f"vLLM {version} is installed, and pdproto is tested with 0.31.0")


def test_the_recorded_interface_is_that_of_the_newest_release() -> None:
    """Where it is not, read what has changed, and write the lines of found(), sorted."""
    if vllm.__version__.startswith(TESTED.releases[-1]):
        assert found() == TESTED.recorded()
    elif vllm.__version__.startswith(TESTED.releases[-2]):
        assert found() <= TESTED.recorded()
        assert TESTED.recorded() - found() == {
            "KVConnectorBase_V1.restore_kv_caches(self)",
            "KVConnectorBase_V1.supports_sleep_mode(cls, kv_transfer_config)",
            "KVConnectorBase_V1.unregister_kv_caches(self)",
            "MLAAttentionSpec.topk_buffer_width",
            *(f"{kind}.is_draft" for kind in (
                "ChunkedLocalAttentionSpec", "FullAttentionSpec", "MLAAttentionSpec", "MambaSpec",
                "RSWASpec", "SlidingWindowMLASpec", "SlidingWindowSpec",
                "UniformTypeKVCacheSpecs"))}


def test_sleep_mode_is_denied() -> None:
    assert not PdprotoConnector.supports_sleep_mode(None)


def test_threads_of_vllm_switch_as_often_as_the_setting_says(
    closing: ExitStack, folder: Path
) -> None:
    closing.callback(sys.setswitchinterval, sys.getswitchinterval())
    sys.setswitchinterval(0.005)
    Engine(closing, folder, "kv_consumer", extra={"switch_s": 0.002})
    assert sys.getswitchinterval() == pytest.approx(0.002)


def test_get_finished_which_names_no_failure_is_refused(closing: ExitStack, folder: Path) -> None:
    connector = Engine(closing, folder, "kv_consumer").connector
    with pytest.raises(NotImplementedError, match="call get_transfer_results"):
        connector.get_finished(set())


def test_vllm_finds_the_connector_by_its_plug_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the entry point of the distribution that is installed here."""
    for allowed, is_there in (("none", False), (None, True)):
        monkeypatch.setattr(plugins, "plugins_loaded", False)
        monkeypatch.delitem(KVConnectorFactory._registry, NAME, raising=False)
        if allowed is None:
            monkeypatch.delenv("VLLM_PLUGINS", raising=False)
        else:
            monkeypatch.setenv("VLLM_PLUGINS", allowed)
        plugins.load_general_plugins()
        assert (NAME in KVConnectorFactory._registry) == is_there
    assert KVConnectorFactory.get_connector_class_by_name(NAME) is PdprotoConnector
    plugin()  # vLLM may call it twice in a process


def test_the_stages_of_a_pipeline_are_offered(closing: ExitStack, folder: Path) -> None:
    engine = Engine(closing, folder, "kv_producer")
    engine.half.set_xfer_handshake_metadata_pp_aware({
        (1, 0): Whereabouts("second", "tcp://127.0.0.1:2"),
        (0, 0): Whereabouts("first", "tcp://127.0.0.1:1")})
    engine.add("r", prompt(1), 1, FOR_DECODE)
    while "r" not in engine.ends:
        engine.step()
    assert placed(offer_in(engine.params["r"]).ranks) == {
        (0, 0): ("first", "tcp://127.0.0.1:1"), (1, 0): ("second", "tcp://127.0.0.1:2")}


def configured(**changed: Any) -> SimpleNamespace:
    """As much of vLLM's configuration as is refused."""
    sizes = {f"{axis}_parallel_size": 1
             for axis in ("decode_context", "prefill_context", "pipeline")}
    device, sleeps = changed.pop("device", "cpu"), changed.pop("enable_sleep_mode", False)
    return SimpleNamespace(parallel_config=SimpleNamespace(**sizes | changed),
                           model_config=SimpleNamespace(enable_sleep_mode=sleeps),
                           device_config=SimpleNamespace(device_type=device))


@pytest.mark.parametrize(("changed", "words"), [
    ({"decode_context_parallel_size": 2}, "decode_context_parallel_size is 2: "),
    ({"prefill_context_parallel_size": 4}, "prefill_context_parallel_size is 4: "),
    ({"enable_sleep_mode": True}, "enable_sleep_mode: .* leave --enable-sleep-mode out"),
    ({"pipeline_parallel_size": 2}, "pipeline_parallel_size is 2 on a cpu: "),
])  # fmt: skip
def test_a_configuration_is_refused_by_its_setting(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        refuse(configured(**changed))
    refuse(configured())


def test_a_pipeline_is_refused_on_a_cpu_alone() -> None:
    refuse(configured(pipeline_parallel_size=2, device="cuda"))


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """vLLM's metrics, in Prometheus's registry of this process, for one test."""
    monkeypatch.delitem(KVConnectorFactory._registry, NAME, raising=False)
    plugin()
    unregister_vllm_metrics()
    yield
    unregister_vllm_metrics()


def metric(name: str, **labels: str) -> float | None:
    found: float | None = REGISTRY.get_sample_value(f"vllm:pdproto_{name}", LABELS | labels)
    return found


@pytest.mark.usefixtures("registered")
def test_requests_of_a_proxy_that_passes_no_params_are_counted_and_told_once(
    closing: ExitStack, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As those of smg 1.13 over HTTP: both servers compute each prompt, and the answers are right.
    """
    decode = pair(closing, folder).decode
    for name in ("first", "second"):
        decode.add(name, prompt(1), NEW, None)
    while len(decode.ends) < 2:
        decode.step()
    shown = KVConnectorProm(decode.config, list(LABELS), {0: ["tiny", "0"]})
    for told in decode.stats:
        shown.observe(told)
    assert metric("requests_without_params_total") == 2.0
    (line,) = [line for line in caplog.messages if "kv_transfer_params" in line]
    assert line.startswith("request first has no kv_transfer_params, so decode computes its prompt")
    assert decode.loaded == 0


@pytest.mark.usefixtures("registered")
def test_requests_with_params_are_not_counted(closing: ExitStack, folder: Path) -> None:
    servers = pair(closing, folder)
    servers.serve("served", prompt(1), NEW)
    servers.until(lambda: "served" in servers.decode.ends)
    assert not any(told["requests_without_params"] for told in servers.decode.stats)


@pytest.mark.parametrize("multi", [False, True], ids=["alone", "in MultiConnector"])
@pytest.mark.usefixtures("registered")
def test_prometheus_and_the_log_get_the_numbers(
    closing: ExitStack, folder: Path, multi: bool
) -> None:
    servers = pair(closing, folder, multi=multi)
    decode = servers.decode
    shown = KVConnectorProm(decode.config, list(LABELS), {0: ["tiny", "0"]})
    lines: list[str] = []
    logged = KVConnectorLogging(decode.config.kv_transfer_config)
    servers.serve("served", prompt(1), NEW)
    servers.until(lambda: "served" in decode.ends)
    servers.serve("fails", prompt(2), NEW)
    kill_prefill(servers)
    while decode.scheduler.requests:
        decode.step()
    assert decode.stats
    for told in decode.stats:
        shown.observe(told)
        logged.observe(told)
    logged.log(lambda form, *values: lines.append(form % values))
    assert metric("failed_loads_total") == 1.0
    for name in ("scheduler_step", "scheduler_step_cpu", "worker_step", "worker_step_cpu"):
        assert metric(f"{name}_seconds_count") == len(decode.stats), name
        assert metric(f"{name}_seconds_bucket", le="+Inf") == len(decode.stats)
        assert 0.0 < (metric(f"{name}_seconds_sum") or 0.0) < 10.0
    (line,) = lines
    assert "P99 of a step in the scheduler (ms)" in line
    assert "Failed loads" in line


def test_beside_another_connector_blocks_are_kept_for_both(
    closing: ExitStack, folder: Path
) -> None:
    servers = pair(closing, folder, multi=True)
    prefill, asked = servers.prefill, prompt(3)
    other = next(one for one in prefill.connector._connectors if isinstance(one, Beside))
    servers.serve("r", asked, NEW)
    servers.until(lambda: "r" in servers.decode.ends)
    assert servers.decode.loaded == len(asked)
    servers.until_idle()
    check(servers, "r", asked)
    servers.until_idle()
    prefill.add("never fetched", asked, 1, FOR_DECODE)
    while "never fetched" not in prefill.ends:
        prefill.step()
    for _ in range(2 * STEPS):
        prefill.step()
    assert not other.left, "it has stored the request"
    assert "never fetched" in prefill.scheduler.requests, "and ours still keeps its blocks"
