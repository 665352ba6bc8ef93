"""Why the decisions of a group agree with its transfers, for any number of ranks, sinks, lives,
decisions, pages and chunks.

The lemmas of both parts hold here too, and so do the promises of the agreement. The lemmas below
tie a rank's stage in the group to its sender: bytes move only between an admission and the rank's
report that its part has ended, and a rank that reports a broken part never sent everything.
"""

from typing import Final

from pdproto.spec.handoff import agreement, group
from pdproto.spec.handoff.ends import (
    COMMITTED,
    Sending,
    Write,
    c,
    d,
    feeds,
    h,
    p,
    sending,
    write,
)
from pdproto.spec.handoff.group import (
    Health,
    Stage,
    Status,
    Verdict,
    broke,
    health,
    log,
    lost,
    n,
    peer,
    r,
    stage,
    status,
)
from pdproto.spec.handoff.group_transfer import REFUSED, other, runs
from pdproto.spec.language import Always, all_of, any_of, exists, forall, implies
from pdproto.spec.lemmas import agreement_lemmas, transfer_lemmas
from pdproto.spec.lemmas.page_fence_lemmas import BELIEVES_ALL
from pdproto.spec.lemmas.transfer_lemmas import WON

ASSUMED: Final = {
    "a_rank_has_one_sender": forall(
        (r, p, other), implies(runs(r, p) & runs(r, other), p.same(other))),
    "a_sender_has_one_rank": forall((r, peer, p), implies(runs(r, p) & runs(peer, p),
    r.same(peer))),
    "every_rank_has_a_sender": forall(r, exists(p, runs(r, p))),
    "every_sender_feeds_every_sink": forall((p, d), feeds(p, d)),
}

OWN: Final = runs(r, p)
UP: Final = health(r) == Health.UP
SENT: Final = sending(p, h).among(Sending.TRANSFERRING, Sending.SUCCESS)

_RANKS: Final = (
    Always("a_sending_rank_runs",
           implies(all_of(OWN, UP, sending(p, h) == Sending.TRANSFERRING),
                   stage(r, h) == Stage.RUNNING),
           why="a sender begins when its rank runs, and the rank waits for its end"),
    Always("a_rank_being_read_runs",
           implies(all_of(OWN, UP, write(p, h, d, c) == Write.POSTED),
                   stage(r, h) == Stage.RUNNING),
           why="a rank reports the end of its part when its engine reads none of its pages"),
    Always("a_rank_that_sent_has_run",
           implies(all_of(OWN, UP, sending(p, h) == Sending.SUCCESS),
                   stage(r, h).among(Stage.RUNNING, Stage.DONE, Stage.CLOSED)),
           why="the rank ran when it sent, and reports a part that went well as done"),
    Always("a_gone_sender_has_a_dead_rank", implies(OWN & (sending(p, h) == Sending.GONE), ~UP),
           why="both run in one process: a sender dies with its rank"),
    Always("a_done_rank_has_sent", implies(OWN & (stage(r, h) == Stage.DONE), WON),
           why="a rank is done when its sender has succeeded"),
    Always("a_rank_that_said_done_has_sent", implies(OWN & group.done(r, h), WON),
           why="a rank reports when it is done"),
    Always("a_broken_rank_has_not_sent", implies(OWN & broke(r, h), ~SENT),
           why="a rank reports it when its sender has failed, or has never begun"),
    Always("a_lost_rank_is_dead", implies(lost(r), ~UP),
           why="a connection closes with its process"),
)

_ANSWERS: Final = (
    Always("a_sent_request_is_admitted", implies(SENT, ~status(h).among(Status.NEW, Status.OPEN)),
           why="no rank sends anything before the group has admitted the request"),
    Always("a_failed_request_is_not_sent", implies(log(n, h) == Verdict.FAIL, ~SENT),
           why="a request fails instead of being admitted"),
    BELIEVES_ALL,
    Always("a_broken_request_is_not_committed", implies(UP & broke(r, h), ~COMMITTED),
           why="that rank's sender has not succeeded, so it has sent no DONE to the sink"),
    Always("a_group_ends_with_a_rank", implies(group.group() == Health.DOWN, exists(r, ~UP)),
           why="a group ends when a rank is lost"),
    Always("a_refusal_has_a_reason",
           implies(REFUSED, any_of(group.group() == Health.DOWN,
                                   exists(n, log(n, h) == Verdict.FAIL),
                                   exists((r, p), OWN & broke(r, h)))),
           why="the group has died, has decided a failure, or a rank's part broke"),
)

_OF_THE_GROUP: Final = tuple(
    one for one in agreement.SYSTEM.properties if isinstance(one, Always))

BRIDGE: Final = (*_RANKS, *_ANSWERS)  # lemmas between the parts
LEMMAS: Final = (
    *transfer_lemmas.LEMMAS, *agreement_lemmas.LEMMAS, *_OF_THE_GROUP, *BRIDGE,
)
