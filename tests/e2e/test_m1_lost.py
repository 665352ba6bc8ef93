"""A prefill node that goes away, between real nodes and pages (MISSION row M1.4)."""

import pytest

from pdproto.spec.handoff.poll import KVPoll
from tests.e2e.pairs import ends, until


@pytest.mark.parametrize("published", [False, True])
def test_m1_4_the_loss_of_a_source_fails_the_hand_over_at_all_ends(published: bool) -> None:
    """The hand-over fails, the other source hears of it, and nothing is held or remembered."""
    with ends(sources=2) as nodes:
        going, staying = nodes.senders(1)
        receiver = nodes.receiver(1)
        until(lambda: nodes.rows("p0", "introduce") and nodes.rows("p1", "introduce"))
        if published:
            receiver.publish(range(8))
            until(lambda: going.poll() is KVPoll.WAITING_FOR_INPUT)
        nodes.prefills.pop(0).close()
        until(lambda: receiver.poll() is KVPoll.FAILED)
        assert "p0" in (receiver.failure or "")
        until(lambda: staying.poll() is KVPoll.FAILED)
        assert staying.failure == f"d: {receiver.failure}"
        until(lambda: receiver.released)
        until(lambda: nodes.decode.metrics.read()["fences_done"] == 1)
