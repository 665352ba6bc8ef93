"""The transfer: its sizes, its verdicts, its defects, and the need of each precaution."""

from dataclasses import replace
from typing import Final

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.result import Verdict
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.transfer import BUGS
from pdproto.spec.handoff.direct import IN_PLACE
from pdproto.spec.handoff.ends import Write, b, c, d, h, k, kv, lease, p, target, write
from pdproto.spec.handoff.forgetting import FORGETFUL
from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.sink import INTACT
from pdproto.spec.handoff.source import QUIESCENT
from pdproto.spec.handoff.transfer import DIRECT, LOSS, NO_TIMEOUTS, NO_TIMERS, RESTARTED, SYSTEM
from pdproto.spec.handoff.transfer_fault_free import LANDED
from pdproto.spec.handoff.transfer_two import NO_MEMORY
from pdproto.spec.language import (
    Configuration,
    DropClause,
    LeadsTo,
    ReplaceProperties,
    Sometimes,
    System,
    all_of,
    edited,
)
from proofs.draining import without
from tests.handoff.exploring import EXPECTED, counts, explored, failing, judged, name_of


@pytest.mark.nightly
def test_one_size_up_nothing_unsafe_is_reached() -> None:
    """Two staging buffers: the second life waits for none of the first's; an engine may stray."""
    safety = tuple(one.name for one in SYSTEM.properties if not isinstance(one, LeadsTo))
    found = check(SYSTEM, SYSTEM.configurations["deep"], CheckSettings(properties=safety))
    assert found.verdict is Verdict.HOLDS
    assert counts(found) == EXPECTED[SYSTEM.name, "deep"]
    assert set(found.rows_never_fired) == {"send_more", "give_up_sending"}  # see "chunks"


# Every fault but `stray`, and the dead messages kept: only so are the rows that ignore them seen.
ALL_MESSAGES: Final = Configuration(
    {Source: 1, Sink: 1, Life: 1, Buffer: 1, Chunk: 2, Page: 1, Slot: 1},
    faults=("lossy", "crash", "restart", "sink-crash"),
)


def test_every_row_fires_somewhere() -> None:
    silent = set(
        check(SYSTEM, ALL_MESSAGES, CheckSettings(properties=("deadlock",))).rows_never_fired
    )
    assert silent == {"find_spoilt"}
    assert "find_spoilt" not in explored(SYSTEM.name, "stray").rows_never_fired


OF_CHUNKS: Final = {
    "chunks_are_handed_over_in_order", "a_source_with_all_chunks_waits_for_its_writes",
}
OF_STRAYS: Final = {"only_spoilt_parts_fail_by_the_digest"}


def vacuous(name: str) -> set[str]:
    """The properties whose premise is never true at this size."""
    return {one.name for one in explored(SYSTEM.name, name).findings if "vacuous" in one.note}


def test_no_premise_is_empty_where_two_of_everything_meet() -> None:
    for name in ("default", "sources", "sinks"):
        assert vacuous(name) <= OF_CHUNKS | OF_STRAYS
    assert not vacuous("chunks") & OF_CHUNKS
    assert not vacuous("stray") & OF_STRAYS


TRACE_LENGTHS: Final = {
    "B05": 9,
    "B05-worker": 12,
    "B22": 8,
    "R1": 11,
    "R2": 9,
    "B27": 10,
    "B41": 9,
    "B54": 10,
    "B54-skipped": 14,
    "B74": 16,
    "R19": 11,
    "B23": 7,
    "B23-fan-out": 14,
    "B23-cleared": 14,
    "B46": 11,
    "copy-runs-on": 8,
    "B36": 8,
    "B43": 8,
    "B62": 9,
    "B49": 1,
    "B09": 2,
    "B10": 9,
    "B15": 11,
    "B40": 10,
    "R8a": 17,
    "R25": 12,
    "B31": 8,
    "B51": 7,
    "B52": 5,
    "B50": 12,
    "R4": 5,
    "R5": 6,
    "R3": 5,
    "R22": 11,
    "B28": 4,
    "B38": 5,
    "B38-pages": 8,
    "queue-timed": 3,
    "queue-timed-by-decode": 5,
    "met-by-any": 6,
    "queue-timeout-unmet": 1,
    "silence-as-abort": 3,
    "fence-untold": 11,
    "B64": 12,
    "R12": 11,
    "abort-in-quarantine": 9,
    "B57-transfer": 4,
    "R19-restart": 12,
    "B29-transfer": 8,
    "B30-transfer": 15,
    "silence-as-death": 1,
    "silence-of-a-sink-as-death": 2,
    "fenced-and-forgotten": 10,
}


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_the_defect_is_refuted(bug: Bug) -> None:
    found = judged(bug.system, bug.violates, bug.configuration)
    assert found.verdict is Verdict.VIOLATED
    assert found.trace_length == TRACE_LENGTHS[bug.id]


