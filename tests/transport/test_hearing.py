"""A node hears that a peer does not hear it, and calls it again."""

import threading
import time
from typing import Final

import pytest
import zmq

from pdproto.node.link import Link
from pdproto.node.peer import Peer
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import PATIENCE_S, Cluster, cluster, has_spoken, polls, until

LINK: Final = Link(sign_of_life_s=0.2, silent_s=10.0)


def hand_over(nodes: Cluster, room: int) -> None:
    senders, receivers = nodes.senders(room), nodes.receivers(room)
    receivers[0].publish([1])
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    senders[0].send([1])
    until(polls([*senders, *receivers], KVPoll.SUCCESS))
    receivers[0].close()
    until(lambda: not nodes.decodes[0]._core.lives)


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
        thread.join()
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
