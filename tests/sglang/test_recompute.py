"""Prefill computes a request a second time, because decode has given its KV back."""

import json
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Event, Thread
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from sglang.srt.disaggregation.decode import DecodePreallocQueue, DecodeRequest

from examples.servers.serving import free_port
from examples.sglang_handoff.request import request_of
from pdproto.sglang.manager import PdprotoKVManager
from pdproto.sglang.recompute import THREADS, Recomputing, recompute
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import Pair
from tests.sglang.test_receiver import Manager, reason, receiver_of, send
from tests.waiting import ended, until

REGISTRY: Final = "127.0.0.1:1"
ROOM: Final = 1
REQUEST: Final = {"input_ids": [5, 6, 7], "bootstrap_room": ROOM}
NAMED: Final = "prefill server http://127.0.0.1:"
REFUSED: Final = 13  # the room that prefill refuses
DRIPPED: Final = 14  # the room of which prefill's answer comes a byte now and then


class Prefill(ThreadingHTTPServer):
    """As much of a prefill server as takes requests."""

    request_queue_size = 64  # connections that wait for the server

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, Any]] = []
        self.left = Event()


class Handler(BaseHTTPRequestHandler):
    server: Prefill

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, body))
        if body["bootstrap_room"] == DRIPPED:
            self.drip()
            return
        refused = body["bootstrap_room"] == REFUSED
        told = b'{"error": "no memory"}' if refused else b"{}"
        self.send_response(400 if refused else 200)
        self.send_header("Content-Length", str(len(told)))
        self.end_headers()
        self.wfile.write(told)

    def drip(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        with suppress(OSError):
            while not self.server.left.wait(0.03):
                self.wfile.write(b" ")

    def log_message(self, *_: object) -> None:
        """Nothing."""


@pytest.fixture
def prefill() -> Iterator[Prefill]:
    server = Prefill()
    serving = Thread(target=server.serve_forever)
    serving.start()
    yield server
    server.left.set()
    server.shutdown()
    ended(serving)
    server.server_close()


@pytest.fixture
def pair() -> Iterator[Pair]:
    with ExitStack() as closing:
        yield Pair(closing, [range(4)])


def test_the_server_is_asked_at_the_host_of_its_registry_and_at_its_own_port(
    prefill: Prefill
) -> None:
    assert recompute(REGISTRY, prefill.server_port, REQUEST, 10.0) == ""
    assert prefill.asked == [("/generate", REQUEST)]


def test_a_server_that_refuses_is_named_with_its_answer(prefill: Prefill) -> None:
    port = prefill.server_port
    told = recompute(REGISTRY, port, {**REQUEST, "bootstrap_room": REFUSED}, 10.0)
    assert told == f'{NAMED}{port} has not computed the KV again: 400 {{"error": "no memory"}}'


def test_a_server_that_sends_a_byte_now_and_then_holds_nobody_longer(prefill: Prefill) -> None:
    """Seen red with urlopen, whose time-out begins anew with each byte."""
    told = Recomputing().ask(
        REGISTRY, prefill.server_port, {**REQUEST, "bootstrap_room": DRIPPED}, 0.3)
    assert "has not computed the KV again" in told.result(20.0)


def test_a_server_that_is_not_there_is_named() -> None:
    port = free_port()
    told = recompute(REGISTRY, port, REQUEST, 10.0)
    assert told.startswith(f"{NAMED}{port} has not computed the KV again: ")
    assert "refused" in told


def test_a_server_without_a_port_is_not_asked() -> None:
    assert "has not registered its HTTP port" in recompute(REGISTRY, None, REQUEST, 10.0)


def test_many_are_asked_at_once_and_no_thread_stays(prefill: Prefill) -> None:
    """Each that is over makes room for another."""
    asking = Recomputing()
    told = [asking.ask(REGISTRY, prefill.server_port, REQUEST, 10.0) for _ in range(3 * THREADS)]
    assert [one.result(20.0) for one in told] == [""] * 3 * THREADS
    assert len(prefill.asked) == 3 * THREADS
    until(lambda: not any(one.name == "pdproto-recomputing" for one in threading.enumerate()))


def asking(port: int | None, *, rank: int = 0, stage: int = 0) -> Any:
    """As much of a manager as asks."""
    made: Any = SimpleNamespace(
        place=SimpleNamespace(rank=rank), kv_args=SimpleNamespace(pp_rank=stage),
        prefill_info_table={REGISTRY: SimpleNamespace(prefill_http_port=port)},
        settings=SimpleNamespace(wait=lambda _: 10.0), _recomputing=Recomputing())
    made.submit_prefill_recompute = lambda *given: PdprotoKVManager.submit_prefill_recompute(
        made, *given)
    return made


def submit(manager: Any, receiver: Any) -> None:
    """By SGLang's own code, with its own request."""
    request = request_of(ROOM, [5, 6], "decode")
    request.output_ids.append(7)
    queue: Any = SimpleNamespace(kv_manager=manager)
    DecodePreallocQueue._submit_prefill_recompute(queue, DecodeRequest(request, receiver))


def test_sglangs_decode_has_prompt_and_answer_computed_again(prefill: Prefill) -> None:
    receiver = SimpleNamespace(bootstrap_addr=REGISTRY, recomputed=None)
    submit(asking(prefill.server_port), receiver)
    told: Any = receiver.recomputed
    assert told.result(10.0) == ""
    (_, body), = prefill.asked
    assert body["input_ids"] == [5, 6, 7]
    assert body["bootstrap_room"] == ROOM


@pytest.mark.parametrize("place", [{"rank": 1}, {"stage": 1}], ids=str)
def test_only_the_first_rank_of_decode_asks(prefill: Prefill, place: dict[str, int]) -> None:
    receiver = SimpleNamespace(bootstrap_addr=REGISTRY, recomputed=None)
    submit(asking(prefill.server_port, **place), receiver)
    assert receiver.recomputed is None
    assert prefill.asked == []


def begun(pair: Pair) -> Any:
    receiver = receiver_of(Manager(pair), ROOM)
    receiver.init(0)
    receiver.send_metadata(np.array([2]), aux_index=5)
    receiver.recomputed = Future[str]()
    return receiver


def test_a_request_that_is_not_computed_again_fails_at_both_servers_with_the_reason(
    pair: Pair
) -> None:
    (node, _), = pair.sources
    sender, receiver = node.open(ROOM), begun(pair)
    assert receiver.poll() is not KVPoll.FAILED
    receiver.recomputed.set_result("prefill has no memory")
    until(lambda: receiver.poll() is KVPoll.FAILED)
    until(lambda: sender.poll() is KVPoll.FAILED)
    assert "prefill has no memory" in reason(receiver)
    assert "prefill has no memory" in str(sender.failure)


def test_a_request_that_is_computed_again_succeeds(pair: Pair) -> None:
    receiver = begun(pair)
    send(pair, ROOM)
    receiver.recomputed.set_result("")
    until(lambda: receiver.poll() is KVPoll.SUCCESS)
    receiver.clear()
