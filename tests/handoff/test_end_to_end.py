"""The hand-over from end to end, at its smallest: its defects, and the rows that join its parts."""

from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.counts import Counts
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.end_to_end import BUGS
from pdproto.spec.handoff import attempts, dp_rank, registry, registry_world, transfer
from pdproto.spec.handoff import end_to_end_attempts as passes
from pdproto.spec.handoff import end_to_end_bootstrap as lookup
from pdproto.spec.handoff import end_to_end_routing as rooms
from pdproto.spec.handoff.bootstrap import Run, e
from pdproto.spec.handoff.end_to_end import HOST, OF_TWO, RESTART, SYSTEM
from pdproto.spec.handoff.ends import (
    Receiving,
    Sending,
    d,
    h,
    k,
    kv,
    p,
    receiving,
    sending,
)
from pdproto.spec.handoff.roles import Chunk, Incarnation, Life, Sink
from pdproto.spec.handoff.sink import DROP
from pdproto.spec.language import (
    ANY,
    Always,
    Configuration,
    DropClause,
    DropEffect,
    DropRow,
    LeadsTo,
    OnRow,
    ReplaceProperties,
    ReplaceRow,
    Sometimes,
    System,
    all_of,
    edited,
)
from pdproto.spec.language.edit import Edit
from proofs.a_life_keeps_its_run import ONE_ALONE
from tests.handoff.exploring import counts, explored, failing, name_of

SYSTEMS: Final = (
    SYSTEM, RESTART, lookup.SYSTEM, rooms.SYSTEM, passes.SYSTEM, passes.CONTENDED,
)


def broken(system: System, name: str, configuration: Configuration) -> list[str]:
    """The violation of this one property."""
    return failing(check(system, configuration, CheckSettings(properties=(name,))))


@pytest.mark.parametrize(
    "system", [s for s in SYSTEMS if "default" in s.configurations], ids=name_of)
def test_no_row_of_a_host_is_idle(system: System) -> None:
    """Every row that joins the parts fires, except for successors and passes that never fail."""
    own = {row.name for table in system.tables if table.machine.name == "host"
           for row in table.rows}
    idle = own & set(explored(system.name).rows_never_fired)
    failures = {"end_pass", "release_places", "bury_pass"}
    allowed = {"end-to-end": {"disown"}, "end-to-end-contended": failures}
    assert idle == allowed.get(system.name, set())


def test_the_rows_are_those_of_the_parts() -> None:
    """What is not is the host's. A row of a part is known by the place where it is written."""
    parts = {row.place for part in (attempts.PREFILL, *registry.SYSTEM.tables,
                                    registry_world.OUTAGE, *transfer.SYSTEM.tables,
                                    *dp_rank.SYSTEM.tables)
             for row in part.rows}
    own = {row.place for host in (HOST, lookup.HOST, rooms.HOST, passes.HOST) for row in host.rows}
    for system in SYSTEMS:
        strange = {row.name for table in system.tables for row in table.rows
                   if row.place not in parts | own}
        assert strange <= {
            "ignore_prompt_absent", "ignore_introduce_gone", "ignore_publish_gone",
            "ignore_abort_gone", "ignore_error_transferring_failed",
            "reject_outdated_up",
        }


def test_each_system_has_safety_properties_and_witnesses() -> None:
    for system in SYSTEMS:
        kinds = [type(claim) for claim in system.properties]
        assert kinds.count(Sometimes) > 1
        assert kinds.count(Always) + kinds.count(OnRow) > 1


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_each_defect_is_found(bug: Bug) -> None:
    assert broken(bug.system, bug.violates, bug.configuration) == [bug.violates]


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_no_part_has_the_property_that_a_defect_violates(bug: Bug) -> None:
    """So only the composed system shows the defect."""
    parts = (registry.SYSTEM, dp_rank.SYSTEM, transfer.SYSTEM)
    assert bug.violates not in {claim.name for part in parts for claim in part.properties}


