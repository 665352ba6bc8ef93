"""Registration, look-up and the rank of a room: sizes, verdicts, defects, the need of each row."""

from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.spec.bugs import dp_rank as dp_rank_bugs
from pdproto.spec.bugs import registry as registry_bugs
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff import dp_rank, registry
from pdproto.spec.handoff.bootstrap import Cache
from pdproto.spec.handoff.roles import Incarnation, Life, Sink, Source
from pdproto.spec.handoff.routing import Group
from pdproto.spec.language import (
    Configuration,
    DropRow,
    Fairness,
    LeadsTo,
    ReplaceProperties,
    Retarget,
    System,
    Timer,
    edited,
)
from tests.handoff.exploring import EXPECTED, counts, explored, judged, name_of

REGISTRY: Final = registry.SYSTEM
NO_RETRY: Final = registry.NO_RETRY
NO_TIMEOUTS: Final = registry.NO_TIMEOUTS
DP_RANK: Final = dp_rank.SYSTEM
DP_RANK_NO_TIMERS: Final = dp_rank.NO_TIMERS
SYSTEMS: Final = (REGISTRY, DP_RANK)


@pytest.mark.nightly
def test_one_size_up_nothing_unsafe_is_reached() -> None:
    """Two ranks and two hand-overs at once, each with half of the other's look-up."""
    live = {claim.name for claim in REGISTRY.properties if isinstance(claim, LeadsTo)}
    safety = tuple(claim.name for claim in REGISTRY.properties if claim.name not in live)
    found = check(REGISTRY, REGISTRY.configurations["deep"], CheckSettings(properties=safety))
    assert found.verdict is Verdict.HOLDS
    assert counts(found) == EXPECTED[REGISTRY.name, "deep"]


@pytest.mark.parametrize("system", SYSTEMS, ids=name_of)
def test_every_row_fires_somewhere(system: System) -> None:
    sizes = [name for known, name in EXPECTED if known == system.name and name != "deep"]
    silent = {row.name for _, row in system.rows()}
    for name in sorted(sizes, key=lambda name: EXPECTED[system.name, name].states):
        if silent:  # the larger sizes take seconds
            silent &= set(explored(system.name, name).rows_never_fired)
    assert silent == set()


# The messages that a sink or a source ignores are swept as dead bits; here they stay.
PLAIN: Final = {
    REGISTRY.name: (
        Configuration({Source: 1, Incarnation: 2, Sink: 1, Life: 1}, faults=("crash",)),
        Configuration({Source: 1, Incarnation: 1, Sink: 1, Life: 2}, faults=("outage",)),
    ),
    DP_RANK.name: (
        Configuration({Group: 2, Life: 1}, faults=("crash",)),
        Configuration({Group: 2, Life: 1}, faults=("drained",)),
    ),
}


@pytest.mark.parametrize("system", SYSTEMS, ids=name_of)
def test_every_ignored_message_arrives_somewhere(system: System) -> None:
    ignored = {row.name for _, row in system.rows() if row.kind == "ignore"}
    silent = [
        frozenset(check(system, plain, CheckSettings(properties=("deadlock",))).rows_never_fired)
        for plain in PLAIN[system.name]
    ]
    assert ignored & frozenset.intersection(*silent) == frozenset()


TRACE_LENGTHS: Final = {
    "B02": 5,
    "B02-info": 4,
    "B09-lookup": 5,
    "B28-heartbeat": 17,
    "B28-timer": 3,
    "B29": 17,
    "B30": 13,
    "B57": 20,
    "B68": 4,
    "half-cache": 18,
    "half-cache-kept": 13,
    "counted-twice": 4,
    "no-expiry": 9,
    "no-incarnation": 12,
    "struck-out-for-good": 11,
    "clock-behind": 11,
    "goodbye-of-another": 7,
    "B04": 9,
    "B04-merged": 10,
    "B04-decode-unset": 9,
    "B04-prefill-unset": 10,
    "B04-first-writer": 5,
    "B04-unsaid": 10,
    "B04-named": 8,
    "B37": 9,
    "rank-without-address": 9,
    "no-address-unsaid": 10,
}
BUGS: Final = (*registry_bugs.BUGS, *dp_rank_bugs.BUGS)


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_each_defect_is_found_at_its_shortest(bug: Bug) -> None:
    finding = judged(bug.system, bug.violates, bug.configuration)
    assert finding.verdict is Verdict.VIOLATED
    assert finding.trace_length == TRACE_LENGTHS[bug.id]


# The other sizes are those of "restart", which is pinned, and of "deep", which has crashes too.
SMALL_BUGS: Final = [
    bug for bug in BUGS
    if bug.configuration not in (registry_bugs.RESTART, registry_bugs.TWO_LIVES)
]


