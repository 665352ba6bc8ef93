"""The transfer under the group's decisions: one system made of the tables of both.

The tables are those of the parts (group.py; source.py, sink.py and engine.py). In the parts, an
event that one part cannot see in the other is a call: a rank has its bootstrap, its transfer has
ended, prefill hands chunks over. Here these calls are gone. The process of a prefill rank holds
both its part of the group and its sender. When the one side reaches the state, the process takes
the step of the other side by itself. Only the rows of HOST read both parts.

Rule 1: A rank opens its sender when the request has come, and votes ready when every sink has
        published.
Rule 2: A sender begins only after the group has admitted the request.
Rule 3: A rank reports that its part has ended well when its sender answers Success, and badly when
        its sender has failed and has no write under way.
Rule 4: A sender that still waits when the group closes its request fails, and tells its sinks.
Rule 5: Source pages are free when the group has decided it.
Rule 6: The sender of a rank dies when the rank dies, or when it follows a dead rank.

The decode server is one sink: a group of sinks decides by the same tables as a group of sources.
"""

from typing import Final

from pdproto.spec.handoff import group, source, transfer, transfer_claims
from pdproto.spec.handoff.agreement import ANSWERED, DEAD_VOTE, ENDED
from pdproto.spec.handoff.ends import (
    COMMITTED,
    GIVEN_UP,
    RECEIVING_ENDED,
    RECEIVING_NOW,
    Receiving,
    Sending,
    c,
    d,
    feeds,
    gone,
    h,
    handed,
    kv,
    p,
    receiving,
    sending,
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
    confirmed,
    dead,
    done,
    health,
    peer,
    r,
    ready,
    stage,
    status,
)
from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.source import ALL_PUBLISHED, EARLIER_HANDED, UNREAD
from pdproto.spec.handoff.transfer_claims import HANDED_OVER
from pdproto.spec.language import (
    ANY,
    Always,
    Call,
    Configuration,
    Drains,
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
    Tuples,
    all_of,
    any_of,
    edited,
    forall,
    implies,
)

other = Source("other")


def each_its_own(sizes: Sizes) -> Tuples:
    """Each rank runs the sender, or the receiver, of its own number."""
    return [(i, i) for i in range(sizes[Rank])]


# The sender of this prefill rank.
runs: Final = Rigid("runs", r, p, given=each_its_own)
host = Machine("host", host=True)

OWN: Final = (runs(r, p), health(r) == Health.UP)

HOST: Final = Table(host, rows=(
    Row("open_own_sender", choose=(r, p, h),
        when=[*OWN, stage(r, h).among(*group.WAITING), sending(p, h) == Sending.UNKNOWN],
        do=[sending(p, h).to(Sending.BOOTSTRAPPING), kv(p, h).to(True)]),
    Row("vote_ready", choose=(r, p, h),
        when=[*OWN, stage(r, h) == Stage.PREPARED, sending(p, h) == Sending.BOOTSTRAPPING,
              ALL_PUBLISHED],
        do=[stage(r, h).to(Stage.READY), ready(r, h).to(True)],
        why="the bootstrap is there, the last condition of the rank's vote"),
    Row("vote_dead", choose=(r, p, h),
        when=[*OWN, stage(r, h).among(*group.WAITING, Stage.READY),
              sending(p, h) == Sending.FAILED],
        do=[stage(r, h).to(Stage.FAILED), dead(r, h).to(True)],
        why="the sink has given up, or never came"),
    Row("begin_transfer", choose=(r, p, h, c),
        when=[*OWN, stage(r, h) == Stage.RUNNING, sending(p, h) == Sending.BOOTSTRAPPING,
              ALL_PUBLISHED, EARLIER_HANDED, ~handed(p, h, c)],
        do=[sending(p, h).to(Sending.TRANSFERRING), handed(p, h, c).to(True)]),
    Row("hand_on", choose=(r, p, h, c),
        when=[*OWN, stage(r, h) == Stage.RUNNING, sending(p, h) == Sending.TRANSFERRING,
              EARLIER_HANDED, ~handed(p, h, c)],
        do=[handed(p, h, c).to(True)],
        why="prefill hands over each chunk when it has computed it"),
    Row("report_done", choose=(r, p, h),
        when=[*OWN, stage(r, h) == Stage.RUNNING, sending(p, h) == Sending.SUCCESS],
        do=[stage(r, h).to(Stage.DONE), done(r, h).to(True)]),
    Row("report_broken", choose=(r, p, h),
        when=[*OWN, stage(r, h) == Stage.RUNNING, sending(p, h) == Sending.FAILED, UNREAD],
        do=[stage(r, h).to(Stage.BROKEN), broke(r, h).to(True)],
        why="a failed sender is not enough: the engine may still read the pages"),
    Row("obey", choose=(r, p, h),
        when=[*OWN, stage(r, h) == Stage.CLOSED,
              sending(p, h).among(Sending.UNKNOWN, *source.RUNNING)],
        do=[sending(p, h).to(Sending.FAILED)],
        why="the group has ended the request, and the sink must learn of it"),
    Row("free_pages", choose=(r, p, h),
        when=[*OWN, stage(r, h) == Stage.CLOSED, sending(p, h).among(*source.ENDED), kv(p, h)],
        do=[kv(p, h).to(False)],
        why="the group has decided that no write reads the pages any more"),
    Row("end_sender", choose=(r, p, h),
        when=[runs(r, p), health(r) == Health.DOWN, sending(p, h) != Sending.GONE],
        do=[sending(p, h).to(Sending.GONE), gone(p, h, ANY).to(True)],
        why="both run in one process: a sender dies with its rank, and its connections close"),
))