@pytest.mark.parametrize("bug", BUGS, ids=name_of)
def test_only_the_edit_breaks_the_property(bug: Bug) -> None:
    """A property that fails anyway would seem to catch every defect."""
    again = {"lossy", "restart"}.intersection(bug.configuration.faults)
    among = (SYSTEM, NO_TIMEOUTS, RESTARTED) if again else (SYSTEM, NO_TIMERS, DIRECT, IN_PLACE)
    derived = dict.fromkeys(("sending_edges", "no_peer_is_at_fault"), SYSTEM)
    named = {claim.name: system for system in reversed(among) for claim in system.properties}
    sound = (derived | named)[bug.violates]
    assert judged(sound, bug.violates, bug.configuration).verdict is Verdict.HOLDS


def test_each_defect_is_pinned_once() -> None:
    assert [bug.id for bug in BUGS] == list(TRACE_LENGTHS)


# Repeated messages, clocks, and steps that answer: each is needed for this property.
NEEDED: Final[list[tuple[str, System, str, str]]] = [
    ("find_spoilt", SYSTEM, "stray", "L1_a_sink_with_all_parts_ends"),
    ("give_up_waiting", LOSS, "default", "L1_a_source_ends"),
    ("give_up_sending", LOSS, "chunks", "L1_a_source_ends"),
    ("give_up_bootstrap", NO_MEMORY, "default", "L1_a_request_that_a_source_lacks_ends"),
    ("lose_sink", NO_TIMERS, "sink-crash", "L7_a_source_notices_a_crash"),
    ("answer_meeting", NO_TIMEOUTS, "no-memory", "L1_both_ends_meet"),
    ("note_met", NO_TIMEOUTS, "no-memory", "L1_both_ends_meet"),
    ("give_up_transfer", LOSS, "default", "L1_a_sink_ends"),
    ("fence_silent", LOSS, "default", "L4_every_chunk_comes_back"),
    ("finish_fence", LOSS, "default", "L4_every_chunk_comes_back"),
    ("refuse", LOSS, "default", "L4_source_pages_come_back"),
    ("meet_refusal", LOSS, "default", "L1_a_source_ends"),
    ("lose_source", NO_TIMEOUTS, "default", "L7_a_sink_notices_a_crash"),
    ("fence_lost", NO_TIMEOUTS, "default", "L4_a_failed_sink_gets_its_chunk_back"),
    ("introduce_again", NO_TIMEOUTS, "no-memory", "L2_a_sink_hears_of_a_failure"),
    ("refuse_meeting", NO_TIMEOUTS, "no-memory", "L2_a_sink_hears_of_a_failure"),
    ("publish_again", NO_TIMEOUTS, "default", "L1_a_sink_with_all_parts_commits"),
    ("done_again", NO_TIMEOUTS, "default", "L1_a_sink_with_all_parts_commits"),
    ("refuse_address", NO_TIMEOUTS, "default", "L2_a_sink_hears_of_a_failure"),
    ("abort_again", NO_TIMEOUTS, "default", "L2_a_source_hears_of_a_failure"),
    ("say_drained_again", NO_TIMEOUTS, "default", "L4_a_failed_sink_gets_its_chunk_back"),
    ("disown_meeting", NO_TIMEOUTS, "no-memory", "L7_a_sink_notices_a_crash"),
    ("disown_address", NO_TIMEOUTS, "default", "L7_a_sink_notices_a_crash"),
    ("disown_abort", NO_TIMEOUTS, "default", "L4_a_failed_sink_gets_its_chunk_back"),
    ("tell_failure", NO_TIMERS, "default", "L2_a_sink_hears_of_a_failure"),
    ("say_drained", NO_TIMERS, "default", "L4_a_failed_sink_gets_its_chunk_back"),
    ("note_drained", NO_TIMERS, "default", "L4_a_failed_sink_gets_its_chunk_back"),
    ("note_landed", LANDED, "default", "L4_a_landed_part_needs_no_other_answer"),
    ("end_lease", NO_TIMERS, "default", "L4_a_failed_sink_gets_its_chunk_back"),
    ("release_kv", NO_TIMERS, "default", "L4_an_ended_source_gets_its_pages_back"),
]