@pytest.mark.parametrize("bug", SMALL_BUGS, ids=name_of)
def test_the_edit_alone_breaks_the_property(bug: Bug) -> None:
    """At the same sizes the correct tables keep the property that the defect violates."""
    system = REGISTRY if bug in registry_bugs.BUGS else DP_RANK
    assert judged(system, bug.violates, bug.configuration).verdict is Verdict.HOLDS


WAITED_FOR: Final = [
    (REGISTRY, "show_sign_of_life", "alarm-lossy", "L6_a_run_that_is_up_is_listed"),
    (REGISTRY, "enroll_again", "lossy", "L6_a_run_that_is_up_is_recorded"),
    (REGISTRY, "record_again", "lossy", "L6_a_run_that_is_up_is_recorded"),
    (REGISTRY, "expire", "default", "L7_registrations_expire"),
    (REGISTRY, "look_again", "lossy", "L6_recovery"),
    (REGISTRY, "give_up", "default", "L1_bootstrap_ends"),
    (REGISTRY, "call_again", "lossy", "L6_recovery"),
    (REGISTRY, "miss_heartbeat", "default", "M1_4_lost_connection"),
    (REGISTRY, "abandon", "disconnect", "L1_bootstrap_ends"),
    (DP_RANK, "stop_waiting", "default", "L1_prefill_ends"),
    (DP_RANK, "strike_room_of_run", "crash", "L3_entries_are_cleaned_up"),
    (DP_RANK, "give_up", "default", "L1_decode_ends"),
]


@pytest.mark.parametrize(("system", "row", "name", "broken"), WAITED_FOR, ids=name_of)
def test_every_timer_and_resend_is_needed(
    system: System, row: str, name: str, broken: str
) -> None:
    live = tuple(claim for claim in system.properties if isinstance(claim, LeadsTo))
    without = edited(system, "without", ReplaceProperties(live), DropRow(row))
    assert judged(without, broken, system.configurations[name]).verdict is Verdict.VIOLATED


def test_every_timer_is_in_the_list() -> None:
    timers = {
        (system.name, row.name)
        for system in SYSTEMS
        for _, row in system.rows()
        if isinstance(row.on, Timer)
    }
    assert timers <= {(system.name, row) for system, row, _, _ in WAITED_FOR}


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        ("locate", "L1_bootstrap_ends_at_once"),
        ("record", "L6_a_run_that_is_up_is_recorded_at_once"),
        ("decline", "L6_a_stale_address_is_refused_at_once"),
    ],
)
def test_without_repeats_each_answer_is_needed(row: str, broken: str) -> None:
    default = NO_RETRY.configurations["default"]
    without = edited(NO_RETRY, "silent", DropRow(row))
    assert judged(without, broken, default).verdict is Verdict.VIOLATED


@pytest.mark.parametrize(
    ("row", "broken"),
    [
        ("be_disowned", "L1_decode_ends"),
        ("turn_away", "L1_decode_ends"),
        ("greet", "L1_prefill_ends"),
        ("ask", "L1_prefill_ends"),
    ],
)
def test_without_clocks_each_message_about_a_rank_is_needed(row: str, broken: str) -> None:
    default = DP_RANK_NO_TIMERS.configurations["default"]
    without = edited(DP_RANK_NO_TIMERS, "silent", DropRow(row))
    assert judged(without, broken, default).verdict is Verdict.VIOLATED


def test_a_dead_address_does_not_wait_for_the_rest_of_a_look_up() -> None:
    """If a hand-over gives up, that empties the cache in the end."""
    name = "L7_a_dead_address_is_forgotten"
    for system, verdict in ((REGISTRY, Verdict.HOLDS), (NO_TIMEOUTS, Verdict.VIOLATED)):
        late = edited(system, "late", Retarget("forget", at=Cache.WHOLE))
        assert judged(late, name, system.configurations["default"]).verdict is verdict


@pytest.mark.parametrize(
    "name", ["L1_bootstrap_ends", "L6_recovery", "L6_a_run_that_is_up_is_recorded"]
)
def test_no_state_waits_for_a_safety_net_without_loss(name: str) -> None:
    default = REGISTRY.configurations["default"]
    assert judged(REGISTRY, name, default, Fairness.DETECTORS).verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    "name", [claim.name for claim in REGISTRY.properties if isinstance(claim, LeadsTo)]
)
def test_a_message_need_arrive_only_once(name: str) -> None:
    """Delivery takes the message off the network, so a repeat hides no missing message."""
    one = Configuration(
        {Source: 1, Incarnation: 1, Sink: 1, Life: 1}, faults=("crash", "outage"), dead_bits=True
    )
    assert judged(REGISTRY, name, one, Fairness.CONSUMED).verdict is Verdict.HOLDS


@pytest.mark.parametrize(
    "name", [claim.name for claim in DP_RANK.properties if isinstance(claim, LeadsTo)]
)
def test_a_message_about_a_rank_need_arrive_only_once(name: str) -> None:
    default = DP_RANK.configurations["default"]
    assert judged(DP_RANK, name, default, Fairness.CONSUMED).verdict is Verdict.HOLDS
