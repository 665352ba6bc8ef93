"""Faults that an operator injects over HTTP: only with the token, and only if there is one."""

import http.client
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import pytest

from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.operator_port import OperatorPort
from tests.node.data_paths import ENDED, Cluster, cluster, polls
from tests.node.processes import victim
from tests.node.test_faults import handed_over
from tests.transport.faulty import faulty_source
from tests.transport.test_killed import closing
from tests.transport.victim import pools, sink
from tests.waiting import until

TOKEN: Final = "dB8ch_nx5WdTBv0K"  # noqa: S105 - of no server
BEARER: Final = {"Authorization": f"Bearer {TOKEN}"}


class Asking:
    """An operator of the node whose port is there."""

    def __init__(self, host: str, port: int) -> None:
        self._where = host, port

    def ask(self, method: str, body: bytes | None = None, **headers: str) -> tuple[int, str]:
        connection = http.client.HTTPConnection(*self._where, timeout=30.0)
        try:
            connection.request(method, "/debug/faults", body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        finally:
            connection.close()


@contextmanager
def operated(token: str) -> Iterator[tuple[Cluster, Asking]]:
    """A pair of nodes, and the operator of prefill."""
    with cluster() as nodes, OperatorPort(nodes.prefills[0], faults_token=token) as port:
        yield nodes, Asking(port.host, port.port)


def test_m5_8_hand_overs_fail_from_the_request_on_until_the_next_one() -> None:
    with operated(TOKEN) as (nodes, operator):
        assert handed_over(nodes, 1)[1] is KVPoll.SUCCESS
        assert operator.ask("GET") == (200, "bootstrap=0,transfer=0")
        assert operator.ask("PUT", b"transfer=1", **BEARER) == (200, "bootstrap=0,transfer=1")
        assert operator.ask("GET") == (200, "bootstrap=0,transfer=1")
        assert handed_over(nodes, 2)[2] == "p0: a fault injected for a test: transfer"
        assert operator.ask("PUT", b"", **BEARER) == (200, "bootstrap=0,transfer=0")
        assert handed_over(nodes, 3)[1] is KVPoll.SUCCESS
        assert "fault_probability{" in nodes.prefills[0].metrics.text()
        assert 'injected_faults_total{node="p0",side="prefill"} 1.0' in (
            nodes.prefills[0].metrics.text())
        nodes.settled()


def test_without_a_token_nobody_injects_faults() -> None:
    with operated("") as (nodes, operator):
        for headers in ({}, BEARER, {"Authorization": "Bearer "}):
            status, text = operator.ask("PUT", b"bootstrap=1", **headers)
            assert (status, text) == (
                403, "this port injects no faults: start the node with faults_token")
        assert operator.ask("GET") == (200, "bootstrap=0,transfer=0")
        assert handed_over(nodes, 1)[1] is KVPoll.SUCCESS


@pytest.mark.parametrize("told", [
    "", "Bearer", f"Bearer {TOKEN[:-1]}", f"Bearer {TOKEN}x", f"Basic {TOKEN}", TOKEN,
    "Bearer \xe9",
])
def test_with_another_token_nobody_injects_faults(told: str) -> None:
    with operated(TOKEN) as (nodes, operator):
        headers = {"Authorization": told} if told else {}
        status, text = operator.ask("PUT", b"bootstrap=1", **headers)
        assert (status, text) == (401, "want the header Authorization: Bearer TOKEN, with the "
                                       "faults_token of the node")
        assert nodes.prefills[0].faults == "bootstrap=0,transfer=0"


@pytest.mark.parametrize(("body", "status", "told"), [
    (b"boot=1", 400, "there is no fault 'boot': want bootstrap or transfer"),
    (b"bootstrap=7", 400, "bootstrap=7: want a probability from 0 to 1"),
    (b"bootstrap=0.1,transfer=x", 400, "transfer=x: want a probability from 0 to 1"),
    (b'{"bootstrap": 1}', 400, "'{\"bootstrap\": 1}': want name=probability with commas between, "
                               "such as bootstrap=0.1,transfer=0.02"),
    (b"bootstrap=\xff", 400, "the body is not UTF-8: want faults as text"),
    (b"bootstrap=0." + b"0" * 1100, 413, "Maximum request body size 1024 exceeded"),
])
def test_a_wrong_body_is_named_and_changes_nothing(body: bytes, status: int, told: str) -> None:
    with operated(TOKEN) as (nodes, operator):
        nodes.prefills[0].inject("bootstrap=0.5")
        answer = operator.ask("PUT", body, **BEARER)
        assert (answer[0], answer[1][:len(told)]) == (status, told)
        assert nodes.prefills[0].faults == "bootstrap=0.5,transfer=0"


def test_m5_8_a_process_begins_with_the_faults_of_its_environment() -> None:
    """Between two processes, over TCP: half of the hand-overs fail, then all, then none."""
    with closing(decode := sink("tcp", pools())), victim(
            faulty_source, "tcp", "transfer=0.5", TOKEN) as (_, pipe):
        endpoint, host, port = pipe.recv()
        operator, rooms = Asking(host, port), iter(range(1000))

        def failed(count: int) -> int:
            ended = []
            for room in (next(rooms) for _ in range(count)):
                pipe.send(room)
                receiver = decode.open(room, {"p0": endpoint}, pages=[0])
                until(polls([receiver], *ENDED))
                ended.append(receiver.failure)
                receiver.close()
                until(lambda r=receiver: r.released)  # type: ignore[misc]  # bound at once
            assert set(ended) <= {None, "p0: a fault injected for a test: transfer"}
            return count - ended.count(None)

        assert operator.ask("GET") == (200, "bootstrap=0,transfer=0.5")
        assert 10 <= failed(60) <= 50  # five standard deviations
        assert operator.ask("PUT", b"transfer=1", **BEARER)[0] == 200
        assert failed(5) == 5
        assert operator.ask("PUT", b"", **BEARER)[0] == 200
        assert failed(5) == 0
