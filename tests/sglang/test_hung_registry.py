"""SGLang's scheduler waits for no registry: one that hangs delays no request of another server.

A registry that hangs is a socket that listens and never answers: the kernel takes the connection.
"""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from time import monotonic, perf_counter, thread_time
from types import SimpleNamespace
from typing import Any, Final

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

from examples.sglang_handoff.request import request_of
from pdproto.items.shares import TpRank
from pdproto.registry import lookups
from pdproto.registry.app import RegistryServer
from pdproto.registry.client import TIMEOUT_S, RegistryClient
from pdproto.registry.wire import Registration
from pdproto.sglang import refusals
from pdproto.sglang.plugin import plugin
from pdproto.sglang.prefills import Kind, Prefills
from pdproto.sglang.receiver import PdprotoKVReceiver
from pdproto.spec.handoff.poll import KVPoll
from tests.items.test_data_path import Pair
from tests.sglang.schedulers import scheduler_of
from tests.sglang.test_receiver import Manager
from tests.waiting import until
from tests.waits import assert_brief

KIND: Final = Kind(page_size=None, kv_cache_dtype=None, kv_layout=None)
AT_ONCE_S: Final = 1.0  # a call waits five times as long for a registry; a busy machine, less


class Clock:
    """The longest of the calls that the scheduler has made, and what each took on the processor."""

    def __init__(self) -> None:
        self.longest_s = 0.0
        self.spent_s: list[float] = []

    def call(self, function: Any, *arguments: Any) -> Any:
        began, worked = perf_counter(), thread_time()
        try:
            return function(*arguments)
        finally:
            self.longest_s = max(self.longest_s, perf_counter() - began)
            self.spent_s.append(thread_time() - worked)


@pytest.fixture
def hung() -> Iterator[str]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield f"127.0.0.1:{listener.getsockname()[1]}"


@pytest.fixture
def manager() -> Iterator[Any]:
    with ExitStack() as closing:
        pair = Pair(closing, [range(4)])
        made: Any = Manager(pair)
        made.sources = pair.sources
        made.lost = []
        made.prefills = Prefills(KIND, TpRank(1, 0), TpRank(1, 0), lambda: made.lost)
        made.prefill_info_table = made.prefills.table
        made.try_ensure_parallel_info = made.prefills.ensure
        made.refusals = refusals.Refusals()
        yield made
        made.refusals.close()


@pytest.fixture
def at_decode(manager: Any, tmp_path: Path) -> Iterator[Any]:
    """SGLang's scheduler of decode."""
    with ExitStack() as closing:
        yield scheduler_of(closing, "decode", manager, tmp_path)


def registered(server: RegistryServer, pair_endpoint: str, name: str) -> str:
    """A registry with one rank."""
    host, _, port = pair_endpoint.removeprefix("tcp://").rpartition(":")
    address = f"127.0.0.1:{server.port}"
    client = RegistryClient(address)
    client.register(Registration(attn_tp_size=1, attn_tp_rank=0, rank_ip=host, rank_port=int(port),
                                 name=name))
    client.close()
    return address


def test_each_call_of_the_scheduler_returns_at_once_while_a_registry_hangs(
    hung: str, manager: Any, at_decode: Any
) -> None:
    """Seen red with the look-up made by `ensure` and `feed` themselves: 5 s a call; and with 20 ms
    of work in `feed`.
    """
    plugin()
    clock = Clock()
    assert clock.call(manager.prefills.ensure, hung) is False
    for room in range(1, 20):
        receiver = clock.call(PdprotoKVReceiver, manager, hung, room)
        clock.call(receiver.init, 0)
        assert clock.call(receiver.poll) is KVPoll.BOOTSTRAPPING
        clock.call(receiver.abort)
        assert clock.call(receiver.poll) is KVPoll.FAILED
        clock.call(receiver.clear)
    host, _, port = hung.rpartition(":")
    queue = at_decode.disagg_decode_prealloc_queue
    request = request_of(77, [1], "decode", host=host, port=int(port))
    clock.call(refusals.look_up, queue, request)
    receiver = PdprotoKVReceiver(manager, hung, 77)
    refusal = refusals.Refusal(queue, request, receiver, "refused")
    assert clock.call(refusal.tell) is False
    assert clock.longest_s < AT_ONCE_S
    assert_brief(clock.spent_s)


def test_requests_of_a_healthy_server_go_on_while_another_registry_hangs(
    hung: str, manager: Any
) -> None:
    with RegistryServer() as server:
        (source, _), = manager.sources
        healthy = registered(server, source.endpoint, source.name)
        began = monotonic()
        stuck = PdprotoKVReceiver(manager, hung, 1)
        stuck.init(0)
        receiver = PdprotoKVReceiver(manager, healthy, 2)
        receiver.init(0)
        until(lambda: receiver.poll() is KVPoll.WAITING_FOR_INPUT)
        assert monotonic() - began < TIMEOUT_S
        assert stuck.poll() is KVPoll.BOOTSTRAPPING
        for one in (stuck, receiver):
            one.abort()
            one.clear()


def test_a_failure_is_remembered_for_a_while_and_then_tried_again(
    manager: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        closed = f"127.0.0.1:{listener.getsockname()[1]}"
    asked: list[str] = []
    real = RegistryClient.look_up_all

    def look_up_all(client: RegistryClient) -> Any:
        asked.append(client.address)
        return real(client)

    monkeypatch.setattr(RegistryClient, "look_up_all", look_up_all)
    first = PdprotoKVReceiver(manager, closed, 1)
    first.init(0)
    until(lambda: first.poll() is KVPoll.FAILED)
    for room in range(2, 30):
        receiver = PdprotoKVReceiver(manager, closed, room)
        receiver.init(0)
        assert receiver.poll() is KVPoll.FAILED
    assert len(asked) == 1
    monkeypatch.setattr(lookups, "AGAIN_S", 0.0)
    later = PdprotoKVReceiver(manager, closed, 99)
    later.init(0)
    until(lambda: later.poll() is KVPoll.FAILED or len(asked) > 1)
    assert len(asked) >= 2


def test_sglang_tries_again_as_soon_as_a_server_is_known(manager: Any, at_decode: Any) -> None:
    """Its own pause between two attempts is a second."""
    with RegistryServer() as server:
        (source, _), = manager.sources
        address = registered(server, source.endpoint, source.name)
        host, _, port = address.rpartition(":")
        queue = at_decode.disagg_decode_prealloc_queue
        tried = queue._ensure_last_attempt_time
        tried[address] = monotonic()
        refusals.look_up(queue, request_of(1, [1], "decode", host=host, port=int(port)))
        until(lambda: not tried)
        assert manager.try_ensure_parallel_info(address)


def test_a_refusal_waits_for_no_time_for_which_the_process_stands_still() -> None:
    """Seen red with the host's clock: it is late at once."""
    host, late = SimpleNamespace(now=0.0), list[bool]()

    def tell(*, is_late: bool) -> bool:
        late.append(is_late)
        return is_late

    def looked_twice() -> None:
        before = len(late)
        until(lambda: len(late) >= before + 2 or late[-1])

    made = refusals.Refusals(lambda: host.now)
    try:
        made.add(SimpleNamespace(tell=tell))  # type: ignore[arg-type]  # as its desk calls it
        until(lambda: late)
        host.now += 1_000.0
        looked_twice()
        assert not any(late)
        for _ in range(round(refusals.UNKNOWN_S)):
            host.now += 1.0
            looked_twice()
        assert late[-1]
    finally:
        made.close()
