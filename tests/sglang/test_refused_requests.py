"""One server hears of a request that SGLang refuses at the other, before it makes a sender or a
receiver.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Event
from typing import Any, Final

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.common.conn import KVTransferError
from sglang.srt.disaggregation.utils import FAKE_BOOTSTRAP_HOST
from sglang.srt.managers.schedule_batch import FINISH_ABORT, Req

from examples.sglang_handoff.request import request_of
from pdproto.sglang import refusals
from pdproto.sglang.plugin import (
    note_requests,
    tell_of_decodes_refusals,
    tell_of_prefills_refusals,
)
from pdproto.sglang.prompts import note_request, prompt_of
from pdproto.sglang.refusals import tell_decode, tell_prefill
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import Pair
from tests.sglang.schedulers import prefill_manager, scheduler_of
from tests.sglang.test_receiver import Manager, receiver_of
from tests.waiting import until

ROOM: Final = 5
CAPACITY: Final = 8  # tokens of decode's KV cache


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as closing:
        yield Pair(closing, [range(4)])


@pytest.fixture
def queue(pair: Pair, tmp_path: Path) -> Iterator[Any]:
    """SGLang's of decode. It tells prefill of what it refuses."""
    note_requests(note_request, prefill=False)
    tell_of_decodes_refusals(tell_prefill)
    with ExitStack() as closing:
        server = scheduler_of(closing, "decode", Manager(pair), tmp_path, CAPACITY)
        yield server.disagg_decode_prealloc_queue


@pytest.fixture
def prefill_queue(pair: Pair, tmp_path: Path) -> Iterator[Any]:
    """SGLang's of prefill. It tells decode of what it refuses."""
    note_requests(note_request, prefill=True)
    tell_of_prefills_refusals(tell_decode)
    (node, _), = pair.sources
    with ExitStack() as closing:
        server = scheduler_of(closing, "prefill", prefill_manager(node), tmp_path, CAPACITY)
        yield server.disagg_prefill_bootstrap_queue


def request(tokens: int, side: str, to_finish: Any = None, **told: Any) -> Req:
    made = request_of(ROOM, [0] * tokens, side, **told)
    made.to_finish = to_finish
    return made


REFUSED: Final = pytest.mark.parametrize(("refused", "why"), [
    (lambda side: request(CAPACITY + 1, side), "exceeds the maximum number of tokens: 9 > 8"),
    (lambda side: request(1, side, FINISH_ABORT("the input is too long")), "the input is too long"),
], ids=["longer than the KV cache", "rejected at intake"])


@REFUSED
@pytest.mark.parametrize("first", ["prefill", "decode"])
def test_prefills_half_fails_at_once_for_decodes_reason(
    pair: Pair, queue: Any, refused: Callable[[str], Req], why: str, first: str
) -> None:
    (node, _), = pair.sources
    asked = refused("decode")
    named = prompt_of(queue, asked)
    sender = node.open(ROOM, prompt=named) if first == "prefill" else None
    queue.add(asked)
    sender = sender or node.open(ROOM, prompt=named)
    until(lambda: sender.poll() is KVPoll.FAILED)
    assert f"refused by the decode scheduler: {why}" in str(sender.failure).replace(
        "Request r ", "")
    until(lambda: not pair.node.metrics.read()["num_remembered_lives"])


@REFUSED
@pytest.mark.parametrize("first", ["prefill", "decode"])
def test_decodes_half_fails_at_once_for_prefills_reason(
    pair: Pair, prefill_queue: Any, refused: Callable[[str], Req], why: str, first: str
) -> None:
    manager, asked = Manager(pair), refused("prefill")
    manager.prompt = prompt_of(prefill_queue, asked)
    receiver = receiver_of(manager, ROOM)
    if first == "decode":
        receiver.init(0)
    prefill_queue.add(asked, 1)
    if first == "prefill":
        receiver.init(0)
    until(lambda: receiver.poll() is KVPoll.FAILED)
    with pytest.raises(KVTransferError) as failed:
        receiver.failure_exception()
    assert f"refused by the prefill scheduler: {why}" in str(failed.value).replace("Request r ", "")
    (node, _), = pair.sources
    until(lambda: not node.metrics.read()["num_remembered_lives"])


@pytest.mark.parametrize("asked", [
    request(CAPACITY, "prefill"), request(CAPACITY + 1, "prefill", host=FAKE_BOOTSTRAP_HOST)],
    ids=["taken", "without a decode server"])
def test_a_request_that_prefill_takes_is_not_refused(
    pair: Pair, prefill_queue: Any, asked: Any
) -> None:
    prefill_queue.add(asked, 1)
    (node, _), = pair.sources
    opened = 1 + len(prefill_queue.queue)
    node.open(ROOM + 1)
    until(lambda: node.metrics.read()["handoffs_opened"] >= opened)
    assert node.metrics.read()["handoffs_opened"] == opened
    assert not any(one.disagg_kv_sender.poll() is KVPoll.FAILED for one in prefill_queue.queue)


@pytest.mark.parametrize(("asked", "known"), [
    (request(CAPACITY, "decode"), {}),
    (request(CAPACITY + 1, "decode"), {"is_retracted": True}),
    (request(CAPACITY + 1, "decode", host=FAKE_BOOTSTRAP_HOST), {}),
], ids=["taken", "has been here before", "without a prefill server"])
def test_a_request_that_is_not_refused_at_its_arrival_is_told_to_nobody(
    pair: Pair, queue: Any, asked: Any, known: dict[str, bool]
) -> None:
    queue.add(asked, **known)
    turned = Event()
    pair.node._core.ask(turned.set)
    until(turned.is_set)
    assert pair.node.metrics.read()["handoffs_opened"] == len(queue.queue)
    assert not any(one.kv_receiver.poll() is KVPoll.FAILED for one in queue.queue)


def test_a_rank_that_nobody_knows_is_not_told(
    queue: Any, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is told of later, in a thread of its own, so that the scheduler does not wait."""
    monkeypatch.setattr(refusals, "UNKNOWN_S", 0.1)
    queue.kv_manager.prefill_info_table.clear()
    queue.kv_manager.refusals = refusals.Refusals()
    queue.add(request(CAPACITY + 1, "decode"))
    until(lambda: "does not know which rank" in caplog.text)
    queue.kv_manager.refusals.close()
    assert f"room {ROOM}: decode has refused it, and does not know which rank" in caplog.text
