"""Why the decisions of a group agree with the pages of its sinks, for any number of ranks, sources,
lives, decisions, pages and chunks.

The lemmas of both parts hold here too, and so do the promises of the agreement. The lemmas below
tie a rank's stage in the group to its sink: bytes come only between an admission and the rank's
report that its part has ended, and the sink of a rank that reports its part as done has committed.
"""

from typing import Final

from pdproto.spec.handoff import agreement
from pdproto.spec.handoff.ends import (
    Claim,
    Receiving,
    address,
    b,
    claim,
    d,
    feeds,
    h,
    p,
    receiving,
)
from pdproto.spec.handoff.group import (
    Health,
    Stage,
    Verdict,
    done,
    health,
    log,
    n,
    peer,
    r,
    stage,
)
from pdproto.spec.handoff.sink_group import other, runs
from pdproto.spec.language import Always, all_of, exists, forall, implies
from pdproto.spec.lemmas import agreement_lemmas, page_fence_lemmas
from pdproto.spec.lemmas.transfer_lemmas import THREATENS, UNDER_WAY

ASSUMED: Final = {
    "a_rank_has_one_receiver": forall(
        (r, d, other), implies(runs(r, d) & runs(r, other), d.same(other))),
    "a_receiver_has_one_rank": forall(
        (r, peer, d), implies(runs(r, d) & runs(peer, d), r.same(peer))),
    "every_rank_has_a_receiver": forall(r, exists(d, runs(r, d))),
    "every_source_feeds_every_sink": forall((p, d), feeds(p, d)),
}

OWN: Final = runs(r, d)
UP: Final = health(r) == Health.UP
RUNNING: Final = stage(r, h) == Stage.RUNNING
SERVED_OR_GONE: Final = receiving(d, h).among(Receiving.SUCCESS, Receiving.GONE)

_RANKS: Final = (
    Always("a_gone_sink_has_a_dead_rank", implies(OWN & (receiving(d, h) == Receiving.GONE), ~UP),
           why="both run in one process: a sink dies with its rank"),
    Always("a_done_rank_has_committed", implies(OWN & (stage(r, h) == Stage.DONE), SERVED_OR_GONE),
           why="a rank is done when its sink has committed"),
    Always("a_rank_that_said_done_has_committed", implies(OWN & done(r, h), SERVED_OR_GONE),
           why="a rank reports when it is done"),
    Always("a_released_rank_has_committed",
           implies(OWN & (log(n, h) == Verdict.RELEASE), SERVED_OR_GONE),
           why="the group releases a request when every rank has reported that it is done"),
)

_WRITES: Final = (
    Always("a_threatened_rank_runs",
           implies(all_of(OWN, UP, THREATENS, feeds(p, d), address(d, h, b)), RUNNING),
           why="a rank reports the end of its part when no source can write to its pages"),
    Always("a_rank_being_written_runs",
           implies(all_of(OWN, UP, UNDER_WAY, claim(d, h, p) != Claim.FENCED), RUNNING),
           why="a rank reports the end of its part when no source can write to its pages"),
)

_OF_THE_GROUP: Final = tuple(
    one for one in agreement.SYSTEM.properties if isinstance(one, Always))

BRIDGE: Final = (*_RANKS, *_WRITES)  # lemmas between the parts
LEMMAS: Final = (
    *page_fence_lemmas.LEMMAS, *agreement_lemmas.LEMMAS, *_OF_THE_GROUP, *BRIDGE,
)
