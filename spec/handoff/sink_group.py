"""The transfer into the pages of a group of sinks: one system made of the tables of both.

A decode server of several ranks decides by the tables of every group (group.py). Each of its ranks
is a sink of its own, and its engine writes straight into pages (transfer.py, DIRECT). In the parts,
an event that one part cannot see in the other is a call. Here these calls are gone: when a sink
reaches a state, its process takes the step of its rank, and the other way round. Only the rows of
HOST read both parts.

Rule 1: A rank opens its receiver when the request has come, and votes ready when it has pages.
Rule 2: A sink publishes its pages only after the group has admitted the request.
Rule 3: A rank reports that its part has ended well when all sources have landed, and badly when its
        sink has failed and no source can write to its pages any more.
Rule 4: A sink that still waits when the group closes its request fails, and stops its sources.
Rule 5: Pages are free when the group has decided it: after the answer, if the request is served;
        at once, if it is refused. No sink frees them by itself.
Rule 6: The sink of a rank dies when the rank dies, or when it follows a dead rank.

The prefill server is one rank or two that decide nothing together: group_transfer.py has a group of
sources.
"""

from typing import Final

from pdproto.spec.handoff import engine, group, sink, transfer
from pdproto.spec.handoff.ends import (
    COMMITTED,
    GIVEN_UP,
    RECEIVING_ENDED,
    RECEIVING_NOW,
    UNDER_WAY,
    Claim,
    Memory,
    Receiving,
    Sending,
    abort,
    address,
    b,
    c,
    claim,
    d,
    h,
    introduce,
    lease,
    memory,
    p,
    publish,
    receiving,
    sending,
    sink_over,
    write,
)
from pdproto.spec.handoff.group import (
    ENTRY,
    RANK,
    Decision,
    Health,
    Rank,
    Stage,
    Status,
    broke,
    dead,
    done,
    health,
    peer,
    r,
    ready,
    stage,
    status,
)
from pdproto.spec.handoff.group_transfer import (
    ALL_UP,
    CALLED,
    EVERY_REQUEST_IS_ANSWERED,
    FINAL,
    NO_ORPHAN,
    REFUSED,
    REPORTED,
    SERVED,
    each_its_own,
)
from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.sink import NO_CLAIM, q
from pdproto.spec.handoff.transfer_claims import WITHDRAWN
from pdproto.spec.language import (
    ANY,
    AddFaults,
    Always,
    Call,
    Configuration,
    DropRow,
    Fairness,
    LeadsTo,
    Machine,
    OnRow,
    ReplaceProperties,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    System,
    Table,
    all_of,
    any_of,
    edited,
    exists,
    forall,
    implies,
)

other = Sink("other")


# The receiver of this decode rank.
runs: Final = Rigid("receives", r, d, given=each_its_own)
host = Machine("decode_host", host=True)

OWN: Final = (runs(r, d), health(r) == Health.UP)

HOST: Final = Table(host, rows=(
    Row("open_own_receiver", choose=(r, d, h),
        when=[*OWN, stage(r, h).among(*group.WAITING), receiving(d, h) == Receiving.UNKNOWN,
              forall(q, claim(d, h, q) == Claim.NONE)],
        do=[receiving(d, h).to(Receiving.BOOTSTRAPPING), memory(d, h).to(Memory.ASKED),
            claim(d, h, ANY).to(Claim.TOLD), introduce(d, h, ANY).to(True)]),
    Row("vote_ready", choose=(r, d, h, b),
        when=[*OWN, stage(r, h) == Stage.PREPARED, receiving(d, h) == Receiving.BOOTSTRAPPING,
              lease(d, h, b)],
        do=[stage(r, h).to(Stage.READY), ready(r, h).to(True)],
        why="the rank has pages, the last condition of its vote"),
    Row("vote_dead", choose=(r, d, h),
        when=[*OWN, stage(r, h).among(*group.WAITING, Stage.READY),
              receiving(d, h) == Receiving.FAILED],
        do=[stage(r, h).to(Stage.FAILED), dead(r, h).to(True)],
        why="a source has failed, or never came"),
    Row("publish_pages", choose=(r, d, h, b),
        when=[*OWN, stage(r, h) == Stage.RUNNING, receiving(d, h) == Receiving.BOOTSTRAPPING,
              lease(d, h, b), forall(q, claim(d, h, q) == Claim.TOLD)],
        do=[receiving(d, h).to(Receiving.WAITING), address(d, h, b).to(True),
            claim(d, h, ANY).to(Claim.OUT), publish(d, h, ANY).to(True)]),
    Row("report_done", choose=(r, d, h),
        when=[*OWN, stage(r, h) == Stage.RUNNING, receiving(d, h) == Receiving.SUCCESS],
        do=[stage(r, h).to(Stage.DONE), done(r, h).to(True)]),
    Row("report_broken", choose=(r, d, h),
        when=[*OWN, stage(r, h) == Stage.RUNNING, receiving(d, h) == Receiving.FAILED, NO_CLAIM],
        do=[stage(r, h).to(Stage.BROKEN), broke(r, h).to(True)],
        why="a failed sink is not enough: a source may still write to its pages"),
    Row("obey", choose=(r, d, h),
        when=[*OWN, stage(r, h) == Stage.CLOSED, receiving(d, h).among(*sink.UNDER_WAY)],
        do=[receiving(d, h).to(Receiving.FAILED), memory(d, h).to(Memory.UNASKED),
            abort(d, h, ANY).to(True)],
        why="the group has ended the request, and the sources must learn of it"),
    Row("free_pages", choose=(r, d, h, b),
        when=[*OWN, stage(r, h) == Stage.CLOSED, receiving(d, h).among(*sink.ENDED),
              lease(d, h, b)],
        do=[lease(d, h, b).to(False)],
        why="the group has decided that no source writes to the pages, and none is read any more"),
    Row("end_receiver", choose=(r, d, h),
        when=[runs(r, d), health(r) == Health.DOWN,
              ~receiving(d, h).among(Receiving.UNKNOWN, Receiving.GONE)],
        do=[receiving(d, h).to(Receiving.GONE), memory(d, h).to(Memory.UNASKED),
            lease(d, h, ANY).to(False), sink_over(d, h, ANY).to(True)],
        why="both run in one process: a sink dies with its rank, and its connections close"),
))

