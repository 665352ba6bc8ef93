"""The client of a request that has failed hears 503 where sending it again may help, and the
reason: through SGLang's own queue, `prepare_abort` and the front that answers HTTP.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

import fastapi
from sglang.srt.disaggregation import decode
from sglang.srt.disaggregation.decode import DecodePreallocQueue, DecodeRequest
from sglang.srt.disaggregation.prefill import SchedulerDisaggregationPrefillMixin as Prefill
from sglang.srt.managers.io_struct import GenerateReqInput
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.tokenizer_manager import TokenizerManager

from examples.sglang_handoff.request import request_of
from pdproto.sglang.plugin import choose_statuses
from pdproto.sglang.sender import PdprotoKVSender
from pdproto.sglang.statuses import status
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import Pair
from tests.sglang.test_receiver import Manager, receiver_of
from tests.waiting import until

ROOM = 5


@pytest.fixture
def pair(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pair]:
    choose_statuses(status)
    monkeypatch.setattr(decode, "poll_and_all_reduce",
                        lambda pollers, _: [int(poller.poll()) for poller in pollers])
    with ExitStack() as closing:
        yield Pair(closing, [range(4)])


def request(room: int = ROOM, side: str = "decode") -> Req:
    return request_of(room, [1], side)


def heard_by_client(failed: Any) -> fastapi.HTTPException:
    """The error that SGLang's front raises for a client whose answer is no stream."""
    front: Any = SimpleNamespace(rid_to_state={}, _release_lora_once=lambda _: None)
    out = {"meta_info": {"finish_reason": failed.finished_reason.to_json()}}
    with pytest.raises(fastapi.HTTPException) as raised:
        asyncio.run(TokenizerManager._handle_abort_finish_reason(
            front, out, SimpleNamespace(obj=GenerateReqInput(rid="r")), False))
    return raised.value


def failed_at_decode(receiver: Any, failed: Any) -> fastapi.HTTPException:
    """The answer to the client when SGLang's queue has polled the receiver."""
    queue: Any = SimpleNamespace(
        queue=[DecodeRequest(failed, receiver)], pp_size=1, gloo_group=None,
        tp_rank=0, scheduler=SimpleNamespace(
            metrics_reporter=SimpleNamespace(enable_metrics=False)))
    until(lambda: receiver.poll() is KVPoll.FAILED)
    DecodePreallocQueue._update_handshake_waiters(queue)
    return heard_by_client(failed)


def test_a_request_whose_prefill_is_gone_is_answered_with_503_and_the_reason(pair: Pair) -> None:
    """Seen red without the hook (500), and with `failed` that forgets the room."""
    receiver = receiver_of(Manager(pair), ROOM)
    receiver.init(0)
    receiver.send_metadata(np.array([2]))
    for node, _ in pair.sources:
        node.close()
    told = failed_at_decode(receiver, request())
    assert told.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "lost connection to" in told.detail


def test_a_request_that_comes_to_nothing_again_is_answered_with_500(pair: Pair) -> None:
    receiver = receiver_of(Manager(pair), 0)
    told = failed_at_decode(receiver, request(0))
    assert told.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert "bootstrap_room is 0" in told.detail


def test_a_registry_that_does_not_answer_is_503(pair: Pair) -> None:
    """Seen red with a look-up that is taken for an abort."""
    manager: Any = Manager(pair)
    manager.prefills = SimpleNamespace(feed=lambda *_: _raise(LookupError("nobody answers")))
    receiver = receiver_of(manager, ROOM)
    receiver.init(0)
    told = failed_at_decode(receiver, request())
    assert (told.status_code, "nobody answers" in told.detail) \
        == (HTTPStatus.SERVICE_UNAVAILABLE, True)


def test_prefill_answers_so_too(pair: Pair) -> None:
    (node, _), = pair.sources
    manager: Any = SimpleNamespace(prefill=node, is_dummy_cp_rank=False, statuses=None, dp_rank=0,
                                   named_rank=None, prompt=None)
    node.drain().result(10.0)
    failed = request(side="prefill")
    failed.disagg_kv_sender = PdprotoKVSender(manager, "", ROOM)
    until(lambda: failed.disagg_kv_sender.poll() is KVPoll.FAILED)
    scheduler: Any = SimpleNamespace(
        clear_pending_chunk_send=lambda _: None, req_to_metadata_buffer_idx_allocator=None,
        output_streamer=SimpleNamespace(stream_output=lambda *_: None),
        metrics_reporter=SimpleNamespace(enable_metrics=False),
        tree_cache=SimpleNamespace(finish=lambda *_: None))
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("sglang.srt.disaggregation.prefill.get_parallel",
                        lambda: SimpleNamespace(tp_rank=0))
        Prefill.handle_bootstrap_failure(scheduler, failed)
    told = heard_by_client(failed)
    assert (told.status_code, "drains" in told.detail) == (HTTPStatus.SERVICE_UNAVAILABLE, True)


def test_the_status_of_one_failure_is_not_that_of_the_next(pair: Pair) -> None:
    """SGLang may fail a request of the same room itself, and choose the status."""
    receiver = receiver_of(Manager(pair), ROOM)
    receiver.init(0)
    for node, _ in pair.sources:
        node.close()
    failed_at_decode(receiver, request())
    failed = request()
    decode.prepare_abort(failed, "its own", status_code=HTTPStatus.INTERNAL_SERVER_ERROR)
    assert failed.finished_reason.status_code == HTTPStatus.INTERNAL_SERVER_ERROR


def _raise(error: Exception) -> None:
    raise error
