"""Aborts, end to end (MISSION rows M3.1 to M3.6; M3.3: test_m3_skipped.py): real nodes and pages.
"""

from functools import partial

import zmq

from pdproto.runtime.batches import encode
from pdproto.runtime.wire import Abort, AbortAck, Drained, Life
from pdproto.spec.handoff.poll import KVPoll
from tests.e2e.pairs import Ends, ends, until
from tests.node.data_paths import polls

FAILED = KVPoll.FAILED


def failed(nodes: Ends, room: int, reason: str) -> None:
    """Open a room at all ends, have the sink abort it; all must fail with the reason, and let go.
    """
    senders, receiver = nodes.senders(room), nodes.receiver(room)
    receiver.publish(range(8))
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    receiver.abort(reason)
    until(polls([*senders, receiver], FAILED))
    assert receiver.failure == reason
    assert [sender.failure for sender in senders] == [f"d: {reason}"] * len(senders)
    until(lambda: receiver.released)


def test_m3_1_an_abort_tells_every_source_once() -> None:
    with ends(sources=2) as nodes:
        failed(nodes, 1, "the client has left")
        for node in nodes.prefills:
            until(lambda name=node.name: nodes.rows(name, "abort"))  # type: ignore[misc]
    assert len(nodes.rows("p0", "abort")) == len(nodes.rows("p1", "abort")) == 1


def test_m3_1_a_time_out_of_the_sink_tells_every_source_once() -> None:
    with ends(sources=2, waits={"transfer_timeout": 0.3},
              of_sources={"transfer_timeout": 600.0}) as nodes:
        senders, receiver = nodes.senders(1), nodes.receiver(1)
        receiver.publish(range(8))
        until(polls([*senders, receiver], FAILED))
        told = ("transfer_timeout after 0.3 s; not sent by p0, p1: the request has not come there, "
                "or takes longer")
        assert receiver.failure == told
        for sender in senders:
            assert sender.failure == f"d: {told}"
    assert len(nodes.rows("p0", "abort")) == len(nodes.rows("p1", "abort")) == 1


def test_m3_1_a_failure_of_one_source_tells_the_other() -> None:
    with ends(sources=2) as nodes:
        senders, receiver = nodes.senders(1), nodes.receiver(1)
        receiver.publish(range(8))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        senders[0].abort("out of memory")
        until(polls([*senders, receiver], FAILED))
        assert receiver.failure == "p0: out of memory"
        assert senders[1].failure == "d: p0: out of memory"
    assert len(nodes.rows("p1", "abort")) == 1


def test_m3_2_a_source_acknowledges_an_abort_and_says_when_it_has_drained() -> None:
    with ends() as nodes:
        failed(nodes, 1, "the client has left")
    assert len(nodes.rows("d", "abort_ack")) == 1
    assert len(nodes.rows("d", "drained")) == 1


def test_m3_2_a_source_that_has_succeeded_stays_successful() -> None:
    """All that it had to write has landed when the sink gives up, for the other source's sake."""
    with ends(sources=2) as nodes:
        senders, receiver = nodes.senders(1), nodes.receiver(1)
        receiver.publish(range(8))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        senders[0].send(range(8))
        until(polls(senders[:1], KVPoll.SUCCESS))
        receiver.abort("the client has left")
        until(polls([senders[1], receiver], FAILED))
        until(lambda: nodes.rows("p0", "abort"))
        assert senders[0].poll() is KVPoll.SUCCESS


def test_m3_2_an_abort_fails_a_sender_that_is_opened_later() -> None:
    with ends() as nodes:
        receiver = nodes.receiver(1)
        receiver.abort("the client has left")
        until(polls([receiver], FAILED))
        until(lambda: nodes.rows("p0", "abort"))
        (sender,) = nodes.senders(1)
        until(polls([sender], FAILED))
        assert sender.failure == "d: the client has left"


def test_m3_5_malformed_frames_are_dropped_and_counted_and_the_peer_is_named() -> None:
    whole = encode("stranger", 1, 0, [Abort(Life(1, 1, 1), "why", "tcp://127.0.0.1:1")])
    with ends() as nodes, zmq.Context() as context:
        for node in nodes.nodes:
            with context.socket(zmq.DEALER) as stranger:
                stranger.setsockopt_string(zmq.IDENTITY, "stranger")
                stranger.setsockopt(zmq.LINGER, 1_000)
                stranger.connect(node.endpoint)
                for cut in range(1, len(whole)):
                    stranger.send(whole[:cut])
                until(lambda of=node: of._core.malformed.get("stranger") == len(whole) - 1)  # type: ignore[misc]
        nodes.hand_over(2)
        for node in nodes.nodes:
            assert node.metrics.read()["malformed_frames"] == len(whole) - 1


def test_m3_6_nodes_forget_aborted_hand_overs() -> None:
    """Nor of acknowledgements that come late, for rooms that nobody knows any more."""
    with ends() as nodes:
        for room in range(100):
            failed(nodes, room, "the client has left")
        nodes.settled()
        prefill, decode = nodes.prefills[0], nodes.decode
        before = decode.metrics.read()["stale_frames"]
        for room in range(100):
            life = Life(room, decode.incarnation, room)
            for frame in (AbortAck(life), Drained(life)):
                prefill._core.ask(partial(prefill._core.say, prefill._core.peers["d"], frame))
        until(lambda: decode.metrics.read()["stale_frames"] == before + 200)
        assert len(decode._node.lives) == len(prefill._node.lives) == 0
        nodes.hand_over(1000)
