"""Many hand-overs are closed at once: the loop serves others between them."""

from typing import Final

import pytest

from pdproto.node.handle import ENDED
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport import watchdog
from tests.node.data_paths import Cluster, cluster, polls, published, until
from tests.transport.test_operator_port import standing_still

pytestmark = pytest.mark.slow

OPEN: Final = 3_000
TURN_S: Final = 0.05  # a turn stops within 2 ms, but not in the midst of a batch of a peer


def longest_turn_of_closing(nodes: Cluster) -> float:
    """Open many receivers that no sender meets, close them all, and hand over a room that begins
    then. Returns the processor time of the longest turn of decode, in seconds.
    """
    (prefill,), (decode,) = nodes.prefills, nodes.decodes
    waiting = [receiver for room in range(OPEN) for receiver in nodes.receivers(room)]
    until(lambda: len(prefill._core.lives) == OPEN)
    decode._loop.pace.longest_s = 0.0
    with standing_still(decode):
        for receiver in waiting:
            receiver.abort("the client has left")
        (sender,), (late,) = nodes.senders(OPEN), nodes.receivers(OPEN)
    published([late])
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([1, 2, 3])
    until(polls([sender, late], KVPoll.SUCCESS))
    late.close()
    until(lambda: all(one.poll() in ENDED for one in waiting))
    return decode._loop.pace.longest_s


def test_b7_to_close_many_rooms_holds_up_no_other_hand_over() -> None:
    """With 100,000 of them the loop stood still for 15 to 24 s."""
    with cluster() as nodes:
        assert longest_turn_of_closing(nodes) < TURN_S


def test_turns_without_a_limit_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "PART_S", 1e9)
    with cluster() as nodes:
        assert longest_turn_of_closing(nodes) > TURN_S
