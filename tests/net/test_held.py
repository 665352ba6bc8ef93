"""Pages whose write an engine has given up on: who waits for whom is seen, and what ends the wait.
"""

import logging
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from pdproto.net import shell
from pdproto.net.held import Held, HeldPages
from pdproto.net.plane import Outcome
from pdproto.net.prefill import PrefillNode
from pdproto.net.sender import Sender
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.poll import KVPoll
from tests.net.planes import cluster, polls, published, until
from tests.net.test_killed import closing, settled, victim
from tests.net.victim import PAGES, dying_sink, pools, sink, source


def has_begun(prefill: PrefillNode) -> bool:
    """Whether some bytes of a write have left."""
    engine = prefill.plane.engine  # type: ignore[attr-defined]  # TcpSource
    return any(posted.begun for line in list(engine._lines.values())
               for posted in list(line.open.values()))


@contextmanager
def bereaved() -> Iterator[tuple[PrefillNode, Sender]]:
    """A prefill node whose sink was killed (SIGKILL) in the middle of a write over TCP, and its
    sender, which holds its pages.
    """
    prefill = source("tcp", pools(1))
    with closing(prefill):
        sender = prefill.open(7)
        with victim(dying_sink, "tcp", prefill.endpoint) as (process, pipe):
            assert pipe.recv() == "published"
            until(polls([sender], KVPoll.WAITING_FOR_INPUT))
            process.suspend()
            sender.send(range(PAGES))
            # No more than sockets hold can leave, so that what has begun stays under way.
            until(lambda: has_begun(prefill))
            os.kill(process.pid, signal.SIGKILL)
            until(polls([sender], KVPoll.FAILED))
        until(lambda: prefill.lost_peers() == ("d0",))
        yield prefill, sender
        settled(prefill)
        assert sender.released
        assert prefill.held() == ()


def test_which_pages_wait_for_whom(caplog: pytest.LogCaptureFixture) -> None:
    """The operator sees it, nothing but knowledge ends it, and the other hand-overs go on."""
    with caplog.at_level(logging.WARNING, "pdproto.net"), bereaved() as (prefill, sender):
        (held,) = prefill.held()
        assert (held.sink, held.life.room, held.pages) == ("d0", 7, tuple(range(PAGES)))
        numbers = prefill.metrics.read()
        assert numbers["num_prefill_held_pages"] == PAGES
        assert numbers["prefill_held_seconds"] > 0
        assert "the engine gave up writing to d0: 127.0.0.1:" in (sender.failure or "")
        assert (f"until a successor of d0 speaks, or somebody declares it gone, it holds {PAGES} "
                f"pages of room 7 for d0 {held.life.incarnation:x}") in caplog.text
        assert prefill.health() is None
        with cluster(sources=0) as nodes:
            other = nodes.decode("d1", 18)
            with closing(other):
                (receiver,) = published([other.open(8, {"p0": prefill.endpoint})], PAGES)
                until(polls([receiver], KVPoll.WAITING_FOR_INPUT))
                receiver.abort()
                until(lambda: not other.lives)
        assert prefill.held() == (held,)
        assert not sender.released
        prefill.declare_gone("d0")


def test_a_successor_whose_predecessor_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A node remembers only so many peers, and knows a successor by its incarnation all the same.
    """
    monkeypatch.setattr(shell, "PEERS_MAX", 2)
    with bereaved() as (prefill, sender), cluster(sources=0, sinks=0) as nodes:
        others = [nodes.decode(f"d{number}", 17 + number) for number in (1, 2)]
        for number, other in enumerate(others, 1):
            with closing(other):
                other.open(number, {"p0": prefill.endpoint})
                until(lambda name=other.name: name in prefill.peers)  # type: ignore[misc]
                if number == 1:
                    others[1].open(9, {"p0": prefill.endpoint})
                    until(lambda: "d2" in prefill.peers)
        assert "d0" not in prefill.peers
        assert not sender.released
        successor = sink("tcp", pools())
        with closing(successor):
            again = successor.open(8, {"p0": prefill.endpoint})
            until(lambda: sender.released)
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
        nodes.writing.end(Outcome.ERROR)
        until(polls([sender, receiver], KVPoll.FAILED))
        (held,) = prefill.held()
        assert (held.sink, held.life, held.pages) == ("d0", receiver.life, (1, 2, 3))
        assert len(held.writes) == 2
        nodes.writing.end(most=1)
        until(lambda: len(prefill.held()[0].writes) == 1)
        assert prefill.held()[0].since == held.since
        nodes.writing.end()
        nodes.settled()
        assert prefill.held() == ()


def test_who_is_declared_gone_is_lost_at_once() -> None:
    """A supervisor knows of a death before any connection has ended. A source is fenced then."""
    with cluster(prefill={"at_once": False}) as nodes:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
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
        assert prefill.mistakes == decode.mistakes == 0


def test_a_write_to_a_sink_that_has_ended_holds_nothing() -> None:
    """It has said so itself, and what the engine gives up on after that can land no more."""
    with cluster(prefill={"at_once": False}) as nodes:
        (prefill,), (sender,) = nodes.prefills, nodes.senders(7)
        published(nodes.receivers(7))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1])
        until(lambda: nodes.writing.under_way)
        nodes.decodes[0].close()
        until(lambda: prefill.lost_peers() == ("d0",))
        nodes.writing.end(Outcome.ERROR)
        until(lambda: sender.released)
        assert sender.failure == "d0: the node has been closed"
        assert prefill.held() == ()


def test_nobody_is_declared_gone_who_was_never_there() -> None:
    with cluster() as nodes:
        nodes.prefills[0].declare_gone("d9")
        until(lambda: nodes.prefills[0].mistakes == 1)


def test_what_is_held_by_life_and_sink() -> None:
    """A sink that is done with some lives ends the wait for those, and for no others."""
    held = HeldPages()
    old, new, foreign = Life(7, 1, 3), Life(8, 1, 4), Life(9, 2, 0)
    held.add("d0", old, 1, pages=(1, 2), now=10.0)
    held.add("d0", new, 2, pages=(3,), now=11.0)
    held.add("d1", old, 3, pages=(1, 2), now=12.0)
    held.add("d0", foreign, 4, pages=(4,), now=13.0)
    held.add("d0", old, 5, pages=(1, 2), now=14.0)
    assert held.all()[0] == Held("d0", old, (1, 2), (1, 5), 10.0)
    assert (held.count(), len(held), held.longest_s(15.0)) == (4, 4, 5.0)
    assert held.incarnations("d0") == {1, 2}
    assert held.take("d0", 1, 4) == (1, 5)
    assert held.take("d0", 1, 4) == ()
    held.drop("d0", old, 1)
    held.drop("d0", new, 9)
    assert [one.writes for one in held.all()] == [(2,), (3,), (4,)]
    held.drop("d0", new, 2)
    assert str(held.all()[0]) == "2 pages of room 7 for d1 1"
    assert str(held.all()[1]) == "1 page of room 9 for d0 2"
    assert (held.take("d1", 1, 4), held.take("d0", 2, 1), held.longest_s(15.0)) == ((3,), (4,), 0.0)
