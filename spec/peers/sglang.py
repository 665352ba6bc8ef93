"""SGLang 0.5.23's hand-over as its code does it, so that a run of it can be replayed.

A description, not a proposal: it is what `pdproto trace` holds a run of SGLang's own managers
against (docs/peer.md), and it is wrong where SGLang is. The properties are the transfer's, as far
as they can be said of a room; those that it breaks are named in defects.py, each with what would
repair it.

Left out: staging, dummy ranks, the allocation policy prefill_complete, and groups of ranks. An
aux row goes with its last chunk. Messages are sets: for SGLang that means late, never twice.
"""

from typing import Final

from pdproto.spec.handoff.roles import Chunk, Sink, Source
from pdproto.spec.language import (
    Always,
    Configuration,
    Fairness,
    LeadsTo,
    OnRow,
    Row,
    Sizes,
    Sometimes,
    System,
    Table,
    all_of,
    forall,
    lose,
)
from pdproto.spec.peers.sglang_ends import (
    READY,
    Generation,
    Room,
    Status,
    Write,
    abort,
    abort_ack,
    c,
    came,
    content,
    d,
    early_abort,
    engine,
    failed,
    metadata,
    owner,
    p,
    page,
    published,
    r,
    receiving,
    sending,
    success,
    write,
)
from pdproto.spec.peers.sglang_sink import SINK
from pdproto.spec.peers.sglang_source import SOURCE

ENGINE: Final = Table(engine, rows=(
    Row("land", choose=(p, r, d, c), when=write(p, r, d, c) == Write.POSTED,
        do=[write(p, r, d, c).to(Write.LANDED), content(d, r, p, c).to(True)], fair=False,
        why="late, or never"),
))
LOSSY: Final = Table(engine, rows=tuple(
    lose(message) for message in (metadata, abort, early_abort, success, failed, abort_ack)
))

WAITS: Final = all_of(receiving(d, r).among(*READY), published(d, r))
SENDER_IS_OVER: Final = all_of(came(p, r), ~owner(p, r), ~sending(p, r).among(*READY))

PROPERTIES: Final = (
    OnRow("S1_no_write_into_anothers_memory", "land", page(d, r),
          why="a write lands only in pages that belong to its room"),
    Sometimes("S1_somebody_writes", write(p, r, d, c) == Write.LANDED),
    OnRow("S2_complete_when_success", "keep_pages", forall((p, c), content(d, r, p, c)),
          why="what a decode rank takes for its KV is all there, and of this use of the room"),
    Sometimes("S2_somebody_succeeds", receiving(d, r) == Status.SUCCESS),
    OnRow("S10_an_ack_means_quiescent", "say_ack",
          forall(c, write(p, r, d, c) != Write.POSTED),
          why="whoever acknowledges an abort writes nothing to that decode rank"),
    OnRow("S3_success_is_for_good", "hear_failure", receiving(d, r) != Status.SUCCESS,
          why="who has polled Success has told its client"),
    OnRow("S14_no_success_after_a_failure", "succeed_anyway", sending(p, r) != Status.FAILED,
          why="decode does not succeed where prefill has failed"),
    Always("R5_no_room_without_an_owner", ~all_of(
        came(p, r), ~owner(p, r), sending(p, r) == Status.WAITING),
        why="what comes for a room that is over does not open it again"),
    OnRow("B09_no_room_begins_failed", "reopen_sender_abandoned", ~owner(p, r),
          why="what one use of a room has left behind does not fail the next"),
    LeadsTo("L2_a_sink_hears_of_a_failure", WAITS & (sending(p, r) == Status.FAILED),
            ~WAITS, under=(Fairness.DETECTORS,), why="a message tells it, and no clock"),
    LeadsTo("L2_a_source_hears_of_an_abort",
            all_of(sending(p, r) == Status.BOOTSTRAPPING, receiving(d, r) == Status.FAILED),
            sending(p, r) != Status.BOOTSTRAPPING, under=(Fairness.DETECTORS,),
            why="a message tells it, and no clock"),
)


def _sizes(*, sinks: int = 1, chunks: int = 1, generations: int = 1) -> Sizes:
    return {Source: 1, Sink: sinks, Room: 1, Chunk: chunks, Generation: generations}


SYSTEM: Final = System(
    "sglang",
    "SGLang 0.5.23's hand-over, described as its code does it.",
    tables=(SOURCE, SINK, ENGINE),
    properties=PROPERTIES,
    faults={"lossy": (LOSSY,)},
    configurations={
        "default": Configuration(_sizes(), dead_bits=True),
        "sinks": Configuration(_sizes(sinks=2), dead_bits=True),
        "chunks": Configuration(_sizes(chunks=2), dead_bits=True),
        "lossy": Configuration(_sizes(), faults=("lossy",), dead_bits=True),
    },
)
