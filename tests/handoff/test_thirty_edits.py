"""Thirty edits of the tables, as somebody makes them who does not know the reasons of the rows.

Each takes a rule for needless, or for too strict. The properties of its system refute all of them:
of the binding of a room, of the detectors of the registry and of ranks, and of a group of ranks.
"""

from typing import Final, NamedTuple

import pytest

from pdproto.check.result import Verdict
from pdproto.spec.handoff import (
    agreement,
    binding,
    binding_named,
    bootstrap,
    dp_rank_loss,
    group,
    registry,
    routing,
)
from pdproto.spec.handoff import binding_tables as rooms
from pdproto.spec.handoff.binding_tables import d, h, k, p, u, v
from pdproto.spec.handoff.roles import Incarnation, Life, Sink, Source, Use
from pdproto.spec.language import (
    ANY,
    AddClause,
    AddRow,
    Configuration,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    Ignore,
    System,
    edited,
    forall,
    implies,
)
from pdproto.spec.language.edit import Edit
from tests.handoff.exploring import judged


class Try(NamedTuple):
    """idea: of the editor. violates: the property that refutes it. at: the name of a configuration
    of the system, or one of its own.
    """

    idea: str
    violates: str
    system: System
    edits: tuple[Edit, ...]
    at: str | Configuration = "default"


ONE_RANK: Final = Configuration({Source: 1, Sink: 1, Life: 2, Use: 2}, dead_bits=True)
ONE_LIFE: Final = Configuration({Source: 2, Sink: 1, Life: 1, Use: 1}, dead_bits=True)
TWO_RUNS: Final = Configuration({Source: 1, Incarnation: 2, Sink: 1, Life: 1}, dead_bits=True)
ONE_RUN_LOSSY: Final = Configuration(
    {Source: 1, Incarnation: 1, Sink: 1, Life: 1}, faults=("crash", "lossy"), dead_bits=True)

