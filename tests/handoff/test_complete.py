"""The whole at its smallest: its sizes, its verdicts, its defects, and what joins the parts."""

from functools import cache
from typing import Final, NamedTuple

import pytest

from pdproto.check.checking import Settings, check
from pdproto.check.lint import Severity, lint, small_sizes
from pdproto.check.result import CheckResult, Verdict
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.complete import BUGS
from pdproto.spec.handoff import attempts, dp_rank, registry, transfer
from pdproto.spec.handoff import complete_attempts as passes
from pdproto.spec.handoff import complete_bootstrap as lookup
from pdproto.spec.handoff import complete_routing as rooms
from pdproto.spec.handoff.bootstrap import e
from pdproto.spec.handoff.complete import HOST, RESTART, SYSTEM
from pdproto.spec.handoff.ends import d, h, kv, p
from pdproto.spec.handoff.sink import DROP
from pdproto.spec.language import (
    Always,
    Configuration,
    DropClause,
    DropEffect,
    DropRow,
    OnRow,
    ReplaceProperties,
    Sometimes,
    System,
    edited,
)
from pdproto.spec.language.edit import Edit

SYSTEMS: Final = (
    SYSTEM, RESTART, lookup.SYSTEM, rooms.SYSTEM, passes.SYSTEM, passes.CONTENDED,
)


class Counts(NamedTuple):
    """As in `CheckResult`: with dead bits cleared, and with every property watched."""

    states: int
    transitions: int
    depth: int


PINNED: Final[list[tuple[System, str, Counts]]] = [
    (SYSTEM, "default", Counts(46_992, 330_880, 47)),
    (lookup.SYSTEM, "default", Counts(166_894, 1_224_074, 44)),
    (rooms.SYSTEM, "default", Counts(25_653, 173_708, 33)),
    (passes.SYSTEM, "default", Counts(11_582, 75_466, 30)),
    (passes.SYSTEM, "one-attempt", Counts(7_176, 47_542, 30)),
    (passes.CONTENDED, "default", Counts(6_432, 26_070, 53)),
    (passes.CONTENDED, "one-attempt", Counts(4_542, 18_607, 52)),
]


def name_of(value: object) -> str | None:
    match value:
        case System():
            return value.name
        case Bug():
            return value.id
        case str():
            return value
    return None


@cache
def explored(system: str, name: str) -> CheckResult:
    """Each configuration once: several tests look at the same run."""
    (one,) = (known for known in SYSTEMS if known.name == system)
    return check(one, one.configurations[name], Settings(keep_going=True))


def failing(found: CheckResult) -> list[str]:
    return [f.name for f in found.findings if f.verdict is not Verdict.HOLDS]


def broken(system: System, name: str, configuration: Configuration) -> list[str]:
    """What the system violates of this one property."""
    return failing(check(system, configuration, Settings(properties=(name,))))


@pytest.mark.parametrize(("system", "name", "counts"), PINNED, ids=name_of)
def test_everything_holds_at_the_pinned_counts(system: System, name: str, counts: Counts) -> None:
    found = explored(system.name, name)
    assert failing(found) == []
    assert Counts(found.states, found.transitions, found.depth) == counts


def test_every_configuration_is_pinned() -> None:
    named = {(system.name, name) for system in SYSTEMS for name in system.configurations}
    pinned = {(system.name, name) for system, name, _ in PINNED}
    assert {name for _, name in named - pinned} == {"deep"}  # minutes, and `check --deep`'s


@pytest.mark.parametrize(("system", "name"), [(s, n) for s, n, _ in PINNED], ids=name_of)
def test_no_row_of_a_host_is_idle(system: System, name: str) -> None:
    """What joins the parts does so: but for a successor, and passes that nobody fails."""
    own = {row.name for table in system.tables if table.machine.name == "host"
           for row in table.rows}
    idle = own & set(explored(system.name, name).rows_never_fired)
    failures = {"end_pass", "release_places", "bury_pass"}
    allowed = {"complete": {"disown"}, "complete-contended": failures}
    assert idle == allowed.get(system.name, set())


@pytest.mark.parametrize("system", SYSTEMS, ids=name_of)
def test_lint_finds_no_error(system: System) -> None:
    remarks = lint(system, small_sizes(system))
    assert [r.message for r in remarks if r.severity is Severity.ERROR] == []


