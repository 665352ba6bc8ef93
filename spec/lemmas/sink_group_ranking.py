"""Why a group of sinks answers every request, and why the ends of the transfer drain, for any
number of ranks, sources, lives, decisions, pages and chunks.

The rankings of the transfer hold here as they are, but for the pages of a sink, which wait for the
group. Those of the agreement hold with the rows of a sink in the place of the call by which a rank
ends its part. A source that a refused request keeps sending is stopped by some sink whose rank
applies the refusal, or finds that the sink has died.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.ends import (
    Receiving,
    Sending,
    Write,
    b,
    c,
    can_fence,
    claim,
    d,
    feeds,
    h,
    handed,
    introduce,
    lease,
    p,
    receiving,
    sending,
    write,
)
from pdproto.spec.handoff.group import (
    Rank,
    Stage,
    Status,
    lost,
    n,
    numbered,
    r,
    stage,
    status,
)
from pdproto.spec.handoff.roles import Buffer, Sink, Source
from pdproto.spec.handoff.sink import THREATENS
from pdproto.spec.handoff.sink_group import runs
from pdproto.spec.language import Always, Sort, all_of, exists, forall, implies
from pdproto.spec.language.ranking import Help, Ranking, Use, Witness
from pdproto.spec.lemmas import agreement_ranking, transfer_ranking
from pdproto.spec.lemmas.agreement_ranking import departed, following, serving, unended
from pdproto.spec.lemmas.transfer_ranking import (
    WITH_MEMORY,
    joined,
    of_a_sink_that_waits,
    short,
    somewhere,
    waiting,
)

# The rank of the sink; the sink of a rank that has not ended its part, its pages, and a source that
# may still write to them.
owner, carrier, own_pages, threat = (
    Rank("owner"), Sink("carrier"), Buffer("own_pages"), Source("threat"))
# The rank of a sink to which a source has not sent all.
keeper: Final = Rank("keeper_of_waiting")

_NOT_HERE: Final = ("a_lease_was_asked_for", "a_page_was_asked_for", "a_slot_was_asked_for")
_OF_GROUP: Final = {one.name: one for one in (
    *agreement_ranking.LEMMAS, *agreement_ranking.FAULT_FREE.lemmas)}
LEMMAS: Final = (
    *(one for one in transfer_ranking.LEMMAS if one.name not in _NOT_HERE),
    *_OF_GROUP.values(),
    Always("a_rank_has_a_receiver", exists(d, runs(r, d)),
           why="each rank runs the receiver of its own number"),
    Always("a_running_rank_has_opened_its_receiver",
           implies(all_of(runs(r, d), stage(r, h).among(Stage.READY, Stage.RUNNING)),
                   receiving(d, h) != Receiving.UNKNOWN),
           why="a rank votes when its receiver has pages"),
    Always("a_begun_sink_has_a_rank",
           implies(receiving(d, h) != Receiving.UNKNOWN, exists(r, runs(r, d))),
           why="a rank opens its own receiver"),
    Always("a_begun_sink_has_its_request",
           implies(all_of(runs(r, d), receiving(d, h) != Receiving.UNKNOWN),
                   stage(r, h) != Stage.ABSENT),
           why="a rank opens a receiver for a request that it has"),
    Always("a_sink_that_takes_part_has_pages",
           implies(all_of(runs(r, d), stage(r, h).among(Stage.READY, Stage.RUNNING),
                          receiving(d, h) == Receiving.BOOTSTRAPPING), exists(b, lease(d, h, b))),
           why="a rank votes when its receiver has pages"),
    transfer_ranking.A_FAILED_SINK_TELLS,
    Always("a_lease_is_of_a_sink_that_lives",
           implies(lease(d, h, b), ~receiving(d, h).among(Receiving.UNKNOWN, Receiving.GONE)),
           why="a grant answers a request, and a lease ends with the process"),
    Always("a_begun_sink_has_introduced_itself",
           implies(all_of(receiving(d, h) != Receiving.UNKNOWN, feeds(p, d)), introduce(d, h, p)),
           why="it does so when it begins"),
    Always("a_sending_source_has_no_failed_write",
           implies(sending(p, h) == Sending.TRANSFERRING,
                   ~write(p, h, d, c).among(Write.IN_DOUBT, Write.SKIPPED)),
           why="a source fails with the first write that fails"),
)
MONOTONE: Final = transfer_ranking.MONOTONE

_AS_THEY_ARE: Final = ("a_failure_is_told_to_each_sink_once", "L3_every_claim_is_settled")
# The sink of a rank ends by its own clocks, and then the rank reports the end of its part.
_OF_CARRIER: Final[Mapping[Sort, Sort]] = {d: carrier, h: serving}
_PART_ENDS: Final = (
    *(Help(row, at=_OF_CARRIER)
      for row in ("give_up_bootstrap", "give_up_transfer")),
    Help("publish_pages", at={**_OF_CARRIER, r: unended, b: own_pages}),
    *(Help(row, at={**_OF_CARRIER, p: threat}) for row in ("fence_silent", "finish_fence")),
    *(Help(row, at={**_OF_CARRIER, r: unended}) for row in ("report_done", "report_broken")),
)


def _of_group(one: Ranking) -> Ranking:
    """The ranking of the agreement, with the end of a part in the place of its call."""
    return replace(
        one, helpers=(*one.helpers, *_PART_ENDS),
        witnesses=(*one.witnesses, Witness(carrier, runs(unended, carrier)),
                   Witness(own_pages, lease(carrier, serving, own_pages)),
                   Witness(threat, claim(carrier, serving, threat).among(*THREATENS))),
        using=(*one.using, Use("a_rank_has_a_receiver", {r: unended}),
               Use("a_sink_that_takes_part_has_pages", {**_OF_CARRIER, r: unended})),
        # The group frees no page to which a source may still write.
        assumed={**one.assumed, "every_sink_can_fence": forall(d, can_fence(d))})


_DECIDED: Final = ("L1_every_request_is_answered", "L3_no_orphan")
_LOST: Final = receiving(d, h).among(Receiving.FAILED, Receiving.GONE)
(_REACHES,) = (one for one in agreement_ranking.FAULT_FREE.rankings
               if one.leads_to == "L2_a_decision_reaches_all")
(_CLOSED,) = (one for one in agreement_ranking.RANKINGS
              if one.leads_to == "M4_2_failure_drains_everywhere")
_FREED: Final = _of_group(_CLOSED)


def _group_ends(sink: Sink) -> Ranking:
    """A part of a ranking: the group ends each request, and the rank of this sink obeys. No clock
    of the sink bounds its wait for pages, but one of the group does.
    """
    return replace(
        _FREED,
        helpers=(*_FREED.helpers, *(Help(row, at={r: owner, d: sink})
                                    for row in ("obey", "end_receiver"))),
        witnesses=(*_FREED.witnesses, Witness(owner, runs(owner, sink))),
        using=(*_FREED.using, Use("a_begun_sink_has_a_rank", {d: sink})))


_SHORT: Final = Ranking("", (), witnesses=(of_a_sink_that_waits(),))
RANKINGS: Final = (
    joined(WITH_MEMORY["L1_a_sink_ends"], _group_ends(d)),
    *(joined(joined(WITH_MEMORY[name], _SHORT), _group_ends(short))
      for name in ("L1_a_source_ends", "L4_source_pages_come_back")),
    replace(_group_ends(d), leads_to="L5_a_request_gets_memory_or_ends", pending=None,
            why="a request that waits for pages ends with its group, or gets them before that"),
    joined(
        replace(_group_ends(d), leads_to="L4_every_chunk_comes_back", pending=None,
                why="every rank closes an answered request, and then its pages are free"),
        Ranking("", (Help("free_pages", at={r: owner}),))),
    *(one for one in transfer_ranking.RANKINGS if one.leads_to in _AS_THEY_ARE),
    *(_of_group(one) for one in agreement_ranking.RANKINGS if one.leads_to in _DECIDED),
    Ranking("M4_1_a_rank_that_waits_opens_its_receiver", (Help("open_own_receiver"),),
            why="a rank that waits opens it by itself"),
    Ranking(
        "L2_a_sinks_failure_is_decided",
        (Help("vote_dead", at={r: owner}), Help("decide_fail", at={r: owner, n: following}),
         Help("end", at={r: departed}), Help("answer_lost")),
        pending=_LOST & (status(h) == Status.OPEN),
        witnesses=(Witness(owner, runs(owner, d)), Witness(departed, lost(departed)),
                   Witness(following, ~numbered(following))),
        using=(Use("a_begun_sink_has_a_rank"), Use("an_ended_rank_lost_one"),
               Use("an_ended_group_lost_one")),
        assumed={"numbers_do_not_run_out": exists(n, ~numbered(n))},
        why="the rank votes against the request, and the entry decides by that vote"),
    replace(
        _REACHES, leads_to="L2_a_refusal_reaches_every_sink",
        helpers=(*_REACHES.helpers, *(Help(row, at={r: owner})
                                      for row in ("obey", "end_receiver"))),
        witnesses=(*_REACHES.witnesses, Witness(owner, runs(owner, d))),
        using=(*_REACHES.using, Use("a_begun_sink_has_a_rank")),
        why="each rank applies the decisions that it lacks, in turn, and its sink obeys"),
    replace(
        _REACHES, leads_to="L2_a_refusal_reaches_every_source",
        helpers=(
            *_REACHES.helpers,
            *(Help(row, at={r: rank, d: of}) for rank, of in ((owner, d), (keeper, somewhere))
              for row in ("obey", "end_receiver")),
            *(Help("stop", at={d: of}) for of in (d, somewhere)),
            Help("meet"), Help("lose_sink"), Help("succeed"),
            *(Help(row, at={d: somewhere, c: waiting})
              for row in ("post", "refuse", "meet_refusal"))),
        witnesses=(
            *_REACHES.witnesses, Witness(owner, runs(owner, d)),
            Witness(waiting, all_of(
                feeds(p, somewhere), write(p, h, somewhere, waiting) != Write.LANDED)),
            Witness(keeper, runs(keeper, somewhere))),
        using=(*_REACHES.using, Use("a_begun_sink_has_a_rank"),
               Use("a_begun_sink_has_a_rank", {d: somewhere}),
               Use("a_sending_source_has_addresses", {p: p, h: h, d: somewhere})),
        # A source learns of a dead sink only by a write, and without a clock it waits for the next.
        assumed={"the_caller_hands_every_chunk_over_after_a_sink_has_died": implies(
            all_of(sending(p, h) == Sending.TRANSFERRING, receiving(d, h) == Receiving.GONE),
            handed(p, h, c))},
        why="each rank applies the decisions that it lacks, in turn, and its sink stops its "
            "sources, or has died"),
)
