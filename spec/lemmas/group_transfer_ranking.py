"""Why a group answers every request whose parts its senders transfer, and why the ends of the
transfer drain, for any number of ranks, sinks, lives, decisions, pages and chunks.

The rankings of the transfer hold here as they are, but for the pages of a source, which wait for
the group. Those of the agreement hold with the rows of a sender in the place of the call by which a
rank ends its part. That a refusal reaches the sink has no ranking.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.ends import (
    Sending,
    Write,
    can_fence,
    d,
    feeds,
    h,
    kv,
    p,
    sending,
    write,
)
from pdproto.spec.handoff.group import Health, Rank, Stage, health, lost, n, numbered, r, stage
from pdproto.spec.handoff.group_transfer import runs
from pdproto.spec.handoff.roles import Source
from pdproto.spec.language import Always, Sort, all_of, exists, forall, implies
from pdproto.spec.language.ranking import Help, Ranking, Use, Witness
from pdproto.spec.lemmas import agreement_ranking, transfer_ranking
from pdproto.spec.lemmas.agreement_ranking import departed, following, serving, unended
from pdproto.spec.lemmas.transfer_ranking import OF_NO_SOURCE, somewhere, waiting

# A rank that lives, and its sender; the sender of a rank that has not ended its part; the rank of a
# sender that holds pages.
owner, sender, carrier = Rank("owner"), Source("sender"), Source("carrier")
keeper: Final = Rank("keeper_of_pages")

LEMMAS: Final = (
    *transfer_ranking.LEMMAS, *agreement_ranking.LEMMAS, *agreement_ranking.FAULT_FREE.lemmas,
    Always("a_rank_has_a_sender", exists(p, runs(r, p)),
           why="each rank runs the sender of its own number"),
    Always("a_running_rank_has_opened_its_sender",
           implies(all_of(runs(r, p), stage(r, h).among(Stage.READY, Stage.RUNNING)),
                   sending(p, h) != Sending.UNKNOWN),
           why="a rank votes when its sender has met every sink"),
    Always("held_pages_are_of_a_rank", implies(kv(p, h), exists(r, runs(r, p))),
           why="a rank opens its own sender"),
    Always("held_pages_are_of_a_request",
           implies(all_of(kv(p, h), runs(r, p)), stage(r, h) != Stage.ABSENT),
           why="a rank opens a sender for a request that it has"),
    transfer_ranking.A_FAILED_SINK_TELLS,
)
MONOTONE: Final = transfer_ranking.MONOTONE
_OF_TRANSFER: Final = {**transfer_ranking.IN_PARTS}
_OF_PAGES: Final = _OF_TRANSFER.pop("L4_source_pages_come_back")


def _of_carrier(one: Help) -> Help:
    at: Mapping[Sort, Sort] = {h: serving}
    if one.row not in OF_NO_SOURCE:
        at = {**at, p: carrier}
    return replace(one, at={**at, **one.at})


# The sender of a rank ends by its own clocks, and then the rank reports the end of its part.
_PART_ENDS: Final = (
    *map(_of_carrier, _OF_PAGES.helpers),
    *(Help(row, at={r: unended, p: carrier, h: serving})
      for row in ("report_done", "report_broken")),
)


def _of_group(one: Ranking) -> Ranking:
    """The ranking of the agreement, with the end of a part in the place of its call."""
    return replace(
        one, helpers=(*one.helpers, *_PART_ENDS),
        witnesses=(
            *one.witnesses, Witness(carrier, runs(unended, carrier)),
            Witness(waiting, all_of(
                feeds(carrier, somewhere),
                ~write(carrier, serving, somewhere, waiting).among(Write.POSTED, Write.LANDED))),
        ),
        using=(*one.using, Use("a_rank_has_a_sender", {r: unended}),
               Use("a_sending_source_has_addresses", {p: carrier, h: serving, d: somewhere})),
        # A write that is never fenced may read its pages for ever.
        assumed={**one.assumed, "every_sink_can_fence": forall(d, can_fence(d))})


_DECIDED: Final = {one.leads_to: _of_group(one) for one in agreement_ranking.RANKINGS
                   if one.leads_to in ("L1_every_request_is_answered",
                                       "M4_2_failure_drains_everywhere", "L3_no_orphan")}
_CLOSED: Final = _DECIDED["M4_2_failure_drains_everywhere"]
RANKINGS: Final = (
    *_OF_TRANSFER.values(),
    *_DECIDED.values(),
    replace(
        _CLOSED, leads_to="L4_source_pages_come_back", pending=None,
        helpers=(*_CLOSED.helpers, *(Help(row, at={r: keeper})
                                     for row in ("obey", "free_pages", "end_sender"))),
        witnesses=(*_CLOSED.witnesses, Witness(keeper, runs(keeper, p))),
        using=(*_CLOSED.using, Use("held_pages_are_of_a_rank")),
        why="every rank closes an answered request, and then its pages are free"),
    Ranking(
        "L2_a_sinks_failure_is_decided",
        (Help("arrive", at={r: owner}), Help("stop", at={p: sender}),
         *(Help(row, at={r: owner, p: sender}) for row in ("end_sender", "vote_dead")),
         Help("decide_fail", at={r: owner, n: following}),
         Help("end", at={r: departed}), Help("answer_lost")),
        witnesses=(Witness(owner, health(owner) == Health.UP),
                   Witness(sender, runs(owner, sender)), Witness(departed, lost(departed)),
                   Witness(following, ~numbered(following))),
        using=(Use("a_rank_has_a_sender", {r: owner}), Use("an_ended_rank_lost_one"),
               Use("an_ended_group_lost_one")),
        assumed={"numbers_do_not_run_out": exists(n, ~numbered(n))},
        why="the sink's abort ends a sender, its rank votes against the request, and the entry "
            "decides by that vote"),
)
