"""Prefill's answer does not wait for the batch that runs, under SGLang's own loop and queue."""

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation import prefill
from sglang.srt.disaggregation.base.conn import KVTransferMetric
from sglang.srt.disaggregation.prefill import SchedulerDisaggregationPrefillMixin
from sglang.srt.disaggregation.utils import KVPoll
from sglang.srt.plugins.hook_registry import HookRegistry

from examples.sglang_handoff.request import request_of
from pdproto.sglang.plugin import IS_READY, SCHEDULER, answer_during_batches

PASSES = 50  # of the loop, while a batch runs

pytestmark = pytest.mark.skipif(
    not hasattr(SchedulerDisaggregationPrefillMixin, IS_READY),
    reason="this release of SGLang waits for a batch without a look at anything else")


class Scheduler(SchedulerDisaggregationPrefillMixin):  # type: ignore[misc]  # SGLang has no types
    """As much of a scheduler as the loop reads. One long batch runs, and one hand-over has ended.

    done: what it has answered and which batch has ended, in order. result: of the batch.
    """

    def __init__(self) -> None:
        self.done: list[str] = []
        self.asked = 0
        self.gracefully_exit = self._engine_paused = self.enable_staging = False
        self.last_batch = self.chunked_req = None
        self.running_batch = self.attn_cp_cpu_group = self.attn_tp_cpu_group = None
        self.waiting_queue: list[Any] = []
        self._deferred_input_requests: list[Any] = []
        self.tp_size, self.scheduler_stage_metrics = 1, None
        self.disagg_prefill_bootstrap_queue = SimpleNamespace(pop_bootstrapped=list)
        self.ngram_embedding_manager = SimpleNamespace(prepare_for_forward=lambda batch, **_: batch)
        self.output_streamer = SimpleNamespace(stream_output=self._answer)
        self.tree_cache = SimpleNamespace(finish=lambda *_: None)
        self.req_to_metadata_buffer_idx_allocator = None
        self.result = SimpleNamespace(
            copy_done=SimpleNamespace(query=self._has_ended), delay_sample_func=None)
        self.batches = iter([SimpleNamespace(copy=lambda: "batch")])
        request = request_of(1, [1], "prefill")
        request.disagg_kv_sender = SimpleNamespace(
            poll=lambda: KVPoll.Success if self.asked else KVPoll.Transferring,
            clear=lambda: None, get_transfer_metric=KVTransferMetric)
        self.disagg_prefill_inflight_queue = [request]

    def _has_ended(self) -> bool:
        self.asked += 1
        return self.asked > PASSES

    def _answer(self, requests: list[Any], *_: Any) -> None:
        self.done += [request.rid for request in requests]

    def get_next_disagg_prefill_batch_to_run(self, **_: Any) -> Any:
        return SimpleNamespace(running_batch=None, batch_to_run=next(self.batches, None))

    def process_batch_result(self, batch: str, _result: Any) -> None:
        self.done.append(batch)
        self.gracefully_exit = True

    def _is_continuous_input_polling_enabled(self) -> bool:
        return True

    def _war_barrier_is_coarse(self) -> bool:
        return False

    def ingest_requests(self, **_: Any) -> bool:
        return False

    def run_batch(self, _batch: Any) -> Any:
        return self.result

    def _nothing(self, *_: Any) -> None:
        """The other work of the loop."""

    _apply_war_barrier = on_idle = launch_batch_sample_if_needed = _nothing


@pytest.fixture
def scheduler(monkeypatch: pytest.MonkeyPatch) -> Iterator[Scheduler]:
    monkeypatch.setattr(prefill, "poll_and_all_reduce_attn_cp_tp_group",
                        lambda senders, *_: [sender.poll() for sender in senders])
    monkeypatch.setattr(prefill, "release_kv_cache", lambda *_, **__: None)
    monkeypatch.setattr(prefill, "maybe_release_metadata_buffer", lambda *_: None)
    unhooked = getattr(SchedulerDisaggregationPrefillMixin, IS_READY)
    yield Scheduler()
    setattr(SchedulerDisaggregationPrefillMixin, IS_READY, unhooked)
    HookRegistry._hooks.pop(f"{SCHEDULER}.{IS_READY}", None)


def test_an_ended_hand_over_is_answered_while_a_batch_runs(scheduler: Scheduler) -> None:
    answer_during_batches()
    scheduler.event_loop_overlap_disagg_prefill()
    assert scheduler.done == ["r", "batch"]
    assert scheduler.asked == PASSES + 1


def test_without_the_hook_it_waits_for_the_batch(scheduler: Scheduler) -> None:
    """The test above can fail."""
    scheduler.event_loop_overlap_disagg_prefill()
    assert scheduler.done == ["batch", "r"]
