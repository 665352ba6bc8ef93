"""Metrics under SGLang's names mean the same as SGLang's own, of its own collector."""

from types import SimpleNamespace
from typing import Any

import pytest

from pdproto.node.optimistic.prefill import OptimisticPrefill
from pdproto.node.optimistic.record import OptimisticSettings
from tests.skips import SGLANG

PREFIX = "sglang:"


def test_sglang_has_every_name_of_ours_with_its_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same kind: a dashboard for SGLang shows ours."""
    collectors = pytest.importorskip("sglang.srt.observability.metrics_collector", reason=SGLANG)
    arguments = pytest.importorskip("sglang.srt.server_args", reason=SGLANG)
    usual = SimpleNamespace(prefill_delayer_max_delay_passes=30,  # what a launched server publishes
                            prefill_delayer_forward_passes_buckets=None,
                            prefill_delayer_wait_seconds_buckets=None)
    monkeypatch.setattr(collectors, "get_schedule", lambda: usual)
    collector = collectors.SchedulerMetricsCollector(
        {"model_name": "tiny", "moe_ep_rank": "1"},
        arguments.ServerArgs(model_path="dummy", device="cpu"))
    theirs: dict[str, str] = {}
    for one in vars(collector).values():
        described: Any = getattr(one, "describe", None)
        theirs.update({each.name: each.type for each in described()} if described else {})
    prefill = OptimisticPrefill(OptimisticSettings(slots=1, running_slots=1))
    ours = {each.name: each.type for each in prefill.metrics.collect()
            if each.name.startswith(PREFIX)}
    assert ours == {"sglang:cache_hit_rate": "gauge", "sglang:num_prefill_retries": "counter"}
    assert ours.items() <= theirs.items()
