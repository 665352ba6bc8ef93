"""One server hears of a request that SGLang's front refuses at the other, before it comes to a
scheduler. Real fronts are in the cell "front refuses" (tests/servers/front_checks.py).
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import zmq

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from fastapi import HTTPException
from fastapi.responses import JSONResponse
from sglang.srt.disaggregation.utils import FAKE_BOOTSTRAP_HOST
from sglang.srt.managers.io_struct import GenerateReqInput, sock_recv, sock_send
from sglang.srt.managers.scheduler import Scheduler
from sglang.srt.sampling.sampling_params import SamplingParams

from examples.sglang_handoff.request import request_of
from pdproto.sglang import front
from pdproto.sglang.plugin import hear_arrivals, note_requests
from pdproto.sglang.prompts import note_request
from pdproto.sglang.refusals import REFUSED, hear
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import Pair
from tests.sglang.schedulers import prefill_manager, scheduler_of
from tests.sglang.test_receiver import Manager, receiver_of
from tests.waiting import until

ROOM: Final = 5
WHY: Final = "the input is too long"


class Front:
    """SGLang's TokenizerManager, without a tokenizer: it keeps what its scheduler is sent."""

    def __init__(self) -> None:
        self.sent: list[Any] = []

    def _dispatch_to_scheduler(self, told: Any) -> None:
        with zmq.Context() as context, context.socket(zmq.PAIR) as there, \
                context.socket(zmq.PAIR) as here:
            there.bind("inproc://scheduler")
            here.connect("inproc://scheduler")
            sock_send(here, told)
            self.sent.append(sock_recv(there))


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as closing:
        yield Pair(closing, [range(4)])


@pytest.fixture
def serve(pair: Pair, tmp_path: Path) -> Iterator[Callable[[str], Scheduler]]:
    """A server of this side, whose scheduler hears its front."""
    hear_arrivals(hear)
    note_requests(note_request, prefill=True)
    (node, _), = pair.sources
    with ExitStack() as closing:
        yield lambda side: scheduler_of(
            closing, side, prefill_manager(node) if side == "prefill" else Manager(pair), tmp_path)


def asked(**told: Any) -> GenerateReqInput:
    return GenerateReqInput(**{"input_ids": [1, 2], "bootstrap_host": "127.0.0.1",
                               "bootstrap_port": 1, "bootstrap_room": ROOM, **told})


def failed(*requests: Any, error: BaseException, dispatched: bool = False) -> list[Any]:
    """What is sent where these requests have failed in the front."""
    place = Front()
    states = {str(number): SimpleNamespace(obj=request, dispatched=dispatched)
              for number, request in enumerate(requests)}
    try:
        raise error
    except BaseException:
        front.tell_undispatched(place, states)
    return place.sent


def test_decodes_half_fails_for_the_reason_of_prefills_front(
    pair: Pair, serve: Callable[[str], Scheduler]
) -> None:
    receiver = receiver_of(Manager(pair), ROOM)
    receiver.init(0)
    (refusal,) = failed(asked(), error=HTTPException(400, WHY))
    serve("prefill").handle_generate_request(refusal)
    until(lambda: receiver.poll() is KVPoll.FAILED)
    assert f"refused by the front of prefill: {WHY}" in str(receiver.receiver.failure)


def test_prefills_half_fails_for_the_reason_of_decodes_front(
    pair: Pair, serve: Callable[[str], Scheduler]
) -> None:
    (node, _), = pair.sources
    sender = node.open(ROOM, prompt=b"p" * 32)
    (refusal,) = failed(asked(), error=ValueError(WHY))
    serve("decode").handle_generate_request(refusal)
    until(lambda: sender.poll() is KVPoll.FAILED)
    assert f"refused by the front of decode: {WHY}" in str(sender.failure)


@pytest.mark.parametrize("told", [{}, {"bootstrap_room": None},
                                  {"bootstrap_host": FAKE_BOOTSTRAP_HOST}], ids=str)
def test_what_a_scheduler_refuses_before_its_queue_is_told(
    pair: Pair, serve: Callable[[str], Scheduler], told: dict[str, Any]
) -> None:
    """SGLang answers the client, and returns: `handle` stands for that."""
    (node, _), = pair.sources
    server, (arrived,) = serve("prefill"), failed(asked(), error=ValueError(WHY))
    arrived.sampling_params.max_new_tokens = 4
    for name, value in told.items():
        setattr(arrived, name, value)
    assert hear(lambda *_: "answered", server, arrived) == "answered"
    until(lambda: node.metrics.read()["handoffs_opened"] == (not told))