# Each of these goes wrong without this edit's row; real defects are in spec/bugs.
NEEDED: Final[list[tuple[System, str, Edit]]] = [
    (lookup.SYSTEM, "a_completed_look_up_begins_the_transfer", DropRow("open_receiver")),
    (lookup.SYSTEM, "the_writing_run_was_looked_up",
     DropEffect("lose_welcome", lookup.welcome(ANY, h, p, e).to(False))),
    (rooms.SYSTEM, "a_refusal_ends_the_transfer", DropRow("obey_refusal")),
    (rooms.SYSTEM, "L4_every_page_comes_back", DropEffect("obey_refusal", DROP[0])),
    (rooms.SYSTEM, "nothing_is_sent_of_a_room_in_conflict",
     DropClause("open_own_sender", rooms.RUN_HERE)),
    (passes.SYSTEM, "a_sinks_failure_ends_the_pass", DropRow("end_pass")),
    (passes.SYSTEM, "L4_slots_and_running_slots_come_back", DropRow("release_places")),
    (passes.SYSTEM, "L4_slots_and_running_slots_come_back", DropRow("bury_pass")),
    (passes.SYSTEM, "L4_source_pages_come_back",
     DropEffect("release_places", kv(p, h).to(False))),
    (passes.CONTENDED, "L5_no_capacity_deadlock", DropRow("run_again")),
    (passes.CONTENDED, "L5_no_capacity_deadlock", DropRow("fall_back")),
    (passes.CONTENDED, "L5_no_capacity_deadlock", DropRow("conclude")),
    (SYSTEM, "a_run_that_ends_takes_its_transfers_along", DropRow("notice")),
    (SYSTEM, "a_run_that_ends_takes_its_passes_along", DropRow("bury_pass")),
    (SYSTEM, "a_failed_look_up_gives_everything_back", DropRow("give_up_waiting")),
    (SYSTEM, "a_source_called_lost_is_gone",
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
    fired = set(explored(passes.CONTENDED.name).rows_fired)
    assert {"run_again", "fall_back"} <= fired


_L5: Final = "L5_no_capacity_deadlock"
_CONTENDED: Final = passes.CONTENDED.configurations["one-attempt"]


def test_a_pass_of_two_chunks_is_sent() -> None:
    two = replace(_CONTENDED, sizes={**_CONTENDED.sizes, Chunk: 2})
    assert broken(passes.CONTENDED, _L5, two) == []


@pytest.mark.nightly
@pytest.mark.slow
def test_two_sinks_with_a_page_each_deadlock() -> None:
    """The proof assumes one sink: ranks of a decode server must decide together."""
    two = replace(_CONTENDED, sizes={**_CONTENDED.sizes, Sink: 2})
    assert broken(passes.CONTENDED, _L5, two) == [_L5]


# Two lives with memory for one, and one run of their source.
TWO_LIVES: Final = Configuration(
    {**lookup.SIZES, Incarnation: 1, Life: 2}, faults=("crash",), dead_bits=True, symmetry=True)
_TOOK_TWO_ALONG: Final = Sometimes("a_run_takes_two_lives_along", all_of(
    h.differs(k), lookup.run(p, e) == Run.CRASHED,
    *(all_of(lookup.begun(p, e, one), sending(p, one) == Sending.GONE,
             receiving(d, one).among(Receiving.BOOTSTRAPPING, Receiving.WAITING))
      for one in (h, k))))


@pytest.mark.nightly
@pytest.mark.slow
def test_a_run_that_dies_takes_all_its_lives_along() -> None:
    """Two lives of one run keep every promise. The witnesses that need a second run are left out.
    """
    safe = tuple(claim for claim in lookup.SYSTEM.properties
                 if not isinstance(claim, LeadsTo) and claim.name not in OF_TWO)
    found = check(
        edited(lookup.SYSTEM, "two-lives", ReplaceProperties((*safe, _TOOK_TWO_ALONG))),
        TWO_LIVES, CheckSettings())
    assert failing(found) == []
    assert counts(found) == Counts(1_284_030, 12_415_012, 54)


@pytest.mark.parametrize(("sizes", "violated"), [(TWO_LIVES, True), (
    replace(TWO_LIVES, sizes={**TWO_LIVES.sizes, Life: 1}), False)], ids=["two", "one"])
def test_only_two_lives_show_a_run_that_takes_one_along(
    sizes: Configuration, violated: bool
) -> None:
    wrong = edited(lookup.SYSTEM, "one-alone", ReplaceRow("crash", ONE_ALONE))
    name = "the_writing_run_was_looked_up"
    assert broken(wrong, name, sizes) == [name] * violated
