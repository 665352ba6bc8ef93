"""SGLang 0.5.23's hand-over as its code does it, so that a run of it can be replayed.

This is a description, not a proposal: `pdproto trace` compares a run of SGLang's own managers with
it (docs/peer.md), and it is wrong where SGLang is. The properties are those of the transfer that
make sense for a room. defects.py names those that it breaks, each with a repair if there is one.

Left out: staging, dummy ranks, the allocation policy prefill_complete, and groups of ranks. An
aux row goes with its last chunk. Messages are sets: for SGLang that means late, never twice.
"""

from typing import Final

from lab.peers.sglang_ends import (
    OPEN,
    READY,
    Generation,
    Room,
    Status,
    Write,
    abort,
    abort_ack,
    armed,
    c,
    came,
    content,
    d,
    early_abort,
    engine,
    failed,
    found,
    heard,
    metadata,
    owner,
    p,
    page,
    published,
    queued,
    r,
    receiving,
    sending,
    success,
    write,
)
from lab.peers.sglang_sink import SINK, other
from lab.peers.sglang_source import SOURCE
from pdproto.spec.handoff.roles import Chunk, Sink, Source
from pdproto.spec.language import (
    AddClause,
    Always,
    Configuration,
    DropRow,
    Fairness,
    LeadsTo,
    OnRow,
    ReplaceProperties,
    Row,
    Sizes,
    Sometimes,
    System,
    Table,
    all_of,
    edited,
    forall,
    lose,
)

ENGINE: Final = Table(engine, rows=(
    Row("land", choose=(p, r, d, c), when=write(p, r, d, c) == Write.POSTED,
        do=[write(p, r, d, c).to(Write.LANDED), content(d, r, p, c).to(True)], fair=False,
        why="a write may land late, or never"),
))
LOSSY: Final = Table(engine, rows=tuple(
    lose(message) for message in (metadata, abort, early_abort, success, failed, abort_ack)
))

WAITS: Final = all_of(receiving(d, r).among(*READY), published(d, r))
SENDING_FAILED: Final = sending(p, r) == Status.FAILED

SAFETY: Final = (
    OnRow("S1_writes_stay_in_own_memory", "land", page(d, r),
          why="a write lands only in pages that belong to its room"),
    Sometimes("S1_a_source_writes", write(p, r, d, c) == Write.LANDED),
    OnRow("S2_complete_when_success", "keep_pages", forall((p, c), content(d, r, p, c)),
          why="the KV that a decode rank takes is complete, and of this use of the room"),
    Sometimes("S2_a_sink_succeeds", receiving(d, r) == Status.SUCCESS),
    OnRow("S10_an_ack_means_quiescent", "say_ack",
          forall(c, write(p, r, d, c) != Write.POSTED),
          why="a rank that acknowledges an abort has no write to that decode rank"),
    OnRow("S3_success_is_for_good", "hear_failure", receiving(d, r) != Status.SUCCESS,
          why="a caller that has polled Success has answered its client"),
    OnRow("S14_no_success_after_a_failure", "succeed_anyway", sending(p, r) != Status.FAILED,
          why="decode does not succeed where prefill has failed"),
    Always("R5_no_room_without_an_owner", ~all_of(
        came(p, r), ~owner(p, r), sending(p, r) == Status.WAITING),
        why="a late message for a room that is over does not open it again"),
    Always("S4_no_chunk_of_an_earlier_use", ~all_of(
        sending(p, r) == Status.BOOTSTRAPPING, queued(p, r, c)),
        why="no chunk of an earlier use is queued when the next use begins"),
    OnRow("R8c_answers_are_kept_for_each_abort", "abort_published_again",
          ~armed(d, r, other), why="a rank counts an abort's answers until its pages are released"),
    OnRow("B09_no_room_begins_failed", "reopen_sender_abandoned", ~owner(p, r),
          why="the remains of one use of a room do not fail the next"),
)
LIVENESS: Final = (
    LeadsTo("L2_a_sink_hears_of_a_failure", WAITS & SENDING_FAILED, ~WAITS,
            under=(Fairness.CONSUMED,), why="a message reports the failure, and no clock"),
    LeadsTo("L2_a_source_hears_of_an_abort",
            all_of(sending(p, r).among(*OPEN), receiving(d, r) == Status.FAILED, found(d, r)),
            ~sending(p, r).among(*OPEN), under=(Fairness.CONSUMED,),
            why="a message reports the abort, and no clock"),
    LeadsTo("L2_a_request_hears_of_an_earlier_abort",
            all_of(sending(p, r) == Status.BOOTSTRAPPING, receiving(d, r) == Status.FAILED,
                   found(d, r)),
            sending(p, r) != Status.BOOTSTRAPPING, under=(Fairness.CONSUMED,),
            why="a message reports the abort, and no clock"),
    LeadsTo("L1_a_sink_with_all_parts_succeeds",
            all_of(WAITS, sending(p, r) == Status.SUCCESS), ~WAITS, under=(Fairness.CONSUMED,),
            why="a lost message is sent again"),
)


def _sizes(*, sinks: int = 1, chunks: int = 1, generations: int = 1) -> Sizes:
    return {Source: 1, Sink: sinks, Room: 1, Chunk: chunks, Generation: generations}


SYSTEM: Final = System(
    "sglang",
    "SGLang 0.5.23's hand-over, described as its code does it.",
    tables=(SOURCE, SINK, ENGINE),
    properties=SAFETY,
    faults={"lossy": (LOSSY,)},
    configurations={
        "default": Configuration(_sizes(), dead_bits=True),
        "sinks": Configuration(_sizes(sinks=2), dead_bits=True),
        "chunks": Configuration(_sizes(chunks=2), dead_bits=True),
        "aborts": Configuration(_sizes(generations=2), dead_bits=True),
    },
)

USED_AGAIN: Final = (
    "reopen_sender", "reopen_sender_late", "reopen_sender_abandoned", "reopen_receiver",
    "reopen_receiver_abandoned",
)
CLOCKS: Final = ("give_up_waiting", "give_up", "release_by_clock", "lose_prefill")
# Where decode publishes a room once, its metadata comes once.
LEARNT_ONCE: Final = tuple(AddClause(row, ~heard(p, r, d)) for row in (
    "learn", "learn_last", "learn_last_early", "learn_last_late"))
ONCE: Final = edited(
    SYSTEM, "sglang-once",
    ReplaceProperties(LIVENESS),
    *map(DropRow, USED_AGAIN),
    *map(DropRow, CLOCKS),
    *LEARNT_ONCE,
    about="SGLang 0.5.23's hand-over where no number is used twice, and no clock runs out.",
    configurations={
        "default": Configuration(_sizes(), dead_bits=True),
        "sinks": Configuration(_sizes(sinks=2), dead_bits=True),
        "lossy": Configuration(_sizes(), faults=("lossy",), dead_bits=True),
    },
)
