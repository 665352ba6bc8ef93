"""Who is gone is noticed at once, and who is there is not lost with a connection (M1.4).

Silence would tell after ten minutes here, so what tells is never silence.
"""

import logging
import socket
from functools import partial
from multiprocessing.connection import Connection

import pytest

from pdproto.node.link import Link
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import PrefillNode
from tests.node.data_paths import Fabric, SourceDataPath, cluster, polls, published
from tests.node.processes import victim
from tests.transport.proxy import Proxy, proxy
from tests.waiting import until

PROMPT = Link(sign_of_life_s=0.1, silent_s=600.0, grace_s=0.2)
PATIENT = Link(sign_of_life_s=0.1, silent_s=600.0, grace_s=600.0)
NO_REPEATS = {"no_news": 600.0, "no_bytes": 600.0, "no_answer": 600.0}


def prefill_process(pipe: Connection) -> None:
    """The whole life of a prefill rank, which only a signal ends."""
    node = PrefillNode("p0", SourceDataPath("p0", Fabric(), at_once=False), link=PROMPT)
    pipe.send(node.endpoint)
    while True:
        sender = node.open(pipe.recv())
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        pipe.send("sent")


def test_m1_4_a_killed_source_is_noticed() -> None:
    """By the end of its connection: its hand-over fails, it is fenced, and its memory is free."""
    with victim(prefill_process) as (process, prefill):
        endpoint = prefill.recv()
        with cluster(sources=0, link=PROMPT) as nodes:
            (decode,) = nodes.decodes
            (receiver,) = published([decode.open(7, {"p0": endpoint})])
            prefill.send(7)
            assert prefill.recv() == "sent"
            process.kill()
            until(polls([receiver], KVPoll.FAILED))
            assert receiver.failure == ("lost connection to p0: its connection has ended, and its "
                                        "host refuses another one")
            until(lambda: (receiver.life, "p0") in nodes.landing.asked)
            nodes.settled()


def test_an_address_that_refuses_is_an_end_at_once() -> None:
    """As the address of a process that has ended. Seen red where the first connection to a peer has
    as long as its silence: after ten minutes here.
    """
    with cluster(sources=0, link=PROMPT) as nodes, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and it does not listen
        (decode,) = nodes.decodes
        endpoint = f"tcp://127.0.0.1:{closed.getsockname()[1]}"
        (receiver,) = published([decode.open(7, {"p0": endpoint})])
        until(polls([receiver], KVPoll.FAILED))
        assert receiver.failure == "lost connection to p0: its host refuses a connection"
        nodes.settled()


@pytest.mark.parametrize("words", ["want a port", "want host:port"])
def test_a_malformed_address_ends_its_request_and_calls_nobody(words: str) -> None:
    """Seen red where ZeroMQ read it: it called the port that was left of the number."""
    with cluster(sources=0) as nodes, socket.create_server(("127.0.0.1", 0)) as another:
        port = another.getsockname()[1]
        place = f"127.0.0.1:{port + (1 << 16)}" if words == "want a port" else f":{port}"
        (decode,) = nodes.decodes
        (receiver,) = published([decode.open(7, {"p0": f"tcp://{place}"})])
        until(polls([receiver], KVPoll.FAILED))
        assert words in (receiver.failure or "")
        another.setblocking(False)
        with pytest.raises(BlockingIOError):
            another.accept()


def test_a_connection_that_comes_back_is_no_loss() -> None:
    """The process at its other end is the same: hand-overs go on as if nothing had been."""
    with cluster(link=PATIENT) as nodes, proxy(nodes.prefills[0].endpoint) as between:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        sender = prefill.open(7)
        (receiver,) = published([decode.open(7, {"p0": between.endpoint})])
        until(polls([sender, receiver], KVPoll.WAITING_FOR_INPUT))
        for made in range(2, 5):
            between.cut()
            until(partial(_made, between, made))
        sender.send([1, 2, 3])
        until(polls([sender, receiver], KVPoll.SUCCESS))
        receiver.close()
        nodes.settled()
        assert [node.metrics.read()["lost_peers"] for node in nodes.nodes] == [0, 0]


def _made(between: Proxy, connections: int) -> bool:
    return between.made >= connections


