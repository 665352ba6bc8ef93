"""Many hand-overs are closed at once, or lose their peer: the loop serves others between them."""

import gc
import logging
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

import pytest

from pdproto.node import backlog
from pdproto.node.connections import Connections
from pdproto.node.handle import ENDED
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport import watchdog
from tests.bench import bench_peers
from tests.bench.bench_peers import LOSSES, ByHand, Open
from tests.node.data_paths import Cluster, cluster, idle, polls, published
from tests.transport.test_operator_port import standing_still
from tests.waiting import until

pytestmark = pytest.mark.slow

OPEN: Final = 2_000
LOST: Final = 3_000
AT_ONCE: Final = 4_000  # hand-overs that a loss or a drain is about
TURN_S: Final = 0.05  # a turn stops within 2 ms, but not in the midst of a batch of a peer


def longest_turn_of_closing(nodes: Cluster) -> float:
    """Open many receivers that no sender meets, close them all, and hand over a room that begins
    then. Returns the processor time of the longest turn of decode, in seconds.
    """
    (prefill,), (decode,) = nodes.prefills, nodes.decodes
    waiting = [receiver for room in range(OPEN) for receiver in nodes.receivers(room)]
    until(lambda: len(prefill._node.lives) == OPEN)
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
    monkeypatch.setattr(watchdog, "TURN_S", 1e9)
    with cluster() as nodes:
        assert longest_turn_of_closing(nodes) > TURN_S


def longest_turn_of_losing(nodes: Cluster) -> float:
    """Publish the pages of many receivers to a prefill node, which then ends, and hand over a room
    from another one. Returns the processor time of the longest turn of decode, in seconds.
    """
    (ending, staying), (decode,) = nodes.prefills, nodes.decodes
    waiting = published(decode.open(room, {"p0": ending.endpoint}) for room in range(LOST))
    until(polls(waiting, KVPoll.WAITING_FOR_INPUT))
    decode._loop.pace.longest_s = 0.0
    ending.close()
    until(lambda: "p0" in decode.lost_peers())
    sender = staying.open(LOST)
    (late,) = published([decode.open(LOST, {"p1": staying.endpoint})])
    until(polls([sender], KVPoll.WAITING_FOR_INPUT))
    sender.send([1, 2, 3])
    until(polls([sender, late], KVPoll.SUCCESS))
    late.close()
    until(polls(waiting, KVPoll.FAILED))
    until(lambda: len(nodes.landing.asked) == LOST)
    nodes.landing.put_up()  # the fences, all at once
    until(lambda: idle(decode))
    return decode._loop.pace.longest_s


def test_to_lose_a_peer_of_many_rooms_holds_up_no_other_hand_over() -> None:
    """The loss is noted for all of them in one turn, which takes 2.5 us each; they fail in many."""
    with cluster(2, decode={"fences": False}) as nodes:
        assert longest_turn_of_losing(nodes) < TURN_S


def test_losing_all_in_one_turn_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watchdog, "TURN_S", 1e9)
    with cluster(2, decode={"fences": False}) as nodes:
        assert longest_turn_of_losing(nodes) > TURN_S


class Calls:
    """Counts the calls of functions in this thread, as the time of watchdogs: one is a
    microsecond.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.count = 0
        patch.setattr(watchdog, "monotonic", lambda: self.count * 1e-6)
        patch.setattr(watchdog, "TURN_S", 500e-6)
        patch.setattr(watchdog, "LATE_S", 50e-6)

    def note(self, _frame: FrameType, event: str, _about: Any) -> None:
        self.count += event in ("call", "c_call")


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_a_turn_does_a_part_of_what_a_loss_or_a_drain_is_about(
    loss: Callable[[Open], ByHand], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drain looked at all hand-overs in one turn, and so did the clock of cancelled waits."""
    calls = Calls(monkeypatch)  # it stands still until turns are counted, on any machine
    loss(Open(backlog.AT_ONCE + 1))  # tables compute their rows at their first event
    pair, most, turn = Open(AT_ONCE), 0, ByHand.turn

    def counted(host: ByHand) -> None:
        nonlocal most
        before = calls.count
        sys.setprofile(calls.note)
        try:
            turn(host)
        finally:
            sys.setprofile(None)
        most = max(most, calls.count - before)

    monkeypatch.setattr(ByHand, "turn", counted)
    logging.disable(logging.CRITICAL)  # a line takes as many calls as a hand-over
    gc.disable()  # so do the callbacks of a collection, which Hypothesis adds
    try:
        loss(pair)
    finally:
        gc.enable()
        logging.disable(logging.NOTSET)
    assert most < AT_ONCE


@pytest.mark.parametrize("loss", LOSSES, ids=lambda loss: loss.__name__)
def test_a_loss_or_a_drain_makes_no_two_dicts_grow_at_once(
    loss: Callable[[Open], ByHand]
) -> None:
    """A dict of 100,000 hand-overs grows in one step of 3 ms, and those of one size in the same
    turn.
    """
    pair = Open(AT_ONCE)
    before = {id(one): sys.getsizeof(one) for one in _large_dicts()}
    loss(pair)
    grown = [one for one in _large_dicts() if before.get(id(one), 0) < sys.getsizeof(one)]
    assert len(grown) <= 1, [next(iter(one.items())) for one in grown]


def _large_dicts() -> list[dict[Any, Any]]:
    return [one for one in gc.get_objects() if isinstance(one, dict) and len(one) > AT_ONCE // 2]


def looks_of_a_second(peers: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Looks at peers that say only that they are there."""
    looks, look = 0, Connections._look

    def counted(*given: Any) -> None:
        nonlocal looks
        looks += 1
        look(*given)

    with monkeypatch.context() as patch:
        patch.setattr(Connections, "_look", counted)
        patch.setattr(bench_peers, "SECONDS", 1.0)
        bench_peers.idle(peers)
    return looks


def test_the_looks_of_an_idle_node_grow_as_its_peers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen red where a peer that is due has all peers looked at, and it did not end where a rest
    that rounding leaves moves no clock.
    """
    assert looks_of_a_second(200, monkeypatch) < 6 * looks_of_a_second(50, monkeypatch)