def test_the_rows_are_those_of_the_parts() -> None:
    """What is not is the host's. A row of a part is known by the place where it is written."""
    parts = {row.place for part in (attempts.PREFILL, *registry.SYSTEM.tables, registry.OUTAGE,
                                    *transfer.SYSTEM.tables, *dp_rank.SYSTEM.tables)
             for row in part.rows}
    own = {row.place for host in (HOST, lookup.HOST, rooms.HOST, passes.HOST) for row in host.rows}
    for system in SYSTEMS:
        strange = {row.name for table in system.tables for row in table.rows
                   if row.place not in parts | own}
        assert strange <= {
            "ignore_prompt_absent", "ignore_introduce_gone", "ignore_publish_gone",
            "ignore_abort_gone", "ignore_error_transferring",
        }


def test_each_says_what_never_happens_and_what_may() -> None:
    for system in SYSTEMS:
        kinds = [type(claim) for claim in system.properties]
        assert kinds.count(Sometimes) > 1
        assert kinds.count(Always) + kinds.count(OnRow) > 1


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_each_defect_is_found(bug: Bug) -> None:
    assert broken(bug.system, bug.violates, bug.configuration) == [bug.violates]


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_no_part_has_the_property_that_a_defect_violates(bug: Bug) -> None:
    """So that it takes the composition to say what goes wrong."""
    parts = (registry.SYSTEM, dp_rank.SYSTEM, transfer.SYSTEM)
    assert bug.violates not in {claim.name for part in parts for claim in part.properties}


# Without this, each of these goes wrong; where it is a defect that was met, it is in spec/bugs.
NEEDED: Final[list[tuple[System, str, Edit]]] = [
    (lookup.SYSTEM, "who_was_looked_up_begins", DropRow("open_receiver")),
    (lookup.SYSTEM, "a_life_is_begun_with_one_run",
     DropEffect("crash_unheard", lookup.begun(p, e, h).to(False))),
    (rooms.SYSTEM, "a_refusal_ends_the_transfer", DropRow("obey_refusal")),
    (rooms.SYSTEM, "L4_every_page_comes_back", DropEffect("obey_refusal", DROP[0])),
    (rooms.SYSTEM, "nothing_is_sent_of_a_room_in_conflict",
     DropClause("open_own_sender", rooms.RUN_HERE)),
    (passes.SYSTEM, "a_sinks_failure_ends_the_pass", DropRow("end_pass")),
    (passes.SYSTEM, "L4_slots_and_seats_come_back", DropRow("release_places")),
    (passes.SYSTEM, "L4_slots_and_seats_come_back", DropRow("bury_pass")),
    (passes.SYSTEM, "L4_source_pages_come_back",
     DropEffect("release_places", kv(p, h).to(False))),
    (passes.CONTENDED, "L5_no_capacity_deadlock", DropRow("run_again")),
    (passes.CONTENDED, "L5_no_capacity_deadlock", DropRow("fall_back")),
    (passes.CONTENDED, "L5_no_capacity_deadlock", DropRow("conclude")),
    (SYSTEM, "a_run_that_ends_takes_its_transfers_along", DropRow("notice")),
    (SYSTEM, "a_run_that_ends_takes_its_passes_along", DropRow("bury_pass")),
    (SYSTEM, "a_failed_look_up_gives_everything_back", DropRow("give_up_waiting")),
    (SYSTEM, "who_is_called_lost_was_lost",
     DropClause("notice", lookup.dead(d, p, e))),
    (SYSTEM, "a_failed_look_up_gives_everything_back", DropRow("release_places")),
]


@pytest.mark.parametrize(
    ("system", "name", "edit"), NEEDED,
    ids=[f"{s.name}-{type(e).__name__}-{getattr(e, 'row', '')}" for s, _, e in NEEDED])
def test_each_link_between_the_parts_is_needed(system: System, name: str, edit: Edit) -> None:
    claims = tuple(claim for claim in system.properties if claim.name == name)
    wrong = edited(system, "unlinked", ReplaceProperties(claims), edit)
    assert broken(wrong, name, system.configurations["default"]) == [name]


def test_two_passes_are_dropped_where_two_contend() -> None:
    fired = set(explored(passes.CONTENDED.name, "default").rows_fired)
    assert {"run_again", "fall_back"} <= fired
