"""Defects of agreement: ranks of one server end the same request in different ways."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.agreement import SYSTEM
from pdproto.spec.handoff.group import (
    EARLIER,
    TURN,
    Decision,
    Health,
    Rank,
    Stage,
    admit,
    applied,
    at,
    broke,
    closed,
    dead,
    done,
    h,
    k,
    m,
    n,
    peer,
    prefetched,
    r,
    rank,
    ready,
    release,
    slot,
    stage,
    taken,
)
from pdproto.spec.handoff.roles import Life, Slot
from pdproto.spec.handoff.two_pass import LOCAL_DRAIN, NO_SECOND_LOOK, TWO_PASS
from pdproto.spec.language import (
    ANY,
    AddRow,
    Call,
    Configuration,
    DropClause,
    DropEffect,
    DropRow,
    ReplaceRow,
    Row,
    edited,
    forall,
)
from pdproto.spec.language.edit import Edit

TWO_STAGES: Final = TWO_PASS.configurations["default"]
TWO_LIVES: Final = Configuration(
    SYSTEM.configurations["default"].sizes, symmetry=True, dead_bits=True
)
ONE_LIFE: Final = Configuration(
    {Rank: 2, Life: 1, Slot: 1, Decision: 2}, symmetry=True, dead_bits=True
)


def bug(
    name: str,
    source: str,
    violates: str,
    symptom: str,
    *edits: Edit,
    configuration: Configuration = TWO_LIVES,
) -> Bug:
    """A defect of the group of ranks. Two ranks without faults show it."""
    system = edited(SYSTEM, f"agreement-{name}", *edits)
    return Bug(name, source, symptom, system, configuration, violates)


BUGS: Final[tuple[Bug, ...]] = (
    Bug(
        "B01", "sglang #26912",
        "after a client's abort a later pipeline stage keeps the request for ever",
        TWO_PASS, TWO_STAGES, "L3_no_orphan",
        "a variant: two passes of request lists, in their first form",
    ),
    Bug(
        "B01-merged", "sglang #27028",
        "one pipeline stage admits the request that another drains",
        LOCAL_DRAIN, TWO_STAGES, "S7_same_outcome",
        "a variant: the merged fix leaves no orphan, but the stages still disagree",
    ),
    Bug(
        "B01-obeyed", "sglang #27028 with #31869",
        "a stage drains a failed request by itself, and the others still wait for it",
        NO_SECOND_LOOK, TWO_STAGES, "S5_same_queue",
        "a variant: even where stages obey decisions, a local drain breaks agreement",
    ),
    bug(
        "B06", "sglang #31869", "S5_same_decisions_same_batch",
        "an abort between decision and batch: one stage runs the request, another fails it",
        ReplaceRow("start_dead", Row(
            "start_dead", on=admit(r, n, h, m), at=Health.UP, when=[*TURN, at(Stage.FAILED)],
            do=[applied(r, n).to(True), stage(r, h).to(Stage.CLOSED),
                prefetched(r, h).to(False)],
            send=[closed(r, h)],
            why="it checks its state again, and acts on the result",
        )),
    ),
    bug(
        "B07", "sglang #26394", "S5_same_decisions_same_queue",
        "one tensor rank takes the request out of its queue, another keeps it; both hang",
        AddRow(rank, Row(
            "vote_done_early", on=Call("status", h), at=Health.UP, when=at(Stage.RUNNING),
            send=[done(r, h)], why="the status is Success before the row has landed",
        )),
        AddRow(rank, Row(
            "keep", on=release(r, n, h), at=Health.UP, when=[*TURN, at(Stage.RUNNING)],
            do=[applied(r, n).to(True)],
                         why="the rank asks only after the vote whether the row has landed",
        )),
    ),
    bug(
        "B08", "sglang #28022", "M4_4_nothing_is_kept",
        "an aborted request is never cleaned up, and the server never counts as idle",
        DropEffect("drain", prefetched(r, h).to(False)),
    ),
    bug(
        "B11", "sglang #21299", "S5_same_decisions_same_batch",
        "ranks whose queues differ combine the votes of different requests",
        AddRow(rank, Row(
            "vote_by_position", at=Health.UP, choose=(h, k),
            when=[h.differs(k), at(Stage.ABSENT), stage(r, k) == Stage.READY],
            send=[ready(r, h)],
                         why="the rank votes for the first request in its queue, whichever that is",
        )),
        AddRow(rank, Row(
            "start_by_position", on=admit(r, n, h, m), at=Health.UP, choose=(k,),
            when=[*TURN, h.differs(k), at(Stage.ABSENT), stage(r, k) == Stage.READY],
            do=[applied(r, n).to(True), stage(r, k).to(Stage.RUNNING), slot(r, k, m).to(True)],
            why="the rank admits the first request in its queue",
        )),
    ),
    bug(
        "B13", "sglang #34572", "S7_in_order",
        "a burst of cancellations: stages apply decisions in different orders, and hang",
        DropClause("start", EARLIER),
        DropClause("drain", EARLIER),
    ),
    bug(
        "B14", "sglang #36928", "S5_same_decisions_same_queue",
        "a rank removes a request before the collective, whose lengths then differ",
        AddRow(rank, Row(
            "remove", on=Call("abort", h), at=Health.UP, when=at(Stage.QUEUED),
            do=[stage(r, h).to(Stage.CLOSED)],
                         why="an abort removes the request from the queue at once",
        )),
    ),
    bug(
        "B20", "sglang #34568", "S5_same_decisions_same_batch",
        "stages admit different requests, as the prefetch is ready on some only",
        AddRow(rank, Row(
            "vote_unprepared", on=Call("bootstrapped", h), at=Health.UP, when=at(Stage.QUEUED),
            send=[ready(r, h)], why="the vote needs only the bootstrap",
        )),
        AddRow(rank, Row(
            "postpone", on=admit(r, n, h, m), at=Health.UP, when=[*TURN, at(Stage.QUEUED)],
            do=[applied(r, n).to(True)], why="the rank checks the prefetch only after the decision",
        )),
    ),
    bug(
        "B36-ranks", "sglang #36926", "M4_5_freed_when_all_have_ended",
        "an abort frees pages that a launched batch, or another rank's transfer, still uses",
        AddRow(rank, Row(
            "abort_now", on=Call("abort", h), at=Health.UP, when=at(Stage.RUNNING),
            do=[stage(r, h).to(Stage.CLOSED), prefetched(r, h).to(False),
                slot(r, h, ANY).to(False)],
            send=[closed(r, h)], why="the rank acts at once",
        )),
    ),
    bug(
        "B38-ranks", "sglang #28236", "L1_every_request_is_answered",
        "a request whose decode server has died stays on the prefill server",
        DropRow("cut_off"),
        configuration=ONE_LIFE,
    ),
    bug(
        "B56", "sglang #37483", "L2_a_failure_is_decided",
        "a request that fails when all ranks are ready stays eligible: no rank polls it any more",
        DropEffect("vote_dead", dead(r, h)),
        configuration=ONE_LIFE,
    ),
    bug(
        "B61", "sglang #30747", "S5_same_decisions_same_batch",
        "a grammar that is ready on some stages only: they run different batches",
        AddRow(rank, Row(
            "not_yet", on=admit(r, n, h, m), at=Health.UP, when=[*TURN, at(Stage.READY)],
            do=[applied(r, n).to(True)], why="the rank checks the grammar only after the decision",
        )),
    ),
    bug(
        "local-drain", "sglang #27028", "S5_same_decisions_same_queue",
        "a failed request leaves one rank's queue, and is still in the others'",
        AddRow(rank, Row(
            "drain_locally", at=Health.UP, choose=(h,), when=at(Stage.FAILED),
            do=[stage(r, h).to(Stage.CLOSED), prefetched(r, h).to(False)], send=[closed(r, h)],
            why="the rank drops a failed request without a decision",
        )),
    ),
    bug(
        "early-decision", "sglang #26912", "L3_no_orphan",
        "the group decides a failure before the request has come to a rank, where it stays for "
        "ever",
        DropEffect("turn_away", stage(r, h).to(Stage.CLOSED)),
        configuration=ONE_LIFE,
    ),
    bug(
        "early-drop", "sglang #38961, item 4", "no_peer_is_at_fault",
        "the first rank that fails makes the group free pages that other ranks still transfer",
        DropClause("decide_drop", forall(peer, broke(peer, h) | done(peer, h))),
    ),
    bug(
        "local-slot", "sglang, two-pass agreement", "S6_slot_has_one_owner",
        "a rank takes a slot that no decision names, and the slot gets two owners",
        DropClause("decide_admit", ~taken(m)),
    ),
)
