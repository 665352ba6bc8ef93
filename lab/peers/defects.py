"""The defects of SGLang 0.5.23's hand-over that its own classes have shown (lab/peer_defects).

Each is a property that the description breaks at named sizes, and perhaps a repair: an edit under
which the property holds there. A run that shows the defect conforms to the description. The
repaired tables reject it at the wrong line, if a trace can show it.

The tables leave out: threads that die (R16, R18), a status that two threads write (R21), the text
of an address (R14), a restart (B29), and room 0.
"""

from dataclasses import dataclass
from typing import Final

from lab.peers import sglang, sglang_registry
from lab.peers.sglang_ends import (
    ACTIVE,
    Status,
    armed,
    begun,
    c,
    came,
    d,
    owes,
    owner,
    p,
    poisoned,
    queued,
    r,
)
from lab.peers.sglang_registry import listed
from lab.peers.sglang_sink import other
from lab.peers.sglang_source import part
from pdproto.spec.language import (
    AddClause,
    Configuration,
    DropRow,
    ReplaceProperties,
    Retarget,
    System,
    edited,
    forall,
)
from pdproto.spec.language.edit import Edit


@dataclass(frozen=True, slots=True)
class Defect:
    """race: its name in docs/peer.md. script: the script that shows it, in lab/peer_defects.

    system: the description, without other defects that break the same property sooner. It breaks
    `violates` in the configuration, and `repaired`, if there is one, does not. rejected: the
    repaired tables reject the trace of the script.
    """

    race: str
    script: str
    violates: str
    system: System
    configuration: Configuration
    repaired: System | None = None
    rejected: bool = False


def _defect(
    race: str, script: str, violates: str, system: System, *repair: Edit,
    at: str = "default", rejected: bool = True,
) -> Defect:
    repaired = edited(system, f"{system.name}-{script}", *repair) if repair else None
    return Defect(race, script, violates, system, system.configurations[at], repaired,
                  rejected and repaired is not None)


# An abort is remembered for every room, known or not.
REMEMBER: Final = (
    Retarget("hear_abort_late", at=Status.ABSENT, to=Status.FAILED),
    Retarget("hear_early_abort", at=(*ACTIVE, Status.ABSENT)),
    DropRow("ignore_early_abort_absent_success"),
)
IDLE: Final = forall(part, ~owes(p, r, part))  # no worker has a chunk of this room

# Prefill uses no number twice here, so only the status can be mistaken.
AGAIN_ON_DECODE: Final = edited(
    sglang.SYSTEM, "sglang-again-on-decode", DropRow("reopen_sender"),
    DropRow("reopen_sender_late"))
TWO_ABORTS: Final = edited(
    AGAIN_ON_DECODE, "sglang-two-aborts",
    *map(DropRow, (*sglang.CLOCKS, "meet_error", "meet_error_late", "poison")))
# Decode uses no number twice here, so only prefill can lose count.
AGAIN_ON_PREFILL: Final = edited(
    sglang.SYSTEM, "sglang-again-on-prefill", DropRow("reopen_receiver"), *sglang.LEARNT_ONCE)
# Pages are given back when all ranks have answered, and at no other time.
NO_CLOCK: Final = edited(
    sglang.ONCE, "sglang-no-clock", ReplaceProperties(sglang.SAFETY[:2]))
KEEPING: Final = edited(NO_CLOCK, "sglang-keeping", DropRow("look_cleared"))
CLEARING: Final = edited(NO_CLOCK, "sglang-clearing", *REMEMBER)
REMEMBERING: Final = edited(sglang.ONCE, "sglang-remembering", *REMEMBER)

DEFECTS: Final = (
    _defect("R3", "r3_lost_abort", "L2_a_source_hears_of_an_abort", REMEMBERING, at="lossy"),
    _defect("R4", "r4_abort_before_request", "L2_a_request_hears_of_an_earlier_abort",
            sglang.ONCE, *REMEMBER),
    _defect("R5", "r5_late_metadata", "R5_no_room_without_an_owner", sglang.SYSTEM,
            AddClause("learn_last_early", ~came(p, r))),
    _defect("R6", "r6_silent_abort", "L2_a_sink_hears_of_a_failure", sglang.ONCE),
    _defect("R8a", "r8a_late_success", "S2_complete_when_success", AGAIN_ON_DECODE,
            DropRow("reopen_receiver")),
    _defect("R8b", "r8b_ack_while_writing", "S10_an_ack_means_quiescent", AGAIN_ON_PREFILL,
            AddClause("reopen_sender", IDLE & ~poisoned(p, r))),
    _defect("R8c", "r8c_shared_answers", "R8c_answers_are_kept_for_each_abort",
            TWO_ABORTS, AddClause("abort_published_again", ~armed(d, r, other)), at="aborts"),
    _defect("R8, in the queue", "r8_chunk_of_an_earlier_use", "S4_no_chunk_of_an_earlier_use",
            sglang.SYSTEM, AddClause("reopen_sender", forall(part, ~queued(p, r, part)))),
    _defect("R8, by clear()", "r8_write_after_clear", "S1_writes_stay_in_own_memory", CLEARING,
            DropRow("look_cleared"), rejected=False),
    _defect("R19", "r19_partial_publication", "S1_writes_stay_in_own_memory", KEEPING,
            *REMEMBER, at="sinks"),
    _defect("R22", "r22_lost_status", "L1_a_sink_with_all_parts_succeeds", sglang.ONCE, at="lossy"),
    _defect("R25", "r25_success_after_abort", "S14_no_success_after_a_failure", sglang.SYSTEM,
            AddClause("succeed_anyway", ~begun(p, r, c))),
    _defect("B09", "b09_room_begins_failed", "B09_no_room_begins_failed", sglang.SYSTEM,
            AddClause("reopen_sender_abandoned", ~owner(p, r))),
    Defect("R15", "r15_ready_too_early", "ready_means_every_rank", sglang_registry.SYSTEM,
           sglang_registry.SYSTEM.configurations["default"],
           edited(sglang_registry.SYSTEM, "sglang-registry-r15",
                  AddClause("record_again", ~listed(sglang_registry.p)),
                  AddClause("record_other", ~listed(sglang_registry.p))), rejected=True),
    Defect("topology", "contradictory_topology", "one_topology", sglang_registry.SYSTEM,
           sglang_registry.SYSTEM.configurations["default"],
           edited(sglang_registry.SYSTEM, "sglang-registry-topology", DropRow("record_other")),
           rejected=True),
)
