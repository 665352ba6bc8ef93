"""Two names at one address: one is that of an earlier run, or a client has made it up."""

import pytest

from pdproto.spec.handoff.poll import KVPoll
from tests.node.data_paths import cluster, polls, published
from tests.waiting import until


@pytest.mark.parametrize("odd_first", [False, True])
def test_a_request_with_another_name_for_an_address_fails_alone(*, odd_first: bool) -> None:
    """Seen red: both connections had decode's name, and hand-overs with prefill stood still."""
    with cluster() as nodes:
        (prefill,), (decode,) = nodes.prefills, nodes.decodes

        def hand_over(room: int) -> None:
            sender, receiver = prefill.open(room), decode.open(room, {"p0": prefill.endpoint})
            published([receiver])
            until(polls([sender], KVPoll.WAITING_FOR_INPUT))
            sender.send([1, 2, 3])
            until(polls([sender, receiver], KVPoll.SUCCESS))
            receiver.close()

        if not odd_first:
            hand_over(1)
        odd = decode.open(2, {"px": prefill.endpoint})
        for room in range(3, 9):
            hand_over(room)
        until(polls([odd], KVPoll.FAILED))
        assert "px" in str(odd.failure)
        assert prefill.endpoint in str(odd.failure)
