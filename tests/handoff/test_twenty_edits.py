"""More edits of the tables, as somebody makes them who does not know why the rows are so.

test_thirty_edits.py has those before. Fourteen of these were noticed by no property at first, or by
a claim about runs alone, and are noticed by one about states since.
"""

from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.result import Verdict
from pdproto.spec.handoff import (
    binding,
    binding_named,
    binding_ordered,
    bootstrap,
    drain,
    end_to_end,
    end_to_end_bootstrap,
    end_to_end_routing,
    ends,
    group_transfer,
    registry,
    replica,
    sink,
    sink_group,
)
from pdproto.spec.handoff import binding_tables as rooms
from pdproto.spec.handoff.binding_tables import d, h, p, u
from pdproto.spec.handoff.roles import Incarnation, Life, Sink, Source, Use
from pdproto.spec.handoff.source import ALL_PUBLISHED
from pdproto.spec.language import (
    ANY,
    Configuration,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    ReplaceRow,
    Retarget,
    edited,
    forall,
)
from tests.handoff.exploring import judged
from tests.handoff.test_thirty_edits import ONE_LIFE, ONE_RANK, Try

LOSING: Final = replace(ONE_LIFE, faults=("lossy",))
TWO_SINKS: Final = Configuration({Source: 2, Sink: 2, Life: 1, Use: 1}, dead_bits=True)
ONE_RUN: Final = Configuration(
    {**end_to_end_bootstrap.SIZES, Incarnation: 1}, faults=("crash",), dead_bits=True)
UP: Final = end_to_end_bootstrap.run(bootstrap.p, bootstrap.e) == bootstrap.Run.UP
LISTED: Final = bootstrap.entry(bootstrap.p, bootstrap.e)

BINDING: Final = (
    Try("whichever request waits will do",
        "a_rank_binds_the_oldest_request",
        binding.GUARDED, (DropClause("bind", rooms.OLDEST),), ONE_RANK),
    Try("a life that asks again is answered by any request that has ended",
        "a_retry_is_not_failed_by_its_predecessor",
        binding.GUARDED, (DropClause("pass_failure_on", rooms.LATEST),), ONE_RANK),
    Try("a sink that names a request needs no introduction",
        "a_life_is_met_with_a_sink",
        binding_named.SYSTEM, (DropEffect("learn_use_first", rooms.met(p, h, d).to(True)),),
        ONE_LIFE),
    Try("a part may go out before every sink is known",
        "no_peer_is_at_fault",
        binding.GUARDED, (DropRow("meet"),
                          DropClause("send", forall(d, rooms.met(p, h, d)))), TWO_SINKS),
    Try("the first part does not name the request",
        "L1_a_sink_learns_its_request",
        binding.GUARDED_NO_TIMEOUTS, (DropEffect("take_first", rooms.knows(d, h, u).to(True)),),
        LOSING),
    Try("a part that comes before the name comes again",
        "L1_a_life_with_all_parts_ends",
        binding_ordered.NO_TIMERS, (DropEffect("take_first", rooms.took(d, h, p, u).to(True)),),
        ONE_LIFE),
    Try("a life of two requests runs out of time by itself",
        "L1_a_life_with_all_parts_ends",
        binding.GUARDED, (DropRow("find_mixed"),
                          DropProperty("S2_only_a_mixed_life_fails_as_mixed"))),
    Try("a life of two requests is over on every rank",
        "L2_a_failure_reaches_every_rank",
        binding.GUARDED, (DropEffect("find_mixed", rooms.STOP_ALL),)),
)
DETECTORS: Final = (
    Try("a look-up that fails ends its sink",
        "only_a_sink_that_was_wrong_is_abandoned",
        registry.SYSTEM, (Retarget("miss", to=bootstrap.Cache.ABANDONED),)),
    Try("a registry that was ready stays so",
        "ready_means_every_rank",
        registry.SYSTEM, (ReplaceRow("strike_out", replace(
            registry.REGISTRY.row("strike_out"), to=None)),)),
    Try("a run that was struck out has never been there",
        "L6_a_run_that_is_up_is_listed",
        registry.SYSTEM, (ReplaceRow("expire", replace(registry.REGISTRY.row("expire"), do=[
            LISTED.to(bootstrap.Record.NEVER), bootstrap.present(bootstrap.p).to(False)])),),
        "alarm"),
    Try("a registry that is behind answers what it knows",
        "nothing_is_answered_after_its_lease",
        replica.SYSTEM, (
        Retarget("answer", at=(replica.View.CURRENT, replica.View.BEHIND)),
        Retarget("turn_away", at=replica.View.JOINING))),
    Try("a server that drains takes who has found it",
        "rule_2_a_drain_takes_no_request",
        drain.SYSTEM, (
        Retarget("accept", at=(drain.Serving.OPEN, drain.Serving.DRAINING)),)),
    Try("a server that drains is found by whoever looks it up",
        "rule_4_no_new_request_is_pointed_to_it",
        drain.SYSTEM, (DropClause("point_again", drain.known(drain.h)),)),
)
GROUPS: Final = (
    Try("a rank may vote ready while its sink still looks for memory",
        "M4_1_a_ready_vote_has_its_bootstrap",
        group_transfer.SYSTEM, (DropClause("vote_ready", ALL_PUBLISHED),)),
    Try("a rank may vote dead without a reason",
        "M4_2_a_dead_vote_has_a_failed_sender",
        group_transfer.SYSTEM, (DropClause("vote_dead", ends.sending(ends.p, ends.h)
                                           == ends.Sending.FAILED),)),
    Try("the sources of a refused request find out by themselves",
        "L2_a_refusal_reaches_every_source",
        sink_group.SYSTEM, (
        DropEffect("obey", ends.abort(ends.d, ends.h, ANY).to(True)),)),
    Try("pages are free as soon as the group has decided",
        "M4_5_a_sink_ends_before_its_pages_are_free",
        sink_group.SYSTEM, (DropClause("free_pages", ends.receiving(ends.d, ends.h).among(
            *sink.ENDED)),)),
)
COMPOSED: Final = (
    Try("a sender needs no run",
        "an_open_sender_is_of_a_run",
        end_to_end_bootstrap.SYSTEM, (DropEffect("open_own_sender", end_to_end_bootstrap.begun(
            ends.p, bootstrap.e, ends.h).to(True)),), ONE_RUN),
    Try("a process takes requests also when it has died",
        "an_open_sender_is_of_a_run",
        end_to_end.SYSTEM, (DropClause("submit", UP),)),
    Try("a process opens senders also when it has died",
        "an_open_sender_is_of_a_run",
        end_to_end_bootstrap.SYSTEM, (DropClause("open_own_sender", UP),), ONE_RUN),
    Try("a room ends if decode does not come at once",
        "only_a_failed_sender_ends_its_room",
        end_to_end_routing.SYSTEM, (DropClause("end_room", end_to_end_routing.NO_MORE),)),
)
EVERY: Final = (*BINDING, *DETECTORS, *GROUPS, *COMPOSED)


def test_none_is_lost() -> None:
    assert len(EVERY) == 22


@pytest.mark.parametrize("one", EVERY, ids=lambda one: one.idea)
def test_it_is_refuted(one: Try) -> None:
    system = edited(one.system, "edit", *one.edits)
    at = system.configurations[one.at] if isinstance(one.at, str) else one.at
    assert judged(system, one.violates, at).verdict is Verdict.VIOLATED
