"""Why a group answers every request whose parts its senders transfer, and why the ends of the
transfer drain, for any number of ranks, sinks, lives, decisions, pages and chunks.

The rankings of the transfer hold here as they are, but for the pages of a source, which wait for
the group. Those of the agreement hold with the rows of a sender in the place of the call by which a
rank ends its part. A sink that a refused request keeps waiting waits for some source: its rank
applies the refusal, or has died, and the source tells the sink.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.ends import (
    RECEIVING_NOW,
    Claim,
    Receiving,
    Sending,
    Write,
    address,
    b,
    can_fence,
    claim,
    d,
    done,
    failed,
    feeds,
    gone,
    h,
    introduce,
    kv,
    p,
    receiving,
    sending,
    write,
)
from pdproto.spec.handoff.group import Health, Rank, Stage, health, lost, n, numbered, r, stage
from pdproto.spec.handoff.group_transfer import runs
from pdproto.spec.handoff.roles import Buffer, Source
from pdproto.spec.language import Always, Sort, all_of, exists, forall, implies
from pdproto.spec.language.ranking import Help, Ranking, Use, Witness
from pdproto.spec.lemmas import agreement_ranking, transfer_ranking
from pdproto.spec.lemmas.agreement_ranking import departed, following, serving, unended
from pdproto.spec.lemmas.transfer_ranking import OF_NO_SOURCE, somewhere, waiting

# A rank that lives, and its sender; the sender of a rank that has not ended its part; the rank of a
# sender that holds pages.
owner, sender, carrier = Rank("owner"), Source("sender"), Source("carrier")
keeper: Final = Rank("keeper_of_pages")
# A source whose part has not come, the rank that runs it, and the address of the sink.
late, mourned, spot = Source("late"), Rank("rank_of_late"), Buffer("spot")

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
    Always("a_sink_without_an_end_has_introduced_itself",
           implies(RECEIVING_NOW & feeds(p, d), introduce(d, h, p)),
           why="it does so when it begins"),
    Always("a_waiting_sink_has_no_part",
           implies(receiving(d, h) == Receiving.WAITING, claim(d, h, p) == Claim.OUT),
           why="the first part begins its transfer"),
    Always("a_source_that_has_sent_all_says_so",
           implies(all_of(sending(p, h) == Sending.SUCCESS, feeds(p, d)), done(p, h, d)),
           why="it tells every sink when it succeeds"),
    Always("a_source_that_is_gone_has_left_its_sinks",
           implies(all_of(sending(p, h) == Sending.GONE, feeds(p, d)), gone(p, h, d)),
           why="its connections close with the process"),
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


_MEMORY: Final = transfer_ranking.sinks_get_memory(carrier, serving)


def _of_group(one: Ranking) -> Ranking:
    """The ranking of the agreement, with the end of a part in the place of its call."""
    return replace(
        one, helpers=(*one.helpers, *_PART_ENDS),
        witnesses=(
            *one.witnesses, Witness(carrier, runs(unended, carrier)), *_MEMORY.witnesses,
            Witness(waiting, all_of(
                feeds(carrier, somewhere),
                ~write(carrier, serving, somewhere, waiting).among(Write.POSTED, Write.LANDED))),
        ),
        using=(*one.using, Use("a_rank_has_a_sender", {r: unended}), *_MEMORY.using,
               Use("a_sending_source_has_addresses", {p: carrier, h: serving, d: somewhere})),
        # A write that is never fenced may read its pages for ever.
        assumed={**one.assumed, "every_sink_can_fence": forall(d, can_fence(d))})


_DECIDED: Final = {one.leads_to: _of_group(one) for one in agreement_ranking.RANKINGS
                   if one.leads_to in ("L1_every_request_is_answered",
                                       "M4_2_failure_drains_everywhere", "L3_no_orphan")}
(_REACHES,) = (one for one in agreement_ranking.FAULT_FREE.rankings
               if one.leads_to == "L2_a_decision_reaches_all")
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
    Ranking("M4_1_a_rank_that_waits_opens_its_sender", (Help("open_own_sender"),),
            why="a rank that waits opens it by itself"),
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
    replace(
        _REACHES, leads_to="L2_a_refusal_reaches_the_sink",
        helpers=(
            *_REACHES.helpers,
            *(Help(row, at={r: mourned, p: late}) for row in ("obey", "end_sender")),
            Help("refuse_meeting", ~failed(p, h, d), {p: late}),
            *(Help(row, at={p: late}) for row in ("hear_failure", "take_part", "lose_source")),
            *(Help(row, at={b: spot}) for row in ("commit", "find_spoilt"))),
        witnesses=(
            *_REACHES.witnesses,
            Witness(late, feeds(late, d) & (claim(d, h, late) != Claim.LANDED)),
            Witness(mourned, runs(mourned, late)), Witness(spot, address(d, h, spot))),
        using=(*_REACHES.using, Use("a_publishing_sink_has_an_address")),
        assumed={"a_rank_runs_each_source": forall(p, exists(r, runs(r, p)))},
        why="each rank applies the decisions that it lacks, in turn, and its sender obeys"),
)
