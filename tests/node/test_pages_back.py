"""Pages that were given back: the next request gets them, and waits until no copy reaches them."""

import pytest

from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import Cluster, cluster, polls
from tests.waiting import until


def hand_over(nodes: Cluster, room: int, pages: list[int]) -> None:
    (sender,), (receiver,) = nodes.senders(room), nodes.receivers(room)
    receiver.publish(pages, 0)
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send(pages)
    until(polls([receiver], KVPoll.SUCCESS))
    receiver.close()


def test_pages_and_slots_may_be_used_again_at_once_after_a_success() -> None:
    with cluster() as nodes:
        for room in range(50):
            hand_over(nodes, room, [1, 2])
        nodes.settled()


@pytest.mark.parametrize("failed", [False, True])
def test_a_request_waits_for_pages_that_settle_and_no_other_does(failed: bool) -> None:
    """Seen red where a life that settles counts as one that keeps its pages: the request failed."""
    with cluster(decode={"at_once": False}) as nodes:
        node = nodes.decodes[0]
        (sender,), (first,) = nodes.senders(1), nodes.receivers(1)
        first.publish([1, 2])
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        if failed:
            first.abort()
            until(polls([first], KVPoll.FAILED))
        else:
            sender.send([1, 2])
            until(lambda: nodes.landing.end() or first.poll() is KVPoll.SUCCESS)
            until(polls([first], KVPoll.SUCCESS))
        first.close()
        (second,), (other,) = nodes.receivers(2), nodes.receivers(3)
        second.publish([2, 3])
        other.publish([4])
        (_,), (theirs,) = nodes.senders(2), nodes.senders(3)
        until(polls([theirs], KVPoll.WAITING_FOR_INPUT))
        assert second.poll() is KVPoll.BOOTSTRAPPING
        assert not first.released
        assert node.health() is None, "it is not short of staging memory"
        assert node.metrics.read()["num_decode_memory_queue_reqs"] == 1
        until(lambda: nodes.landing.end() or first.released)
        until(lambda: second.poll() is KVPoll.WAITING_FOR_INPUT)
        for one in (second, other):
            one.abort()
        until(lambda: nodes.landing.end() or second.released)


def test_pages_of_a_request_that_was_not_closed_are_not_given_twice() -> None:
    """Seen red where such a request waits, as others do."""
    with cluster() as nodes:
        (sender,), (first,) = nodes.senders(1), nodes.receivers(1)
        first.publish([1, 2])
        until(polls([sender], KVPoll.WAITING_FOR_INPUT))
        sender.send([1, 2])
        until(polls([first], KVPoll.SUCCESS))
        (second,) = nodes.receivers(2)
        second.publish([2])
        until(polls([second], KVPoll.FAILED))
        assert second.failure == f"page 2 belongs to {first.life}"
        first.close()
