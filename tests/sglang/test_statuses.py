"""The client of a request that has failed hears 503 where sending it again may help, and the
reason: through SGLang's own queue, `prepare_abort` and the front that answers HTTP.
"""

import asyncio
from collections.abc import Iterator
from contextlib import ExitStack
from http import HTTPStatus
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

import fastapi
from sglang.srt.disaggregation import decode
from sglang.srt.managers.io_struct import GenerateReqInput
from sglang.srt.managers.schedule_batch import Req
from sglang.srt.managers.tokenizer_manager import TokenizerManager

from examples.sglang_handoff.request import request_of
from pdproto.sglang.plugin import choose_statuses, note_tokens
from pdproto.sglang.statuses import status
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import Pair
from tests.sglang.schedulers import prefill_manager, scheduler_of
from tests.sglang.test_receiver import Manager
from tests.waiting import until

ROOM = 5


@pytest.fixture
def pair() -> Iterator[Pair]:
    choose_statuses(status)
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


@pytest.fixture
def server(pair: Pair, tmp_path: Path) -> Iterator[Any]:
    """SGLang's scheduler of decode, which tells our receivers how many pages they have."""
    note_tokens()
    with ExitStack() as closing:
        yield scheduler_of(closing, "decode", Manager(pair), tmp_path)


def failed_at_decode(server: Any, room: int = ROOM) -> fastapi.HTTPException:
    """The answer to the client when SGLang's queue has polled the receiver."""
    queue, asked = server.disagg_decode_prealloc_queue, request(room)
    queue.add(asked)
    failed: list[Any] = []

    def has_failed() -> bool:
        _, more = queue.pop_preallocated()
        failed.extend(more)
        return bool(failed)

    until(has_failed)
    assert failed[0].req is asked
    return heard_by_client(asked)


def test_a_request_whose_prefill_is_gone_is_answered_with_503_and_the_reason(
    pair: Pair, server: Any
) -> None:
    """Seen red without the hook (500), and with `failed` that forgets the room."""
    server.req_to_token_pool.free_slots.clear()  # it waits for memory
    for node, _ in pair.sources:
        node.close()
    told = failed_at_decode(server)
    assert told.status_code == HTTPStatus.SERVICE_UNAVAILABLE
    assert "lost connection to" in told.detail


def test_a_request_that_comes_to_nothing_again_is_answered_with_500(server: Any) -> None:
    told = failed_at_decode(server, 0)
    assert told.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
    assert "bootstrap_room is 0" in told.detail


def test_a_registry_that_does_not_answer_is_503(server: Any) -> None:
    """Seen red with a look-up that is taken for an abort."""
    server.disagg_decode_prealloc_queue.kv_manager.missing = "nobody answers"
    told = failed_at_decode(server)
    assert (told.status_code, "nobody answers" in told.detail) \
        == (HTTPStatus.SERVICE_UNAVAILABLE, True)


def test_prefill_answers_so_too(pair: Pair, tmp_path: Path) -> None:
    (node, _), = pair.sources
    node.drain().result(10.0)
    failed = request(side="prefill")
    with ExitStack() as closing:
        server = scheduler_of(closing, "prefill", prefill_manager(node), tmp_path)
        server.disagg_prefill_bootstrap_queue.add(failed, 1)
        until(lambda: failed.disagg_kv_sender.poll() is KVPoll.FAILED)
        server.handle_bootstrap_failure(failed)
    told = heard_by_client(failed)
    assert (told.status_code, "drains" in told.detail) == (HTTPStatus.SERVICE_UNAVAILABLE, True)


def test_the_status_of_one_failure_is_not_that_of_the_next(server: Any) -> None:
    """SGLang may fail a request of the same room itself, and choose the status."""
    server.disagg_decode_prealloc_queue.kv_manager.missing = "nobody answers"
    failed_at_decode(server)
    failed = request()
    decode.prepare_abort(failed, "its own", status_code=HTTPStatus.INTERNAL_SERVER_ERROR)
    assert failed.finished_reason.status_code == HTTPStatus.INTERNAL_SERVER_ERROR
