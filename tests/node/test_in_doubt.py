"""Writes that an engine has given up on: pages come back at once, and what may still land is known.
"""

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pdproto.node import peer
from pdproto.node.data_path import WriteOutcome
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.in_doubt import InDoubtAtSink, InDoubtWrites
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import PrefillNode
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.node.processes import suspend, victim
from tests.transport.test_killed import closing, settled
from tests.transport.victim import PAGES, dying_connected_sink, pools, sink, source
from tests.waiting import PATIENCE_S, until


def has_begun(prefill: PrefillNode) -> bool:
    """Whether some bytes of a write have left."""
    engine = prefill._node.data_path.engine  # type: ignore[attr-defined]  # TcpSource
    return any(posted.begun for line in list(engine._lines.values())
               for posted in list(line.open.values()))


def waits(nodes: Cluster, receiver: Receiver) -> bool:
    """Whether the sink still waits until its source has drained."""
    return receiver.life in nodes.decodes[0]._node.lives


@contextmanager
def bereaved() -> Iterator[tuple[PrefillNode, Sender]]:
    """A prefill node whose sink was killed (SIGKILL) in the middle of a write over TCP, and its
    sender, which has its pages back.
    """
    prefill = source("tcp", pools(1))
    with closing(prefill):
        first, sender = prefill.open(6), prefill.open(7)
        with victim(dying_connected_sink, "tcp", prefill.endpoint) as (process, pipe):
            until(polls([first], KVPoll.WAITING_FOR_INPUT))
            first.send(range(1))
            assert pipe.recv() == "published"
            until(polls([sender], KVPoll.WAITING_FOR_INPUT))
            suspend(process)
            sender.send(range(1, PAGES))
            # No more than sockets hold can leave, so that what has begun stays under way.
            until(lambda: has_begun(prefill))
            assert not sender.released
            os.kill(process.pid, signal.SIGKILL)
            until(polls([sender], KVPoll.FAILED))
        until(lambda: prefill.lost_peers() == ("d0",))
        until(lambda: sender.released)
        yield prefill, sender
        settled(prefill)
        assert prefill.in_doubt() == ()


def test_pages_come_back_while_writes_are_in_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is in doubt is seen, nothing but knowledge ends it, and no hand-over waits for that."""
    # A sink that was silent for long before it died counts as cut off, until it is given up.
    monkeypatch.setattr(peer, "GIVEN_UP_S", 0.0)
    with bereaved() as (prefill, sender):
        (in_doubt,) = prefill.in_doubt()
        assert (in_doubt.sink, in_doubt.life.room, len(in_doubt.writes)) == ("d0", 7, 1)
        numbers = prefill.metrics.read()
        assert numbers["num_prefill_in_doubt_writes"] == numbers["num_prefill_writes"] == 1
        assert numbers["prefill_in_doubt_seconds"] > 0
        assert "the engine gave up writing to d0: 127.0.0.1:" in (sender.failure or "")
        until(lambda: prefill.health() is None)
        with cluster(sources=0) as nodes:
            other = nodes.decode("d1", 18)
            with closing(other):
                (receiver,) = published([other.open(8, {"p0": prefill.endpoint})], PAGES)
                until(polls([receiver], KVPoll.WAITING_FOR_INPUT))
                receiver.abort()
                until(lambda: not other._node.lives)
        assert prefill.in_doubt() == (in_doubt,)
        assert in_doubt.life in prefill._node.lives, "its writes may still land"
        prefill.declare_gone("d0")


def test_a_drain_does_not_wait_for_writes_in_doubt() -> None:
    """Their sink is lost. The life is remembered, because the process can still drop the writes."""
    with bereaved() as (prefill, sender):
        prefill.drain().result(PATIENCE_S)
        assert sender.endpoint.life in prefill._node.lives
        prefill.declare_gone("d0")


def test_a_successor_whose_predecessor_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node remembers only so many peers, and knows a successor by its incarnation all the same.
    """
    monkeypatch.setattr("pdproto.node.peer.PEERS_MAX", 2)
    with bereaved() as (prefill, _), cluster(sources=0, sinks=0) as nodes:
        others = [nodes.decode(f"d{number}", 17 + number) for number in (1, 2)]
        for number, other in enumerate(others, 1):
            with closing(other):
                other.open(number, {"p0": prefill.endpoint})
                until(lambda name=other.name: name in prefill._core.peers)  # type: ignore[misc]
                if number == 1:
                    others[1].open(9, {"p0": prefill.endpoint})
                    until(lambda: "d2" in prefill._core.peers)
        assert "d0" not in prefill._core.peers
        assert prefill.in_doubt()
        successor = sink("tcp", pools())
        with closing(successor):
            again = successor.open(8, {"p0": prefill.endpoint})
            until(lambda: not prefill.in_doubt())
            again.abort()
            until(polls([again], KVPoll.FAILED))


