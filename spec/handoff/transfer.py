"""The transfer of one life's KV, from the address to the committed page, or to a failure.

It is composed of source.py, sink.py and engine.py, with the variables of ends.py. Source and sink
each decide alone how a life has ended. The properties below say which results exclude each other.

A sink that answers Success has every part, and none of its sources ever answers Failed. A source
that answers Success knows only that its part has landed: the sink may have failed since. A message
about that would only move the same doubt to the other side (two generals).

Messages are sets, and no row reads that a message is absent. So loss adds no behaviour for safety,
and is explored for liveness only.

Seven systems share the tables, and so do those of transfer_fault_free.py and transfer_two.py:
    transfer              every loss, every death, and writes of any duration
    transfer-loss         the same, where messages are lost or are delivered only once
    transfer-no-timeouts  no end gives up: a lost message is sent again until it arrives
    transfer-no-timers    nothing is lost or sent again, and no timer runs but the heartbeat
    transfer-restart      processes die and come back: lives that begin after that succeed
    transfer-direct       sources write straight into pages, on engines that can fence a page
    transfer-in-place     the same with digests, as nodes run it (direct.py)
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.ends import (
    COMMITTED,
    GIVEN_UP,
    RECEIVING_ENDED,
    RECEIVING_NOW,
    SENDING_NOW,
    Claim,
    Memory,
    Receiving,
    Sending,
    Write,
    address,
    b,
    c,
    can_fence,
    claim,
    content,
    d,
    drained,
    feeds,
    g,
    h,
    handed,
    k,
    known,
    kv,
    lease,
    m,
    memory,
    p,
    page,
    receiving,
    sending,
    slot,
    target,
    write,
)
from pdproto.spec.handoff.engine import CRASH, ENGINE, LOSSY, RESTART, SINK_CRASH, STRAY
from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.sink import ALL_LANDED, POOL, SINK
from pdproto.spec.handoff.source import OPEN, QUIET, SOURCE, part
from pdproto.spec.handoff.transfer_claims import (
    A_SINK_HEARS,
    A_SOURCE_HEARS,
    ALL_ADDRESSED,
    BOTH_MEET,
    CHUNK_IS_BACK,
    GIVEN_BACK,
    GRANTED_ONCE,
    ITS_SINK_IS_SHORT,
    KV_IS_BACK,
    LIVENESS,
    LOST_WHEN_OVER,
    ONCE_TOO,
    PARTIES,
    PROMPTLY,
    SHORT_OF_MEMORY,
    SKIPPED,
)
from pdproto.spec.language import (
    Always,
    Call,
    Completion,
    Configuration,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    OnRow,
    ReplaceProperties,
    ReplaceRow,
    Row,
    Sizes,
    Sometimes,
    System,
    Tuples,
    all_of,
    any_of,
    edited,
    forall,
    implies,
)

SAFETY: Final = (
    OnRow("S1_writes_stay_in_own_memory", "land", lease(d, h, b),
          why="a write lands only in memory that is leased to its own life"),
    Sometimes("S1_a_write_lands_after_the_failure", all_of(
        GIVEN_UP, write(p, h, d, c) == Write.LANDED, lease(d, h, b))),
    Always("S1_one_life_a_chunk", implies(lease(d, h, b) & lease(d, k, b), h.same(k)),
           why="a staging buffer is leased to one life at a time"),
    Sometimes("S1_a_chunk_is_free_after_a_failure", GIVEN_UP & address(d, h, b) & ~lease(d, h, b)),
    OnRow("S2_complete_when_committed", "commit",
          forall((p, c), implies(feeds(p, d), all_of(
              content(d, h, b, p, c), write(p, h, d, c) == Write.LANDED, target(p, h, d, b)))),
          why="a committed page holds every part of this life, and nothing else"),
    Sometimes("S2_a_sink_commits", COMMITTED),
    OnRow("S2_chunks_go_in_order", "post",
          forall(part, implies(part.before(c), write(p, h, d, part) != Write.NONE)),
          why="the metadata row is the last to go to a sink"),
    OnRow("S8_source_pages_are_held", "land", implies(write(p, h, d, c) == Write.POSTED, kv(p, h)),
          why="the owner of a page that the engine reads cannot use it for another request"),
    Sometimes("S8_source_pages_are_held_past_a_failure", all_of(
        sending(p, h) == Sending.FAILED, kv(p, h), write(p, h, d, c) == Write.POSTED)),
    Sometimes("S8_pages_return_before_landing", ~kv(p, h) & (write(p, h, d, c) == Write.IN_DOUBT)),
    Always("S10_drained_means_quiescent",
           implies(drained(p, h, d), QUIET & (sending(p, h) != Sending.TRANSFERRING)),
           why="a source that has said DRAINED has no write under way, and begins none"),
    Sometimes("S10_a_write_is_drained", drained(p, h, d) & (write(p, h, d, c) == Write.LANDED)),
    OnRow("S11_a_failed_source_posts_no_write", "post",
          all_of(sending(p, h) == Sending.TRANSFERRING, handed(p, h, c), address(d, h, b)),
          why="a failure skips the chunks and the destinations that remain"),
    Sometimes("S11_a_failure_skips_a_chunk", all_of(
        sending(p, h) == Sending.FAILED, handed(p, h, c), feeds(p, d),
        write(p, h, d, c) == Write.NONE)),
    *SKIPPED,
    Always("a_source_with_an_address_knows_its_sink",
           implies(all_of(target(p, h, d, b), sending(p, h).among(*OPEN)), known(p, h, d)),
           why="a sink that has published learns of a failure, even if its introduction was lost"),
    Always("S14_no_success_after_a_failure",
           implies(COMMITTED & feeds(p, d), sending(p, h).among(Sending.SUCCESS, Sending.GONE)),
           why="no source of a sink that answers Success has failed"),
    Sometimes("S14_both_succeed", COMMITTED & (sending(p, h) == Sending.SUCCESS)),
    Sometimes("S14_a_source_may_succeed_alone", GIVEN_UP & (sending(p, h) == Sending.SUCCESS)),
)

PAGES: Final = (
    Always("S1_one_life_a_page", implies(page(d, h, g) & page(d, k, g), h.same(k)),
           why="a page belongs to one life at a time"),
    Sometimes("S1_a_page_is_free_while_a_write_is_under_way", all_of(
        write(p, h, d, c) == Write.POSTED, lease(d, h, b), forall((h, g), ~page(d, h, g)))),
    Always("S6_one_life_a_slot", implies(slot(d, h, m) & slot(d, k, m), h.same(k)),
           why="a metadata slot has at most one owner"),
    Sometimes("S6_a_slot_is_free_while_a_write_is_under_way", all_of(
        write(p, h, d, c) == Write.POSTED, lease(d, h, b), forall((h, m), ~slot(d, h, m)))),
)

MEMORY_IS_BACK: Final = all_of(
    forall((d, h, b), CHUNK_IS_BACK),
    forall((d, h, g), ~page(d, h, g)),
    forall((d, h, m), ~slot(d, h, m)),
)
FINAL: Final = all_of(
    forall((p, h), ~SENDING_NOW | ITS_SINK_IS_SHORT),
    forall((d, h), ~RECEIVING_NOW | SHORT_OF_MEMORY),
    MEMORY_IS_BACK,
    forall((p, h), KV_IS_BACK | ITS_SINK_IS_SHORT),
)


def _sizes(
    *, sources: int = 1, sinks: int = 1, lives: int = 1, buffers: int = 1, chunks: int = 1
) -> Sizes:
    """One page and one slot: a second would add nothing to a staging buffer that comes with it."""
    return {Source: sources, Sink: sinks, Life: lives, Buffer: buffers, Chunk: chunks,
            Page: 1, Slot: 1}


def _none(_: Sizes) -> Tuples:
    return ()


def _pairs(sizes: Sizes) -> Tuples:
    return [(i, i) for i in range(sizes[Source])]


SYSTEM: Final = System(
    "transfer",
    "The transfer of KV into leased staging buffers, with aborts, leases, fences and lives.",
    tables=(SOURCE, SINK, POOL, ENGINE),
    properties=(*SAFETY, *PAGES, *PARTIES, ALL_ADDRESSED, *LIVENESS),
    final=FINAL,
    faults={
        "lossy": (LOSSY,), "crash": (CRASH,), "restart": (RESTART,), "sink-crash": (SINK_CRASH,),
        "stray": (STRAY,),
    },
    configurations={
        # Two lives and one chunk: the second life gets the chunk to which the first may still
        # write.
        "default": Configuration(
            _sizes(lives=2), faults=("crash",), dead_bits=True, symmetry=True),
        "sources": Configuration(
            _sizes(sources=2), faults=("crash",), dead_bits=True, symmetry=True),
        "sinks": Configuration(
            _sizes(sinks=2), faults=("crash", "sink-crash"), dead_bits=True, symmetry=True),
        # Each source feeds one sink, as where both sides have the same number of ranks.
        "pairs": Configuration(
            _sizes(sources=2, sinks=2), given={feeds: _pairs}, dead_bits=True, symmetry=True),
        # A rank with the same KV as another one: it feeds no sink.
        "dummy": Configuration(
            _sizes(sources=2), faults=("crash",), given={feeds: lambda _: [(0, 0)]},
            dead_bits=True),
        "restart": Configuration(
            _sizes(lives=2), faults=("restart",), dead_bits=True, symmetry=True),
        "stray": Configuration(_sizes(lives=2), faults=("stray",), dead_bits=True),
        "no-fence": Configuration(
            _sizes(lives=2), faults=("crash",), given={can_fence: _none}, dead_bits=True,
            symmetry=True),
        # Memory that no life needs: a row that takes or writes too much of it is seen.
        "spare": Configuration({**_sizes(buffers=2), Page: 2, Slot: 2}, dead_bits=True),
        # KV, then the metadata row, to two sinks each.
        "chunks": Configuration(_sizes(sinks=2, chunks=2), dead_bits=True, symmetry=True),
        "deep": Configuration(
            _sizes(lives=2, buffers=2), faults=("crash", "stray"), dead_bits=True, symmetry=True),
    },
)


def _under(system: System, *fairness: Fairness) -> ReplaceProperties:
    """Every liveness property of the system under these assumptions, with the other properties."""
    return ReplaceProperties(tuple(
        replace(claim, under=fairness) if isinstance(claim, LeadsTo) else claim
        for claim in system.properties
    ))


LOSS: Final = edited(
    SYSTEM, "transfer-loss", _under(SYSTEM, *ONCE_TOO),
    about="The transfer where messages are lost, or are delivered once and never again.",
    configurations={
        "default": Configuration(_sizes(), faults=("lossy", "crash", "restart"), dead_bits=True),
        "chunks": Configuration(_sizes(chunks=2), faults=("lossy", "sink-crash"), dead_bits=True),
        # A fence that never comes tells a source nothing: only a repeated abort does.
        "no-fence": Configuration(
            _sizes(), faults=("lossy", "crash"), given={can_fence: _none}, dead_bits=True),
    },
)

GIVE_UP: Final = (
    "give_up_waiting", "give_up_sending", "give_up_bootstrap", "give_up_queue", "give_up_transfer",
    "fence_silent",
)
_RESEND: Final = ("introduce_again", "publish_again", "abort_again")

NO_TIMEOUTS: Final = edited(
    SYSTEM, "transfer-no-timeouts",
    *map(DropRow, GIVE_UP),
    ReplaceRow("land", replace(ENGINE.row("land"), fair=True, why="every write lands")),
    ReplaceProperties((
        *(replace(claim, under=ONCE_TOO) for claim in (A_SINK_HEARS, A_SOURCE_HEARS)),
        LeadsTo("L7_a_sink_notices_a_crash",
                RECEIVING_NOW & feeds(p, d) & (sending(p, h) == Sending.GONE),
                RECEIVING_ENDED | (claim(d, h, p) == Claim.LANDED), under=ONCE_TOO,
                why="the heartbeat fails the sink, and no other clock has to run out"),
        BOTH_MEET,
        *GIVEN_BACK,
        LeadsTo("L1_a_sink_with_all_parts_commits",
                RECEIVING_NOW & forall(p, implies(feeds(p, d), sending(p, h) == Sending.SUCCESS)),
                RECEIVING_ENDED, under=ONCE_TOO, why="the status follows the last byte"),
    )),
    about="The transfer where no end gives up: a lost message is sent again.",
    configurations={
        "default": Configuration(_sizes(), faults=("lossy", "crash", "restart"), dead_bits=True),
        # The sink never gets memory, so it must learn of a failure without it.
        "no-memory": Configuration(
            _sizes(buffers=0), faults=("lossy", "crash", "restart"), dead_bits=True),
        "deep": Configuration(
            _sizes(chunks=2), faults=("lossy", "crash", "restart"), dead_bits=True),
    },
)

_RELIABLE: Final = {name: tables for name, tables in NO_TIMEOUTS.faults.items() if name != "lossy"}
NO_TIMERS: Final = edited(
    replace(NO_TIMEOUTS, faults=_RELIABLE, configurations={}, like=NO_TIMEOUTS),
    "transfer-no-timers",
    *map(DropRow, _RESEND),
    # Only a repeated introduction has an answer.
    ReplaceProperties((*(c for c in NO_TIMEOUTS.properties if c is not BOTH_MEET), *PROMPTLY)),
    about="The transfer where nothing is lost, and the heartbeat is the only timer.",
    configurations={
        "default": Configuration(_sizes(), faults=("crash",), dead_bits=True),
        "sources": Configuration(_sizes(sources=2), faults=("crash",), dead_bits=True),
        "sinks": Configuration(_sizes(sinks=2), dead_bits=True),
        "no-memory": Configuration(_sizes(buffers=0), dead_bits=True),
        "sink-crash": Configuration(_sizes(), faults=("sink-crash",), dead_bits=True),
        "deep": Configuration(_sizes(lives=2), faults=("crash",), dead_bits=True),
    },
)

_CALLED_OFF: Final = ("abort_send", "abort_receive", "meet_error", "give_up_sink", "give_up_source")
NO_ERROR: Final = Ignore(
    Completion("error", d, c), at=(Sending.TRANSFERRING, Sending.FAILED),
        why="here every write lands")

RESTARTED: Final = edited(
    NO_TIMEOUTS, "transfer-restart",
    *map(DropRow, _CALLED_OFF),
    ReplaceRow("ignore_error_transferring_failed", NO_ERROR),
    ReplaceRow("send", replace(SOURCE.row("send"), fair=True,
                               why="prefill computes every chunk in the end")),
    ReplaceProperties((
        LeadsTo("L6_a_life_after_a_restart_succeeds",
                all_of(h.differs(k),
                       (sending(p, k) == Sending.GONE) | (receiving(d, k) == Receiving.GONE),
                       sending(p, h) == Sending.BOOTSTRAPPING,
                       receiving(d, h) == Receiving.BOOTSTRAPPING),
                any_of(COMMITTED, sending(p, h) == Sending.GONE,
                       receiving(d, h) == Receiving.GONE),
                under=(Fairness.TIMERS,),
                why=
                "the life needs only the two processes that run now, and memory that comes back"),
        Sometimes("L6_a_life_succeeds_after_a_restart", all_of(
            sending(p, k) == Sending.GONE, receiving(d, k) == Receiving.FAILED, COMMITTED,
            sending(p, h) == Sending.SUCCESS)), ALL_ADDRESSED,
    )),
    about="The transfer where no end gives up or aborts, and processes die and come back.",
    configurations={
        "default": Configuration(
            _sizes(lives=2), faults=("restart", "sink-crash"), dead_bits=True, symmetry=True),
        "deep": Configuration(_sizes(lives=2, buffers=2), faults=("restart", "sink-crash"),
                              dead_bits=True, symmetry=True),
    },
)

# The page and the metadata slot are leased, under the name of a staging buffer. The sink unpacks
# nothing, so it verifies nothing: it has only the status, and the lease lasts until the answer is
# generated. Nothing would notice a write that gets past a fence, so no engine may let it (no
# `stray`).
_OWN_MEMORY: Final = ("L4_every_page_comes_back", "L4_every_slot_comes_back")
_FENCED: Final = {name: tables for name, tables in SYSTEM.faults.items() if name != "stray"}
DIRECT: Final = edited(
    replace(SYSTEM, faults=_FENCED, configurations={}, like=SYSTEM), "transfer-direct",
    ReplaceRow("grant", Row(
        "grant", choose=(h, b),
        when=[can_fence(d), memory(d, h) == Memory.ASKED, forall(k, ~lease(d, k, b))],
        do=[memory(d, h).to(Memory.GIVEN), lease(d, h, b).to(True)],
        why="remote writes go into pages only if a fence can keep a living source out")),
    ReplaceRow("commit", Row(
        "commit", at=Receiving.TRANSFERRING, to=Receiving.SUCCESS, when=ALL_LANDED,
        why="every source has reported that its part has landed")),
    DropRow("find_spoilt"),
    ReplaceRow("finish", Row(
        "finish", on=Call("finish"), at=Receiving.SUCCESS, choose=(b,), when=lease(d, h, b),
        do=[lease(d, h, b).to(False)], fair=True, why="every answer ends")),
    ReplaceRow("ignore_finish_success", Ignore(
        Call("finish"), at=Receiving.SUCCESS, when=forall(b, ~lease(d, h, b)),
        why="the caller has closed it already")),
    ReplaceProperties((
        *(claim for claim in SAFETY if claim.name != "S2_complete_when_committed"),
        GRANTED_ONCE,
        LOST_WHEN_OVER,
        Always("S2_complete_while_the_memory_is_read",
               implies(all_of(COMMITTED, lease(d, h, b), feeds(p, d)), content(d, h, b, p, c)),
               why="the pages of an answer hold every part of this life, and nothing else"),
        *(claim for claim in LIVENESS if claim.name not in _OWN_MEMORY),
    )),
    about="The transfer straight into pages, on engines that can fence a page.",
    configurations={
        **{name: SYSTEM.configurations[name] for name in ("default", "sources")},
        "deep": replace(SYSTEM.configurations["deep"], faults=("crash",)),
    },
)
