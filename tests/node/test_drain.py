"""A node drains: what it has ends well, what is new is refused at both ends, until it is empty.

Then its process may end at once, and no request fails by that.
"""

import http.client
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import closing, suppress

import pytest

from lab.sim import planted
from pdproto.node.drain import Drain
from pdproto.runtime.errors import LocalProtocolError
from pdproto.spec.handoff import drain as tables
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import RunningNode
from pdproto.transport.operator_port import OperatorPort
from tests.node.data_paths import ENDED, Cluster, cluster, polls, published
from tests.waiting import PATIENCE_S, until


@pytest.fixture
def nodes() -> Iterator[Cluster]:
    with cluster() as found:
        yield found


def begun(node: RunningNode) -> Future[None]:
    """A drain that the loop of the node has begun."""
    emptied, told = node.drain(), Future[None]()
    node._core.ask(lambda: told.set_result(None))
    told.result(PATIENCE_S)
    return emptied


def drained(nodes: Cluster, side: str) -> RunningNode:
    return nodes.prefills[0] if side == "prefill" else nodes.decodes[0]


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_what_was_accepted_ends_well_and_then_the_node_is_empty(
    nodes: Cluster, side: str
) -> None:
    node = drained(nodes, side)
    senders, receivers = nodes.senders(1), published(nodes.receivers(1))
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    emptied = begun(node)
    assert not emptied.done()
    assert node.metrics.read()["num_drain_reqs"] == 1
    for sender in senders:
        sender.send([0, 1], last=False)
        sender.send([2])
    until(polls([*senders, *receivers], KVPoll.SUCCESS))
    for receiver in receivers:
        receiver.close()
    emptied.result(PATIENCE_S)
    assert node.metrics.read()["num_drain_reqs"] == 0
    nodes.settled()


@pytest.mark.parametrize("sources", [1, 2])
@pytest.mark.parametrize("begins", ["before prefill has ended", "after"])
def test_no_request_fails_by_a_node_that_is_closed_when_it_says_that_it_is_empty(
    sources: int, begins: str
) -> None:
    assert failure_by_a_close_when_empty(sources, begins, wait_s=0.1) is None


