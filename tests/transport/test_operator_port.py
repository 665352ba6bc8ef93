"""What an operator asks of a node: is it there, can it serve, and what is stuck, where and why."""

import http.client
import json
import threading
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Final

import pytest

from pdproto.node.link import Link
from pdproto.node.timers import DOUBLINGS_MAX
from pdproto.runtime.local_rows import LocalRows
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.machine import Row
from pdproto.transport import event_loop
from pdproto.transport.nodes import PrefillNode, RunningNode
from pdproto.transport.operator_port import OperatorPort
from tests.node.data_paths import (
    Cluster,
    Fabric,
    SourceDataPath,
    cluster,
    has_spoken,
    polls,
    published,
)
from tests.waiting import PATIENCE_S, until

PATIENT: Final = Link(sign_of_life_s=30.0, silent_s=120.0, grace_s=120.0)  # loses nobody


class Asking:
    """An operator of one node."""

    def __init__(self, port: OperatorPort) -> None:
        self._port = port

    def get(self, path: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(self._port.host, self._port.port, timeout=30.0)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()

    def handoffs(self, query: str = "") -> list[dict[str, Any]]:
        status, text = self.get(f"/debug/handoffs{query}")
        assert status == 200, text
        told: list[dict[str, Any]] = json.loads(text)["handoffs"]
        return told

    def one(self) -> dict[str, Any]:
        return self.one_of("")

    def one_of(self, query: str) -> dict[str, Any]:
        (told,) = self.handoffs(query)
        return told


@contextmanager
def asked(node: RunningNode) -> Iterator[Asking]:
    with OperatorPort(node) as port:
        yield Asking(port)


@contextmanager
def both(**options: Any) -> Iterator[tuple[Cluster, Asking, Asking]]:
    """A pair of nodes, each with its port: prefill's and decode's."""
    with cluster(**options) as nodes:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        with asked(prefill) as of_prefill, asked(decode) as of_decode:
            yield nodes, of_prefill, of_decode


def events(told: Mapping[str, Any], kind: str = "waits_for") -> set[tuple[str, str]]:
    return {(one["party"], one["event"]) for one in told[kind]}


def test_a_hand_over_names_at_each_step_the_peer_that_it_waits_for() -> None:
    """From decode's request on, until both have succeeded. Nothing is asked of the nodes that their
    tables do not say: a row that is dropped there is not waited for here.
    """
    with both(prefill={"at_once": 0}) as (nodes, prefill, decode):
        (receiver,) = nodes.receivers(7)
        until(prefill.handoffs)
        told = prefill.one()
        assert (told["room"], told["state"]) == (7, "unknown")
        assert events(told) == {("its application", "open_sender"), ("d0", "publish")}
        told = decode.one()
        assert told["state"] == "bootstrapping"
        assert events(told) == {("p0", "expecting"), ("its pool", "memory")}
        assert events(told, "fails_on") == {
            ("its application", "abort_receiver"), ("p0", "failed"),
            ("its node", "miss_source, for p0")}
        assert [one["name"] for one in told["clocks"]] == ["no_news", "bootstrap_timeout"]
        for clock in told["clocks"]:
            wait = WAITS[clock["name"]]
            assert 0 <= clock["in_s"] <= wait.seconds * (1 << DOUBLINGS_MAX if wait.again else 1)
            assert clock["leads_to"] == WAITS[clock["name"]].leads_to

        (sender,) = nodes.senders(7)
        until(lambda: ("p0", "expecting") not in events(decode.one()))
        assert events(decode.one()) == {("its pool", "memory")}
        assert ("d0", "publish") in events(prefill.one())

        published([receiver])
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        assert ("its application", "send") in events(prefill.one())
        assert events(decode.one()) == {("p0", "done")}

        sender.send([1, 2, 3])
        until(lambda: prefill.one()["state"] == "transferring")
        told = prefill.one()
        assert events(told) == {("its engine", "write, for d0")}
        assert told["for_s"] < told["open_s"]

        nodes.writing.end()
        until(polls([sender, receiver], KVPoll.SUCCESS))
        until(lambda: not prefill.handoffs())
        receiver.close()
        until(lambda: not decode.handoffs())


def test_the_longest_in_their_state_come_first() -> None:
    with both() as (nodes, prefill, _):
        for room in (3, 1, 2):
            nodes.senders(room)
            time.sleep(0.02)
        nodes.receivers(3)
        until(lambda: [one["room"] for one in prefill.handoffs()] == [3, 1, 2])
        ages = [one["for_s"] for one in prefill.handoffs()]
        assert ages == sorted(ages, reverse=True)
        assert [one["room"] for one in prefill.handoffs("?limit=1")] == [3]
        assert [one["room"] for one in prefill.handoffs("?room=2")] == [2]
        assert prefill.handoffs("?room=4") == []
        assert json.loads(prefill.get("/debug/handoffs?limit=0")[1])["open"] == 3


def test_hand_overs_of_one_state_are_shown_and_those_of_each_are_counted() -> None:
    with both(prefill={"at_once": 0}) as (nodes, prefill, _):
        for room in (1, 3):
            nodes.senders(room)
        (sender,), (receiver,) = nodes.senders(2), published(nodes.receivers(2))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        until(lambda: bool(prefill.handoffs("?state=transferring")))
        assert prefill.one_of("?state=transferring")["room"] == 2
        told = json.loads(prefill.get("/debug/handoffs?limit=1")[1])
        assert (told["open"], len(told["handoffs"])) == (3, 1)
        assert told["states"] == {"bootstrapping": 2, "transferring": 1}
        assert {one["room"] for one in prefill.handoffs("?state=bootstrapping")} == {1, 3}
        assert prefill.handoffs("?state=bootstrapping&room=2") == []
        assert prefill.get("/debug/handoffs?state=stuck") == (
            400, "state: 'stuck': want one of unknown, bootstrapping, transferring, success, "
                 "failed, gone")
        nodes.writing.end()
        until(polls([sender, receiver], KVPoll.SUCCESS))


def test_a_question_asks_nothing_of_the_loop_and_reads_the_table_once(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 10,000 open hand-overs, 100 of them took 0.3 s, of which the loop spent 10 ms."""
    asked_of_loop: list[object] = []
    read: list[Row] = []
    instances = LocalRows.instances

    def reading(rows: LocalRows, row: Row, *among: Any) -> Any:
        read.append(row)
        return instances(rows, row, *among)

    with both() as (nodes, prefill, decode):
        for room in range(20):
            nodes.receivers(room)
        until(lambda: len(prefill.handoffs()) == len(decode.handoffs()) == 20)
        monkeypatch.setattr(LocalRows, "instances", reading)
        for node in (*nodes.prefills, *nodes.decodes):
            monkeypatch.setattr(node._core, "ask", asked_of_loop.append)
        assert len(prefill.handoffs()) == len(decode.handoffs()) == 20
        monkeypatch.undo()
    assert (asked_of_loop, read) == ([], [])


def test_the_problem_with_the_peer_is_shown() -> None:
    with cluster(link=PATIENT, sinks=0) as nodes:
        (prefill,) = nodes.prefills
        decode = nodes.decode("d0", 17)
        nodes.decodes.append(decode)
        with asked(decode) as asking:
            decode.open(7, {"p0": prefill.endpoint, "p1": "tcp://127.0.0.1:9"})
            until(lambda: has_spoken(decode, "p0"))
            troubles = {one["party"]: one["trouble"] for one in asking.one()["waits_for"]}
            assert troubles["p1"] == "nothing was ever heard of it"
            assert not troubles["p0"]


def test_a_node_that_cannot_serve_is_alive_and_not_ready() -> None:
    """To restart it would help nobody: it waits for memory."""
    with both(decode={"leases": 0}) as (nodes, _, decode):
        assert decode.get("/ready") == decode.get("/health") == (200, "OK")
        nodes.senders(7)
        published(nodes.receivers(7))
        until(lambda: decode.get("/ready")[0] == 503)
        assert "staging memory" in decode.get("/ready")[1]
        assert decode.get("/health") == (200, "OK")


@contextmanager
def standing_still(node: RunningNode) -> Iterator[None]:
    """The loop of the node does nothing."""
    still, over = threading.Event(), threading.Event()

    def stand() -> None:
        still.set()
        over.wait(PATIENCE_S)

    node._core.ask(stand)
    try:
        assert still.wait(30.0)
        yield
    finally:
        over.set()


def test_a_loop_that_stands_still_is_not_alive(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its hand-overs are told all the same, also the one of room 8, which decode has not called
    for.
    """
    monkeypatch.setattr(event_loop, "STANDS_STILL_S", 0.5)
    with both() as (nodes, prefill, decode):
        nodes.senders(7)
        nodes.senders(8)
        nodes.receivers(7)
        until(lambda: ("d0", "publish") in {one for told in prefill.handoffs("?room=7")
                                            for one in events(told)})
        assert told_while_still(nodes.prefills[0], prefill) == {
            7: "bootstrapping", 8: "bootstrapping"}
        assert told_while_still(nodes.decodes[0], decode) == {7: "bootstrapping"}


def told_while_still(node: RunningNode, asking: Asking) -> dict[int, str]:
    """The state of each room, told while the loop does nothing, and is known to."""
    with standing_still(node):
        until(lambda: asking.get("/health")[0] == 503)
        assert "its loop has stood still for" in asking.get("/health")[1]
        return {one["room"]: one["state"] for one in asking.handoffs()}


def test_a_node_that_is_closed_says_so() -> None:
    node = PrefillNode("p0", SourceDataPath("p0", Fabric()))
    with asked(node) as asking:
        node.close()
        assert asking.get("/health") == asking.get("/ready") == (503, "node p0 is closed")
        assert asking.handoffs() == []


def test_every_metric_of_the_node_is_served() -> None:
    with both() as (nodes, prefill, _):
        status, text = prefill.get("/metrics")
        assert status == 200
        for name in nodes.prefills[0].metrics.read():
            assert name.split("{")[0] in text


def test_many_who_ask_at_once_share_an_answer_that_is_not_of_before_they_asked() -> None:
    """Each answer takes the node's processor: 200 scrapers made hand-overs ten times slower."""
    with both() as (nodes, prefill, _):
        metrics, askers = nodes.prefills[0].metrics, 50
        text, begun, go_on = metrics.text, threading.Semaphore(0), threading.Event()

        def slow() -> str:
            begun.release()
            go_on.wait(30.0)
            return text()

        with pytest.MonkeyPatch.context() as patch, ThreadPoolExecutor(1 + askers) as pool:
            patch.setattr(metrics, "text", slow)
            first = pool.submit(prefill.get, "/metrics")
            assert begun.acquire(timeout=30.0)
            metrics.add("handoffs_opened", 7)
            later = [pool.submit(prefill.get, "/metrics") for _ in range(askers)]
            go_on.set()
            assert first.result()[0] == 200
            for one in later:
                assert "handoffs_opened_total{node=\"p0\",side=\"prefill\"} 7.0" in one.result()[1]
            count = 1
            while begun.acquire(blocking=False):
                count += 1
        assert count < 10, f"{count} texts were written"


@pytest.mark.parametrize(("path", "status"), [
    ("/debug/handoffs?limit=all", 400), ("/debug/handoffs?limit=-1", 400),
    ("/debug/handoffs?limit=1001", 400), ("/debug/handoffs?room=9223372036854775808", 400),
    ("/debug/handoffs?room=%D9%A3", 200), ("/nothing", 404), ("/metrics/", 404),
])
def test_a_malformed_question_is_refused(path: str, status: int) -> None:
    with both() as (_, prefill, __):
        assert prefill.get(path)[0] == status
