"""Two kinds of node whose bytes are wrong, late or never come: each wait ends, and says why."""


import pytest

from pdproto.node.data_path import WriteOutcome
from pdproto.node.decode.receiver import Receiver
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import Cluster, cluster, has_spoken, idle, polls, published
from tests.waiting import until


def under_way(nodes: Cluster) -> tuple[Sender, Receiver]:
    """A hand-over whose write has begun, and does not end by itself."""
    (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([1, 2, 3])
    until(lambda: nodes.writing.under_way)
    return sender, receiver


def test_a_digest_that_does_not_agree() -> None:
    with cluster(decode={"clean": False}) as nodes:
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        until(polls([receiver], KVPoll.FAILED))
        assert receiver.failure == "the digests of the bytes of p0 do not agree"
        nodes.settled()
        assert nodes.decodes[0].metrics.read()["spoilt_chunks"] == 1


def test_pages_that_are_not_compared_are_not_called_spoilt() -> None:
    """A copy that waits when its hand-over is given up is not made, and no digest is to blame."""
    with cluster(decode={"at_once": False, "clean": False}) as nodes:
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        until(lambda: receiver.is_verifying)
        receiver.abort()
        until(polls([receiver], KVPoll.FAILED))
        until(nodes.landing.end)
        nodes.settled()
        assert receiver.failure == "aborted by decode"
        assert nodes.decodes[0].metrics.read()["spoilt_chunks"] == 0


def test_pages_are_held_while_they_are_copied() -> None:
    """An abort frees no page that a copy is still writing to."""
    with cluster(decode={"at_once": False}) as nodes:
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2, 3])
        until(polls([sender], KVPoll.SUCCESS))
        until(lambda: receiver.is_verifying)
        receiver.abort()
        until(polls([receiver], KVPoll.FAILED))
        assert not receiver.released
        assert nodes.decodes[0].metrics.read()["num_decode_pages"] == 3
        until(lambda: nodes.landing.end() or receiver.released)
        nodes.settled()


def test_an_engine_that_gives_up() -> None:
    """The hand-over fails at once, and its pages come back: it reads them no more. But what it has
    read may land, so the source has drained only when the engine has found out.
    """
    with cluster(prefill={"at_once": False}) as nodes:
        sender, receiver = under_way(nodes)
        nodes.writing.end(WriteOutcome.ERROR)
        until(polls([sender, receiver], KVPoll.FAILED))
        assert sender.failure == "the engine gave up writing to d0"
        assert receiver.failure == "p0: the engine gave up writing to d0"
        until(lambda: sender.released)
        assert remembered(nodes) == [1, 1], "it has not drained"
        nodes.writing.end()
        nodes.settled()


def remembered(nodes: Cluster) -> list[int]:
    """How many lives each node remembers."""
    return [len(node._node.lives) for node in nodes.nodes]


def test_an_engine_that_never_knows() -> None:
    """A life of whose write nobody knows the end is over when the sink is done with it: it has
    fenced us. What the engine says after that is late.
    """
    with cluster(prefill={"at_once": False}, waits={"no_drain": 0.05}) as nodes:
        sender, receiver = under_way(nodes)
        nodes.writing.end(WriteOutcome.ERROR)
        until(polls([sender, receiver], KVPoll.FAILED))
        assert sender.failure == "the engine gave up writing to d0"
        until(lambda: sender.released)
        nodes.settled()
        assert nodes.landing.asked == [(receiver.life, "p0")]
        assert nodes.writing.end() == 1
        ends: list[Sender | Receiver] = [*nodes.senders(8), *published(nodes.receivers(8))]
        for end in ends:
            end.abort()
        nodes.settled()


def test_a_write_that_is_refused() -> None:
    with cluster(prefill={"at_once": False}) as nodes:
        sender, receiver = under_way(nodes)
        nodes.writing.end(WriteOutcome.REFUSED)
        until(polls([sender, receiver], KVPoll.FAILED))
        assert sender.failure == "a write to d0 was refused: its engine gives no reason"
        nodes.settled()
        assert nodes.prefills[0].metrics.read()["refused_writes"] == 1


def test_a_silent_source_is_fenced() -> None:
    """A write that never ends costs its staging memory until the fence is up, and no page."""
    with cluster(prefill={"at_once": False}, decode={"fences": False},
                 waits={"no_drain": 0.05, "no_answer": 0.02}) as nodes:
        _, receiver = under_way(nodes)
        receiver.abort()
        until(lambda: nodes.landing.asked == [(receiver.life, "p0")])
        assert receiver.released
        assert nodes.decodes[0].metrics.read()["num_decode_leases"] == 1
        nodes.landing.put_up()
        until(lambda: idle(nodes.decodes[0]))
        nodes.writing.end()
        nodes.settled()
        assert nodes.prefills[0].metrics.read()["refused_writes"] == 1
        counted = nodes.decodes[0].metrics.read()
        assert counted["fences_started"] == counted["fences_done"] == 1


@pytest.mark.parametrize(("wait", "at", "publish", "begin"), [
    ("bootstrap_timeout", "source", False, False),
    ("bootstrap_timeout", "sink", False, False),
    ("transfer_timeout", "source", True, True),
    ("transfer_timeout", "sink", True, False),
])
def test_every_wait_ends(wait: str, at: str, publish: bool, begin: bool) -> None:
    """And what it says of it names the wait."""
    with cluster() as nodes:
        # Who has spoken once is not blamed for silence, however late it answers this time.
        met: list[Sender | Receiver] = [*nodes.senders(1), *nodes.receivers(1)]
        until(lambda: has_spoken(nodes.decodes[0], "p0"))
        for one in met:
            one.abort()
        waiting = nodes.prefills if at == "source" else nodes.decodes
        waiting[0]._node.endpoints.seconds[wait] = 0.2
        if publish:
            (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
            end: Sender | Receiver = sender if at == "source" else receiver
            until(polls([sender], KVPoll.WAITING_FOR_INPUT, KVPoll.FAILED))
            if begin:
                sender.send([1], last=False)
            until(polls([sender, receiver], KVPoll.FAILED))
        else:  # the other side never hears of it
            end = nodes.senders(7)[0] if at == "source" else nodes.receivers(7)[0]
            until(polls([end], KVPoll.FAILED))
        of = "; not sent by p0: the request has not come there, or takes longer" if (
            wait, at) == ("transfer_timeout", "sink") else ""
        assert end.failure == f"{wait} after 0.2 s{of}"
        nodes.settled()