@pytest.mark.parametrize("sources", [1, 2])
@pytest.mark.parametrize("begins", ["before prefill has ended", "after"])
def test_a_request_fails_by_a_node_that_says_too_early_that_it_is_empty(
    sources: int, begins: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The defect `empty-before-confirmed` in the table that the node runs."""
    (edited,) = (table for table in planted.named("empty-before-confirmed").system.tables
                 if table.machine is tables.server)
    monkeypatch.setattr(tables, "SERVER", edited)
    told = failure_by_a_close_when_empty(sources, begins, wait_s=PATIENCE_S)
    assert told == "lost connection to p0: it has been closed"


def failure_by_a_close_when_empty(sources: int, begins: str, wait_s: float) -> str | None:
    """The reason why decode fails its request when a prefill node is closed as soon as it says
    that it is empty. It has written everything, and decode still compares what has landed. wait_s:
    how long it may take to say so; right rows do not.
    """
    with cluster(sources=sources, decode={"at_once": False}) as nodes:
        node = nodes.prefills[0]
        senders, receivers = nodes.senders(1), published(nodes.receivers(1))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        emptied = begun(node) if begins == "before prefill has ended" else None
        for sender in senders:
            sender.send([0, 1, 2])
        until(polls(senders, KVPoll.SUCCESS))
        until(lambda: len(nodes.landing._under_way) == sources)
        emptied = emptied or begun(node)
        if closed_when_empty(node, emptied, wait_s):
            until(polls(receivers, KVPoll.FAILED))
        nodes.landing.at_once = True
        nodes.landing.end()
        until(polls(receivers, *ENDED))
        (failure,) = [receiver.failure for receiver in receivers]
        assert closed_when_empty(node, emptied)
        for receiver in receivers:
            receiver.close()
        if failure is None:
            nodes.settled()
        return failure


def closed_when_empty(
    node: RunningNode, emptied: Future[None], wait_s: float = PATIENCE_S
) -> bool:
    """Close the node if it says within this time that it is empty, as its operator does."""
    with suppress(TimeoutError):
        emptied.result(wait_s)
        node.close()
    return emptied.done()


def test_a_drain_of_prefill_does_not_wait_for_a_sink_that_is_gone() -> None:
    """It sends nothing more, whatever it has read."""
    with cluster(decode={"at_once": False}) as nodes:
        (sender,), _ = nodes.senders(1), published(nodes.receivers(1))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([0, 1, 2])
        until(polls([sender], KVPoll.SUCCESS))
        emptied = begun(nodes.prefills[0])
        assert not emptied.done()
        nodes.decodes.pop().close()
        emptied.result(PATIENCE_S)


def test_a_drain_of_decode_does_not_wait_for_the_fence_of_a_source_that_is_gone() -> None:
    with cluster(prefill={"at_once": False}, decode={"fences": False}) as nodes:
        (sender,), (receiver,) = nodes.senders(1), published(nodes.receivers(1))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([0, 1, 2])
        until(lambda: nodes.writing.under_way)
        emptied = begun(nodes.decodes[0])
        nodes.prefills.pop().close()
        until(polls([receiver], KVPoll.FAILED))
        emptied.result(PATIENCE_S)
        assert receiver.life in nodes.decodes[0]._node.lives
        until(lambda: nodes.landing.asked)
        nodes.landing.put_up()
        nodes.settled()


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_a_new_request_is_refused_at_both_ends_at_once(nodes: Cluster, side: str) -> None:
    node = drained(nodes, side)
    begun(node).result(PATIENCE_S)
    (sender,), (receiver,) = nodes.senders(2), published(nodes.receivers(2))
    until(polls([sender, receiver], KVPoll.FAILED))
    for handle in (sender, receiver):
        assert f"node {node.name} drains, and takes no new request" in (handle.failure or "")
        handle.close()
    nodes.settled()


def test_a_sink_is_told_of_the_drain_though_no_request_comes_to_prefill(nodes: Cluster) -> None:
    begun(nodes.prefills[0]).result(PATIENCE_S)
    (receiver,) = nodes.receivers(3)
    until(polls([receiver], KVPoll.FAILED))
    assert "p0 drains" in (receiver.failure or "")
    receiver.close()


def test_a_sink_that_came_before_the_drain_is_told_as_well(nodes: Cluster) -> None:
    """Its request has not reached prefill, so it is new there."""
    (receiver,) = nodes.receivers(3)
    until(lambda: nodes.prefills[0].metrics.read()["num_remembered_lives"] == 1)
    begun(nodes.prefills[0])
    until(polls([receiver], KVPoll.FAILED))
    assert "p0 drains" in (receiver.failure or "")
    receiver.close()


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_a_request_that_ends_in_a_failure_of_its_own_ends_the_drain(
    nodes: Cluster, side: str
) -> None:
    node = drained(nodes, side)
    (sender,), (receiver,) = nodes.senders(1), published(nodes.receivers(1))
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    emptied = begun(node)
    (sender if side == "decode" else receiver).abort("the client has left")
    until(polls([sender, receiver], KVPoll.FAILED))
    assert "the client has left" in (sender.failure or "")
    receiver.close()
    emptied.result(PATIENCE_S)


def test_a_request_opened_as_the_drain_begins_is_taken_or_refused_but_not_both(
    nodes: Cluster
) -> None:
    """Its opening was asked for before the drain, and its check comes after it."""
    prefill = nodes.prefills[0]._node
    core, sender = prefill.core, prefill.open(1)
    drain = Drain(prefill)
    core.ask(drain.begin)
    core.ask(lambda: drain.meet(sender))
    (receiver,) = published(nodes.receivers(1))
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([0, 1, 2])
    until(polls([sender, receiver], KVPoll.SUCCESS))
    receiver.close()
    drain.emptied.result(PATIENCE_S)


def test_a_second_drain_is_the_same_and_a_closed_node_has_none(nodes: Cluster) -> None:
    node = nodes.prefills[0]
    assert node.drain() is node.drain()
    closed = nodes.decodes[0]
    closed.close()
    for _ in range(2):
        with pytest.raises(LocalProtocolError, match="is closed"):
            closed.drain()
    assert closed.metrics.read()["draining"] == 0


def asked(port: OperatorPort, method: str, path: str) -> tuple[int, str]:
    with closing(http.client.HTTPConnection(port.host, port.port, timeout=30.0)) as connection:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read().decode()


def test_an_operator_drains_a_node_and_learns_when_it_is_empty(nodes: Cluster) -> None:
    (sender,), (receiver,) = nodes.senders(1), published(nodes.receivers(1))
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    with OperatorPort(nodes.prefills[0]) as port:
        assert asked(port, "GET", "/ready") == (200, "OK")
        assert asked(port, "GET", "/drain")[0] == 405
        assert asked(port, "POST", "/drain")[0] == 202
        told = "node p0 drains, and takes no new request; requests left: 1"
        until(lambda: asked(port, "GET", "/ready") == (503, told))
        assert asked(port, "GET", "/health") == (200, "OK")
        sender.send([0, 1, 2])
        until(polls([sender, receiver], KVPoll.SUCCESS))
        receiver.close()
        until(lambda: asked(port, "POST", "/drain") == (200, "empty"))
        assert asked(port, "GET", "/ready")[0] == 503


def test_no_number_is_told_before_the_requests_are_counted(nodes: Cluster) -> None:
    """A supervisor that reads 0 ends the process."""
    nodes.senders(1)
    node, counts = nodes.prefills[0], threading.Event()

    def hold_the_loop() -> None:
        counts.wait(20.0)

    node._core.ask(hold_the_loop)
    node.drain()
    assert node.unready() == "node p0 drains, and takes no new request"
    assert node.metrics.read()["draining"] == 0
    counts.set()
    until(lambda: node.unready() == "node p0 drains, and takes no new request; requests left: 1")


def test_a_room_that_comes_before_the_drain_has_begun_does_not_hold_it_up(nodes: Cluster) -> None:
    """A sink introduces it, and a sender is opened and ends, after `drain` was called and before
    the loop begins it.
    """
    prefill = nodes.prefills[0]._node
    core, drain, told = prefill.core, Drain(prefill), list[str | None]()
    core.ask(lambda: told.append(drain.refusal(7)))
    sender = prefill.open(8)
    core.ask(lambda: drain.meet(sender))
    sender.abort("the client has left")
    until(polls([sender], KVPoll.FAILED))
    core.ask(drain.begin)
    drain.emptied.result(PATIENCE_S)
    assert told == [None]
    assert sender.failure == "the client has left"