# Calls from outside in the parts; HOST does them here. A sender cuts its own transfer off.
CALLED: Final = ("vote_ready", "vote_dead", "transferred", "break_off", "cut_off")
_CALLED_SENDER: Final = ("begin_send", "send", "send_more", "abort_send", "release_kv")
_SENDER_CALLS: Final = ("open_sender", "send")

ALL_UP: Final = forall(peer, health(peer) == Health.UP)
SERVED: Final = status(h) == Status.SERVED
REFUSED: Final = status(h) == Status.REFUSED

TOGETHER: Final = (
    Always("M4_1_nothing_is_sent_before_all_agree",
           implies((sending(p, h) == Sending.TRANSFERRING) & (health(r) == Health.UP),
                   ~stage(r, h).among(Stage.ABSENT, *group.WAITING)),
           why="no rank sends anything before every rank has voted"),
    OnRow("M4_1_a_ready_vote_has_its_bootstrap", "vote_ready",
          all_of(sending(p, h) == Sending.BOOTSTRAPPING, ALL_PUBLISHED),
          why="the group admits no request that a rank cannot send at once"),
    OnRow("a_chunk_is_handed_on_to_a_sender_that_sends", "hand_on",
          sending(p, h) == Sending.TRANSFERRING, why="one that has ended sends no more"),
    OnRow("M4_2_a_dead_vote_has_a_failed_sender", "vote_dead", sending(p, h) == Sending.FAILED,
          why="a rank whose sender can go on takes part"),
    OnRow("M4_2_a_sender_obeys_a_decision", "obey",
          all_of(stage(r, h) == Stage.CLOSED, health(r) == Health.UP),
          why="the group ends a request, and a dead process tells nobody"),
    Sometimes("two_ranks_send_at_once",
              all_of(p.differs(other), sending(p, h) == Sending.TRANSFERRING,
                     sending(other, h) == Sending.TRANSFERRING)),
    OnRow("M4_5_no_rank_still_sends", "free_pages",
          forall((peer, other), implies(runs(peer, other) & (health(peer) == Health.UP),
                                     sending(other, h) != Sending.TRANSFERRING)),
          why="pages are freed when the transfer has ended on every living rank"),
    OnRow("M4_5_a_source_ends_before_its_pages_are_free", "free_pages",
          sending(p, h).among(*source.ENDED), why="the pages of a source that sends are its own"),
    Sometimes("M4_5_pages_wait_for_the_other_rank", all_of(
        p.differs(other), sending(p, h) == Sending.SUCCESS, kv(p, h),
        sending(other, h) == Sending.TRANSFERRING)),
    *HANDED_OVER,
    Always("S14_served_means_sent",
           implies(all_of(SERVED, ALL_UP, runs(r, p)), sending(p, h) == Sending.SUCCESS),
           why="the prefill server answers Success only if every rank's part has landed"),
    Always("S14_the_servers_agree",
           implies(all_of(COMMITTED, ALL_UP, runs(r, p), feeds(p, d)), ~REFUSED),
           why="while no rank dies, decode never serves a request that prefill has refused"),
    Sometimes("S14_both_serve", SERVED & COMMITTED),
    Sometimes("S14_both_refuse", REFUSED & (receiving(d, h) == Receiving.FAILED)),
    Sometimes("S14_prefill_may_serve_alone", SERVED & (receiving(d, h) == Receiving.FAILED)),
)

EVERY_REQUEST_IS_ANSWERED: Final = LeadsTo(
    "L1_every_request_is_answered", status(h) != Status.NEW, status(h).among(*ANSWERED),
    under=(Fairness.TIMERS,), why="each request gets its one answer")
