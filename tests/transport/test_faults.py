"""Faults and foreign bytes: what is wrong is named and counted, and nobody else is disturbed."""

import json
import logging
import os
import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import monotonic

import pytest
import zmq

from pdproto.check.trace.verify import verify
from pdproto.cli.systems import load
from pdproto.node.data_path import WriteOutcome
from pdproto.node.link import Curve, Link
from pdproto.runtime import batches, limits, wire
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.trace import TraceWriter
from pdproto.runtime.wire import Abort, Done, Drained, Introduce, Life, Publish
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport import event_loop
from pdproto.transport.nodes import DecodeNode, PrefillNode, RunningNode
from tests.node.data_paths import (
    Cluster,
    Fabric,
    SinkDataPath,
    SourceDataPath,
    cluster,
    polls,
    published,
)
from tests.node.leftovers import held
from tests.waiting import until

# Notices quickly that somebody has gone, by the end of the connection: a machine that stands still
# makes all fall silent.
ALERT = Link(sign_of_life_s=0.1, silent_s=600.0)
GONE = "its connection has ended, and its host refuses another one"
HERE = "tcp://127.0.0.1:1"  # where nobody listens


@pytest.fixture
def pair() -> Iterator[Cluster]:
    """One node of each kind."""
    with cluster() as nodes:
        yield nodes


def hand_over(nodes: Cluster, room: int) -> None:
    """A hand-over of its own, which succeeds."""
    senders, receivers = nodes.senders(room), published(nodes.receivers(room))
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    for sender in senders:
        sender.send([1, 2, 3])
    until(polls([*senders, *receivers], KVPoll.SUCCESS))
    for receiver in receivers:
        receiver.close()


def vanish(node: RunningNode) -> None:
    """End a node as a crash does, as far as its peers can tell: without a word."""
    node._core.farewells = lambda *_: iter(())  # type: ignore[method-assign]
    node.close()


class Foreigner:
    """Somebody who speaks ZeroMQ, and says what it likes."""

    def __init__(self, endpoint: str, name: str = "stranger") -> None:
        self._context = zmq.Context()
        self._socket = self._context.socket(zmq.DEALER)
        self._socket.setsockopt_string(zmq.IDENTITY, name)
        self._socket.connect(endpoint)
        self.name = name

    def say(self, *parts: bytes) -> None:
        self._socket.send_multipart(parts)

    def batch(
        self, *frames: wire.AnyFrame, incarnation: int = 99, floor: int = 0,
        gone: str | None = None,
    ) -> None:
        self.say(batches.encode(self.name, incarnation, floor, frames, gone))

    def close(self) -> None:
        self._socket.close(linger=0)
        self._context.term()


@contextmanager
def foreigner(endpoint: str, name: str = "stranger") -> Iterator[Foreigner]:
    it = Foreigner(endpoint, name)
    try:
        yield it
    finally:
        it.close()


@pytest.mark.parametrize(("parts", "complaint"), [
    ((b"",), "not a batch"),
    ((b"\xc1\xff",), "not a batch"),
    ((b"one", b"two"), "want one part after the identity, got 2"),
    ((batches.encode("p0", 1, 0, []),), "connection 'stranger' says it is node 'p0'"),
    ((batches.encode("stranger", 1, 0, []),),
     "the first batch of a new peer must give its endpoint"),
    ((batches.encode("stranger", 1, 0, [Drained(Life(1, 2, 3))]),), "must give its endpoint"),
    ((b"\x9a\x63" + batches.encode("stranger", 1, 0, [])[2:],),
     r"peer speaks 99, and this node \d"),
    ((batches.encode("stranger", 1, 0, [Abort(Life(1, 1, 1), "", "nowhere")]),),
     "cannot connect to 'nowhere'"),
])
@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_malformed(
    pair: Cluster, caplog: pytest.LogCaptureFixture, side: str, parts: tuple[bytes, ...],
    complaint: str,
) -> None:
    """The sender is named, the frame is counted, and the others go on."""
    node = pair.prefills[0] if side == "prefill" else pair.decodes[0]
    with foreigner(node.endpoint) as stranger, caplog.at_level(logging.WARNING, "pdproto"):
        stranger.say(*parts)
        until(lambda: node._core.malformed.get("stranger") == 1)
        hand_over(pair, 7)
    pair.settled()
    assert [n.metrics.read()["malformed_frames"] for n in pair.nodes if n is node] == [1]
    (said,) = [r.getMessage() for r in caplog.records if "stranger" in r.getMessage()]
    assert said.startswith(f"node {node.name}: dropped a batch of 'stranger': ")
    assert re.search(complaint, said)


