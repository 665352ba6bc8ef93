"""Groups over real sockets: what is decided, and that all ranks do it alike (MISSION rows M4)."""

from functools import partial
from pathlib import Path

import pytest

from pdproto.node.peer import Peer
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.wire import Admit, AnyFrame
from pdproto.spec.handoff.group import Verdict
from tests.group.groups import Lossy, ranks


def test_m4_1_admitted_only_when_all_have_voted(tmp_path: Path) -> None:
    with ranks(tmp_path) as group:
        last = group.schedulers[3]
        last.holds.add(7)
        request = group.submit(7, b"hello")
        group.until(lambda: last.arrived == [request.life])
        for _ in range(100):
            for scheduler in group.schedulers:
                scheduler.turn()
        assert group.entry.answer(request) is None
        assert not any(scheduler.applied for scheduler in group.schedulers)
        last.holds.clear()
        last.vote(request.life)
        group.until_answered(request)
        assert request.answer is not None
        assert request.answer.served
        group.until_idle()
        group.assert_same_decisions()
        assert [d.verdict for d in last.applied] == [Verdict.ADMIT, Verdict.RELEASE]


def test_m4_1_same_order_whatever_the_order_of_votes(tmp_path: Path) -> None:
    with ranks(tmp_path, slots=2) as group:
        rooms = range(40)
        for index, scheduler in enumerate(group.schedulers):
            scheduler.holds.update(rooms)
            assert index == scheduler.group.me
        requests = [group.submit(room) for room in rooms]
        group.until(lambda: all(len(s.arrived) == len(rooms) for s in group.schedulers))
        for index, scheduler in enumerate(group.schedulers):
            scheduler.holds.clear()
            for life in sorted(scheduler.arrived, key=lambda life: hash((life.room, index))):
                scheduler.vote(life)
        group.until_answered(*requests)
        group.until_idle()
        group.assert_same_decisions()
        assert {r.answer.status for r in requests if r.answer} == {200}
        assert sorted(r.life.room for r in group.answered) == list(rooms)


@pytest.mark.parametrize("where", [0, 3])
def test_m4_2_a_failure_drains_everywhere_and_is_answered_with_its_reason(
    tmp_path: Path, where: int
) -> None:
    with ranks(tmp_path) as group:
        group.schedulers[where].dead.add(7)
        bad, good = group.submit(7), group.submit(8)
        group.until_answered(bad, good)
        assert bad.answer is not None
        assert bad.answer.status == 500
        assert bad.answer.reason == f"rank {where}: no KV for room 7"
        assert good.answer is not None
        assert good.answer.served
        group.until_idle()
        group.assert_same_decisions()
        fails = [d for d in group.schedulers[1].applied if d.verdict is Verdict.FAIL]
        assert [(d.life, d.reason) for d in fails] == [(bad.life, bad.answer.reason)]
        assert group.answered in ([bad, good], [good, bad])


def test_m4_1_decisions_that_overtake_one_another_are_applied_in_order(tmp_path: Path) -> None:
    """The first decision comes last to one rank: the others wait for it there, and are not lost."""
    with ranks(tmp_path) as group:
        entry = group.entry
        held: list[tuple[Peer, AnyFrame]] = []
        say = entry._core.say

        def keep_the_first(peer: Peer, frame: AnyFrame) -> None:
            if isinstance(frame, Admit) and frame.number == 0 and peer.name.endswith(".3"):
                held.append((peer, frame))
            else:
                say(peer, frame)

        entry._core.say = keep_the_first  # the network
        first = group.submit(0)
        group.until(lambda: bool(held))
        rest = [group.submit(room) for room in range(1, 4)]
        group.until(lambda: all(len(s.applied) == 4 for s in group.schedulers[:3]))
        assert group.schedulers[3].applied == []
        entry._core.ask(partial(say, *held[0]))
        group.until_answered(first, *rest)
        group.until_idle()
        group.assert_same_decisions()