# Rows of a sink that the group decides here.
_DECIDED: Final = ("begin_receive", "publish_memory", "abort_receive", "end_lease", "finish")
_SINK_CALLS: Final = ("open_receiver", "abort_receiver", "finish")

_PARTS: Final = System(
    "sink-parts", "The tables of the transfer into pages and of the group, side by side.",
    tables=(*transfer.DIRECT.tables, RANK, ENTRY),
)
_UNCALLED: Final = edited(_PARTS, "sinks-uncalled", *map(DropRow, (
    *CALLED, *_DECIDED,
    *(row.name for table in transfer.DIRECT.tables for row in table.rows
      if row.kind == "ignore" and isinstance(row.on, Call) and row.on.name in _SINK_CALLS),
)))

SENDING: Final = (Sending.BOOTSTRAPPING, Sending.TRANSFERRING)
LIVES: Final = runs(peer, other) & (health(peer) == Health.UP)

TOGETHER: Final = (
    Always("M4_1_nothing_is_published_before_all_agree",
           implies(all_of(receiving(d, h).among(*sink.PUBLISHED), runs(r, d),
                          health(r) == Health.UP),
                   stage(r, h) == Stage.RUNNING),
           why="no source can write before every rank has voted"),
    OnRow("M4_1_a_ready_vote_has_pages", "vote_ready",
          all_of(receiving(d, h) == Receiving.BOOTSTRAPPING, exists(b, lease(d, h, b))),
          why="the group admits no request that a rank cannot publish at once"),
    OnRow("M4_2_a_dead_vote_has_a_failed_sink", "vote_dead", receiving(d, h) == Receiving.FAILED,
          why="a rank whose sink can go on takes part"),
    OnRow("M4_2_a_sink_obeys_a_decision", "obey",
          all_of(stage(r, h) == Stage.CLOSED, health(r) == Health.UP),
          why="the group ends a request, and a dead process tells nobody"),
    OnRow("M4_5_a_sink_ends_before_its_pages_are_free", "free_pages",
          receiving(d, h).among(*sink.ENDED), why="the pages of a sink that waits are its own"),
    WITHDRAWN,
    Always("a_sink_that_is_gone_asks_for_no_memory",
           implies(receiving(d, h) == Receiving.GONE, memory(d, h) == Memory.UNASKED),
           why="its memory went with the process"),
    OnRow("S14_no_rank_commits_while_another_fails", "free",
          forall((peer, other), implies(LIVES, receiving(other, h) == Receiving.SUCCESS)),
          why="a rank serves its part of the request only if every living rank has its own"),
    Always("S14_served_means_complete",
           implies(all_of(SERVED, ALL_UP, runs(r, d)), COMMITTED),
           why="the decode server answers Success only if every rank's part has landed"),
    OnRow("M4_5_no_page_is_free_while_a_write_to_it_is_possible", "free_pages",
          forall((p, c), any_of(~write(p, h, d, c).among(*UNDER_WAY),
                                claim(d, h, p) == Claim.FENCED)),
          why="no write lands in a page that the group has freed"),
    Sometimes("two_sinks_are_written_at_once", all_of(
        d.differs(other), receiving(d, h) == Receiving.TRANSFERRING,
        receiving(other, h) == Receiving.TRANSFERRING)),
    Sometimes("a_complete_rank_is_dropped_with_the_others", all_of(
        d.differs(other), REFUSED, ALL_UP, receiving(d, h) == Receiving.SUCCESS,
        receiving(other, h) == Receiving.FAILED)),
    Sometimes("pages_wait_for_the_other_rank", all_of(
        d.differs(other), COMMITTED, exists(b, lease(d, h, b)),
        receiving(other, h) == Receiving.TRANSFERRING)),
    Sometimes("S14_all_ranks_serve", SERVED & ALL_UP),
)

