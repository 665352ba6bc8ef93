"""Optimistic prefill on a group of ranks, by its tables (MISSION rows M4.1, M5.1 to M5.5)."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from random import Random

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from pdproto.group.aio import answered
from pdproto.group.optimistic_group import OptimisticGroup
from pdproto.group.rank import Pass
from pdproto.node.optimistic.record import OptimisticSettings
from pdproto.runtime.errors import ProtocolError
from pdproto.spec.bugs.group_attempts import BUGS
from pdproto.spec.handoff.group import Verdict
from pdproto.spec.language.machine import Table
from tests.group.optimistic_ranks import NEVER, OptimisticRanks, tables_of
from tests.tiers import examples

# By defect: what a rank with these tables does. The other two defects are a rank that acts without
# a decision, which no call of the runtime can have it do, and one that outlives its group.
SEEN = {
    "B07-attempts": "a client is not answered",
    "O5-later": "a client is not answered",
    "B06-attempts": "finalized unready",
    "B36-attempts": "KV is freed while it is written",
    "early-yield": "a frame is refused",
}


def chance(seed: int = 0) -> Random:
    return Random(seed)  # noqa: S311 - nothing secret


def until_all_hold(group: OptimisticRanks) -> None:
    """Deliver messages until every rank has a request."""
    while not all(rank.held for rank in group.ranks):
        group.deliver(0)


def verdicts(group: OptimisticRanks, room: int, rank: int = 0) -> list[Pass | Verdict]:
    return [d.verdict for d in group.ranks[rank].applied if d.life.room == room]


def test_m5_1_a_pass_begins_before_the_bootstrap_and_is_finalized_between_its_chunks(
    tmp_path: Path
) -> None:
    group = OptimisticRanks(4, OptimisticSettings(slots=2, running_slots=2, retries=1))
    request = group.submit(7)
    group.run(chance(), bootstraps=False)
    assert verdicts(group, 7, 3) == [Pass.RUN, Pass.GO_ON]
    for index in range(3):
        group.report(index, request.life, "bootstrapped")
        group.run(chance(), bootstraps=False)
        assert verdicts(group, 7, 3) == [Pass.RUN, Pass.GO_ON], "one rank has no bootstrap yet"
    group.report(3, request.life, "bootstrapped")
    group.run(chance())
    assert verdicts(group, 7, 3) == [Pass.RUN, Pass.GO_ON, Pass.FINALIZE, Verdict.ADMIT,
                                     Verdict.RELEASE]
    assert request.answer is not None
    assert request.answer.served
    group.check(tmp_path)


def test_m5_1_the_bootstrap_is_looked_at_between_the_chunks() -> None:
    group = OptimisticRanks(2, OptimisticSettings(slots=2, running_slots=2, retries=1))
    request = group.submit(7)
    until_all_hold(group)
    for index in range(2):
        group.report(index, request.life, "bootstrapped")
    while group.network:
        group.deliver(0)
    group.run(chance())
    assert verdicts(group, 7) == [Pass.RUN, Pass.FINALIZE, Pass.GO_ON, Verdict.ADMIT,
                                  Verdict.RELEASE]
    group.check()


def test_m5_2_a_pass_yields_to_a_request_that_has_its_bootstrap(tmp_path: Path) -> None:
    group = OptimisticRanks(2, OptimisticSettings(slots=2, running_slots=1, retries=1))
    first, second = group.submit(0), group.submit(1)
    group.run(chance(), bootstraps=False)
    assert verdicts(group, 0) == [Pass.RUN, Pass.GO_ON]
    assert verdicts(group, 1) == []
    for index in range(2):
        group.report(index, second.life, "bootstrapped")
    group.run(chance(), bootstraps=False)
    assert verdicts(group, 0)[2:] == [Pass.GIVE_WAY, Pass.RUN, Pass.GO_ON]
    assert verdicts(group, 1) == [Pass.ADMIT, Verdict.ADMIT, Verdict.RELEASE]
    for index in range(2):
        group.report(index, first.life, "bootstrapped")
    group.run(chance())
    assert [r.answer.served for r in (first, second) if r.answer] == [True, True]
    assert group.ranks[0].node.core.metrics.read()["prefill_retries"] == 1
    group.check(tmp_path)


def test_m5_2_without_attempts_no_request_runs_before_its_bootstrap(tmp_path: Path) -> None:
    group = OptimisticRanks(2, OptimisticSettings(slots=1, running_slots=1, retries=0))
    for room in range(2):
        group.submit(room)
    group.run(chance(), bootstraps=False)
    assert verdicts(group, 0) == []
    group.run(chance())
    assert verdicts(group, 0) == verdicts(group, 1) == [Pass.ADMIT, Verdict.ADMIT, Verdict.RELEASE]
    group.check(tmp_path)


def test_m5_5_a_forced_retry_is_forced_on_every_rank_and_once(tmp_path: Path) -> None:
    group = OptimisticRanks(4, OptimisticSettings(slots=8, running_slots=8, retries=2,
                                        force_retry_probability=0.5))
    for room in range(8):
        group.submit(room)
    group.run(chance())
    forced = [room for room in range(8) if group.is_forced(room)]
    assert 0 < len(forced) < 8
    for rank in range(4):
        for room in range(8):
            retries = verdicts(group, room, rank).count(Pass.GIVE_WAY)
            assert retries == (room in forced), f"rank {rank}, room {room}"
    group.check(tmp_path)


def test_m4_2_a_failure_of_one_rank_ends_the_request_on_all_with_its_reason(
    tmp_path: Path
) -> None:
    group = OptimisticRanks(4, OptimisticSettings(slots=2, running_slots=2, retries=1))
    request = group.submit(7)
    while not all(rank.held[request.life].computes is False if request.life in rank.held else False
                  for rank in group.ranks):
        group.deliver(0)
    group.report(2, request.life, "failed", "no memory")
    group.run(chance())
    assert request.answer is not None
    assert request.answer.reason == "rank 2: no memory"
    assert all(verdicts(group, 7, rank) == [Pass.RUN, Verdict.FAIL] for rank in range(4))
    group.check(tmp_path)


def test_m5_3_a_rank_that_fails_after_the_pass_was_finalized_computes_with_the_others(
    tmp_path: Path
) -> None:
    group = OptimisticRanks(2, OptimisticSettings(slots=2, running_slots=2, retries=1))
    request = group.submit(7)
    until_all_hold(group)
    for index in range(2):
        group.report(index, request.life, "bootstrapped")
    while Pass.FINALIZE not in verdicts(group, 7, 0):
        group.deliver(0)
    group.report(1, request.life, "failed", "the sink has gone")
    group.run(chance())
    assert request.answer is not None
    assert request.answer.reason == "rank 1: the sink has gone"
    assert verdicts(group, 7, 1) == [Pass.RUN, Pass.FINALIZE, Pass.GO_ON, Verdict.FAIL]
    group.check(tmp_path)


@pytest.mark.parametrize("finalized", [False, True])
def test_an_abort_ends_a_pass_at_once_or_when_it_is_whole(tmp_path: Path, finalized: bool) -> None:
    group = OptimisticRanks(2, OptimisticSettings(slots=2, running_slots=2, retries=1))
    request = group.submit(7)
    until_all_hold(group)
    for index in range(2 * finalized):
        group.report(index, request.life, "bootstrapped")
    while group.network:
        group.deliver(0)
    group.abort(request)
    group.abort(request)
    group.run(chance())
    assert request.answer is not None
    assert request.answer.reason == "the client has left"
    assert group.answered == [request]
    assert (Pass.FINALIZE in verdicts(group, 7)) == finalized
    group.check(tmp_path)


def test_a_bootstrap_that_never_comes_ends_by_the_clock_of_the_entry() -> None:
    group = OptimisticRanks(2, OptimisticSettings(slots=1, running_slots=1, retries=1,
                                        bootstrap_timeout_s=30.0))
    request = group.submit(7)
    group.run(chance(), bootstraps=False)
    group.turn(0, after=29.0)
    assert group.answered == []
    group.turn(0, after=2.0)
    group.run(chance())
    assert group.answered == [request]
    assert request.answer is not None
    assert request.answer.reason == "bootstrap_timeout after 30 s"
    group.check()


def test_lost_frames_are_sent_again_until_the_request_is_over() -> None:
    """Half of all messages are lost, those of every kind."""
    group = OptimisticRanks(2, OptimisticSettings(slots=1, running_slots=1, retries=1),
                            waits=dict.fromkeys(NEVER, 1.0))
    request = group.submit(7)
    random = chance()
    for _ in range(400):
        if random.random() < 0.5:
            group.network.clear()
        for event in group.events(bootstraps=True):
            group.happen(event)
        while group.network and random.random() < 0.7:
            group.deliver(random.randrange(len(group.network)))
        for index in range(2):
            group.turn(index, after=1.0)
        if request.answer is not None and not any(rank.held for rank in group.ranks):
            break
    assert request.answer is not None
    assert request.answer.served
    for _ in range(5):
        group.run(chance())
        for index in range(2):
            group.turn(index, after=100.0)
    group.run(chance())
    group.check()


def test_m4_2_the_loss_of_a_rank_ends_the_group_in_the_midst_of_its_passes() -> None:
    group = OptimisticRanks(3, OptimisticSettings(slots=2, running_slots=2, retries=1))
    requests = [group.submit(room) for room in range(3)]
    while group.network:
        group.deliver(0)
    assert all(rank.held for rank in group.ranks)
    for index in (0, 1):
        core = group.ranks[index].node.core
        core.on_lost(core.peers["g.2"], "its process has ended")
        group.turn(index)
        assert not any(v for n, v in core.metrics.read().items() if n.startswith("num_"))
    assert all(r.answer and r.answer.reason.startswith("rank 2 is gone") for r in requests)
    assert len(group.answered) == 3


def exercise(seed: int, group: OptimisticRanks, requests: int = 6) -> None:
    """Requests come, fail and are aborted while frames are delayed, reordered and repeated."""
    random, submitted = chance(seed), []
    for room in range(requests):
        submitted.append(group.submit(room))
        for _ in range(random.randrange(60)):
            events = group.events(bootstraps=random.random() < 0.2)
            if events and random.random() < 0.5:
                group.happen(random.choice(events))
            elif group.network:
                group.deliver(random.randrange(len(group.network)), again=random.random() < 0.1)
        for index, rank in enumerate(group.ranks):
            open_ = [life for life, running in rank.held.items()
                     if not running.failed and not running.sending]
            if open_ and random.random() < 0.1:
                life = random.choice(open_)
                if Verdict.ADMIT not in verdicts(group, life.room, index):
                    group.report(index, life, "failed", "by chance")
        if random.random() < 0.15:
            group.abort(random.choice(submitted))
    group.run(random)
    answered = sorted(r.life.room for r in group.answered)
    assert answered == list(range(requests)), "a client is not answered"
    assert all(request.answer for request in submitted)


@given(st.integers(0, 2**32), st.integers(1, 4), st.integers(1, 3), st.integers(1, 3),
       st.integers(0, 2))
@settings(max_examples=examples(12, 40), deadline=None, phases=(Phase.explicit, Phase.generate))
def test_all_ranks_run_the_same_passes_under_any_order_of_messages(
    seed: int, ranks: int, slots: int, running_slots: int, retries: int
) -> None:
    group = OptimisticRanks(ranks, OptimisticSettings(slots=slots, running_slots=running_slots,
                                            retries=retries, force_retry_probability=0.3))
    exercise(seed, group)
    group.check()


@pytest.mark.parametrize("name", SEEN)
def test_a_defect_in_the_tables_that_run_is_seen(name: str) -> None:
    """The tests above go red if the ranks run the tables of a historical defect."""
    (bug,) = (bug for bug in BUGS if bug.id == name)
    tables = tables_of(bug.system)
    with pytest.raises((AssertionError, ProtocolError), match=SEEN[name]):
        exercise_many(tables)


def exercise_many(tables: Mapping[str, Table]) -> None:
    for seed in range(200):
        group = OptimisticRanks(3, OptimisticSettings(slots=2, running_slots=2, retries=2,
                                            force_retry_probability=0.3), tables=tables)
        exercise(seed, group)
        group.check()


def test_a_client_awaits_the_answer_of_a_group_and_leaves_by_cancelling(tmp_path: Path) -> None:
    """The facade over real sockets: the same rank is entry and scheduler."""
    group = OptimisticGroup("g", {0: f"ipc://{tmp_path}/0"}, me=0, stop=lambda _: True,
                            passes=OptimisticSettings(slots=2, running_slots=2, retries=1))

    async def serve() -> tuple[bool, list[str]]:
        seen: list[str] = []
        served = asyncio.ensure_future(answered(group, 1))
        left = asyncio.ensure_future(answered(group, 2))
        while not (served.done() and "FAIL" in seen):
            for arrival in group.arrivals():
                if arrival.life.room == 1:
                    group.bootstrapped(arrival.life)
                else:
                    left.cancel()
            for decision in group.decisions():
                seen.append(decision.verdict.name)
                if decision.verdict in (Pass.RUN, Pass.GO_ON):
                    group.computed(decision.life, last=decision.verdict is Pass.GO_ON)
                elif decision.verdict is Verdict.ADMIT:
                    group.transferred(decision.life)
            await asyncio.sleep(0.001)
        with pytest.raises(asyncio.CancelledError):
            await left
        return (await served).served, seen

    try:
        served, seen = asyncio.run(asyncio.wait_for(serve(), 60.0))
    finally:
        group.close()
    assert served
    assert seen.count("FAIL") == 1
