"""Twenty further edits of the tables: ten weaken a guard, ten drop or swap an effect or a target.

test_thirty_edits.py and test_twenty_edits.py have those before. Four of these were noticed by no
property at first, and are noticed by one since: the edits of `find_over`, `locate`,
`release_again` and `transferred`. The last three edits change nothing, for the reason beside each.
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
    bootstrap,
    dp_rank,
    ends,
    group,
    group_transfer,
    incarnations,
    registry,
    routing,
    sink,
    transfer,
)
from pdproto.spec.handoff import binding_tables as rooms
from pdproto.spec.handoff.binding_tables import Meeting, Opening, Status, d, h, p, u
from pdproto.spec.handoff.incarnations import Asking
from pdproto.spec.handoff.roles import Chunk
from pdproto.spec.language import (
    ANY,
    AddClause,
    AddEffect,
    DropClause,
    DropEffect,
    DropRow,
    Retarget,
    all_of,
    each,
    edited,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.edit import Edit
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.symbols import Each, Sent, Update
from tests.handoff.exploring import judged
from tests.handoff.test_thirty_edits import ONE_LIFE, ONE_RANK, TWO_RUNS, Try


def weaker(row: str, clause: Formula, by: Formula) -> tuple[Edit, Edit]:
    """The edits that put another condition in the place of one."""
    return DropClause(row, clause), AddClause(row, by)


def swapped(
    row: str, effect: Update | Sent | Each, by: Update | Sent | Each
) -> tuple[Edit, Edit]:
    """The edits that put another update or message in the place of one."""
    return DropEffect(row, effect), AddEffect(row, by)


_SOME_UNMET: Final = incarnations.unmet(incarnations.h, incarnations.q)
_ONE_IS_KNOWN: Final = exists(incarnations.q, all_of(
    incarnations.feeds(incarnations.h, incarnations.q), ~_SOME_UNMET))
_UNMET: Final = incarnations.unmet(incarnations.h, incarnations.p)
_FEEDS: Final = incarnations.feeds(incarnations.h, incarnations.p)
_LISTED: Final = bootstrap.entry(bootstrap.p, bootstrap.e)
_DONE: Final = group.done(group.r, group.h)
_BROKE: Final = group.broke(group.r, group.h)
_TOLD: Final = routing.disown(routing.x, routing.h, routing.y)
_BY_RULE: Final = routing.modulo(routing.h, routing.y)

BOUND_AGAIN: Final = weaker(
    "bind_named", rooms.opening(p, u) == Opening.WAITING,
    rooms.opening(p, u).among(Opening.WAITING, Opening.BOUND))
GUARDS: Final = (
    Try("one part is enough, the others will come",
        "S2_a_success_has_every_part",
        binding.GUARDED, weaker(
            "commit", forall(p, exists(u, rooms.took(d, h, p, u))),
            exists(p, exists(u, rooms.took(d, h, p, u)))), ONE_LIFE),
    Try("a life that has failed may still be bound",
        "meeting_edges",
        binding_named.SYSTEM, weaker(
            "bind_named", rooms.meeting(p, h) == Meeting.UNBOUND,
            rooms.meeting(p, h).among(Meeting.UNBOUND, Meeting.FAILED)), ONE_LIFE),
    Try("a life that asks again is failed by any request that has begun",
        "S4_no_request_is_bound_twice_on_a_rank",
        binding.GUARDED, weaker(
            "pass_failure_on", rooms.opening(p, u) == Opening.OVER,
            rooms.opening(p, u) != Opening.NEVER), ONE_RANK),
    Try("a request may have two lives",
        "S4_no_request_is_bound_twice_on_a_rank",
        binding.GUARDED, weaker(
            "bind", rooms.opening(p, u) == Opening.WAITING,
            rooms.opening(p, u).among(Opening.WAITING, Opening.BOUND)), ONE_RANK),
    Try("the run that was heard of last counts",
        "one_run_of_a_source_counts",
        incarnations.SYSTEM, (
            *weaker("meet", _UNMET, _FEEDS), AddClause("ignore_greeting_placed", ~_FEEDS)),
        "sources"),
    Try("memory may be asked for when one source is known",
        "a_request_asks_for_memory",
        incarnations.SYSTEM, (
            *weaker("place_and_ask", incarnations.ALL_MET, _ONE_IS_KNOWN),
            *weaker("place", exists(incarnations.q, _SOME_UNMET), ~_ONE_IS_KNOWN))),
    Try("an earlier run may take the place of a later one",
        "a_struck_out_run_was_silent_or_replaced",
        registry.SYSTEM, (
            DropClause("take_over", bootstrap.f.before(bootstrap.e)),
            DropClause("take_over", registry.no_later_run)), "restart"),
    Try("any run that has registered is an answer",
        "S12_the_registry_answers_with_a_registered_run",
        registry.SYSTEM, weaker(
            "locate", _LISTED == bootstrap.Record.CURRENT, _LISTED != bootstrap.Record.NEVER),
        "restart"),
    Try("any rank will do where the rule names one",
        "S9_decode_addresses_the_rank_of_the_room",
        dp_rank.SYSTEM, (
            DropClause("resolve_by_rule", routing.modulo(routing.h, routing.x)),)),
    Try("a request may be served when every rank has ended, however it has",
        "S14_success_is_of_all_ranks",
        agreement.SYSTEM, weaker(
            "decide_release", forall(group.r, _DONE), forall(group.r, _DONE | _BROKE))),
)
EFFECTS: Final = (
    Try("a life of two requests succeeds, for its parts have all come",
        "S2_no_success_has_parts_of_two_requests",
        binding.GUARDED, (Retarget("find_mixed", to=Status.SUCCESS),)),
    Try("a request that is over stays over when its life comes",
        "a_life_has_bound_its_request",
        binding_named.SYSTEM, (DropEffect("find_over", rooms.opening(p, u).to(Opening.BOUND)),),
        ONE_LIFE),
    Try("the last source that is heard of changes nothing",
        "a_request_asks_for_memory",
        incarnations.SYSTEM, (Retarget("meet_last", to=Asking.PLACED),)),
    Try("a refusal is of the run that refuses",
        "L1_bootstrap_ends",
        registry.SYSTEM, swapped(
            "be_refused", bootstrap.dead(bootstrap.d, bootstrap.p, bootstrap.f).to(True),
            bootstrap.dead(bootstrap.d, bootstrap.p, bootstrap.e).to(True)), TWO_RUNS),
    Try("the ranks that decode does not ask are told of a conflict",
        "no_peer_is_at_fault",
        dp_rank.SYSTEM, swapped(
            "fail_conflict", each(routing.y, _TOLD, where=_BY_RULE),
            each(routing.y, _TOLD, where=~_BY_RULE))),
    Try("a rank greets whoever asks again",
        "S9_a_met_room_runs_on_its_target",
        dp_rank.SYSTEM, (
            Retarget("greet_again", at=(
                routing.Runs.MET, routing.Runs.FAILED, routing.Runs.DISOWNED)),
            DropRow("turn_away_again"))),
    Try("a repeated release may be sent as a drop, for both free the request",
        "S7_free_broken_follows_its_decision",
        agreement.LOSS, swapped(
            "release_again", group.release(group.r, group.n, group.h),
            group.drop(group.r, group.n, group.h))),
    Try("a rank confirms when its part has ended",
        "a_confirmed_life_is_closed",
        agreement.SYSTEM, (AddEffect("transferred", group.closed(group.r, group.h)),)),
    Try("a request may have any slot of those that are free",
        "S6_a_running_request_holds_its_slot",
        agreement.SYSTEM, swapped(
            "decide_admit", group.granted(group.h, group.m).to(True),
            group.granted(group.h, ANY).to(True)), "two-slots"),
    Try("a rank that has broken off has ended, too",
        "M4_5_a_rank_that_has_ended_has_reported",
        group_transfer.SYSTEM, swapped(
            "report_broken", group.broke(group.r, group.h).to(True),
            group.done(group.r, group.h).to(True))),
)
HARMLESS: Final = (
    Try("a request that is bound may be bound again",
        "one life asks for a request, so no other is bound to it",
        binding_named.SYSTEM, BOUND_AGAIN),
    Try("a life that has ended takes a request that has ended",
        "both have ended, and neither waits for the other",
        binding_named.SYSTEM, weaker(
            "end_named", rooms.opening(p, u) == Opening.WAITING,
            rooms.opening(p, u) != Opening.NEVER), ONE_RANK),
    Try("a rank may start a request that it has only prepared",
        "the group admits a request when every rank has voted, and no rank takes its vote back",
        agreement.ONCE, weaker(
            "start", group.at(group.Stage.READY),
            group.at(group.Stage.READY, group.Stage.PREPARED))),
)


def test_they_are_twenty() -> None:
    assert (len(GUARDS), len(EFFECTS)) == (10, 10)


@pytest.mark.parametrize("one", [*GUARDS, *EFFECTS], ids=lambda one: one.idea)
def test_it_is_refuted(one: Try) -> None:
    system = edited(one.system, "edit", *one.edits)
    at = system.configurations[one.at] if isinstance(one.at, str) else one.at
    assert judged(system, one.violates, at).verdict is Verdict.VIOLATED


@pytest.mark.slow
def test_the_digest_of_the_last_chunk_does_not_stand_for_all() -> None:
    """It takes two chunks, two lives, and a write that gets past the fence."""
    q, part, later = sink.q, sink.part, Chunk("later")
    last = forall((q, part), implies(
        ends.feeds(q, ends.d),
        ends.content(ends.d, ends.h, ends.b, q, part) | exists(later, part.before(later))))
    system = edited(
        transfer.SYSTEM, "edit", *weaker("commit", sink.INTACT, last),
        *weaker("find_spoilt", sink.SPOILT, ~last))
    at = transfer.SYSTEM.configurations["stray"]
    assert judged(system, "S2_complete_when_committed", at).verdict is Verdict.HOLDS
    both = replace(at, sizes={**at.sizes, Chunk: 2})
    assert judged(system, "S2_complete_when_committed", both).verdict is Verdict.VIOLATED


@pytest.mark.parametrize("one", HARMLESS, ids=lambda one: one.idea)
def test_it_is_harmless(one: Try) -> None:
    """Every property holds, also with the edit."""
    system = edited(one.system, "edit", *one.edits)
    at = system.configurations[one.at] if isinstance(one.at, str) else one.at
    found = check(system, at, CheckSettings(keep_going=True))
    assert {f.name for f in found.findings if f.verdict is Verdict.VIOLATED} == set()
