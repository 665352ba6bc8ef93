"""Peers of a node, turn by turn and without a network: every queue and every list has a bound."""

import re

import msgspec
import pytest

from pdproto.node import connections, core
from pdproto.node.core import Core
from pdproto.node.link import Link
from pdproto.node.part import Part
from pdproto.node.ports import ConnectionChange
from pdproto.runtime import batches
from pdproto.runtime.batches import encode
from pdproto.runtime.wire import Abort, Drained, Life
from tests.node.offline import Offline

LINK = Link(sign_of_life_s=1.0, silent_s=600.0)


HEARD: list[str] = []
RETURNED: list[str] = []


@pytest.fixture
def node() -> Core:
    """A node with one part, which keeps what it hears."""
    core = Core("p0", LINK, 1)
    HEARD.clear()
    RETURNED.clear()
    core.assemble(Part("listening", batch=lambda peer: HEARD.append(peer.name),
                       returned=lambda peer: RETURNED.append(peer.name)))
    return core


@pytest.fixture
def offline(node: Core) -> Offline:
    return Offline(node)


def drained(generation: int) -> Drained:
    return Drained(Life(1, 1, generation))


def test_a_peer_that_does_not_read_loses_the_frames_past_the_bound(
    node: Core, offline: Offline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "WAITING_FRAMES_MAX", 3)
    peer = node.connect("d0", "tcp://127.0.0.1:1")
    offline.line("d0").full = True
    for generation in range(5):
        node.say(peer, drained(generation))
    assert node.connections.dropped_frames == 2
    offline.line("d0").full = False
    offline.turn()
    assert offline.line("d0").frames == [drained(generation) for generation in range(3)]


def test_a_batch_that_the_connection_refuses_is_sent_with_the_next_sign_of_life(
    node: Core, offline: Offline
) -> None:
    node.say(node.connect("d0", "tcp://127.0.0.1:1"), drained(7))
    line = offline.line("d0")
    line.full = True
    offline.turn()
    assert not node.wants_turn, "a full connection must not keep the loop busy"
    line.full = False
    offline.turn(after=0.5)
    assert line.frames == []
    offline.turn(after=0.6)
    assert line.frames == [drained(7)]
    offline.turn(after=1.1)
    assert line.frames == [drained(7)], "it is sent once"


def test_a_peer_with_many_frames_holds_up_no_batch_for_another(
    node: Core, offline: Offline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a turn has time for one batch. The first peer that had frames was always served
    first, and the others heard nothing as long as it had more.
    """
    for generation in range(3 * batches.FRAMES_SENT):
        node.say(node.connect("d0", "tcp://127.0.0.1:1"), drained(generation))
    node.say(node.connect("d1", "tcp://127.0.0.1:2"), drained(7))
    monkeypatch.setattr(type(node.pace), "has_time", False)
    offline.turn()
    assert offline.line("d1").frames == []
    offline.turn()
    assert offline.line("d1").frames == [drained(7)]
    assert len(offline.line("d0").frames) == batches.FRAMES_SENT


def test_the_end_of_a_connection_that_was_replaced_breaks_nothing(
    node: Core, offline: Offline
) -> None:
    first = node.connect("d0", "tcp://127.0.0.1:1").connection
    peer = node.connect("d0", "tcp://127.0.0.1:2")
    broken = []
    for connection, up in ((peer.connection, True), (first, False), (peer.connection, False),
                           (first, True), (peer.connection, True)):
        offline.turn(changes=[ConnectionChange(connection, up)])
        broken.append(peer.broken is not None)
    assert broken == [False, False, True, True, False]
    assert RETURNED == ["d0"]


def test_malformed_batches_are_counted_for_a_bounded_number_of_names(
    node: Core, offline: Offline, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(core, "MALFORMED_NAMES_MAX", 2)
    for name in ("a", "b", "c", "d", "b"):
        offline.turn((name, b"\xc1"))
    assert node.malformed == {"a": 1, "b": 2, "": 2}


def of_another_build(name: str, call: str | None) -> bytes:
    """A batch of a build that writes this version in another format."""
    fields = msgspec.msgpack.decode(encode(name, 5, 0, (), call=call))
    return msgspec.msgpack.encode([fields[0], fields[1] ^ 1, *fields[2:4], "more"])


def test_a_stranger_of_another_build_gets_an_answer_that_names_this_one(
    node: Core, offline: Offline
) -> None:
    """It cannot read the answer either, so that it names both, as this node does."""
    offline.turn(("d0", of_another_build("d0", "tcp://127.0.0.1:1")))
    (line,) = offline.lines
    assert line.endpoint == "tcp://127.0.0.1:1"
    assert [(batch.node, batch.frames) for batch in line.said] == [("p0", ())]
    assert node.malformed == {"d0": 1}


def test_a_peer_that_writes_another_format_is_lost_and_the_reason_names_both(
    node: Core, offline: Offline, caplog: pytest.LogCaptureFixture
) -> None:
    node.connect("d0", "tcp://127.0.0.1:1")
    offline.turn(after=2.0)
    offline.turn(("d0", of_another_build("d0", None)))
    assert node.peers["d0"].lost
    assert re.search("lost connection to d0: version: the peer writes .* this node in", caplog.text)


def test_a_stranger_of_another_build_is_not_answered_for_ever(offline: Offline) -> None:
    for _ in range(20):
        offline.turn(("d0", of_another_build("d0", "tcp://127.0.0.1:1")))
    assert len(offline.lines) == 1


def test_a_stranger_is_refused_while_as_many_peers_live_as_a_node_may_know(
    node: Core, offline: Offline, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A peer that is lost makes room for another."""
    monkeypatch.setattr("pdproto.node.peer.PEERS_MAX", 2)

    def greet(name: str) -> None:
        greeting = Abort(Life(1, 1, 1), "", f"tcp://127.0.0.1:{ord(name)}")
        offline.turn((name, encode(name, 5, 0, [greeting])))

    for name in "abc":
        greet(name)
    assert set(node.peers) == {"a", "b"}
    assert node.malformed == {"c": 1}
    offline.turn(("a", encode("a", 5, 0, (), gone="closed")))
    greet("c")
    assert set(node.peers) == {"b", "c"}
    assert HEARD == ["a", "b", "a", "c"]