def test_m4_2_a_failure_that_crosses_the_admission_is_one_of_the_transfer(tmp_path: Path) -> None:
    """The scheduler has not taken the decision yet when it says that the request has failed."""
    with ranks(tmp_path) as group:
        late = group.schedulers.pop()
        request = group.submit(7)
        group.until(lambda: late.group.metrics.read()["num_group_bootstrap_queue_reqs"] == 1)
        late.turn()
        group.until(lambda: late.group.metrics.read()["num_group_undelivered_decisions"] == 1)
        late.group.failed(request.life, "the sink has gone")
        group.until_answered(request)
        assert request.answer is not None
        assert request.answer.reason == "rank 3: the sink has gone"
        group.schedulers.append(late)
        group.until_idle()
        group.assert_same_decisions()
        assert [d.transfers for d in late.applied] == [False, True]


def test_m4_2_a_failure_after_a_ready_vote_is_decided_for_all(tmp_path: Path) -> None:
    """If it comes before the decision nobody runs it; if after, all run it and throw it away."""
    with ranks(tmp_path, slots=64) as group:
        rooms = range(60)
        group.schedulers[2].late_dead.update(rooms)
        requests = [group.submit(room) for room in rooms]
        group.until_answered(*requests)
        group.until_idle()
        group.assert_same_decisions()
        assert {r.answer and r.answer.reason for r in requests} == {
            f"rank 2: room {room} was lost" for room in rooms
        }
        counts = [s.group.metrics.read() for s in group.schedulers]
        failed = [c["bootstrap_failed_reqs"] + c["transfer_failed_reqs"] for c in counts]
        assert failed == [0, 0, len(rooms), 0]


def test_m4_2_a_ready_vote_before_a_failure_elsewhere_changes_nothing(tmp_path: Path) -> None:
    """A rank whose transfer goes well throws it away with the others (decide_drop)."""
    with ranks(tmp_path) as group:
        group.schedulers[1].breaks.add(7)
        request = group.submit(7)
        group.until_answered(request)
        assert request.answer is not None
        assert request.answer.reason == "rank 1: the sink of room 7 went away"
        group.until_idle()
        group.assert_same_decisions()
        assert [d.verdict for d in group.schedulers[3].applied] == [Verdict.ADMIT, Verdict.DROP]


def test_m4_2_a_request_that_fails_before_it_reaches_a_rank(tmp_path: Path) -> None:
    """The rank closes it all the same, and turns it away when it comes (rule 6 of the tables)."""
    with ranks(tmp_path, kind=Lossy) as group:
        entry = group.entry
        assert isinstance(entry, Lossy)
        held: list[tuple[Peer, AnyFrame]] = []
        say = entry._core.say
        entry._core.say = lambda peer, frame: held.append((peer, frame))  # the network keeps it
        request = group.submit(7)
        group.until(lambda: len(held) == 3)
        entry._core.say = say  # and goes on
        entry.abort(request, "the client has gone")
        group.until(lambda: all(len(s.applied) == 1 for s in group.schedulers))
        assert [d.arrived for s in group.schedulers for d in s.applied] == [True] + [False] * 3
        for late in held:
            entry._core.ask(partial(say, *late))
        group.until_idle()
        assert [s.arrived for s in group.schedulers[1:]] == [[], [], []]
        assert request.answer is not None
        assert request.answer.reason == "the client has gone"


def test_m4_3_failures_are_counted_once_by_the_rank_that_reports_them(tmp_path: Path) -> None:
    with ranks(tmp_path) as group:
        group.schedulers[1].dead.update({1, 2})
        group.schedulers[3].dead.update({2, 3})
        requests = [group.submit(room) for room in range(5)]
        group.until_answered(*requests)
        group.until_idle()
        failed = [s.group.metrics.read()["bootstrap_failed_reqs"] for s in group.schedulers]
        # Room 2 may have been drained at one rank before it had a word to say of it.
        assert failed[0] == failed[2] == 0
        assert 3 <= failed[1] + failed[3] <= 4
        assert "bootstrap_failed_reqs_total{" in group.schedulers[1].group.metrics.text()


def test_m4_3_a_silent_bootstrap_ends_by_the_clock(tmp_path: Path) -> None:
    with ranks(tmp_path) as group:
        # Of this rank alone: the others' schedulers, too, may take longer than that.
        group.schedulers[2].group._node.rank._waits.seconds["bootstrap_timeout"] = 0.3
        group.schedulers[2].holds.add(7)
        request = group.submit(7)
        group.until_answered(request)
        assert request.answer is not None
        assert request.answer.reason == "rank 2: bootstrap_timeout after 0.3 s"
        group.schedulers[2].group.bootstrapped(request.life)
        group.until_idle()