@pytest.mark.parametrize("where", ["queue", "grammars"])
def test_a_request_that_comes_to_a_queue_is_left_to_it(
    pair: Pair, serve: Callable[[str], Scheduler], where: str
) -> None:
    """Seen red with every request taken for an unknown one."""
    (node, _), = pair.sources
    server, (arrived,) = serve("prefill"), failed(asked(), error=ValueError(WHY))
    arrived.sampling_params.max_new_tokens = 4

    def handle(*_: Any) -> None:
        request = request_of(ROOM, [1, 2], "prefill", rid=arrived.rid)
        if where == "grammars":
            server.grammar_manager.grammar_queue.append(request)
        else:
            server.disagg_prefill_bootstrap_queue.add(request, 1)

    hear(handle, server, arrived)
    opened = int(where == "queue")
    node.open(ROOM + 1)
    until(lambda: node.metrics.read()["handoffs_opened"] >= opened + 1)
    assert node.metrics.read()["handoffs_opened"] == opened + 1


def test_a_request_that_a_scheduler_has_is_left_to_it() -> None:
    assert failed(asked(), error=ValueError(WHY), dispatched=True) == []


def test_a_client_that_leaves_before_is_told() -> None:
    (refusal,) = failed(asked(), error=asyncio.CancelledError())
    assert refusal.input_text == front.LEFT


@pytest.mark.parametrize(("told", "rooms"), [
    ({"bootstrap_room": [3, 4], "bootstrap_host": ["h", "h"], "bootstrap_port": [1, None]}, [3, 4]),
    ({"bootstrap_room": [3, "4"]}, [3]),
    ({"bootstrap_room": 0}, []),
    ({"bootstrap_room": None}, []),
    ({"bootstrap_room": 2**64}, []),
    ({"bootstrap_host": None}, []),
], ids=str)
def test_each_prompt_with_a_room_that_can_be_is_told(
    told: dict[str, Any], rooms: list[int], serve: Callable[[str], Scheduler]
) -> None:
    serve("prefill")  # SGLang's runtime, which has the port that a request does not name
    sent = failed(asked(**told), error=ValueError(WHY))
    assert [one.bootstrap_room for one in sent] == rooms


def test_no_client_can_send_a_refusal() -> None:
    """Rule 1 of front.py is SGLang's."""
    with pytest.raises(ValueError, match="max_new_tokens must be at least 0"):
        SamplingParams(max_new_tokens=REFUSED).verify(256)


async def _answers(generate: Callable[..., Any], request: Any, place: Front) -> list[Any]:
    return [answer async for answer in front.generate(generate, place, request)]


def test_a_request_that_fails_before_it_has_a_state_is_told_once() -> None:
    async def generate(place: Front, request: Any) -> AsyncIterator[int]:
        yield 1
        if request.stream:
            try:
                raise ValueError(WHY)
            except ValueError:
                front.tell_undispatched(place, {"0": SimpleNamespace(obj=request,
                                                                     dispatched=False)})
                raise
        raise ValueError(WHY)

    for stream in (False, True):
        place = Front()
        with pytest.raises(ValueError, match=WHY):
            asyncio.run(_answers(generate, asked(stream=stream), place))
        assert [one.input_text for one in place.sent] == [WHY]


@pytest.mark.parametrize("reaches", [False, True])
def test_what_an_endpoint_refuses_by_itself_is_told(reaches: bool) -> None:
    async def handle(serving: Any, request: Any, _: Any) -> JSONResponse:
        if reaches:
            await _answers(_none, request, serving.tokenizer_manager)
        return JSONResponse({"message": WHY}, status_code=400)

    async def _none(*_: Any) -> AsyncIterator[int]:
        yield 1

    place = Front()
    answer = asyncio.run(front.handle(
        handle, SimpleNamespace(tokenizer_manager=place), asked(), None))
    assert answer.status_code == 400
    assert [one.input_text for one in place.sent] == ([] if reaches else [WHY])


def test_a_refusal_that_cannot_be_sent_leaves_the_answer(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ValueError, match=WHY):
        asyncio.run(_answers(_refusing, asked(), None))  # type: ignore[arg-type]
    assert "the other half of it is not told" in caplog.text


async def _refusing(place: Any, _: Any) -> AsyncIterator[int]:
    if place is None:
        raise ValueError(WHY)
    yield 1
