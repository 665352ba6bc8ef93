"""Assumptions about vLLM's scheduler and engine (spec/handoff/host_assumptions.py), under its own
classes.
"""

from collections import Counter
from contextlib import ExitStack, nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.skips import VLLM

pytest.importorskip("vllm", reason=VLLM)

from vllm.v1.engine.core import EngineCore
from vllm.v1.worker import kv_connector_model_runner_mixin as worker

from pdproto.spec.handoff.host_assumptions import By
from tests.handoff.test_host_assumptions import not_there
from tests.vllm.engine import Engine, Servers
from tests.vllm.test_scheduler import NEW, check, prompt
from tests.waiting import until

SMALL = 8  # blocks, with the null block: one prompt of 100 tokens, and its answer


@pytest.fixture
def servers(closing: ExitStack, folder: Path) -> Servers:
    return Servers(Engine(closing, folder, "kv_producer"),
                   Engine(closing, folder, "kv_consumer", blocks=SMALL))


def free(engine: Engine) -> int:
    """The blocks that vLLM may give to a request."""
    count: int = engine.scheduler.kv_cache_manager.block_pool.get_num_free_blocks()
    return count


def is_loading(engine: Engine, name: str) -> bool:
    """Whether vLLM has allocated blocks for its load."""
    assert engine.half._loading is not None
    return engine.half._loading._expected[name].is_placed


def test_the_places_are_in_vllms_source() -> None:
    """Seen red with `Scheduler._free` in place of `_free_request`."""
    assert not_there(By.VLLM) == []


def test_a_request_that_waits_for_blocks_gets_them(servers: Servers) -> None:
    """Seen red with a `schedule` that tells the connector of no blocks."""
    for name in "ab":
        servers.serve(name, prompt(ord(name)), NEW)
    for _ in range(3):
        servers.decode.step()
    assert (is_loading(servers.decode, "a"), is_loading(servers.decode, "b")) == (True, False)
    servers.until(lambda: set("ab") <= set(servers.decode.ends))
    for name in "ab":
        check(servers, name, prompt(ord(name)))


def test_a_request_is_announced_before_it_has_blocks(servers: Servers) -> None:
    """Seen red with an `add_request` that tells the connector nothing."""
    servers.decode.add("local", prompt(1), 60)
    servers.decode.step()
    servers.decode.add("r", prompt(2), NEW, servers.compute("r", prompt(2)))
    assert not is_loading(servers.decode, "r")
    servers.until(lambda: not servers.prefill.scheduler.requests or is_loading(
        servers.decode, "r"))
    servers.until_idle()


def test_each_end_is_told_once(servers: Servers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without blocks, with them, and of a request that has its answer. Seen red with a
    `_connector_finished` that tells requests with blocks alone.
    """
    told: Counter[str] = Counter()
    half = servers.decode.half
    tell = half.request_finished_all_groups

    def note(request: Any, blocks: Any) -> Any:
        told[request.request_id] += 1
        return tell(request, blocks)

    monkeypatch.setattr(half, "request_finished_all_groups", note)
    for name in "abc":
        servers.serve(name, prompt(ord(name)), NEW)
    servers.decode.step()
    assert is_loading(servers.decode, "a")
    assert not is_loading(servers.decode, "c")
    for name in "aac":
        servers.decode.abort(name)
    servers.until_idle()
    assert servers.decode.ends["b"] == "length"
    assert told == Counter("abc")


def test_blocks_of_a_load_that_has_ended_are_nobodys(servers: Servers) -> None:
    """Seen red with a `finish_requests` that frees them."""
    servers.serve("r", prompt(1), NEW)
    servers.decode.scheduler.schedule()  # whose orders reach no worker yet
    kept = free(servers.decode)
    assert kept < SMALL - 1
    servers.decode.abort("r")
    assert free(servers.decode) == kept
    servers.decode.scheduler._update_from_kv_xfer_finished(SimpleNamespace(
        finished_recving={"r"}, finished_sending=None, kv_connector_worker_meta=None,
        kv_connector_stats=None, kv_cache_events=None))
    assert free(servers.decode) == SMALL - 1


def test_offered_blocks_are_nobodys_until_they_are_sent(servers: Servers) -> None:
    """Seen red with a `_free_request` that frees them."""
    params, before = servers.compute("r", prompt(1)), free(servers.prefill)
    for number in range(3):
        servers.prefill.add(f"other{number}", prompt(number + 2, 600), NEW)
        while f"other{number}" not in servers.prefill.ends:
            servers.prefill.step()
        assert free(servers.prefill) == before
    servers.decode.add("r", prompt(1), NEW, params)
    servers.until_idle()
    assert free(servers.prefill) > before
    check(servers, "r", prompt(1))


def test_the_engine_makes_steps_until_kept_blocks_are_answered(
    servers: Servers, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No token is computed in them: vLLM's worker calls the connector without a model. Seen red
    with a `has_finished_requests` that counts what has ended in the last step alone.
    """
    servers.decode.add("r", prompt(1), NEW, servers.compute("r", prompt(1)))
    prefill = servers.prefill
    monkeypatch.setattr(worker, "get_kv_transfer_group", lambda: prefill.connector)
    monkeypatch.setattr(worker, "set_forward_context", lambda *_: nullcontext())
    monkeypatch.setattr(worker, "get_forward_context", SimpleNamespace)

    def execute(scheduled: Any, **_: Any) -> Any:
        assert not scheduled.num_scheduled_tokens
        output = worker.KVConnectorModelRunnerMixin.kv_connector_no_forward(
            scheduled, prefill.config)
        return SimpleNamespace(result=lambda: output)

    engine: Any = SimpleNamespace(
        scheduler=prefill.scheduler, model_executor=SimpleNamespace(execute_model=execute),
        _should_throttle_prefills=lambda: False, _process_aborts_queue=lambda: None,
        _attach_iteration_details=lambda *_: None, _attach_weight_version=lambda _: None,
        capture_iteration_details=lambda _: nullcontext(),
        log_error_detail=lambda *_: nullcontext())

    def idle() -> bool:
        servers.decode.step()
        EngineCore.step(engine)
        return not prefill.scheduler.has_requests()

    until(idle)
    assert not prefill.scheduler.requests, "all are answered"
    servers.until_idle()
    check(servers, "r", prompt(1))
