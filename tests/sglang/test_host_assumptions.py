"""Assumptions about SGLang's schedulers (spec/handoff/host_assumptions.py), under its own classes.

The hand-overs are real ones between two nodes. A receiver notes the calls that SGLang makes.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

import torch
from sglang.srt.disaggregation import decode, prefill, utils
from sglang.srt.disaggregation.decode import (
    DecodePreallocQueue,
    DecodeRequest,
    DecodeTransferQueue,
)
from sglang.srt.disaggregation.pp_consensus_store import PPConsensusStore
from sglang.srt.disaggregation.prefill import SchedulerDisaggregationPrefillMixin
from sglang.srt.disaggregation.utils import DisaggregationMode
from sglang.srt.managers import scheduler
from sglang.srt.managers.io_struct import AbortReq, ReleaseMemoryOccupationReqInput
from sglang.srt.managers.schedule_batch import FINISH_ABORT
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.managers.scheduler_components.weight_updater import SchedulerWeightUpdaterManager

from examples.sglang_handoff.ranks import Group
from examples.sglang_handoff.request import request_of
from pdproto.sglang.receiver import PdprotoKVReceiver
from pdproto.sglang.sender import PdprotoKVSender
from pdproto.spec.handoff.host_assumptions import By
from pdproto.spec.handoff.poll import KVPoll
from tests.handoff.test_host_assumptions import not_there
from tests.items.test_data_path import ROW, Pair
from tests.sglang.releases import of_newest
from tests.sglang.test_receiver import Manager, receiver_of, send
from tests.waiting import until

ROOM = 5


class Noted(PdprotoKVReceiver):
    """Our receiver, which notes the calls that SGLang's own code makes."""

    def __init__(self, manager: Any, room: int) -> None:
        self.called: list[str] = []
        super().__init__(manager, "127.0.0.1:1", room)

    def _note(self, name: str) -> None:
        if sys._getframe(2).f_globals["__name__"].startswith("sglang."):
            self.called.append(name)

    def init(self, prefill_dp_rank: int) -> None:
        self._note("init")
        super().init(prefill_dp_rank)

    def clear(self) -> None:
        self._note("clear")
        super().clear()

    def abort(self) -> None:
        self._note("abort")
        super().abort()


