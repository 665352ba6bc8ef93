"""Both ends of a hand-over agree whether its request, sent again, may succeed: `Handle.transient`.

Seen red with a note that drops the word (`Handle.note`: the first four here), and with frames that
do not carry it (the other end says False).
"""

from collections.abc import Callable
from typing import Final

import pytest

from pdproto.node.data_path import WriteOutcome
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import Cluster, cluster, polls, published
from tests.waiting import until

A, B = b"a" * 16, b"b" * 16
Fail = Callable[[Cluster, Sender], None]


def give_up_writing(nodes: Cluster, sender: Sender) -> None:
    sender.send([1, 2, 3])
    until(lambda: nodes.writing.under_way)
    nodes.writing.end(WriteOutcome.ERROR)


def send_too_few(_: Cluster, sender: Sender) -> None:
    sender.send([1])


WAYS: Final[dict[str, tuple[Fail, bool]]] = {
    "prefill is closed": (lambda nodes, _: nodes.prefills[0].close(), True),
    "decode is closed": (lambda nodes, _: nodes.decodes[0].close(), True),
    "the engine gives a write up": (give_up_writing, True),
    "prefill waits in vain": (lambda *_: None, True),
    "prefill aborts": (lambda _, sender: sender.abort("the client left"), False),
    "prefill sends too few pages": (send_too_few, False),
}


@pytest.mark.parametrize("way", WAYS)
def test_both_ends_know_whether_to_send_the_request_again(way: str) -> None:
    fail, transient = WAYS[way]
    waits = {"transfer_timeout": 0.5 if way == "prefill waits in vain" else 60.0}
    with cluster(prefill={"at_once": False}, waits=waits) as nodes:
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        fail(nodes, sender)
        until(polls([sender, receiver], KVPoll.FAILED))
        told = [(end.failure, end.transient) for end in (sender, receiver)]
        nodes.writing.end()
    assert [of for _, of in told] == [transient] * 2, told


def test_a_request_that_a_draining_server_refuses_may_be_sent_again() -> None:
    with cluster() as nodes:
        nodes.prefills[0].drain().result(10.0)
        (sender,), (receiver,) = nodes.senders(7), published(nodes.receivers(7))
        until(polls([sender, receiver], KVPoll.FAILED))
        assert "drains" in (receiver.failure or "")
        assert (sender.transient, receiver.transient) == (True, True)


def test_a_request_whose_halves_have_two_prompts_fails_again() -> None:
    with cluster() as nodes:
        senders, receivers = nodes.senders(7, prompt=A), nodes.receivers(7, prompt=B)
        until(polls([*senders, *receivers], KVPoll.FAILED))
        assert not any(end.transient for end in (*senders, *receivers))
        assert all("two prompts" in (end.failure or "") for end in (*senders, *receivers))


def test_what_comes_after_the_end_changes_no_failure() -> None:
    with cluster() as nodes:
        (sender,), (receiver,) = nodes.senders(7), nodes.receivers(7)
        until(polls([sender], KVPoll.BOOTSTRAPPING))
        receiver.abort("the client left")
        until(polls([sender, receiver], KVPoll.FAILED))
        sender.note("another", transient=True)
        assert (sender.transient, sender.failure) == (False, "d0: the client left")