def test_m4_4_slots_come_back_on_every_way_out(tmp_path: Path) -> None:
    with ranks(tmp_path, slots=1) as group:
        group.schedulers[1].dead.add(0)
        group.schedulers[2].breaks.add(1)
        requests = [group.submit(room) for room in range(6)]
        group.until_answered(*requests)
        group.until_idle()
        group.assert_same_decisions()
        assert [r.answer and r.answer.status for r in requests] == [500, 500, 200, 200, 200, 200]


def test_m4_5_nothing_is_freed_while_a_rank_transfers(tmp_path: Path) -> None:
    with ranks(tmp_path) as group:
        slow = group.schedulers[3]
        slow.runs = False
        request = group.submit(7)
        group.until(lambda: all(s.running for s in group.schedulers))
        for _ in range(100):
            for scheduler in group.schedulers:
                scheduler.turn()
        assert all(s.running for s in group.schedulers)
        assert request.answer is None
        slow.end(request.life)
        group.until_answered(request)
        group.until_idle()


def test_m4_5_an_overdue_transfer_is_cut_off_when_its_engine_has_stopped(tmp_path: Path) -> None:
    asked: list[int] = []

    def stop(_: object) -> bool:
        asked.append(1)
        return len(asked) >= 3

    with ranks(tmp_path, stop=stop) as group:
        # Of this rank alone: the others' schedulers, too, may take longer than that.
        group.schedulers[3].group._node.rank._waits.seconds["transfer_timeout"] = 0.2
        group.schedulers[3].runs = False
        request = group.submit(7)
        group.until_answered(request)
        assert len(asked) == 3
        assert request.answer is not None
        assert request.answer.reason == "rank 3: transfer_timeout after 0.2 s"
        group.schedulers[3].group.transferred(request.life)
        group.until_idle()


def test_an_abort_answers_at_once_and_a_late_one_is_void(tmp_path: Path) -> None:
    with ranks(tmp_path) as group:
        group.schedulers[0].holds.add(7)
        request, served = group.submit(7), group.submit(8)
        group.entry.abort(request, "the client has gone")
        group.until_answered(request, served)
        group.entry.abort(served)
        group.entry.abort(request)
        group.until_idle()
        group.assert_same_decisions()
        assert [request.answer, served.answer] == [
            group.entry.answer(request), group.entry.answer(served)
        ]
        assert request.answer is not None
        assert request.answer.reason == "the client has gone"
        assert served.answer is not None
        assert served.answer.served


def test_ended_requests_are_forgotten(tmp_path: Path) -> None:
    with ranks(tmp_path, count=2) as group:
        for room in range(40):
            group.until_answered(group.submit(room % 7))
        group.until_idle()
        for scheduler in group.schedulers:
            assert len(scheduler.group._node.rank._machine) <= 2
            assert len(scheduler.group._node.rank._waits) == 0
        entry = group.entry._node.decider
        assert entry is not None
        assert len(entry._machine) == 0
        assert len(entry._waits) == 0


def test_a_mistake_of_the_scheduler_is_counted_and_changes_nothing(tmp_path: Path) -> None:
    with ranks(tmp_path) as group:
        scheduler = group.schedulers[1]
        scheduler.holds.add(7)
        request = group.submit(7)
        group.until(lambda: scheduler.arrived == [request.life])
        scheduler.group.transferred(request.life)
        group.until(lambda: scheduler.group._core.mistakes == 1)
        scheduler.vote(request.life)
        scheduler.group.bootstrapped(request.life)
        group.until_answered(request)
        assert request.answer is not None
        assert request.answer.served
        scheduler.group._core.mistakes = 0


def test_answers_are_returned_once(tmp_path: Path) -> None:
    with ranks(tmp_path, count=2) as group:
        requests = [group.entry.submit(room) for room in range(10)]
        group.until_answered(*requests)
        answered = group.entry.answers()
        assert sorted(r.life.room for r in answered) == list(range(10))
        assert group.entry.answers() == []
        assert group.answered == []


def test_only_the_entry_is_asked(tmp_path: Path) -> None:
    with ranks(tmp_path, count=2) as group, pytest.raises(LocalProtocolError, match="the entry"):
        group.schedulers[1].group.submit(7)
