"""The second line of defence: data that no call has refused ends its own hand-over alone."""

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from pdproto.node.data_path import WriteOutcome
from pdproto.runtime import checked
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport import event_loop
from tests.node.data_paths import Cluster, cluster, idle
from tests.waiting import until


def hand_over(nodes: Cluster, room: int, metadata: Any = b"") -> tuple[KVPoll, KVPoll]:
    """The ends of a hand-over at both servers."""
    (sender,), (receiver,) = nodes.senders(room), nodes.receivers(room)
    receiver.publish([room])
    until(lambda: sender.poll() is not KVPoll.BOOTSTRAPPING)
    sender.send([room], metadata=metadata)
    until(lambda: receiver.poll() in (KVPoll.SUCCESS, KVPoll.FAILED))
    until(lambda: sender.poll() in (KVPoll.SUCCESS, KVPoll.FAILED))
    if receiver.poll() is KVPoll.FAILED:
        assert "p0: done cannot be sent: TypeError" in str(receiver.failure)
    receiver.close()
    return sender.poll(), receiver.poll()


def test_a_frame_without_bytes_ends_its_own_hand_over_at_both_ends(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if a rule for an argument had been forgotten. Seen red, as are the next two, where the
    frames without bytes stay in the batch.
    """
    monkeypatch.setattr(checked, "row", lambda _name, value, *_: value)
    with cluster() as nodes:
        assert hand_over(nodes, 1) == (KVPoll.SUCCESS, KVPoll.SUCCESS)
        spoilt = hand_over(nodes, 2, np.arange(4))
        assert spoilt == (KVPoll.SUCCESS, KVPoll.FAILED)  # every byte has landed, and no row
        for room in range(3, 9):
            assert hand_over(nodes, room) == (KVPoll.SUCCESS, KVPoll.SUCCESS)
        assert nodes.prefills[0].metrics.read()["unencodable_frames"] == 1
        nodes.settled()  # no turn has failed


def test_frames_of_other_hand_overs_in_that_batch_are_sent(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checked, "row", lambda _name, value, *_: value)
    with cluster() as nodes:
        pairs = [(nodes.senders(room)[0], nodes.receivers(room)[0]) for room in range(1, 9)]
        for number, (_, receiver) in enumerate(pairs):
            receiver.publish([number])
        until(lambda: all(sender.poll() is KVPoll.WAITING_FOR_INPUT for sender, _ in pairs))

        def all_in_one_turn() -> None:
            for number, (sender, _) in enumerate(pairs):
                row: Any = np.arange(4) if number == 3 else b""
                sender._node.hand_over(sender, (number,), True, row)

        nodes.prefills[0]._core.ask(all_in_one_turn)
        until(lambda: all(receiver.poll() in (KVPoll.SUCCESS, KVPoll.FAILED)
                          for _, receiver in pairs))
        assert [receiver.poll() is KVPoll.SUCCESS for _, receiver in pairs] == [
            number != 3 for number in range(8)]
        for _, receiver in pairs:
            receiver.close()
        nodes.settled()


def test_a_life_that_no_frame_can_name_ends_and_no_turn_fails_by_it(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither its introduction nor the abort that follows has bytes. Seen red: the abort, which was
    added while the batch was made anew, failed the turn.
    """
    monkeypatch.setattr(checked, "prompt", lambda value: value)
    with cluster(waits={"bootstrap_timeout": 2.0, "no_drain": 0.2}) as nodes:
        assert hand_over(nodes, 1) == (KVPoll.SUCCESS, KVPoll.SUCCESS)
        (receiver,) = nodes.receivers(2, prompt=np.bytes_(b"a"))
        receiver.publish([2])
        until(lambda: receiver.poll() is KVPoll.FAILED)
        assert "cannot be sent: TypeError" in str(receiver.failure)
        receiver.close()
        for room in range(3, 6):
            assert hand_over(nodes, room) == (KVPoll.SUCCESS, KVPoll.SUCCESS)
        assert [node._loop.turn_errors for node in nodes.nodes] == [0, 0]


def test_a_loop_whose_turns_all_fail_rests_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seen red without the rest: 11,000 turns in half a second."""
    monkeypatch.setattr(event_loop, "STANDS_STILL_S", 0.3)
    with cluster() as nodes:
        node = nodes.prefills[0]
        path: Any = nodes.writing
        outcomes = path.outcomes

        def broken() -> Iterable[tuple[int, WriteOutcome, str]]:
            node._core.again = True  # as an engine that always has more to report
            raise RuntimeError("a defect of the data path")

        path.outcomes = broken
        node._loop.wake()
        until(lambda: node.health() is not None)
        assert "turns have failed: RuntimeError: a defect of the data path" in str(node.stalled())
        until(lambda: node._loop._failing * event_loop.FAILED_REST_S
              > event_loop.FAILED_REST_MAX_S)
        failed = node._loop.turn_errors
        time.sleep(0.5)
        assert node._loop.turn_errors - failed <= 0.5 / event_loop.FAILED_REST_MAX_S + 2
        path.outcomes = outcomes
        until(lambda: node.health() is None)
        until(lambda: idle(node))


def test_fewer_pages_than_decode_has_given_fail_both_ends_with_both_numbers() -> None:
    with cluster() as nodes:
        (sender,), (receiver,) = nodes.senders(1), nodes.receivers(1)
        receiver.publish([1, 2, 3])
        until(lambda: sender.poll() is not KVPoll.BOOTSTRAPPING)
        sender.send([7], last=False)
        sender.send([8])
        until(lambda: receiver.poll() is KVPoll.FAILED)
        assert sender.poll() is KVPoll.FAILED
        why = "2 pages are sent, and decode has given it 3"
        assert sender.failure == why
        assert receiver.failure == f"p0: {why}"
        receiver.close()
        nodes.settled()
