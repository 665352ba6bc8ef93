"""A process that stands still and goes on: nobody takes that for its death.

Every process here suspects a peer after 0.4 s, and no clock of a hand-over runs out in the test.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Final

import pytest

from pdproto.node.link import Link
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.node.data_paths import (
    Cluster,
    Fabric,
    SinkDataPath,
    SourceDataPath,
    cluster,
    polls,
    published,
)
from tests.node.processes import suspend, victim
from tests.waiting import PATIENCE_S, until

LINK: Final = Link(sign_of_life_s=0.1, silent_s=0.4, absent_s=600.0)
SHORT: Final = replace(LINK, absent_s=1.0)
ROOMS: Final = range(20)
STANDS_S: Final = 1.5
SHORT_WAIT: Final = {"bootstrap_timeout": 4.0, "no_news": 0.1}
OUTLASTS_S: Final = 5.0  # it


def prefill_process(pipe: Connection) -> None:
    """A prefill rank. It opens the rooms that it is told, and waits until each is as it is told."""
    node = PrefillNode("p0", SourceDataPath("p0", Fabric()), link=LINK)
    pipe.send(node.endpoint)
    rooms, status = pipe.recv()
    senders = [node.open(room) for room in rooms]
    for _ in senders:
        pipe.send("open")
    until(polls(senders, status))
    pipe.send([sender.failure for sender in senders])
    pipe.recv()  # until the test ends


def impatient_process(pipe: Connection) -> None:
    """A rank of both sides, which waits for others for a short time only. It opens a room with each
    side, and waits until both are met, or fail.
    """
    sinks, sources = Fabric(), Fabric()
    prefill = PrefillNode("p1", SourceDataPath("p1", sources), link=LINK, waits=SHORT_WAIT)
    decode = DecodeNode("d1", SinkDataPath("d1", sinks), link=LINK, waits=SHORT_WAIT)
    pipe.send(prefill.endpoint)
    source = pipe.recv()
    ends = prefill.open(1), published([decode.open(2, {"p0": source})])[0]
    pipe.send("open")
    until(lambda: all(one.poll() in (KVPoll.WAITING_FOR_INPUT, KVPoll.FAILED) for one in ends))
    pipe.send([one.failure for one in ends])
    pipe.recv()


def decode_process(pipe: Connection) -> None:
    """A decode rank. It opens the rooms that it is told, and says how each has ended."""
    source, rooms = pipe.recv()
    node = DecodeNode("d0", SinkDataPath("d0", Fabric()), link=LINK)
    receivers = published([node.open(room, {"p0": source}) for room in rooms])
    pipe.send("open")
    until(polls(receivers, KVPoll.FAILED))
    pipe.send([receiver.failure for receiver in receivers])
    pipe.recv()


@contextmanager
def prefill_apart(link: Link) -> Iterator[tuple[Cluster, Connection, Callable[[], None],
                                                Callable[[], None], str]]:
    """A decode rank here, and a prefill rank in another process, which can stop and go on."""
    with victim(prefill_process) as (process, pipe), cluster(sources=0, link=link) as nodes:
        yield nodes, pipe, lambda: suspend(process), process.resume, pipe.recv()


def is_suspected(node: PrefillNode | DecodeNode) -> bool:
    return node.metrics.read()["suspected_peers"] == 1


def test_no_request_fails_while_prefill_stands_still() -> None:
    with prefill_apart(LINK) as (nodes, pipe, stop, go_on, source):
        (decode,) = nodes.decodes
        receivers = published([decode.open(room, {"p0": source}) for room in ROOMS])
        pipe.send((list(ROOMS[:10]), KVPoll.WAITING_FOR_INPUT))
        assert pipe.recv() == "open"
        stop()
        until(lambda: is_suspected(decode))
        time.sleep(STANDS_S)
        late = decode.open(99, {"p0": source})  # it waits with the others
        assert not any(one.poll() is KVPoll.FAILED for one in (*receivers, late))
        go_on()
        for _ in ROOMS[1:10]:
            assert pipe.recv() == "open"
        assert pipe.poll(PATIENCE_S)
        assert pipe.recv() == [None] * 10, "each learnt its address"
        until(lambda: not is_suspected(decode))
        assert decode.lost_peers() == ()


def test_a_request_fails_after_the_bound_and_prefill_hears_of_it_when_it_goes_on() -> None:
    """Prefill has met none of them: it stood still when they began. Its own clock runs for minutes.
    """
    with prefill_apart(SHORT) as (nodes, pipe, stop, go_on, source):
        (decode,) = nodes.decodes
        decode.open(99, {"p0": source})
        until(lambda: any(peer.incarnation for peer in decode._core.peers.values()))
        stop()
        receivers = published([decode.open(room, {"p0": source}) for room in ROOMS])
        until(polls(receivers, KVPoll.FAILED))
        assert {one.failure for one in receivers} == {"p0: nothing heard for 1 s"}
        assert decode.lost_peers() == ()
        pipe.send((list(ROOMS), KVPoll.FAILED))
        go_on()
        for _ in ROOMS:
            assert pipe.recv() == "open"
        assert pipe.poll(PATIENCE_S)
        assert set(pipe.recv()) == {"d0: p0: nothing heard for 1 s"}
        nodes.settled()


@pytest.mark.parametrize("comes", ["before", "never"])
def test_decode_hears_at_once_of_what_has_failed_meanwhile(comes: str) -> None:
    """No clock of decode ends its request: the shortest runs for minutes."""
    with cluster(sinks=0, link=SHORT) as nodes:
        (prefill,) = nodes.prefills
        with victim(decode_process) as (process, decode):
            decode.send((prefill.endpoint, [7]))
            senders = nodes.senders(7) if comes == "before" else []
            assert decode.recv() == "open"
            until(lambda: prefill._node.lives)
            until(polls(senders, KVPoll.WAITING_FOR_INPUT))
            suspend(process)
            until(lambda: is_suspected(prefill))
            if comes == "before":
                senders[0].abort("the client has left")
            until(polls(senders, KVPoll.FAILED))
            process.resume()
            if comes == "never":
                (sender,) = nodes.senders(7)
                sender.abort("the client has left")
            assert decode.poll(PATIENCE_S)
            assert decode.recv() == ["p0: the client has left"]


def test_no_request_fails_while_decode_stands_still() -> None:
    with cluster(sinks=0, link=LINK) as nodes:
        (prefill,) = nodes.prefills
        with victim(decode_process) as (process, decode):
            decode.send((prefill.endpoint, list(ROOMS)))
            assert decode.recv() == "open"
            until(lambda: len(prefill._node.lives) == len(ROOMS))
            suspend(process)
            senders = [sender for room in ROOMS for sender in nodes.senders(room)]
            until(lambda: is_suspected(prefill))
            time.sleep(STANDS_S)
            assert not any(sender.poll() is KVPoll.FAILED for sender in senders)
            process.resume()
            until(polls(senders, KVPoll.WAITING_FOR_INPUT))
            assert prefill.lost_peers() == ()


def test_a_process_does_not_count_the_time_for_which_it_stood_still() -> None:
    """It stands still for longer than it waits for others, and they come when it has gone on. Seen
    red with a node's clock that goes on: its request at prefill fails, of bootstrap_timeout.
    """
    with victim(impatient_process) as (process, pipe), cluster(link=LINK) as nodes:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        source = pipe.recv()
        pipe.send(prefill.endpoint)
        assert pipe.recv() == "open"
        suspend(process)
        time.sleep(OUTLASTS_S)
        process.resume()
        sender, (receiver,) = prefill.open(2), published([decode.open(1, {"p1": source})])
        assert pipe.poll(PATIENCE_S)
        assert pipe.recv() == [None, None]
        until(polls([sender, receiver], KVPoll.WAITING_FOR_INPUT))