def test_an_engine_that_finds_out_after_all() -> None:
    with cluster(prefill={"at_once": False}) as nodes:
        (prefill,), (sender,), (receiver,) = (
            nodes.prefills, nodes.senders(7), published(nodes.receivers(7)))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2], last=False)
        sender.send([3])
        until(lambda: len(nodes.writing.under_way) == 2)
        nodes.writing.end(WriteOutcome.ERROR)
        until(polls([sender, receiver], KVPoll.FAILED))
        until(lambda: [len(in_doubt.writes) for in_doubt in prefill.in_doubt()] == [2])
        until(lambda: sender.released)
        (in_doubt,) = prefill.in_doubt()
        assert (in_doubt.sink, in_doubt.life) == ("d0", receiver.life)
        nodes.writing.end(most=1)
        until(lambda: len(prefill.in_doubt()[0].writes) == 1)
        assert prefill.in_doubt()[0].since == in_doubt.since
        assert waits(nodes, receiver), "who still writes has not drained"
        nodes.writing.end()
        nodes.settled()
        assert prefill.in_doubt() == ()


def test_an_error_of_a_hand_over_that_has_failed_already() -> None:
    """Of two writes one may be given up, and the pages wait for the other."""
    with cluster(prefill={"at_once": False}) as nodes:
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2], last=False)
        sender.send([3])
        until(lambda: len(nodes.writing.under_way) == 2)
        receiver.abort("not wanted any more")
        until(polls([sender], KVPoll.FAILED))
        nodes.writing.end(WriteOutcome.ERROR, most=1)
        until(lambda: nodes.prefills[0].metrics.read()["num_prefill_in_doubt_writes"] == 1)
        assert not sender.released, "the engine reads the pages of the other"
        nodes.writing.end(WriteOutcome.ERROR, most=1)
        until(lambda: sender.released)
        assert sender.failure == "d0: not wanted any more"
        assert waits(nodes, receiver)
        nodes.writing.end()
        nodes.settled()


def test_a_peer_that_is_declared_gone_is_lost_at_once() -> None:
    """A supervisor knows of a death before any connection has ended. A source is fenced then."""
    with cluster(prefill={"at_once": False}) as nodes:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7), 1)
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1])
        until(lambda: nodes.writing.under_way)
        decode.declare_gone("p0")
        until(polls([receiver], KVPoll.FAILED))
        assert receiver.failure == "lost connection to p0: it has been declared gone"
        until(lambda: nodes.landing.asked == [(receiver.life, "p0")])
        assert decode.metrics.read()["lost_peers"] == 1
        decode.declare_gone("p0")
        nodes.writing.end()
        until(polls([sender], KVPoll.FAILED))
        assert prefill._core.mistakes == decode._core.mistakes == 0


def test_a_write_to_a_sink_that_has_ended_is_not_in_doubt() -> None:
    """It has said so itself, and what the engine gives up on after that can land no more."""
    with cluster(prefill={"at_once": False}) as nodes:
        (prefill,), (sender,) = nodes.prefills, nodes.senders(7)
        published(nodes.receivers(7), 1)
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1])
        until(lambda: nodes.writing.under_way)
        nodes.decodes[0].close()
        until(lambda: prefill.lost_peers() == ("d0",))
        nodes.writing.end(WriteOutcome.ERROR)
        until(lambda: sender.released)
        assert sender.failure == "d0: the node has been closed"
        assert prefill.in_doubt() == ()


def test_an_unknown_peer_is_not_declared_gone() -> None:
    with cluster() as nodes:
        nodes.prefills[0].declare_gone("d9")
        until(lambda: nodes.prefills[0]._core.mistakes == 1)


def test_reading_while_a_write_ends_finds_the_others() -> None:
    """Another thread may read between any two steps: here, while the writes are compared."""
    in_doubt, read, life = InDoubtWrites(), list[tuple[int, ...]](), Life(7, 1, 3)

    class Read(int):
        def __ne__(self, other: object) -> bool:
            read.extend(one.writes for one in in_doubt.all())
            return int(self) != other

    for write in (Read(1), Read(2)):
        in_doubt.add("d0", life, write, 10.0)
    in_doubt.drop("d0", life, 2)
    assert read == [(1, 2), (1, 2)]
    assert in_doubt.all() == (InDoubtAtSink("d0", life, (1,), 10.0),)


def test_writes_in_doubt_are_kept_by_life_and_sink() -> None:
    """A sink that is done with some lives ends the wait for those, and for no others."""
    in_doubt = InDoubtWrites()
    old, new, foreign = Life(7, 1, 3), Life(8, 1, 4), Life(9, 2, 0)
    in_doubt.add("d0", old, 1, 10.0)
    in_doubt.add("d0", new, 2, 11.0)
    in_doubt.add("d1", old, 3, 12.0)
    in_doubt.add("d0", foreign, 4, 13.0)
    in_doubt.add("d0", old, 5, 14.0)
    assert in_doubt.all()[0] == InDoubtAtSink("d0", old, (1, 5), 10.0)
    assert (in_doubt.count(), len(in_doubt), in_doubt.longest_s(15.0)) == (5, 4, 5.0)
    assert in_doubt.incarnations("d0") == {1, 2}
    assert in_doubt.take("d0", 1, 4) == (1, 5)
    assert in_doubt.take("d0", 1, 4) == ()
    in_doubt.drop("d0", old, 1)
    in_doubt.drop("d0", new, 9)
    assert [one.writes for one in in_doubt.all()] == [(2,), (3,), (4,)]
    in_doubt.drop("d0", new, 2)
    assert (in_doubt.take("d1", 1, 4), in_doubt.take("d0", 2, 1)) == ((3,), (4,))
    assert in_doubt.longest_s(15.0) == 0.0