@pytest.mark.parametrize(("row", "system", "name", "broken"), [
    pytest.param(*one, id=f"{one[0]}-{one[1].name}-{one[2]}-{one[3]}",
                 marks=pytest.mark.nightly if one[0] == "find_spoilt" else ()) for one in NEEDED])
def test_liveness_needs_the_row(row: str, system: System, name: str, broken: str) -> None:
    found = judged(without(system, row), broken, system.configurations[name])
    assert found.verdict is Verdict.VIOLATED


def test_a_chunk_is_leased_again() -> None:
    """Two lives do share a chunk: the default configuration is there for this."""
    again = Sometimes("again", all_of(
        h.differs(k), write(p, h, d, c) == Write.LANDED, target(p, h, d, b), lease(d, k, b)
    ))
    witnessed = edited(SYSTEM, "witnessed", ReplaceProperties((again,)))
    assert judged(witnessed, "again", SYSTEM.configurations["default"]).verdict is Verdict.HOLDS


def test_only_the_digest_keeps_a_stray_write_out_of_a_page() -> None:
    stray = SYSTEM.configurations["stray"]
    trusting = edited(SYSTEM, "trusting", DropClause("commit", INTACT))
    name = "S2_complete_when_committed"
    assert judged(SYSTEM, name, stray).verdict is Verdict.HOLDS
    assert judged(trusting, name, stray).verdict is Verdict.VIOLATED


def test_direct_writes_need_the_fence() -> None:
    """The system leaves out the fault that gets past a fence: with the fault the property fails."""
    stray = SYSTEM.configurations["stray"]
    assert "stray" not in DIRECT.faults
    strayed = replace(DIRECT, faults=SYSTEM.faults)
    finding = judged(strayed, "S2_complete_while_the_memory_is_read", stray)
    assert finding.verdict is Verdict.VIOLATED


def test_no_source_writes_directly_without_a_fence() -> None:
    no_fence = SYSTEM.configurations["no-fence"]
    found = judged(DIRECT, "S2_a_sink_commits", no_fence)
    assert found.verdict is Verdict.VIOLATED


@pytest.mark.parametrize("name", FORGETFUL.configurations)
def test_a_life_that_is_over_may_be_forgotten(name: str) -> None:
    found = check(FORGETFUL, FORGETFUL.configurations[name], CheckSettings(keep_going=True))
    assert failing(found) == []
    forgetting = {"refuse_forgotten_meeting", "refuse_forgotten_address", "drain_forgotten"}
    assert not forgetting.intersection(found.rows_never_fired)


@pytest.mark.parametrize(
    "name", ["S10_drained_means_quiescent", "S1_writes_stay_in_own_memory"]
)
def test_a_life_with_a_write_under_way_may_not_be_forgotten(name: str) -> None:
    hasty = edited(
        FORGETFUL, "hasty",
        DropClause("drain_forgotten", QUIESCENT), DropClause("drain_forgotten", ~kv(p, h)),
    )
    found = judged(hasty, name, FORGETFUL.configurations["default"])
    assert found.verdict is Verdict.VIOLATED
