"""Further edits of the binding, of the rank of a room, of the registry, and of groups.

test_thirty_edits.py, test_twenty_edits.py and test_edits_of_effects.py have those before. Each of
these looks harmless to somebody who reads one row. The last three edits change nothing.
"""

from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.spec.handoff import (
    agreement,
    binding,
    binding_named,
    binding_ordered,
    bootstrap,
    dp_rank,
    group,
    group_attempts,
    optimistic_group,
    registry,
    routing,
)
from pdproto.spec.handoff import binding_tables as rooms
from pdproto.spec.handoff.binding_tables import Meeting, Opening, d, h, k, p, u
from pdproto.spec.language import (
    ANY,
    AddClause,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    Retarget,
    all_of,
    each,
    edited,
    exists,
    forall,
)
from tests.handoff.exploring import judged
from tests.handoff.test_edits_of_effects import swapped, weaker
from tests.handoff.test_thirty_edits import ONE_LIFE, ONE_RANK, ONE_RUN_LOSSY, Try

_NAMING: Final = each(
    k, rooms.meeting(p, k).to(Meeting.UNBOUND),
    where=all_of(binding_ordered.earlier(k, h), rooms.meeting(p, k) == Meeting.UNMET))
_EVERY_RANK_HAS_ENDED: Final = forall(
    group.peer, group.broke(group.peer, group.h) | group.done(group.peer, group.h))

BINDING: Final = (
    Try("a sink need not be told its request, for each part names it",
        "L1_a_sink_learns_its_request", binding.GUARDED, (DropRow("tell_use"),)),
    Try("the rank that has failed alone needs to hear of a failure",
        "L2_a_failure_reaches_every_rank",
        binding.GUARDED, swapped("hear_failure", rooms.STOP_ALL, rooms.abort(d, h, p)), ONE_LIFE),
    Try("a life names no other",
        "S2_ranks_bind_a_life_alike_while_nothing_fails",
        binding_ordered.NO_TIMERS, (DropEffect("meet_first", _NAMING),
                                    DropProperty("a_rank_knows_the_lives_before_one_that_it_knows"))),
    Try("any life that waits gets the oldest request",
        "S2_ranks_bind_a_life_alike_while_nothing_fails",
        binding_ordered.NO_TIMERS, (DropClause("bind", binding_ordered.ALL_EARLIER_MET),
                                    DropProperty("a_rank_binds_the_first_life_to_the_first_request"))),
    Try("a life that asks again names no other",
        "S2_ranks_bind_a_life_alike_while_nothing_fails",
        binding_ordered.LOSS, (DropEffect("be_asked_first", _NAMING),
                               DropProperty("a_rank_knows_the_lives_before_one_that_it_knows"))),
    Try("a life may be bound to a request that has ended",
        "L2_a_request_that_has_ended_ends_its_life",
        binding_named.NO_TIMERS, weaker(
            "bind_named", rooms.opening(p, u) == Opening.WAITING,
            rooms.opening(p, u).among(Opening.WAITING, Opening.OVER)), ONE_RANK),
)
RANKS: Final = (
    Try("a rank serves a room although the request names another one",
        "S9_decode_addresses_the_rank_of_the_room",
        dp_rank.SYSTEM, (DropClause("serve_named", routing.x.same(routing.y)),
                         DropRow("fail_misplaced"))),
    Try("a rank that was told that the room has failed turns nobody away",
        "L2_a_conflict_reaches_decode",
        dp_rank.SYSTEM, (Retarget("turn_away", at=routing.Runs.FAILED),)),
    Try("a room that was asked for before it is listed is listed only",
        "M2_3_the_query_finds_the_room",
        dp_rank.SYSTEM, (
            DropEffect("list_room_and_answer", routing.answer(routing.h, routing.x)),)),
    Try("a question about a room that is given up stays open",
        "L2_decode_hears_that_a_room_is_gone",
        dp_rank.SYSTEM, (DropEffect("strike_room_and_tell", routing.gone(routing.h)),)),
    Try("the rule also finds rooms that are listed",
        "S9_decode_addresses_the_rank_of_the_room",
        dp_rank.SYSTEM, (DropClause("resolve_by_rule", routing.keeps_rule()),)),
)
DETECTORS: Final = (
    Try("a request may begin when one rank has welcomed it",
        "M1_3_every_target_rank_is_met",
        registry.SYSTEM, weaker(
            "connect", forall(bootstrap.p, bootstrap.joined(bootstrap.d, bootstrap.h, bootstrap.p)),
            exists(bootstrap.p, bootstrap.joined(bootstrap.d, bootstrap.h, bootstrap.p)))),
    Try("an address is learnt although its run is known to be gone",
        "L1_bootstrap_ends",
        registry.SYSTEM, (DropClause(
            "learn", ~bootstrap.dead(bootstrap.d, bootstrap.p, bootstrap.e)),), "alarm"),
    Try("a request that waits for input outlives its rank",
        "M1_4_lost_connection",
        registry.SYSTEM, weaker(
            "lose_connection", bootstrap.phase(bootstrap.d, bootstrap.h).among(
                bootstrap.Phase.BOOTSTRAPPING, bootstrap.Phase.WAITING_FOR_INPUT),
            bootstrap.phase(bootstrap.d, bootstrap.h) == bootstrap.Phase.BOOTSTRAPPING),
        replace(ONE_RUN_LOSSY, faults=("crash",))),
    Try("an address is forgotten only when all are known",
        "L7_a_dead_address_is_forgotten",
        registry.NO_TIMEOUTS, (Retarget("forget", at=bootstrap.Cache.WHOLE),)),
)
GROUPS: Final = (
    Try("one rank that has broken off is enough to drop a request",
        "M4_5_freed_when_all_have_ended",
        agreement.ONCE, (DropClause("decide_drop", _EVERY_RANK_HAS_ENDED),)),
    Try("a rank that has done its part needs no drop",
        "deadlock",
        agreement.ONCE, (Retarget("free_broken", at=None),
                         DropClause("free_broken", group.at(group.Stage.DONE, group.Stage.BROKEN)),
                         AddClause("free_broken", group.at(group.Stage.BROKEN)))),
    Try("a rank keeps its slot when its group ends",
        "M4_4_nothing_is_kept",
        agreement.SYSTEM, (DropEffect("follow", group.slot(group.r, ANY, ANY).to(False)),)),
    Try("a forced retry may be finalized first",
        "M5_5_a_forced_request_is_not_finalized",
        optimistic_group.SYSTEM, (DropClause("decide_finalize", ~group_attempts.FORCED),)),
    Try("a rank that has failed after its ready vote serves all the same",
        "M4_2_a_dead_vote_comes_from_a_failed_rank",
        agreement.ONCE, (
            *swapped("start_dead", group.stage(group.r, group.h).to(group.Stage.BROKEN),
                     group.stage(group.r, group.h).to(group.Stage.RUNNING)),
            DropEffect("start_dead", group.broke(group.r, group.h)))),
    Try("a pass is handed over before its bootstrap is sure",
        "deadlock",
        optimistic_group.SYSTEM, (
            DropClause("hand_over", group_attempts.finalized(group.h)),)),
    Try("a request that has not run is taken up without pages",
        "S8_kv_is_held_while_it_is_sent",
        optimistic_group.SYSTEM, (
            DropEffect("take_up", group_attempts.kv(group.r, group.h).to(True)),)),
    Try("a request is handed over when one rank is ready",
        "M5_2_an_admitted_request_has_its_bootstrap",
        optimistic_group.SYSTEM, weaker(
            "decide_admit", group_attempts.ALL_READY,
            exists(group.r, group_attempts.ready(group.r, group.h)))),
    Try("a rank that turns a request away says nothing",
        "L2_a_decision_reaches_all",
        agreement.NO_TIMERS, (DropEffect("turn_away", group.closed(group.r, group.h)),)),
)