IN_TIME: Final = (
    EVERY_REQUEST_IS_ANSWERED,
    LeadsTo("M4_1_a_rank_that_waits_opens_its_receiver",
            all_of(*OWN, stage(r, h).among(*group.WAITING), receiving(d, h) == Receiving.UNKNOWN),
            any_of(receiving(d, h) != Receiving.UNKNOWN, health(r) == Health.DOWN,
                   ~stage(r, h).among(*group.WAITING)),
            why="the bootstrap begins with the request, and not after its preparation"),
    LeadsTo("L2_a_refusal_reaches_every_sink", REFUSED & RECEIVING_NOW, RECEIVING_ENDED,
            why="a request that the group has refused ends on each rank, by messages alone"),
    LeadsTo("L2_a_refusal_reaches_every_source",
            all_of(REFUSED, claim(d, h, p) != Claim.NONE, sending(p, h).among(*SENDING)),
            ~sending(p, h).among(*SENDING), under=(Fairness.DETECTORS,),
            why="a source that was told of a refused request ends, by messages alone"),
    LeadsTo("L2_a_sinks_failure_is_decided", GIVEN_UP & (status(h) == Status.OPEN),
            status(h) != Status.OPEN,
            why="the group decides a request that a rank has given up, by messages alone"),
    NO_ORPHAN,
)

_SAFE: Final = (*transfer.DIRECT.properties, *TOGETHER)
_BY_TIME_OUT: Final = "S14_a_source_may_succeed_alone"
_OF_TWO: Final = ("two_sinks_are_written_at_once", "pages_wait_for_the_other_rank",
                  "a_complete_rank_is_dropped_with_the_others")


def _configuration(
    *, sources: int = 1, ranks: int = 1, chunks: int = 1, faults: tuple[str, ...] = ()
) -> Configuration:
    """One of everything else, and two decisions, because a life needs two."""
    sizes: Sizes = {
        Rank: ranks, Source: sources, Sink: ranks, Life: 1, Decision: 2,
        Slot: 1, Buffer: 1, Page: 1, Chunk: chunks,
    }
    return Configuration(sizes, faults=faults, dead_bits=True)


PAIR: Final = System(
    "sink-group-pair",
    "The transfer into the pages of a group of two sinks, which the group's decisions free.",
    tables=(*_UNCALLED.tables, HOST),
    properties=(*_SAFE, *IN_TIME),
    final=FINAL,
    faults={"crash": (group.CRASH,)},
    configurations={"deep": _configuration(ranks=2)},
)

SYSTEM: Final = edited(
    PAIR, "sink-group",
    ReplaceProperties((
        *(claim for claim in PAIR.properties if claim.name not in _OF_TWO), *REPORTED,
        Always("M4_1_a_sink_that_waits_has_published",
               implies(receiving(d, h) == Receiving.WAITING, publish(d, h, p)),
               why="its sources wait for its address"))),
    about="The transfer into the pages of a sink under the decisions of its group.",
    # One rank. Two ranks take minutes, so PAIR has them.
    configurations={
        "default": _configuration(faults=("crash",)),
    },
)

# Loss multiplies the states: two ranks, two sources or two chunks are the most that a search ends
# with in minutes, and only where no end gives up. Liveness is left to PAIR and to the parts.
LOSS: Final = edited(
    SYSTEM, "sink-group-loss", AddFaults("lossy", engine.LOSSY), *map(DropRow, (
        "give_up_waiting", "give_up_sending", "give_up_bootstrap", "give_up_queue",
        "give_up_transfer", "fence_silent", "give_up")),
    ReplaceProperties(tuple(
        claim for claim in _SAFE
        if claim.name not in (*_OF_TWO, _BY_TIME_OUT) and not isinstance(claim, LeadsTo))),
    about="The transfer into the pages of a group of sinks where messages are lost.",
    configurations={
        "default": _configuration(chunks=2, faults=("lossy",)),
        "sources": _configuration(sources=2),
        "deep": _configuration(ranks=2, faults=("lossy",)),
    },
)