NO_ORPHAN: Final = Drains(
    "L3_no_orphan", forall((r, h), any_of(
        stage(r, h) == Stage.CLOSED, (stage(r, h) == Stage.ABSENT) & (status(h) == Status.NEW),
    )), under=(Fairness.TIMERS,), why="with no traffic the queues of all ranks become empty")

LATE_FAILURE: Final = Sometimes(
    "M4_2_a_rank_that_has_voted_may_fail",
    all_of(stage(r, h) == Stage.FAILED, ready(r, h)))

# These read old votes, which dead-bit clearing would then keep: one rank only.
REPORTED: Final = (
    DEAD_VOTE,
    LATE_FAILURE,
    Always("M4_1_a_ready_rank_has_voted", implies(stage(r, h) == Stage.READY, ready(r, h)),
           why="the group waits for the vote of every rank"),
    Always("M4_5_a_rank_that_has_ended_has_reported",
           all_of(implies(stage(r, h) == Stage.DONE, done(r, h)),
                  implies(stage(r, h) == Stage.BROKEN, broke(r, h))),
           why="the group waits for the report of every rank"),
)

IN_TIME: Final = (
    EVERY_REQUEST_IS_ANSWERED,
    LeadsTo("M4_1_a_rank_that_waits_opens_its_sender",
            all_of(*OWN, stage(r, h).among(*group.WAITING), sending(p, h) == Sending.UNKNOWN),
            any_of(sending(p, h) != Sending.UNKNOWN, health(r) == Health.DOWN,
                   ~stage(r, h).among(*group.WAITING)),
            why="the bootstrap begins with the request, and not after its preparation"),
    LeadsTo("L2_a_refusal_reaches_the_sink", REFUSED & RECEIVING_NOW & feeds(p, d),
            RECEIVING_ENDED,
            why="a request that the group has refused ends on decode too, by messages alone"),
    LeadsTo("L2_a_sinks_failure_is_decided",
            GIVEN_UP & (status(h) == Status.OPEN), status(h) != Status.OPEN,
            why="the group decides a request that decode has given up, by messages alone"),
    LeadsTo("M4_2_failure_drains_everywhere", sending(p, h) == Sending.FAILED,
            forall(peer, stage(peer, h).among(Stage.ABSENT, Stage.CLOSED)),
            under=(Fairness.TIMERS,),
            why="the group drains a sender that has failed on every rank"),
    NO_ORPHAN,
)

FINAL: Final = all_of(
    transfer.FINAL,
    any_of(
        forall((r, h), any_of(status(h) == Status.NEW,
                              status(h).among(*ANSWERED) & confirmed(r, h))),
        all_of(ENDED, forall(r, health(r) == Health.DOWN),
               forall(h, status(h).among(Status.NEW, *ANSWERED))),
    ),
)

_PARTS: Final = System(
    "parts", "The tables of the transfer and of the group, side by side.",
    tables=(*transfer.SYSTEM.tables, RANK, ENTRY),
)
_UNCALLED: Final = edited(_PARTS, "uncalled", *map(DropRow, (
    *CALLED, *_CALLED_SENDER,
    *(row.name for row in source.SOURCE.rows
      if row.kind == "ignore" and isinstance(row.on, Call) and row.on.name in _SENDER_CALLS),
)))



def _configuration(
    *, ranks: int, chunks: int = 1, faults: tuple[str, ...] = ()
) -> Configuration:
    """One of everything else, and two decisions, because a life needs two."""
    sizes: Sizes = {
        Rank: ranks, Source: ranks, Sink: 1, Life: 1, Decision: 2,
        Slot: 1, Buffer: 1, Page: 1, Chunk: chunks,
    }
    return Configuration(sizes, faults=faults, dead_bits=True)


PAIR: Final = System(
    "group-transfer-pair",
    "The transfer under the decisions of a group of two ranks.",
    tables=(*_UNCALLED.tables, HOST),
    properties=(*transfer.SAFETY, *TOGETHER, *transfer_claims.LIVENESS, *IN_TIME),
    final=FINAL,
    faults={"crash": (group.CRASH,)},
    configurations={"deep": _configuration(ranks=2)},
)

_OF_TWO: Final = ("two_ranks_send_at_once", "M4_5_pages_wait_for_the_other_rank")

SYSTEM: Final = edited(
    PAIR, "group-transfer",
    ReplaceProperties((
        *(claim for claim in PAIR.properties if claim.name not in _OF_TWO), *REPORTED,
        Always("L7_sinks_hear_that_a_source_is_gone",
               implies((sending(p, h) == Sending.GONE) & feeds(p, d), gone(p, h, d)),
               why="its connections close with the process"))),
    about="The transfer under the group's decisions, which replace the calls from outside.",
    # One rank, and it may die. Two ranks take minutes, so PAIR has them.
    configurations={"default": _configuration(ranks=1, chunks=2, faults=("crash",))},
)