@pytest.mark.parametrize("lost", ["introduction", "address", "abort"])
def test_messages_under_way_are_sent_again(lost: str) -> None:
    """As soon as the connection is back, and not when some wait ends."""
    with (
        cluster(link=PATIENT, waits=NO_REPEATS) as nodes,
        proxy(nodes.prefills[0].endpoint) as between,
    ):
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        # Of a source that has not spoken nothing is known, so both have spoken before.
        (met,) = [decode.open(1, {"p0": between.endpoint})]
        until(lambda: prefill._node.lives)
        sender = prefill.open(7)
        between.swallows = lost == "introduction"
        receiver = decode.open(7, {"p0": between.endpoint})
        until(lambda: receiver.life in decode._node.lives)
        if lost != "introduction":
            until(lambda: sender.endpoint.life is not None)
            between.swallows = lost == "address"
            published([receiver])
            until(polls([receiver], KVPoll.WAITING_FOR_INPUT))
        if lost == "abort":
            until(polls([sender], KVPoll.WAITING_FOR_INPUT))
            between.swallows = True
            receiver.abort("the client has left")
            until(polls([receiver], KVPoll.FAILED))
        said = decode._core.peers["p0"]
        until(lambda: not said.out)
        between.cut()
        until(lambda: between.made == 2)
        between.swallows = False
        between.cut()
        if lost == "introduction":
            until(lambda: sender.endpoint.life is not None)
        elif lost == "address":
            until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        else:
            until(polls([sender], KVPoll.FAILED))
            assert sender.failure == "d0: the client has left"
        for end in (met, receiver):
            end.abort()
        nodes.settled()


def test_a_connection_that_does_not_come_back() -> None:
    """The sink cannot tell this from a death, and a fence makes it safe to say so."""
    with cluster(link=PROMPT) as nodes:
        with proxy(nodes.prefills[0].endpoint) as between:
            (receiver,) = published([nodes.decodes[0].open(7, {"p0": between.endpoint})])
            until(polls([receiver], KVPoll.WAITING_FOR_INPUT))
        until(polls([receiver], KVPoll.FAILED))
        assert "its connection has ended" in (receiver.failure or "")
        until(lambda: (receiver.life, "p0") in nodes.landing.asked)


def test_a_source_that_is_closed_says_so(caplog: pytest.LogCaptureFixture) -> None:
    """Its hand-overs fail with that reason on both sides, wherever they stand."""
    with cluster(2, link=PATIENT, prefill={"at_once": False}) as nodes:
        closing, decode = nodes.prefills[0], nodes.decodes[0]
        alone = closing.open(1)
        senders, receivers = nodes.senders(7), published(nodes.receivers(7))
        begun, waiting = nodes.receivers(8), published(nodes.receivers(9))
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        until(polls(waiting, KVPoll.WAITING_FOR_INPUT))
        for sender in senders:
            sender.send([1, 2, 3])
        until(lambda: all(data_path.under_way for data_path in nodes.writings))
        with caplog.at_level(logging.INFO, "pdproto"):
            closing.close()
            until(polls([*receivers, *begun, *waiting], KVPoll.FAILED))
        assert polls([alone, senders[0]], KVPoll.FAILED)()
        assert alone.failure == senders[0].failure == "the node has been closed"
        assert receivers[0].failure == "p0: the node has been closed"
        assert begun[0].failure == "lost connection to p0: it has been closed"
        assert "node d0: lost connection to p0: it has been closed" in caplog.text
        until(lambda: (receivers[0].life, "p0") in nodes.landing.asked)
        nodes.writings[1].end()
        until(lambda: decode.metrics.read()["num_decode_leases"] == 0)
        assert decode.metrics.read()["lost_peers"] == 1
        assert nodes.fabric.wrong == []


def test_a_sink_that_is_closed_says_so() -> None:
    """Its sources stop at once, and remember nothing of it."""
    with cluster(link=PATIENT, prefill={"at_once": False}) as nodes:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes
        senders = [*nodes.senders(7), *nodes.senders(8)]
        receivers = published([*nodes.receivers(7), *nodes.receivers(8)])
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        senders[0].send([1, 2, 3])
        until(lambda: nodes.writing.under_way)
        decode.close()
        assert polls(receivers, KVPoll.FAILED)()
        assert {receiver.failure for receiver in receivers} == {"the node has been closed"}
        until(polls(senders, KVPoll.FAILED))
        assert {sender.failure for sender in senders} == {"d0: the node has been closed"}
        nodes.writing.end()
        until(lambda: not prefill._node.lives)
        until(lambda: all(sender.released for sender in senders))
        assert prefill.metrics.read()["lost_peers"] == 1
