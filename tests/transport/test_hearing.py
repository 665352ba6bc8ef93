"""A node hears that a peer does not hear it, and calls it again."""

import threading
import time
from typing import Final

import pytest
import zmq

from pdproto.node.core import Core
from pdproto.node.link import Link
from pdproto.node.peer import Peer
from pdproto.runtime.batches import encode
from pdproto.runtime.wire import Abort, Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import RunningNode
from tests.node.data_paths import Cluster, cluster, has_spoken, polls
from tests.transport.test_operator_port import standing_still
from tests.waiting import PATIENCE_S, ended, until

LINK: Final = Link(sign_of_life_s=0.2, silent_s=10.0)


def hand_over(nodes: Cluster, room: int) -> None:
    senders, receivers = nodes.senders(room), nodes.receivers(room)
    receivers[0].publish([1])
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    senders[0].send([1])
    until(polls([*senders, *receivers], KVPoll.SUCCESS))
    receivers[0].close()
    until(lambda: not nodes.decodes[0]._node.lives)


def take_name(endpoint: str, name: str, seconds: float) -> None:
    """Connect under a node's name, say nothing, and go."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as thief:
        thief.setsockopt_string(zmq.IDENTITY, name)
        thief.setsockopt(zmq.LINGER, 0)
        thief.connect(endpoint)
        time.sleep(seconds)


def test_a_name_that_an_idle_connection_has_taken_comes_back(
        monkeypatch: pytest.MonkeyPatch) -> None:
    with cluster(link=LINK) as nodes:
        hand_over(nodes, 1)
        prefill, decode = nodes.prefills[0], nodes.decodes[0]
        connections, health_read = prefill._core.connections, threading.Event()
        open_again = connections._open_again

        def open_again_later(peer: Peer, now: float) -> None:
            assert health_read.wait(PATIENCE_S)  # a busy machine reads health() after the mending
            open_again(peer, now)

        monkeypatch.setattr(connections, "_open_again", open_again_later)
        take_name(decode.bound, prefill.name, 0.3)
        until(lambda: decode.health() is not None)
        assert str(decode.health()).startswith("node d0: nothing has come from p0 for ")
        health_read.set()
        until(lambda: connections.redials == 1)
        until(lambda: decode.health() is None)
        hand_over(nodes, 2)
        assert decode.metrics.read().get("lost_peers", 0) == 0
        until(lambda: prefill.health() is None)
        nodes.settled()


def test_a_hand_over_that_is_under_way_meanwhile_goes_on() -> None:
    with cluster(link=LINK) as nodes:
        hand_over(nodes, 1)
        prefill, decode = nodes.prefills[0], nodes.decodes[0]
        thread = threading.Thread(target=take_name, args=(decode.bound, prefill.name, 0.3))
        thread.start()
        time.sleep(0.2)
        hand_over(nodes, 2)
        ended(thread)
        assert prefill._core.connections.redials == 1
        nodes.settled()


def test_a_node_says_that_it_is_not_heard() -> None:
    with cluster(link=LINK) as nodes:
        hand_over(nodes, 1)
        prefill, decode = nodes.prefills[0], nodes.decodes[0]
        core = prefill._core
        core.ask(lambda: setattr(core.peers["d0"], "called", time.monotonic() + 1.5))
        take_name(decode.bound, prefill.name, 0.3)
        until(lambda: prefill.health() is not None)
        assert "node p0: d0 reports that it has received nothing for " in str(prefill.health())
        until(lambda: prefill.health() is None)
        nodes.settled()


def say_over_two_connections(to: RunningNode, name: str, first: bytes, then: bytes) -> None:
    """Three batches over a connection that ends, and one over the next, while the loop of the node
    does nothing. So it reads the three when the other connection has their name.
    """
    with zmq.Context() as context, standing_still(to):
        for data, times in ((first, 3), (then, 1)):
            with context.socket(zmq.DEALER) as speaking:
                speaking.setsockopt_string(zmq.IDENTITY, name)
                speaking.setsockopt(zmq.LINGER, 1_000)
                speaking.connect(to.bound)
                for _ in range(times):
                    speaking.send(data)
            time.sleep(0.3)  # until the other end knows that it has ended


@pytest.fixture
def heard(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """The name and the run of each batch that a decode node takes."""
    found: list[tuple[str, int]] = []
    monkeypatch.setattr(Core, "hear", lambda _, peer, batch: found.append(
        (peer.name, batch.incarnation)))
    return found


@pytest.mark.slow
def test_batches_of_a_connection_that_was_replaced_count(heard: list[tuple[str, int]]) -> None:
    """A healthy peer had called again before a busy node had read them. They were counted as
    malformed: connection '\\x00k...' says it is node 'p7'.
    """
    greeting = encode("p7", 5, 0, [Abort(Life(1, 1, 1), "", "tcp://127.0.0.1:9")])
    with cluster(sources=0) as nodes:
        (decode,) = nodes.decodes
        say_over_two_connections(decode, "p7", greeting, greeting)
        until(lambda: heard == [("p7", 5)] * 4)
        assert decode._core.malformed == {}


@pytest.mark.slow
def test_late_batches_of_an_earlier_run_do_not_end_its_successor(
    heard: list[tuple[str, int]], caplog: pytest.LogCaptureFixture
) -> None:
    greeting = Abort(Life(1, 1, 1), "", "tcp://127.0.0.1:9")
    with cluster(sources=0) as nodes:
        (decode,) = nodes.decodes
        first, then = (encode("p7", run, 0, [greeting]) for run in (5, 6))
        say_over_two_connections(decode, "p7", then, then)
        until(lambda: heard == [("p7", 6)] * 4)
        say_over_two_connections(decode, "p7", first, then)
        until(lambda: heard == [("p7", 6)] * 5)
        assert decode._core.malformed == {}
        assert "restarted" not in caplog.text


def test_an_idle_peer_does_not_count_as_silent() -> None:
    with cluster(2, 2, link=LINK) as nodes:
        receivers = nodes.receivers(1)
        until(lambda: all(has_spoken(d, p.name) for d in nodes.decodes for p in nodes.prefills))
        time.sleep(1.0)
        for node in nodes.nodes:
            assert node._core.connections.redials == 0
            assert node.health() is None
        for receiver in receivers:
            receiver.abort()
