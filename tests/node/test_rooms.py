"""What a room's number may be, and that no hand-over needs a metadata slot."""

import numpy as np
import pytest

from pdproto.runtime.limits import ROOM_MAX
from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import cluster, polls
from tests.waiting import until


@pytest.mark.parametrize(("room", "error", "reason"), [
    (-1, ValueError, "room -1: want 0 to 9,223,372,036,854,775,807"),
    (ROOM_MAX + 1, ValueError, "room 9223372036854775808: want 0 to"),
    ("a", TypeError, "room 'a': want a whole number, not str"),
    (None, TypeError, "room None: want a whole number, not NoneType"),
    (1.0, TypeError, "room 1.0: want a whole number, not float"),
    (True, TypeError, "room True: want a whole number, not bool"),
], ids=str)
def test_a_malformed_room_is_refused_at_the_call(
    room: int, error: type[Exception], reason: str
) -> None:
    with cluster() as nodes:
        with pytest.raises(error, match=reason):
            nodes.prefills[0].open(room)
        with pytest.raises(error, match=reason):
            nodes.receivers(room)
        for node in nodes.nodes:
            assert node.metrics.read().get("handoffs_opened", 0) == 0
            assert node._loop.turn_errors == 0


@pytest.mark.parametrize("room", [0, ROOM_MAX, np.int64(7)], ids=str)
def test_every_other_number_is_a_room(room: int) -> None:
    with cluster() as nodes:
        senders, receivers = nodes.senders(room), nodes.receivers(room)
        receivers[0].publish([1])
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        senders[0].send([1])
        until(polls([*senders, *receivers], KVPoll.SUCCESS))
        receivers[0].close()
        nodes.settled()


def test_receivers_that_name_no_slot_have_none_in_common() -> None:
    with cluster() as nodes:
        senders = [nodes.senders(room)[0] for room in range(8)]
        receivers = [nodes.receivers(room)[0] for room in range(8)]
        for page, receiver in enumerate(receivers):
            receiver.publish([page])
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        for sender in senders:
            sender.send([1])
        until(polls([*senders, *receivers], KVPoll.SUCCESS))
        for receiver in receivers:
            receiver.close()
        nodes.settled()


def test_a_slot_that_is_named_twice_is_refused_to_the_second() -> None:
    with cluster() as nodes:
        first, second = (nodes.receivers(room)[0] for room in (1, 2))
        for room, receiver in enumerate((first, second)):
            receiver.publish([room], slot=3)
        until(polls([second], KVPoll.FAILED))
        assert second.failure == f"metadata slot 3 belongs to {first.life}"