BINDING: Final = (
    Try("any life of the room will do for a request that waits",
        "S2_a_life_has_the_request_that_it_asks_for",
        binding_named.SYSTEM,
        (DropClause("bind_named", binding_named.named(p, h, u)),), ONE_RANK),
    Try("a request that has ended answers whoever comes",
        "a_retry_is_not_failed_by_its_predecessor",
        binding_named.SYSTEM,
        (DropClause("find_over", binding_named.named(p, h, u)),), ONE_RANK),
    Try("a life that has ended ends whoever waits",
        "an_ended_life_takes_no_request",
        binding_named.SYSTEM,
        (DropClause("end_named", binding_named.named(p, h, u)),), ONE_RANK),
    Try("a sink that comes first needs no name",
        "L1_a_request_on_both_servers_is_bound",
        binding_named.NO_TIMERS,
        (DropEffect("begin", binding_named.NAMED_TO_ALL),), ONE_LIFE),
    Try("a life that is over binds nothing",
        "L2_a_life_that_has_ended_ends_its_request",
        binding_named.NO_TIMERS,
        (DropRow("end_named"), DropProperty("an_ended_life_takes_no_request")), ONE_LIFE),
    Try("a request that is over binds nothing",
        "L2_a_request_that_has_ended_ends_its_life",
        binding_named.NO_TIMERS,
        (DropRow("find_over"), DropProperty("a_retry_is_not_failed_by_its_predecessor")), ONE_LIFE),
    Try("a sink that has been told once knows",
        "L2_a_failure_reaches_the_sink",
        binding_named.NO_TIMERS,
        (DropRow("tell_failure"),), ONE_LIFE),
    Try("the parts of a success need not be compared",
        "S2_no_success_has_parts_of_two_requests",
        binding.GUARDED, (
        DropClause("commit", forall((p, u, v), implies(
            rooms.took(d, h, p, u) & rooms.knows(d, h, v), u.same(v)))),)),
    Try("a sink that hears of a failure need not pass it on",
        "L2_a_failure_reaches_every_rank",
        binding_named.NO_TIMERS,
        (DropEffect("hear_failure", rooms.STOP_ALL),), ONE_LIFE),
    Try("a sink that has aborted is told all the same",
        "a_life_fails_with_its_request_or_its_sink",
        binding_named.NO_TIMERS,
        (DropEffect("stop", rooms.warned(p, h, d).to(True)),), ONE_LIFE),
    Try("an abort that comes again needs no name",
        "L2_a_life_that_has_ended_ends_its_request",
        binding_named.NO_TIMEOUTS,
        (DropEffect("abort_again_by_name", binding_named.NAMED_TO_ALL),)),
    Try("a life that has ended takes a request, and another life that waits gets the next",
        "a_request_that_another_life_may_want_goes_on",
        binding.GUARDED, (
        DropClause("end_with_life", forall(k, rooms.meeting(p, k) != rooms.Meeting.UNBOUND)),),
        ONE_RANK),
)
DETECTORS: Final = (
    Try("a goodbye is of whichever run is listed",
        "a_current_entry_is_present",
        registry.SYSTEM,
        (DropClause("strike_out", bootstrap.entry(bootstrap.p, bootstrap.e)
                    == bootstrap.Record.CURRENT),), "alarm"),
    Try("a rank registers once",
        "L6_a_run_that_is_up_is_listed",
        registry.SYSTEM, (DropRow("show_sign_of_life"),
                          DropProperty("signs_of_life_come_from_recorded_runs")), "alarm-lossy"),
    Try("a run that was struck out stays so",
        "L6_a_run_that_is_up_is_listed",
        registry.SYSTEM, (DropRow("renew"),), "alarm"),
    Try("a registration of an older run is as good",
        "a_number_given_up_never_counts",
        registry.SYSTEM,
        (DropClause("record", registry.no_later_run),), "clocks"),
    Try("whoever was silent once is dead",
        "L6_a_run_that_is_up_is_listed",
        registry.SYSTEM, (DropRow("answer_outdated"),
                          DropProperty("no_run_displaces_a_registered_one")), "alarm"),
    Try("a missed heartbeat needs no look at the cache",
        "deadlock",
        registry.SYSTEM, (DropRow("forget"),),
        "alarm"),
    Try("a goodbye of an unknown run says nothing",
        "a_goodbye_is_kept",
        registry.SYSTEM, (
        DropRow("strike_out_early"),
        AddRow(bootstrap.registry, Ignore(
            bootstrap.goodbye(bootstrap.p, bootstrap.e), at=registry.ALIVE, name="ignore_early",
            when=bootstrap.entry(bootstrap.p, bootstrap.e) == bootstrap.Record.NEVER,
            why="the registry does not know this run"))), "alarm"),
    Try("a rank greets decode once",
        "L2_a_rank_that_is_asked_answers",
        dp_rank_loss.LOSS, (DropEffect("greet_again", routing.met(routing.x, routing.h)),)),
    Try("a room of a silent rank is struck out",
        "a_posted_room_is_not_struck_out",
        dp_rank_loss.LOSS, (
        DropClause("strike_room_of_run", routing.run_over(routing.h, routing.x)),)),
)
GROUPS: Final = (
    Try("most votes are enough",
        "no_peer_is_at_fault",
        agreement.ONCE, (
        DropClause("decide_admit", forall(group.r, group.ready(group.r, group.h))),)),
    Try("the first rank that has ended speaks for all",
        "S14_success_is_of_all_ranks",
        agreement.ONCE, (
        DropClause("decide_release", forall(group.r, group.done(group.r, group.h))),)),
    Try("decisions may be applied as they come",
        "S7_in_order",
        agreement.SYSTEM, (
        DropClause("start", group.EARLIER), DropClause("drain", group.EARLIER))),
    Try("a slot is free when the entry says so",
        "M4_4_nothing_is_kept",
        agreement.ONCE, (
        DropEffect("free", group.slot(group.r, group.h, ANY).to(False)),)),
    Try("a rank that fails needs to tell nobody",
        "L2_a_failure_is_decided",
        agreement.NO_TIMERS, (
        DropEffect("vote_dead", group.dead(group.r, group.h)),)),
    Try("a rank without the request has nothing to drain",
        "deadlock",
        agreement.ONCE, (DropRow("turn_away"),)),
    Try("a ready vote is final",
        "M4_2_a_dead_vote_follows_a_ready_one",
        agreement.ONCE, (
        AddClause("vote_dead", group.at(*group.WAITING)),)),
    Try("the numbers of decisions may have gaps",
        "S6_slot_has_one_owner",
        agreement.SYSTEM, (
        DropClause("decide_release", forall(
            group.o, implies(group.o.before(group.n), group.numbered(group.o)))),)),
    Try("a slot comes back when the group ends",
        "L4_slots_come_back",
        agreement.ONCE, (DropEffect("decide_release", group.taken(group.m).to(False)),)),
)


def test_they_are_thirty() -> None:
    assert len((*BINDING, *DETECTORS, *GROUPS)) == 30


@pytest.mark.parametrize("one", [*BINDING, *DETECTORS, *GROUPS], ids=lambda one: one.idea)
def test_it_is_refuted(one: Try) -> None:
    system = edited(one.system, "edit", *one.edits)
    at = system.configurations[one.at] if isinstance(one.at, str) else one.at
    assert judged(system, one.violates, at).verdict is Verdict.VIOLATED