class Decode:
    """SGLang's two queues of decode, with as much of a scheduler as they read."""

    def __init__(self, pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
        self.given_back: list[Any] = []
        manager: Any = Manager(pair)
        manager.prefill_info_table = {}
        self.manager = manager
        self.room_in_row = torch.zeros((8, 1), dtype=torch.int64)
        monkeypatch.setattr(decode, "poll_and_all_reduce", self._polls)
        monkeypatch.setattr(decode, "all_reduce_flags", lambda flags, **_: flags, raising=False)
        monkeypatch.setattr(decode, "release_kv_cache",
                            lambda request, *_, **__: self.given_back.append(request))
        monkeypatch.setattr(scheduler, "get_parallel", lambda: SimpleNamespace(pp_size=1))
        monkeypatch.setattr(decode, "get_disagg", lambda: SimpleNamespace(
            disaggregation_decode_allocation_policy="early"), raising=False)
        metrics = SimpleNamespace(enable_metrics=False)
        self.scheduler: Any = SimpleNamespace(
            enable_decode_hicache=False, enable_hisparse=False, enable_lora=False,
            enable_priority_scheduling=False, kv_checksum_computer=None,
            running_batch=SimpleNamespace(reqs=[]), waiting_queue=[], metrics_reporter=metrics,
            output_streamer=SimpleNamespace(stream_output=lambda *_: None))
        self.transfers: Any = self._transfers()
        self.waiting: Any = self._waiting()

    def _polls(self, pollers: Any, *_: Any, **gate: Any) -> list[int]:
        """Of one rank. gate: what SGLang's own gate reads, where it has one."""
        polls = [int(poller.poll()) for poller in pollers]
        if gate:
            utils._apply_metadata_gate(polls, gate["decode_reqs"], gate["metadata_buffers"])
        return polls

    def _transfers(self) -> Any:
        queue: Any = DecodeTransferQueue.__new__(DecodeTransferQueue)
        queue.queue, queue._deferred_releases = [], []
        queue.enable_staging = queue.enable_host_receive = queue.enable_deferred_kv_release = False
        queue.gloo_group = queue.tree_cache = None
        queue.tp_rank, queue.scheduler = 0, self.scheduler
        queue.metadata_buffers = SimpleNamespace(
            clear_slot=lambda _: None, bootstrap_room=self.room_in_row,
            get_buf=lambda slot: (*[None] * 13, self.room_in_row[slot]))
        queue.req_to_metadata_buffer_idx_allocator = SimpleNamespace(free=lambda _: None)
        queue._clean_hicache_prefetch_resources = lambda _: None
        return queue

    def _waiting(self) -> Any:
        queue: Any = DecodePreallocQueue.__new__(DecodePreallocQueue)
        queue.queue, queue.pending_reqs, queue.retracted_queue = [], [], []
        queue.gloo_group, queue.tp_rank, queue.pp_size = None, 0, 1
        queue.scheduler, queue.kv_manager = self.scheduler, self.manager
        queue.transfer_queue = self.transfers
        queue._ensure_last_attempt_time, queue._ensure_retry_count = {}, {}
        queue._ensure_retry_interval, queue._max_ensure_retries = 0.0, 3
        queue._prefill_dp_rank_queries = {}
        queue._uses_swa_tail_prealloc = queue._uses_swa_reservation = lambda: False
        queue._allocatable_token_budgets = lambda **_: 0
        queue.req_to_metadata_buffer_idx_allocator = SimpleNamespace(available_size=lambda: 0)
        return queue

    def request(self, room: int = ROOM) -> Any:
        """SGLang's note of a request, with our receiver."""
        return DecodeRequest(request_of(room, [1], "decode"), Noted(self.manager, room),
                             metadata_buffer_index=1)

    def transfer(self, pair: Pair) -> Any:
        """A request whose KV has come over, in the transfer queue."""
        one = self.request()
        one.kv_receiver.init(0)
        one.kv_receiver.send_metadata(np.array([2]), aux_index=1)
        send(pair, ROOM)
        until(lambda: one.kv_receiver.poll() is KVPoll.SUCCESS)
        self.transfers.queue.append(one)
        return one

    def abort(self) -> None:
        """What SGLang's scheduler does when a client leaves."""
        of = self.scheduler
        of.disaggregation_mode = DisaggregationMode.DECODE
        of.disagg_decode_prealloc_queue = self.waiting
        of.disagg_decode_transfer_queue = self.transfers
        of.chunked_req = of.mm_receiver = of.dllm_config = None
        of.grammar_manager = SimpleNamespace(abort_requests=lambda _: None)
        of.collect_inflight_reqs = list
        Scheduler.abort_request(of, AbortReq(abort_all=True))


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as closing:
        yield Pair(closing, [range(4)])


@pytest.fixture
def at_decode(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> Decode:
    return Decode(pair, monkeypatch)


@of_newest
def test_the_places_are_in_sglangs_source() -> None:
    """Seen red with `DecodeTransferQueue.pop` in place of `pop_transferred`."""
    assert not_there(By.SGLANG) == []


def test_a_request_whose_ranks_are_not_known_is_asked_about_again(at_decode: Decode) -> None:
    """Seen red with a queue that resolves nothing."""
    one, queue = at_decode.request(), at_decode.waiting
    answers = iter((False, True))

    def ensure(address: str) -> bool:
        if not (found := next(answers)):
            return found
        at_decode.manager.prefill_info_table[address] = SimpleNamespace(dp_size=1)
        return found

    at_decode.manager.try_ensure_parallel_info = ensure
    queue.queue.append(one)
    queue.pending_reqs.append(one)
    queue.pop_preallocated()
    assert one.kv_receiver.called == []
    queue.pop_preallocated()
    assert one.kv_receiver.called == ["init"]
    assert one.kv_receiver.poll() is KVPoll.WAITING_FOR_INPUT


def _is_aborted(at_decode: Decode, _: Any) -> None:
    at_decode.abort()


def _has_no_server(at_decode: Decode, one: Any) -> None:
    at_decode.manager.missing = "prefill server 127.0.0.1:1: it has no dp3"
    one.kv_receiver.init(3)


def _is_left_by_prefill(at_decode: Decode, one: Any) -> None:
    at_decode.manager.misfit = "the layouts differ"
    one.kv_receiver.init(0)
    until(lambda: one.kv_receiver.poll() is KVPoll.FAILED)


@pytest.mark.parametrize("end", [_is_aborted, _has_no_server, _is_left_by_prefill])
def test_a_request_that_fails_before_it_has_pages_is_cleared(
    at_decode: Decode, end: Callable[[Decode, Any], None]
) -> None:
    """Before its hand-over, and with one. Seen red with a `pop_preallocated` without its call."""
    one, queue = at_decode.request(), at_decode.waiting
    queue.queue.append(one)
    end(at_decode, one)
    receiver = one.kv_receiver
    queue.pop_preallocated()
    assert receiver.called[-1] == "clear"
    assert (queue.queue, one.kv_receiver) == ([], None)
    assert isinstance(one.req.finished_reason, FINISH_ABORT)


@of_newest
@pytest.mark.parametrize("room", [0, ROOM + 1])
def test_a_success_whose_row_is_of_another_room_is_cleared(
    pair: Pair, at_decode: Decode, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Seen red without the calls in `_commit_transfer_to_req`."""
    monkeypatch.setattr(utils, "_apply_metadata_gate", lambda *_: None)
    one = at_decode.transfer(pair)
    receiver = one.kv_receiver
    at_decode.room_in_row[1] = room
    at_decode.transfers.pop_transferred()
    assert receiver.called[-1] == "clear"
    assert at_decode.given_back == [one.req]
    assert at_decode.transfers.queue == []


def test_a_success_that_sglang_does_not_take_is_given_back_by_an_abort(
    pair: Pair, at_decode: Decode
) -> None:
    """Seen red with an `abort_request` that calls nobody."""
    one = at_decode.transfer(pair)
    receiver = one.kv_receiver
    for _ in range(3):
        at_decode.transfers.pop_transferred()
    assert (at_decode.transfers.queue, at_decode.given_back) == ([one], [])
    at_decode.abort()
    assert receiver.called[-1] == "abort"
    at_decode.transfers.pop_transferred()
    assert receiver.called[-1] == "clear"
    assert at_decode.given_back == [one.req]


def test_memory_is_not_released_under_a_request(at_decode: Decode) -> None:
    """SGLang empties its queues then, and calls no receiver. Seen red without the transfer queue in
    `is_fully_idle`.
    """
    at_decode.abort()  # so that the scheduler has its queues
    of = at_decode.scheduler
    of.running_batch.is_empty = of._pp_microbatches_drained = lambda: True
    of.dllm_manager = SimpleNamespace(any_staging_reqs=lambda: False)
    of.last_batch = of.decode_offload_manager = None
    of.enable_overlap = of.enable_hierarchical_cache = of.enable_lmcache = of._engine_paused = False
    of.grammar_manager.grammar_queue = []
    updater: Any = SchedulerWeightUpdaterManager.__new__(SchedulerWeightUpdaterManager)
    updater.scheduler = of
    updater.is_fully_idle = lambda **how: Scheduler.is_fully_idle(of, **how)
    assert updater.is_fully_idle()
    for queue in (at_decode.waiting, at_decode.transfers):
        queue.queue.append(at_decode.request())
        with pytest.raises(AssertionError, match="only when server is idle"):
            updater.release_memory_occupation(ReleaseMemoryOccupationReqInput())
        assert len(queue.queue) == 1
        queue.queue.clear()


class Prefill:
    """SGLang's prefill scheduler with one request of two pages, whose decode waits for them."""

    def __init__(self, pair: Pair, monkeypatch: pytest.MonkeyPatch, statuses: Any = None) -> None:
        self.given_back: list[Any] = []
        monkeypatch.setattr(prefill, "poll_and_all_reduce_attn_cp_tp_group", lambda senders, *_: [
            int(sender.poll()) for sender in senders])
        monkeypatch.setattr(prefill, "release_kv_cache",
                            lambda request, *_, **__: self.given_back.append(request))
        (node, data_path), = pair.sources
        manager: Any = SimpleNamespace(
            prefill=node, is_dummy_cp_rank=False, statuses=statuses, dp_rank=0, named_rank=None,
            prompt=None, source_data_path=data_path, parts=Manager(pair).parts,
            item_bytes=pair.item_bytes, rows=SimpleNamespace(read=lambda _: ROW))
        self.receiver = receiver_of(Manager(pair), ROOM)
        self.receiver.init(0)
        self.receiver.send_metadata(np.array([2, 3]))
        self.sender = PdprotoKVSender(manager, "", ROOM)
        until(lambda: self.sender.poll() is not KVPoll.BOOTSTRAPPING)
        self.sender.init(2)
        self.request = request_of(ROOM, [1, 2], "prefill")
        self.request.disagg_kv_sender, self.request.kv.req_pool_idx = self.sender, 0
        self.scheduler: Any = SimpleNamespace(
            disagg_prefill_inflight_queue=[self.request], attn_cp_cpu_group=None,
            attn_tp_cpu_group=None, tree_cache=SimpleNamespace(finish=lambda *_: None),
            metrics_reporter=SimpleNamespace(), req_to_metadata_buffer_idx_allocator=None,
            output_streamer=SimpleNamespace(stream_output=lambda *_: None),
            clear_pending_chunk_send=lambda _: None, scheduler_stage_metrics=None)

    def turn(self) -> bool:
        """Poll what is under way. Returns whether pages have been given back."""
        SchedulerDisaggregationPrefillMixin.process_disagg_prefill_inflight_queue(self.scheduler)
        return bool(self.given_back)


def test_prefill_keeps_the_pages_of_a_request_until_its_end(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Seen red with SGLang's queue taking WaitingForInput for an end."""
    at_prefill = Prefill(pair, monkeypatch)
    at_prefill.sender.send(np.array([0]))
    for _ in range(3):
        assert not at_prefill.turn()
    at_prefill.sender.send(np.array([1]))
    until(at_prefill.turn)
    assert at_prefill.sender.poll() is KVPoll.SUCCESS
    assert at_prefill.given_back == [at_prefill.request]
    assert at_prefill.scheduler.disagg_prefill_inflight_queue == []


@of_newest
def test_pages_of_a_request_that_is_aborted_between_chunks_reach_no_answer(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SGLang gives them back before a poll has answered. Seen red with an abort of the sender that
    does nothing: decode waits for the rest.
    """
    at_prefill = Prefill(pair, monkeypatch)
    at_prefill.sender.send(np.array([0]))
    SchedulerDisaggregationPrefillMixin.release_aborted_prefill_waiting_req(
        at_prefill.scheduler, at_prefill.request)
    assert at_prefill.given_back == [at_prefill.request]
    until(lambda: at_prefill.receiver.poll() is KVPoll.FAILED)


@of_newest
@pytest.mark.parametrize("has_begun", [True, False])
def test_a_stage_keeps_no_status_of_a_request_that_is_aborted(
    pair: Pair, monkeypatch: pytest.MonkeyPatch, has_begun: bool
) -> None:
    """With a pipeline, between chunks: SGLang calls neither `clear` nor `failure_exception` then,
    and the first stage would keep a status for ever. Before that it asks for the status, and clears
    the sender. Seen red with an abort that only aborts, and with a `_tell` that does not look
    whether it is over.
    """
    statuses = PPConsensusStore(1, 0, Group([0], 0))
    at_prefill = Prefill(pair, monkeypatch, statuses)
    sender = at_prefill.sender
    sender._has_begun = has_begun
    assert int(sender.poll_pp_consensus()) == KVPoll.WAITING_FOR_INPUT
    SchedulerDisaggregationPrefillMixin.release_aborted_prefill_waiting_req(
        at_prefill.scheduler, at_prefill.request)
    (node, _), = pair.sources
    until(lambda: not node.metrics.read()["num_remembered_lives"])
    assert sender.poll() is KVPoll.FAILED
    assert (ROOM in statuses) is not has_begun
    if not has_begun:
        assert sender.poll_pp_consensus() is KVPoll.FAILED
        sender.clear()
    assert ROOM not in statuses