def test_a_stranger_fills_no_disk_through_the_log(
    pair: Cluster, caplog: pytest.LogCaptureFixture,
) -> None:
    """200 messages of each kind that is dropped: told the 1st, 2nd, 4th ... and 128th time."""
    (node,) = pair.prefills
    life = Life(7, 99, 0)
    with foreigner(node.endpoint) as stranger, caplog.at_level(logging.WARNING, "pdproto"):
        stranger.batch(Introduce(life, ("stranger",), HERE))
        for _ in range(200):
            stranger.say(b"\xc1\xff")
            stranger.batch(Done(life, (1,), b"", b""))
        until(lambda: node.metrics.read()["malformed_frames"] == 200)
        until(lambda: node.metrics.read()["refused_frames"] == 200)
        hand_over(pair, 8)
    for kind in ("dropped a batch of 'stranger'", "dropped a message of stranger"):
        assert [line.rpartition("(")[2] for line in caplog.messages if kind in line] == [
            f"{2 ** power} so far)" for power in range(8)]


def test_an_oversized_frame_ends_the_connection_only(pair: Cluster) -> None:
    with foreigner(pair.prefills[0].endpoint) as stranger:
        stranger.say(b"x" * (limits.BATCH_BYTES_MAX + 1))
        hand_over(pair, 7)
    pair.settled()


def test_frames_of_the_wrong_side(pair: Cluster) -> None:
    """A sink does not say DONE, and a source publishes nothing."""
    life = Life(7, 99, 0)
    hello = Introduce(life, ("stranger",), HERE)
    with foreigner(pair.prefills[0].endpoint) as stranger:
        stranger.batch(hello, Done(life, (1,), b"", b""))
        until(lambda: pair.prefills[0].metrics.read()["refused_frames"] == 1)
    with foreigner(pair.decodes[0].endpoint) as stranger:
        stranger.batch(hello)
        until(lambda: pair.decodes[0].metrics.read()["refused_frames"] == 1)
    hand_over(pair, 8)


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_frames_of_a_group(pair: Cluster, caplog: pytest.LogCaptureFixture, side: str) -> None:
    """A node of the transfer speaks no other protocol, not even about a life that it knows."""
    (sender,), (receiver,) = pair.senders(7), published(pair.receivers(7))
    until(polls([sender, receiver], KVPoll.WAITING_FOR_INPUT))
    node = pair.prefills[0] if side == "prefill" else pair.decodes[0]
    life = Life(7, 99, 0)
    with foreigner(node.endpoint) as stranger, caplog.at_level(logging.WARNING, "pdproto"):
        said = (wire.Request(life, b""), wire.Ended(receiver.life), wire.Fail(life, 0, "so"))
        stranger.batch(Abort(life, "", HERE), *said)
        refused = len(said) + (side == "decode")
        until(lambda: node.metrics.read()["refused_frames"] == refused)
    named = [r for r in caplog.records if getattr(r, "peer", None) == "stranger"]
    assert len(named) == refused
    assert all(f"node {node.name}: dropped a message of stranger" in r.getMessage() for r in named)
    sender.send([1, 2, 3])
    until(polls([sender, receiver], KVPoll.SUCCESS))


def test_a_stranger_that_leaves(pair: Cluster) -> None:
    """Who was never met, or is lost already, may say so as often as it likes."""
    with foreigner(pair.prefills[0].endpoint) as stranger:
        stranger.batch(gone="never mind")
        stranger.batch(Abort(Life(1, 99, 0), "", HERE))
        stranger.batch(gone="now")
        stranger.batch(gone="again")
        until(lambda: pair.prefills[0].metrics.read()["lost_peers"] == 1)
        hand_over(pair, 7)
    assert pair.prefills[0].metrics.read()["lost_peers"] == 1
    assert pair.prefills[0]._core.malformed == {}


