"""Assumptions about SGLang's schedulers (spec/handoff/host_assumptions.py), under its own classes.

The hand-overs are real ones between two nodes. A receiver notes the calls that SGLang makes.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation import prefill, utils
from sglang.srt.disaggregation.pp_consensus_store import PPConsensusStore
from sglang.srt.managers.io_struct import AbortReq, ReleaseMemoryOccupationReqInput
from sglang.srt.managers.schedule_batch import FINISH_ABORT
from sglang.srt.managers.scheduler_components.weight_updater import SchedulerWeightUpdaterManager

from examples.sglang_handoff.request import request_of
from pdproto.sglang.plugin import note_requests, note_tokens
from pdproto.sglang.prompts import note_request, prompt_of
from pdproto.sglang.receiver import PdprotoKVReceiver
from pdproto.sglang.sender import known_as
from pdproto.spec.handoff.host_assumptions import By
from pdproto.spec.handoff.poll import KVPoll
from tests.handoff.test_host_assumptions import not_there
from tests.items.test_data_path import ROW, Pair
from tests.sglang.releases import of_newest
from tests.sglang.schedulers import Stages, prefill_manager, scheduler_of
from tests.sglang.test_receiver import Manager, receiver_of, send
from tests.waiting import until

ROOM = 5


class Decode:
    """SGLang's scheduler of decode. called: what its own code calls of our receivers."""

    def __init__(
        self, pair: Pair, closing: ExitStack, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self.called: list[str] = []
        for name in ("init", "clear", "abort"):
            monkeypatch.setattr(PdprotoKVReceiver, name, self._noted(name))
        self.manager: Any = Manager(pair)
        self.scheduler = scheduler_of(closing, "decode", self.manager, folder)
        self.waiting = self.scheduler.disagg_decode_prealloc_queue
        self.waiting._ensure_retry_interval = 0.0
        self.transfers = self.scheduler.disagg_decode_transfer_queue
        self._free = self._available()

    def _noted(self, name: str) -> Callable[..., None]:
        call = getattr(PdprotoKVReceiver, name)

        def noted(receiver: Any, *told: Any) -> None:
            if sys._getframe(1).f_globals["__name__"].startswith("sglang."):
                self.called.append(name)
            call(receiver, *told)

        return noted

    def _available(self) -> tuple[int, ...]:
        return tuple(one.available_size() for one in (
            self.scheduler.token_to_kv_pool_allocator, self.scheduler.req_to_token_pool,
            self.scheduler.req_to_metadata_buffer_idx_allocator))

    @property
    def has_given_back(self) -> bool:
        """Whether nothing of the pages, of the rows of requests and of metadata is taken."""
        return self._available() == self._free

    def request(self, **told: Any) -> Any:
        """SGLang's note of a request that comes."""
        self.waiting.add(request_of(ROOM, [1], "decode", **told))
        return self.waiting.queue[-1]

    def transfer(self, pair: Pair, room: int) -> Any:
        """A request whose KV has come over, in the transfer queue. room: in its metadata row."""
        self.request()
        (one,), _ = self.waiting.pop_preallocated()
        self.transfers.extend([one])
        send(pair, ROOM, prompt=prompt_of(self.waiting, one.req))
        until(lambda: one.kv_receiver.poll() is KVPoll.SUCCESS)
        self.transfers.metadata_buffers.bootstrap_room[one.metadata_buffer_index, 0] = room
        assert not self.has_given_back
        return one

    def abort(self) -> None:
        """What SGLang's scheduler does when a client leaves."""
        self.scheduler.abort_request(AbortReq(abort_all=True))


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as closing:
        yield Pair(closing, [range(4)])


@pytest.fixture
def at_decode(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Decode]:
    note_requests(note_request, prefill=False)
    note_tokens()
    with ExitStack() as closing:
        yield Decode(pair, closing, tmp_path, monkeypatch)


@of_newest
def test_the_places_are_in_sglangs_source() -> None:
    """Seen red with `DecodeTransferQueue.pop` in place of `pop_transferred`."""
    assert not_there(By.SGLANG) == []


def test_a_request_whose_ranks_are_not_known_is_asked_about_again(at_decode: Decode) -> None:
    """Seen red with a queue that resolves nothing."""
    server = at_decode.manager.prefill_info_table.popitem()
    answers = iter((False, True))

    def ensure(address: str) -> bool:
        found = next(answers)
        if found:
            at_decode.manager.prefill_info_table[address] = server[1]
        return found

    at_decode.manager.try_ensure_parallel_info = ensure
    one = at_decode.request()
    at_decode.waiting.pop_preallocated()
    assert at_decode.called == []
    at_decode.waiting.pop_preallocated()
    assert at_decode.called == ["init"]
    assert one.kv_receiver.poll() is KVPoll.WAITING_FOR_INPUT


def _is_aborted(at_decode: Decode) -> Any:
    one = at_decode.request()
    at_decode.abort()
    until(lambda: one.kv_receiver.poll() is KVPoll.FAILED)
    return one


def _is_aborted_early(at_decode: Decode) -> Any:
    at_decode.manager.prefill_info_table.clear()
    return _is_aborted(at_decode)


def _has_no_server(at_decode: Decode) -> Any:
    at_decode.manager.missing = "prefill server 127.0.0.1:1: it has no dp3"
    return at_decode.request(disagg_prefill_dp_rank=3)


def _is_left_by_prefill(at_decode: Decode) -> Any:
    at_decode.manager.misfit = "the layouts differ"
    one = at_decode.request()
    until(lambda: one.kv_receiver.poll() is KVPoll.FAILED)
    return one


@pytest.mark.parametrize("ended", [
    _is_aborted, _is_aborted_early, _has_no_server, _is_left_by_prefill])
def test_a_request_that_fails_before_it_has_pages_is_cleared(
    at_decode: Decode, ended: Callable[[Decode], Any]
) -> None:
    """Before its hand-over, and with one. Seen red with a `pop_preallocated` without its call."""
    one = ended(at_decode)
    at_decode.waiting.pop_preallocated()
    assert at_decode.called[-1] == "clear"
    assert (at_decode.waiting.queue, one.kv_receiver) == ([], None)
    assert isinstance(one.req.finished_reason, FINISH_ABORT)
    assert at_decode.has_given_back


@of_newest
@pytest.mark.parametrize("room", [0, ROOM + 1])
def test_a_success_whose_row_is_of_another_room_is_cleared(
    pair: Pair, at_decode: Decode, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    """Seen red without the calls in `_commit_transfer_to_req`."""
    monkeypatch.setattr(utils, "_apply_metadata_gate", lambda *_: None)
    at_decode.transfer(pair, room)
    at_decode.transfers.pop_transferred()
    assert at_decode.called[-1] == "clear"
    assert at_decode.has_given_back
    assert at_decode.transfers.queue == []


def test_a_success_that_sglang_does_not_take_is_given_back_by_an_abort(
    pair: Pair, at_decode: Decode
) -> None:
    """Seen red with an `abort_request` that calls nobody."""
    one = at_decode.transfer(pair, 0)
    for _ in range(3):
        at_decode.transfers.pop_transferred()
    assert at_decode.transfers.queue == [one]
    assert not at_decode.has_given_back
    at_decode.abort()
    assert at_decode.called[-1] == "abort"
    at_decode.transfers.pop_transferred()
    assert at_decode.called[-1] == "clear"
    assert at_decode.has_given_back


def test_memory_is_not_released_under_a_request(at_decode: Decode) -> None:
    """SGLang empties its queues then, and calls no receiver. Seen red without the transfer queue in
    `is_fully_idle`.
    """
    of = at_decode.scheduler
    updater = SchedulerWeightUpdaterManager(
        tp_worker=of.tp_worker, draft_worker=None, memory_saver_adapter=None,
        flush_cache=of.flush_cache, is_fully_idle=of.is_fully_idle, scheduler=of)
    assert updater.is_fully_idle()
    one = at_decode.request()
    for queue in (at_decode.waiting, at_decode.transfers):
        queue.queue[:] = [one]
        with pytest.raises(AssertionError, match="only when server is idle"):
            updater.release_memory_occupation(ReleaseMemoryOccupationReqInput())
        assert queue.queue == [one]
        queue.queue.clear()


class Prefill:
    """SGLang's prefill scheduler with one request of two pages, whose decode waits for them."""

    def __init__(
        self, pair: Pair, closing: ExitStack, folder: Path, monkeypatch: pytest.MonkeyPatch,
        statuses: Any = None,
    ) -> None:
        self.given_back: list[Any] = []
        monkeypatch.setattr(prefill, "release_kv_cache",  # no pass has taken any
                            lambda request, *_, **__: self.given_back.append(request))
        (node, data_path), = pair.sources
        manager = prefill_manager(
            node, statuses=statuses, source_data_path=data_path, parts=Manager(pair).parts,
            item_bytes=pair.item_bytes, rows=SimpleNamespace(read=lambda _: ROW))
        self.scheduler = scheduler_of(closing, "prefill", manager, folder)
        queue = self.scheduler.disagg_prefill_bootstrap_queue
        self.request = request_of(ROOM, [1, 2], "prefill")
        at_decode: Any = Manager(pair)
        at_decode.prompt = prompt_of(queue, self.request)
        self.receiver = receiver_of(at_decode, ROOM)
        self.receiver.init(0)
        self.receiver.send_metadata(np.array([2, 3]))
        queue.add(self.request, 1)
        self.sender = self.request.disagg_kv_sender
        until(lambda: self.sender.poll() is not KVPoll.BOOTSTRAPPING)
        assert queue.finalize_bootstrap(self.request)
        self.scheduler.req_to_token_pool.alloc([self.request])
        self.scheduler.disagg_prefill_inflight_queue.append(self.request)

    def turn(self) -> bool:
        """Poll what is under way. Returns whether pages have been given back."""
        self.scheduler.process_disagg_prefill_inflight_queue()
        return bool(self.given_back)


@pytest.fixture
def at_prefill(pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Prefill]:
    note_requests(note_request, prefill=True)
    with ExitStack() as closing:
        yield Prefill(pair, closing, tmp_path, monkeypatch)


def test_prefill_keeps_the_pages_of_a_request_until_its_end(at_prefill: Prefill) -> None:
    """Seen red with SGLang's queue taking WaitingForInput for an end."""
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
    at_prefill: Prefill
) -> None:
    """SGLang gives them back before a poll has answered. Seen red with an abort of the sender that
    does nothing: decode waits for the rest.
    """
    at_prefill.sender.send(np.array([0]))
    at_prefill.scheduler.release_aborted_prefill_waiting_req(at_prefill.request)
    assert at_prefill.given_back == [at_prefill.request]
    until(lambda: at_prefill.receiver.poll() is KVPoll.FAILED)


@of_newest
@pytest.mark.parametrize("has_begun", [True, False])
def test_a_stage_keeps_no_status_of_a_request_that_is_aborted(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    request: pytest.FixtureRequest, has_begun: bool,
) -> None:
    """With a pipeline, between chunks: SGLang calls neither `clear` nor `failure_exception` then,
    and the first stage would keep a status for ever. Before that it asks for the status, and clears
    the sender. Seen red with an abort that only aborts, and with a `_tell` that does not look
    whether it is over.
    """
    note_requests(note_request, prefill=True)
    statuses, closing = PPConsensusStore(1, 0, Stages()), ExitStack()
    closing.callback(statuses.close)
    request.addfinalizer(closing.close)
    at_prefill = Prefill(pair, closing, tmp_path, monkeypatch, statuses)
    sender = at_prefill.sender
    sender._has_begun = has_begun
    assert int(sender.poll_pp_consensus()) == KVPoll.WAITING_FOR_INPUT
    at_prefill.scheduler.release_aborted_prefill_waiting_req(at_prefill.request)
    (node, _), = pair.sources
    until(lambda: not node.metrics.read()["num_remembered_lives"])
    assert sender.poll() is KVPoll.FAILED
    key = known_as(ROOM, at_prefill.request.rid)
    assert (key in statuses) is not has_begun
    if not has_begun:
        assert sender.poll_pp_consensus() is KVPoll.FAILED
        sender.clear()
    assert key not in statuses
