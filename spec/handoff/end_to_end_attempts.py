"""The transfer after optimistic prefill: one system made of the tables of both.

The tables are those of the parts (attempts.py; source.py, sink.py and engine.py). In attempts.py
the sink only publishes, and in source.py prefill is only a call. Here the sink is the transfer's,
and a source sends the KV that a pass has computed. The prefill process holds both. Only the rows of
HOST read both.

Rule 1: A request that comes to prefill is queued, and its sender waits for its sinks.
Rule 2: A pass knows where its KV goes when every sink has published to its sender.
Rule 3: A sender begins when the pass is finalized and computed to its end. It then has every chunk.
Rule 4: A sender that fails, for any reason, ends the request here, in any state.
Rule 5: A place for KV is free when no pass computes into it and the engine reads nothing from it.
        One of the two is not enough.

There is one source rank; group_attempts.py has several that attempt alike.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff import attempts, optimistic, transfer, transfer_claims
from pdproto.spec.handoff.attempts import Forward, RunningSlot, Stage, a, again, s
from pdproto.spec.handoff.end_to_end_ends import SENDER, without
from pdproto.spec.handoff.ends import (
    COMMITTED,
    GIVEN_UP,
    RECEIVING_NOW,
    Receiving,
    Sending,
    Write,
    c,
    d,
    g,
    h,
    handed,
    k,
    kv,
    p,
    page,
    receiving,
    sending,
    write,
)
from pdproto.spec.handoff.engine import CRASH, ENGINE
from pdproto.spec.handoff.renaming import Renamed
from pdproto.spec.handoff.roles import Attempt, Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.sink import POOL, SINK
from pdproto.spec.handoff.source import ALL_PUBLISHED, ENDED, UNREAD
from pdproto.spec.language import (
    ANY,
    Call,
    Configuration,
    Drains,
    DropRow,
    Fairness,
    LeadsTo,
    Machine,
    OnRow,
    ReplaceProperties,
    ReplaceRow,
    Row,
    Sizes,
    Sometimes,
    System,
    Table,
    all_of,
    any_of,
    edited,
    forall,
)
from pdproto.spec.language.properties import Property

# Calls from outside, and the sink of attempts.py. HOST and the transfer replace them.
_REPLACED: Final = ("send", "give_up_waiting", "release")
_SAID: Final = ("submit", "abort_prefill", "landed", "publish", "abort")

PASS: Final = Renamed(
    (without(attempts.PREFILL, *_REPLACED, triggers=_SAID),),
    machines={},
    symbols={"slot": "metadata_slot", "link": "destination", "ready": "bootstrapped"},
    rows={"start": "start_pass"},
)
stage: Final = PASS.symbol(attempts.stage)
forward: Final = PASS.symbol(attempts.forward)
ready: Final = PASS.symbol(attempts.ready)
slot: Final = PASS.symbol(attempts.slot)
tried: Final = PASS.symbol(attempts.tried)
retried: Final = PASS.symbol(attempts.retried)
running_slot: Final = PASS.symbol(attempts.running_slot)
FINALIZED: Final = PASS.formula(attempts.FINALIZED)
AT_REST: Final = PASS.formula(attempts.AT_REST)
HAS_RUNNING_SLOT: Final = PASS.formula(optimistic.HAS_RUNNING_SLOT)
HAS_SLOT: Final = PASS.formula(optimistic.HAS_SLOT)

host = Machine("host", host=True)

COMPUTED: Final = all_of(stage(h).among(Stage.RUNNING, Stage.PARKED),
                         forward(h) == Forward.WHOLE, FINALIZED)
NO_MORE: Final = sending(p, h).among(Sending.FAILED, Sending.GONE)
FREE_PLACES: Final = (running_slot(h, ANY).to(False), slot(h, ANY).to(False))

HOST: Final = Table(host, rows=(
    Row("submit", on=Call("submit", p, h),
        when=[stage(h) == Stage.NEW, sending(p, h) == Sending.UNKNOWN],
        do=[stage(h).to(Stage.QUEUED), sending(p, h).to(Sending.BOOTSTRAPPING)]),
    Row("find_destination", choose=(p, h),
        when=[~ready(h), ALL_PUBLISHED, sending(p, h) == Sending.BOOTSTRAPPING],
        do=[ready(h).to(True)]),
    Row("begin_transfer", choose=(p, h),
        when=[COMPUTED, sending(p, h) == Sending.BOOTSTRAPPING],
        do=[stage(h).to(Stage.SENDING), sending(p, h).to(Sending.TRANSFERRING),
            handed(p, h, ANY).to(True), kv(p, h).to(True)],
        why="the pass has computed every chunk"),
    Row("conclude", choose=(p, h),
        when=[stage(h) == Stage.SENDING, sending(p, h) == Sending.SUCCESS],
        do=[stage(h).to(Stage.SUCCESS), kv(p, h).to(False), *FREE_PLACES]),
    Row("end_pass", choose=(p, h), when=[stage(h).among(*attempts.ACTIVE), NO_MORE],
        do=[stage(h).to(Stage.FAILED)],
        why="the request has ended; a launched batch still runs to its end"),
    Row("release_places", choose=(p, h),
        when=[stage(h) == Stage.FAILED, AT_REST, sending(p, h).among(*ENDED), UNREAD,
              HAS_RUNNING_SLOT | HAS_SLOT | kv(p, h)],
        do=[kv(p, h).to(False), *FREE_PLACES],
        why="no batch writes the KV, and no posted write reads it"),
    Row("bury_pass", choose=(p, h),
        when=[stage(h) == Stage.FAILED, AT_REST, sending(p, h) == Sending.GONE,
              HAS_RUNNING_SLOT | HAS_SLOT],
        do=FREE_PLACES, why="its memory went with the process"),
))

# HOST hands the chunks over, and frees their place.
HANDED_OVER: Final = without(SENDER, "release_kv", triggers=("send",))


def of_the_pass(*names: str) -> tuple[Property, ...]:
    """The properties of optimistic prefill with these names."""
    return tuple(PASS.claim(claim) for claim in optimistic.SAFETY if claim.name in names)


UNWRITTEN: Final = forall((p, d, c), (write(p, h, d, c) == Write.NONE) & ~handed(p, h, c))


def _nothing_is_sent(*rows: str) -> tuple[Property, ...]:
    return tuple(
        OnRow(f"nothing_is_sent_before_{row}", row, UNWRITTEN,
              why="no sink holds, or will hold, KV of a dropped pass")
        for row in rows
    )


OF_THE_PASS: Final = of_the_pass(
    "S6_slot_has_one_owner", "S6_request_has_one_slot",
    "S8_a_running_slot_has_one_owner", "S8_kv_is_held_while_the_first_chunk_is_computed",
    "S8_kv_is_held_while_the_last_chunk_is_computed", "S11_no_send_before_finalize",
    "S11_a_request_is_sent", "M5_3_finalized_once_and_surely", "M5_2_attempts_in_order",
)
DROPPED_AND_PUBLISHED: Final = Sometimes("a_pass_is_dropped_while_its_sink_publishes", all_of(
    stage(h) == Stage.HEAD, receiving(d, h) == Receiving.WAITING))
TOGETHER: Final[tuple[Property, ...]] = (
    OnRow("a_destination_is_found_by_a_sender_that_waits", "find_destination",
          sending(p, h) == Sending.BOOTSTRAPPING,
          why="a pass whose sender has ended is dropped, and finds no destination"),
    OnRow("an_ended_sender_releases_its_places", "release_places", sending(p, h).among(*ENDED),
          why="the memory of a process that has died goes with it"),
    OnRow("a_landed_write_was_computed", "land",
          any_of(sending(p, h) == Sending.GONE, write(p, h, d, c) == Write.IN_DOUBT,
                 all_of(forward(h) == Forward.WHOLE, HAS_RUNNING_SLOT)),
          why="the engine reads the KV of a whole pass, in a place that its request still owns"),
    OnRow("a_posted_write_is_of_a_finalized_pass", "post", FINALIZED & (stage(h) == Stage.SENDING)
          | (stage(h) == Stage.FAILED),
          why="no write begins for a pass that may yet be dropped"),
    *_nothing_is_sent("force_retry", "force_fall_back"),
    DROPPED_AND_PUBLISHED,
    Sometimes("a_failed_pass_is_read_by_the_engine", all_of(
        stage(h) == Stage.FAILED, write(p, h, d, c) == Write.POSTED, running_slot(h, s))),
    Sometimes("a_failed_pass_is_computed_in_vain", all_of(
        stage(h) == Stage.FAILED, forward(h) == Forward.LAST, GIVEN_UP)),
)
IN_TIME: Final = (
    LeadsTo("a_sinks_failure_ends_the_pass",
            GIVEN_UP & stage(h).among(*attempts.ACTIVE), stage(h).among(*attempts.ENDED),
            why="a message tells prefill, and prefill stops as soon as its batch is done"),
    Drains("L4_slots_and_running_slots_come_back", PASS.formula(optimistic.SOURCE_IS_FREE),
           under=(Fairness.TIMERS,), why="after any end of the pass and of the transfer"),
)
OVER: Final = all_of(
    transfer.FINAL,
    forall(h, stage(h).among(Stage.NEW, *attempts.ENDED)),
    PASS.formula(optimistic.SOURCE_IS_FREE),
)


def sizes(*, lives: int = 1, attempts: int = 2) -> Sizes:
    return {
        Source: 1, Sink: 1, Life: lives, Buffer: 1, Chunk: 1, Page: 1, Slot: 1, RunningSlot: 1,
        Attempt: attempts,
    }


# A pass of a hand-over that has ended is not computed in vain.
_UNFINISHED: Final = all_of(stage(h) == Stage.FAILED, forward(h) == Forward.NONE)
ENDS_EARLY: Final = (
    Sometimes("a_pass_ends_in_the_queue",
              all_of(_UNFINISHED, ~ready(h), forall(a, ~tried(h, a)))),
    Sometimes("a_pass_ends_before_it_runs",
              all_of(_UNFINISHED, tried(h, a), ~retried(h))),
    Sometimes("a_pass_ends_before_it_runs_again", any_of(
        forall((a, again), a.same(again)),
        all_of(_UNFINISHED, retried(h), HAS_SLOT, ~ready(h)))),
)

SYSTEM: Final = System(
    "end-to-end-attempts",
    "The transfer after optimistic prefill, with passes that are dropped.",
    tables=(HANDED_OVER, SINK, POOL, ENGINE, *PASS.tables, HOST),
    properties=(
        *transfer.SAFETY, *OF_THE_PASS, *TOGETHER, *ENDS_EARLY, *transfer_claims.LIVENESS,
        *IN_TIME,
    ),
    final=OVER,
    faults={"crash": (CRASH,)},
    configurations={
        "default": Configuration(sizes(), faults=("crash",), dead_bits=True),
        "one-attempt": Configuration(sizes(attempts=1), faults=("crash",), dead_bits=True),
        # One request fails and affects another: they share all resources.
        "deep": Configuration(sizes(lives=2, attempts=1), dead_bits=True, symmetry=True),
    },
)


# Without these rows no end gives up or aborts, so each waits for the other side.
_WAYS_OUT: Final = (
    "give_up_waiting", "give_up_sending", "give_up_bootstrap", "give_up_queue", "give_up_transfer",
    "fence_silent",
    "introduce_again", "publish_again", "abort_again", "abort_send", "abort_receive", "meet_error",
    "give_up_sink", "give_up_source",
)
_BY_ITSELF: Final = (Fairness.NO_TIMERS,)

CONTENDED: Final = edited(
    SYSTEM, "end-to-end-contended",
    *map(DropRow, _WAYS_OUT),
    ReplaceRow("ignore_error_transferring_failed", transfer.NO_ERROR),
    *(ReplaceRow(row.name, replace(row, fair=True, why=why)) for row, why in (
        (HOST.row("submit"), "the router sends each request to both servers"),
        (SINK.row("begin_receive"), "the router sends each request to both servers"),
        (ENGINE.row("land"), "every write lands"),
    )),
    ReplaceProperties((
        *(claim for claim in OF_THE_PASS if not isinstance(claim, Sometimes)),
        *(claim for claim in TOGETHER if not isinstance(claim, Sometimes)),
        *_nothing_is_sent("run_again", "fall_back"),
        DROPPED_AND_PUBLISHED,
        Sometimes("L5_the_two_sides_are_crossed", all_of(
            h.differs(k), stage(h) == Stage.PARKED, receiving(d, h) == Receiving.BOOTSTRAPPING,
            receiving(d, k) == Receiving.WAITING, stage(k) == Stage.QUEUED)),
        Sometimes("both_are_committed", all_of(
            h.differs(k), COMMITTED, receiving(d, k) == Receiving.SUCCESS)),
        LeadsTo("L5_no_capacity_deadlock", stage(h).among(*attempts.ACTIVE),
                stage(h) == Stage.SUCCESS, under=_BY_ITSELF,
                why="with room for one on each side every request is sent, without a clock"),
        LeadsTo("L1_a_sink_ends", RECEIVING_NOW, COMMITTED, under=_BY_ITSELF,
                why="every request arrives"),
        Drains("L4_slots_and_running_slots_come_back", PASS.formula(optimistic.SOURCE_IS_FREE),
               under=_BY_ITSELF, why="the source gets everything back"),
        Drains("L4_every_page_comes_back", forall((d, h, g), ~page(d, h, g)), under=_BY_ITSELF,
               why="the sink gets everything back"),
    )),
    about="Optimistic prefill and its transfer, two requests with room for one on each side.",
    configurations={
        "default": Configuration(sizes(lives=2), dead_bits=True, symmetry=True),
        "one-attempt": Configuration(sizes(lives=2, attempts=1), dead_bits=True, symmetry=True),
        "deep": Configuration(sizes(lives=3), dead_bits=True, symmetry=True),
    },
)