def test_a_silent_peer_is_suspected_and_then_lost(caplog: pytest.LogCaptureFixture) -> None:
    """Also where no connection ends."""
    link = Link(sign_of_life_s=0.05, silent_s=0.2, absent_s=0.4, returns_s=0.3)
    with (cluster(sinks=0, link=link) as nodes, foreigner(nodes.prefills[0].endpoint) as stranger,
          caplog.at_level(logging.WARNING, "pdproto")):
        stranger.batch(Abort(Life(1, 99, 0), "", HERE))
        until(lambda: "lost connection to stranger: nothing heard for 0.7 s" in caplog.text)
        assert "suspects stranger: nothing heard for 0.2 s" in caplog.text
        assert "no longer waits for stranger: nothing heard for 0.4 s" in caplog.text
        assert nodes.prefills[0].lost_peers() == ("stranger",)


def test_nobody_is_lost_while_the_whole_machine_stands_still(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when it is suspended: the first to go on has heard nothing of those that went on later."""
    still_s = 0.0
    monkeypatch.setattr(event_loop, "monotonic", lambda: monotonic() + still_s)
    with cluster(link=Link(sign_of_life_s=0.05, silent_s=60.0)) as nodes:
        hand_over(nodes, 1)
        for still_s in (70.0, 140.0, 210.0):  # noqa: B007 - the clock tells it
            turns = [node._loop._turned for node in nodes.nodes]
            until(lambda before=turns: all(  # type: ignore[misc]  # bound at once
                node._loop._turned > turned + 60.0
                for node, turned in zip(nodes.nodes, before, strict=True)))
        hand_over(nodes, 2)
        assert [node.metrics.read()["lost_peers"] for node in nodes.nodes] == [0, 0]


def test_a_life_of_another_incarnation(pair: Cluster) -> None:
    """Who speaks for an incarnation speaks about its lives, and no others."""
    (receiver,) = published(pair.receivers(7))
    (sender,) = pair.senders(7)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    with foreigner(pair.prefills[0].endpoint) as stranger:
        stranger.batch(Abort(receiver.life, "not mine to abort", HERE))
        until(lambda: pair.prefills[0].metrics.read()["refused_frames"] == 1)
    sender.send([1, 2, 3])
    until(polls([sender, receiver], KVPoll.SUCCESS))


def test_a_source_that_a_life_does_not_have(pair: Cluster) -> None:
    (receiver,) = published(pair.receivers(7))
    until(polls([receiver], KVPoll.WAITING_FOR_INPUT))
    with foreigner(pair.decodes[0].endpoint) as stranger:
        # Only who introduces itself is answered; so it says hello with a frame of the other side.
        stranger.batch(Introduce(receiver.life, ("d0",), HERE), Done(receiver.life, (3,), b"", b""))
        until(lambda: pair.decodes[0].metrics.read()["refused_frames"] == 2)
    (sender,) = pair.senders(7)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([1, 2, 3])
    until(polls([receiver], KVPoll.SUCCESS))


def test_replayed_and_out_of_order(pair: Cluster) -> None:
    """A sink that repeats itself, and says things before their time, harms its own life at most."""
    prefill = pair.prefills[0]
    (sender,) = pair.senders(7)
    life = Life(7, 99, 5)
    hello = Introduce(life, ("stranger",), HERE)
    here = Publish(life, b"stranger/1", 3, ("stranger",), HERE)
    with pair.fabric.lock:
        pair.fabric.leased[b"stranger/1"] = life, "p0"
    with foreigner(prefill.endpoint) as stranger:
        stranger.batch(here, here, hello, hello)  # the address first, and everything twice
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        until(polls([sender], KVPoll.SUCCESS))
        stranger.batch(Abort(life, "after all", HERE), Abort(life, "again", HERE), here, hello)
        stranger.batch(floor=6)
        until(lambda: not prefill._node.lives)
        stranger.batch(hello, here, Abort(life, "from the grave", HERE), floor=6)
        until(lambda: prefill.metrics.read()["stale_frames"] == 3)
    assert not prefill._node.lives
    assert sender.released
    assert prefill.metrics.read()["refused_frames"] == 0
    pair.fabric.leased.clear()
    hand_over(pair, 8)


def test_a_source_dies() -> None:
    """The sink notices, says whom it has lost, fences it, and gets its memory back."""
    with cluster(2, link=ALERT, prefill={"at_once": False}) as nodes:
        senders, receivers = nodes.senders(7), published(nodes.receivers(7))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        for sender in senders:
            sender.send([1, 2, 3])
        until(lambda: all(source.under_way for source in nodes.writings))
        vanish(nodes.prefills[0])
        until(polls(receivers, KVPoll.FAILED))
        assert receivers[0].failure == f"lost connection to p0: {GONE}"
        until(polls(senders[1:], KVPoll.FAILED))
        until(lambda: (receivers[0].life, "p0") in nodes.landing.asked)
        nodes.writings[1].end()
        until(lambda: nodes.decodes[0].metrics.read()["num_decode_leases"] == 0)
        assert nodes.decodes[0].metrics.read()["lost_peers"] == 1
        assert nodes.fabric.wrong == []


def test_a_sink_dies() -> None:
    """Its sender ends by its engine or by a wait. The source forgets its lives when the sink has
    been silent for long.
    """
    with cluster(link=replace(ALERT, returns_s=0.5), prefill={"at_once": False}) as nodes:
        (sender,), _ = nodes.senders(7), published(nodes.receivers(7))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        until(lambda: nodes.writing.under_way)
        vanish(nodes.decodes[0])
        until(lambda: nodes.prefills[0].metrics.read()["lost_peers"] == 1)
        nodes.writing.end()
        until(polls([sender], KVPoll.SUCCESS))
        until(lambda: not nodes.prefills[0]._node.lives)
        assert sender.released
        assert nodes.prefills[0].metrics.read()["lives_of_silent_peers"] == 0


def test_an_engine_gives_up_after_the_successor_has_spoken() -> None:
    """The sink that the write was for is known to be no more, so nothing is waited for."""
    with cluster(link=ALERT, prefill={"at_once": False}) as nodes:
        (sender,), _ = nodes.senders(7), published(nodes.receivers(7))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        until(lambda: nodes.writing.under_way)
        vanish(nodes.decodes[0])
        nodes.decodes[0] = nodes.decode("d0", 18)
        published(nodes.receivers(8))
        until(lambda: nodes.prefills[0]._core.peers["d0"].incarnation == 18)
        nodes.writing.end(WriteOutcome.ERROR)
        until(polls([sender], KVPoll.FAILED))
        until(lambda: sender.released)


def test_a_source_comes_back() -> None:
    """Under its name, at another port: lives of the old process fail, and new ones succeed."""
    with cluster(link=ALERT) as nodes:
        hand_over(nodes, 1)
        receivers = published(nodes.receivers(2))
        until(polls(receivers, KVPoll.WAITING_FOR_INPUT))
        vanish(nodes.prefills[0])
        nodes.prefills[0] = PrefillNode("p0", SourceDataPath("p0", nodes.fabric), link=ALERT)
        hand_over(nodes, 3)
        until(polls(receivers, KVPoll.FAILED))
        assert "lost connection to p0" in (receivers[0].failure or "")
        nodes.settled()


def test_a_successor_cannot_end_a_lease() -> None:
    """What the dead process had begun may still land: a fence ends it, and nobody's word."""
    link = Link(sign_of_life_s=0.1, grace_s=30.0)  # for the successor to take its place
    with cluster(link=link, prefill={"at_once": False}, decode={"fences": False}) as nodes:
        (sender,), (receiver,) = nodes.senders(1), published(nodes.receivers(1))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        until(lambda: nodes.writing.under_way)
        where, decode, landing = nodes.prefills[0].endpoint, nodes.decodes[0], nodes.landing
        vanish(nodes.prefills[0])
        begun, nodes.prefills[0] = nodes.writing, PrefillNode(
            "p0", SourceDataPath("p0", nodes.fabric), link=replace(link, bind=where))
        receiver.abort()
        until(lambda: landing.asked == [(receiver.life, "p0")])
        until(lambda: decode.metrics.read()["stale_frames"])
        assert decode.metrics.read()["num_decode_leases"] == 1
        begun.end()  # it lands, in memory that is still leased to it
        landing.put_up()
        hand_over(nodes, 2)
        nodes.settled()


def test_a_sink_that_introduced_itself_and_died(pair: Cluster) -> None:
    """Nobody opens that room any more: it is forgotten with the sink."""
    prefill = pair.prefills[0]
    with foreigner(prefill.endpoint) as stranger:
        stranger.batch(Introduce(Life(50, 99, 0), ("stranger",), HERE))
        until(lambda: len(prefill._node.lives) == 1)
        stranger.batch(Introduce(Life(51, 100, 0), ("stranger",), HERE), incarnation=100)
        until(lambda: [life.room for life in list(prefill._node.lives)] == [51]
              and prefill.metrics.read()["num_prefill_bootstrap_queue_reqs"] == 1)


def test_a_sink_comes_back() -> None:
    """As another incarnation: nothing of its old lives is taken for one of the new."""
    with cluster(link=ALERT) as nodes:
        hand_over(nodes, 1)
        senders, _ = nodes.senders(2), published(nodes.receivers(2))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        vanish(nodes.decodes[0])
        nodes.fabric.leased.clear()
        nodes.decodes[0] = nodes.decode("d0", 18)
        hand_over(nodes, 3)
        senders[0].abort()
        until(polls(senders, KVPoll.FAILED))
        nodes.settled()


def test_an_address_that_is_none(pair: Cluster) -> None:
    """A registry that lies: the hand-over fails with what is wrong, and nobody else notices."""
    (decode,) = pair.decodes
    where = {"p0": pair.prefills[0].endpoint, "p1": "nowhere"}
    receivers = published([decode.open(room, where) for room in range(3)])
    bare = decode.open(3, where)
    until(polls([*receivers, bare], KVPoll.FAILED))
    assert {receiver.failure for receiver in [*receivers, bare]} == {
        "lost connection to p1: cannot connect to 'nowhere': Invalid argument (addr='nowhere')"}
    hand_over(pair, 7)
    pair.settled()


def test_a_port_in_use() -> None:
    fabric = Fabric()
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"tcp://127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(OSError, match=f"^node p0 cannot listen on {where}: Address already"):
            PrefillNode("p0", SourceDataPath("p0", fabric), link=Link(bind=where))
        with pytest.raises(OSError, match=f"^node d0 cannot listen on {where}: Address already"):
            DecodeNode("d0", SinkDataPath("d0", fabric), link=Link(bind=where))


def test_no_wake_up_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks while the loop takes note of an earlier wake-up is served, and so are all later."""
    served: list[str] = []
    read = os.eventfd_read
    with cluster(sinks=0, link=Link(sign_of_life_s=600.0)) as nodes:
        node = nodes.prefills[0]

        def ask_meanwhile(wake_fd: int) -> int:
            if not served:
                served.append("first")
                node._core.ask(lambda: served.append("meanwhile"))
            return read(wake_fd)

        monkeypatch.setattr(os, "eventfd_read", ask_meanwhile)
        node._core.ask(lambda: None)
        until(lambda: "meanwhile" in served)
        node._core.ask(lambda: served.append("later"))
        until(lambda: "later" in served)


def test_a_closed_node(pair: Cluster) -> None:
    """It may be closed twice, and says so to whoever still asks."""
    (sender,) = pair.senders(7)
    for node in pair.nodes:
        node.close()
        node.close()
    with pytest.raises(LocalProtocolError, match="node p0 is closed"):
        sender.abort()
    with pytest.raises(LocalProtocolError, match="node d0 is closed"):
        pair.receivers(7)


def test_nothing_is_left_open() -> None:
    """No thread, file or socket, however a node has ended."""
    with cluster() as nodes:  # what the libraries open once and keep
        hand_over(nodes, 1)
    before = held()
    for _ in range(3):
        with cluster(2, 2) as nodes:
            hand_over(nodes, 1)
            nodes.senders(2)
            published(nodes.receivers(2))
        with pytest.raises(OSError, match="cannot listen"):
            PrefillNode("p9", SourceDataPath("p9", Fabric()), link=Link(bind="tcp://127.0.0.1:x"))
        with pytest.raises(ValueError, match="no timer is called 'tea'"):
            PrefillNode("p9", SourceDataPath("p9", Fabric()), waits={"tea": 1})
        with pytest.raises(ValueError, match="want 1 to 128 characters"):
            PrefillNode("", SourceDataPath("", Fabric()))
    until(lambda: not held() - before, lambda: f"{held() - before} are left")


class FullDisk:
    """A file that takes some lines."""

    def __init__(self, lines: int) -> None:
        self.lines = lines
        self.taken = b""

    def write(self, data: bytes) -> None:
        if not self.lines:
            raise OSError(28, "No space left on device")
        self.lines -= 1
        self.taken += data


def test_a_full_disk_ends_the_trace_only(caplog: pytest.LogCaptureFixture) -> None:
    fabric, disk = Fabric(), FullDisk(2)
    trace = TraceWriter("p0", disk)
    with cluster(sources=0) as nodes:
        node = PrefillNode("p0", SourceDataPath("p0", fabric), link=nodes.link, trace=trace)
        nodes.prefills.append(node)
        node._node.data_path.fabric = nodes.fabric  # type: ignore[attr-defined]
        hand_over(nodes, 7)
        nodes.settled()
    assert trace.ended == "[Errno 28] No space left on device"
    lines = [json.loads(line) for line in disk.taken.splitlines()]
    assert [line["n"] for line in lines] == list(range(1, len(lines) + 1)), "whole lines, in order"
    assert sum("row" in line for line in lines) == 2
    assert caplog.text.count("the trace ends after") == 1


def test_a_disk_that_is_full_from_the_start(caplog: pytest.LogCaptureFixture) -> None:
    """One line says so, however many hand-overs follow."""
    with open("/dev/full", "wb", buffering=0) as disk, cluster(sources=0) as nodes:
        trace = TraceWriter("p0", disk)
        node = PrefillNode("p0", SourceDataPath("p0", nodes.fabric), link=nodes.link, trace=trace)
        nodes.prefills.append(node)
        for room in range(5):
            hand_over(nodes, room)
        nodes.settled()
    assert trace.ended == "[Errno 28] No space left on device"
    (said,) = [r.getMessage() for r in caplog.records if "trace" in r.getMessage()]
    assert said == ("node p0: the trace ends after 0 lines, and hand-overs go on without it: "
                    "[Errno 28] No space left on device")


def test_a_disk_that_takes_half_a_line() -> None:
    """What follows would not be read as it was meant: nothing follows."""
    taken: list[bytes] = []

    class HalfFull:
        def write(self, data: bytes) -> int:
            taken.append(data)
            return len(data) // 2

    trace = TraceWriter("p0", HalfFull())
    with cluster(sources=0) as nodes:
        nodes.prefills.append(PrefillNode("p0", SourceDataPath("p0", nodes.fabric), link=nodes.link,
                                          trace=trace))
        hand_over(nodes, 7)
        nodes.settled()
    assert len(taken) == 1
    assert trace.ended == (
        f"only {len(taken[0]) // 2} of {len(taken[0])} bytes were written")


def test_a_trace_of_a_hand_over(tmp_path: Path) -> None:
    """What a source does, in a file that its table explains. The file of the sink is missing."""
    path = tmp_path / "trace.jsonl"
    with path.open("wb") as file, cluster(sources=0) as nodes:
        node = PrefillNode("p0", SourceDataPath("p0", nodes.fabric), link=nodes.link,
                           trace=TraceWriter("p0", file))
        nodes.prefills.append(node)
        hand_over(nodes, 7)
        nodes.settled()
    lines = [json.loads(line) for line in path.read_bytes().splitlines()]
    rows = [line["row"] for line in lines if "row" in line]
    assert [row for row in rows if not row.startswith("ignore")] == [
        "begin_send", "meet", "learn", "send", "post", "succeed", "release_kv"]
    assert lines[0]["begins"].keys() == {"Buffer", "Sink", "Chunk"}
    assert [line["device"][0][2] for line in lines if "device" in line] == ["landed"]
    assert verify(load("transfer"), [path]).is_explained


def keys() -> tuple[Curve, Curve]:
    """For two that know each other's public keys."""
    (one, own), (two, theirs) = zmq.curve_keypair(), zmq.curve_keypair()
    return Curve(one, own, two), Curve(two, theirs, one)


def test_curve() -> None:
    """With keys it works; who has none, or others, is not heard."""
    ours, theirs = keys()
    fabric = Fabric()
    with cluster(sources=0, sinks=0) as nodes:
        nodes.fabric = fabric
        nodes.prefills.append(
            PrefillNode("p0", SourceDataPath("p0", fabric), link=Link(curve=ours)))
        nodes.decodes.append(DecodeNode("d0", SinkDataPath("d0", fabric), link=Link(curve=theirs)))
        hand_over(nodes, 7)
        strangers = [Link(), Link(curve=keys()[0])]
        for number, link in enumerate(strangers, 1):
            nodes.decodes.append(DecodeNode(f"d{number}", SinkDataPath(f"d{number}", fabric),
                                            link=link, waits={"bootstrap_timeout": 0.5}))
        receivers = [node.open(8, {"p0": nodes.prefills[0].endpoint}) for node in nodes.decodes[1:]]
        until(polls(receivers, KVPoll.FAILED))
        assert nodes.prefills[0]._core.peers.keys() == {"d0"}
        assert nodes.prefills[0]._core.malformed == {}