def test_they_are_24() -> None:
    assert len([*BINDING, *RANKS, *DETECTORS, *GROUPS]) == 24


# It is refuted in the largest of the systems.
BY_NIGHT: Final = "a request that waits for input outlives its rank"


@pytest.mark.parametrize("one", [
    pytest.param(one, id=one.idea, marks=pytest.mark.nightly if one.idea == BY_NIGHT else ())
    for one in (*BINDING, *RANKS, *DETECTORS, *GROUPS)])
def test_it_is_refuted(one: Try) -> None:
    system = edited(one.system, "edit", *one.edits)
    at = system.configurations[one.at] if isinstance(one.at, str) else one.at
    assert judged(system, one.violates, at).verdict is Verdict.VIOLATED


# Each drops a condition that is implied by others.
HARMLESS: Final = (
    Try("the parts may be committed before the request is known",
        "the first part names the request, and it is one of all parts",
        binding.GUARDED, (DropClause("commit", ~rooms.NOT_KNOWN),)),
    Try("any rank may greet decode",
        "decode asks one rank, and a rank greets only a sink that has asked it",
        dp_rank.SYSTEM, (DropClause("be_greeted", routing.target(routing.h, routing.x)),
                         DropRow("reject_met_resolved"))),
    Try("a pass may give way while it computes",
        "the entry has a pass give way when each rank has told that it has computed",
        optimistic_group.SYSTEM, (DropClause("drop", ~group_attempts.COMPUTING),)),
)


@pytest.mark.parametrize("one", HARMLESS, ids=lambda one: one.idea)
def test_it_is_harmless(one: Try) -> None:
    """Every property holds, also with the edit."""
    system = edited(one.system, "edit", *one.edits)
    found = check(system, system.configurations["default"], CheckSettings(keep_going=True))
    assert {f.name for f in found.findings if f.verdict is Verdict.VIOLATED} == set()
