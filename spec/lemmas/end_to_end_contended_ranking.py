"""Why every request is sent where both sides have room for one, and no end gives up, at any size.

The reasons are those of optimistic prefill alone (optimistic_ranking.py), with the rows of the
transfer in the place of its sink. Here a sink waits for memory that a tenant holds: the tenant
publishes, its pass finds the destination, and then it is one that goes on, or makes others yield.
No end fails, because each row that ends one badly waits for another such row.

Two sinks of one request may each hold the page that the other one's request waits for. A group of
sinks decides that (sink_group.py), so here there is one sink.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pdproto.spec.handoff import attempts
from pdproto.spec.handoff.attempts import Stage
from pdproto.spec.handoff.end_to_end_attempts import PASS, stage
from pdproto.spec.handoff.ends import (
    Claim,
    Memory,
    Receiving,
    Sending,
    Write,
    abort,
    address,
    b,
    c,
    claim,
    content,
    d,
    done,
    failed,
    feeds,
    g,
    gone,
    h,
    handed,
    lease,
    m,
    memory,
    p,
    page,
    publish,
    receiving,
    sending,
    sink_over,
    target,
    write,
)
from pdproto.spec.handoff.ends import slot as metadata
from pdproto.spec.handoff.roles import Buffer, Life, Page, Sink, Slot, Source
from pdproto.spec.language import Always, Formula, Sort, all_of, any_of, forall, implies
from pdproto.spec.language.ranking import FaultFree, Help, Ranking, Use, Witness
from pdproto.spec.lemmas import optimistic_ranking, transfer_ranking
from pdproto.spec.lemmas.end_to_end_attempts_ranking import A_DESTINATION_IS_AN_ADDRESS
from pdproto.spec.lemmas.optimistic_ranking import moving, unready
from pdproto.spec.lemmas.transfer_ranking import waiting

e = Sink("e")
# The sender, the sink, and where the request that goes on is sent.
sender, there, target_of_moving = Source("sender"), Sink("there"), Buffer("target_of_moving")
# A life that uses memory there; that life, or else one that needs memory; its buffer.
user, tenant, spot = Life("user"), Life("tenant_there"), Buffer("spot_there")
# A life that holds a page, and one that holds a slot there.
keeper, leaf, lodger, row = Life("keeper_there"), Page("leaf"), Life("lodger"), Slot("row_there")

_NOT_OF_A_PASS: Final = ("a_page_is_for_a_published_sink",)
_OF_PASS: Final = tuple(
    PASS.claim(one) for one in optimistic_ranking.LEMMAS if one.name not in _NOT_OF_A_PASS)
_BEFORE: Final = stage(h).among(*attempts.BEFORE_SENDING)

LEMMAS: Final = (*transfer_ranking.LEMMAS, *_OF_PASS, A_DESTINATION_IS_AN_ADDRESS)
# In runs without a crash.
_CALM: Final = (
    Always("no_source_fails", ~sending(p, h).among(Sending.FAILED, Sending.GONE),
           why="no clock runs, and no sink aborts"),
    Always("no_sink_fails", ~receiving(d, h).among(Receiving.FAILED, Receiving.GONE),
           why="no clock runs, no source fails, and every digest agrees"),
    Always("no_request_fails", stage(h) != Stage.FAILED, why="no sender fails"),
    Always("no_failure_is_told",
           ~any_of(abort(d, h, p), failed(p, h, d), gone(p, h, d), sink_over(d, h, p)),
           why="nothing fails"),
    Always("no_claim_is_given_up",
           claim(d, h, p).among(Claim.NONE, Claim.TOLD, Claim.OUT, Claim.LANDED),
           why="only a sink that has failed gives one up"),
    Always("no_write_fails", write(p, h, d, c).among(Write.NONE, Write.POSTED, Write.LANDED),
           why="no sink is fenced, and the engine reports no error"),
    Always("a_landed_write_is_at_its_address",
           implies(all_of(write(p, h, d, c) == Write.LANDED, address(d, h, b)),
                   content(d, h, b, p, c)),
           why="it lands at its destination, which is the address"),
    Always("a_sink_publishes_to_its_sources",
           implies(all_of(receiving(d, h).among(
               Receiving.WAITING, Receiving.TRANSFERRING, Receiving.SUCCESS), feeds(p, d)),
               publish(d, h, p)),
           why="it does so when it has memory"),
    Always("a_sender_that_has_succeeded_says_so",
           implies(all_of(sending(p, h) == Sending.SUCCESS, feeds(p, d)), done(p, h, d)),
           why="it tells every sink when it succeeds"),
    Always("a_waiting_sink_has_no_part",
           implies(receiving(d, h) == Receiving.WAITING, claim(d, h, p) == Claim.OUT),
           why="the first part begins its transfer"),
    Always("a_transferring_sink_has_its_part",
           implies(all_of(receiving(d, h) == Receiving.TRANSFERRING, feeds(p, d)),
                   claim(d, h, p) == Claim.LANDED),
           why="there is one source"),
    Always("a_sender_is_as_far_as_its_request", all_of(
        implies(stage(h) == Stage.NEW, sending(p, h) == Sending.UNKNOWN),
        implies(_BEFORE, sending(p, h) == Sending.BOOTSTRAPPING),
        implies(stage(h) == Stage.SENDING,
                sending(p, h).among(Sending.TRANSFERRING, Sending.SUCCESS)),
        implies(stage(h) == Stage.SUCCESS, sending(p, h) == Sending.SUCCESS)),
           why="the same rows move both"),
    Always("a_sender_has_every_chunk",
           implies(sending(p, h) == Sending.TRANSFERRING, handed(p, h, c)),
           why="it begins when every chunk is computed"),
)
_IDLE: Final = ("page_given_back", "slot_given_back", "running_slot_given_back")
MONOTONE: Final = (
    *transfer_ranking.MONOTONE,
    *(replace(one, claim=PASS.formula(one.claim)) for one in optimistic_ranking.MONOTONE
      if one.name not in _IDLE),
)

_ROWS: Final = {"start": "start_pass"}
_REPLACED: Final = ("send", "succeed", "release")
# A pass goes on to its end, and its transfer after it.
_MOVING: Final[Mapping[Sort, Sort]] = {h: moving, p: sender}
_GOES_ON: Final = (
    *(replace(one, row=_ROWS.get(one.row, one.row))
      for one in (*optimistic_ranking.GOES_ON, optimistic_ranking.RESERVE,
                  *optimistic_ranking.YIELDS) if one.row not in _REPLACED),
    *(Help(name, at=_MOVING) for name in ("begin_transfer", "succeed", "conclude")),
    *(Help(name, at={**_MOVING, d: there, c: waiting, b: target_of_moving})
      for name in ("post", "land")),
)


def _uses_memory(life: Life) -> Formula:
    return any_of(
        all_of(receiving(there, life) == Receiving.BOOTSTRAPPING,
               memory(there, life) == Memory.GIVEN),
        receiving(there, life).among(Receiving.WAITING, Receiving.TRANSFERRING))


def _needs_memory(life: Life) -> Formula:
    return any_of(
        PASS.formula(all_of(attempts.stage(life).among(*attempts.BEFORE_SENDING),
                            ~attempts.ready(life))),
        all_of(receiving(there, life) == Receiving.BOOTSTRAPPING,
               memory(there, life) == Memory.ASKED))


_WITNESSES: Final = (
    *(replace(one, claim=PASS.formula(one.claim)) for one in (
        *optimistic_ranking.WITNESSES, *optimistic_ranking.YIELDING) if one.variable != unready),
    Witness(sender, sending(sender, moving) != Sending.UNKNOWN),
    Witness(there, feeds(sender, there)),
    Witness(waiting, write(sender, moving, there, waiting) != Write.LANDED),
    Witness(target_of_moving, target(sender, moving, there, target_of_moving)),
    Witness(user, _uses_memory(user)),
    Witness(tenant, any_of(all_of(_uses_memory(user), tenant.same(user)),
                           all_of(~_uses_memory(user), _needs_memory(tenant)))),
    Witness(spot, any_of(lease(there, tenant, spot), address(there, tenant, spot))),
    Witness(leaf, page(there, keeper, leaf)),
    Witness(row, metadata(there, lodger, row)),
)
_TENANT: Final[Mapping[Sort, Sort]] = {h: tenant, d: there}
# A life gets memory, its pass a destination, the sink its part, and the memory comes back.
_MEETS: Final = (
    *(Help(name, at={h: tenant, p: sender}) for name in ("submit", "find_destination")),
    Help("begin_receive", at=_TENANT),
    Help("grant", at={**_TENANT, b: spot, g: leaf, m: row}),
    *(Help(name, at={**_TENANT, b: spot}) for name in ("publish_memory", "commit")),
    Help("learn", at={**_TENANT, p: sender, b: spot}),
    Help("take_part", at={**_TENANT, p: sender}),
    Help("finish", at={h: keeper, d: there, g: leaf}),
)


def _ranking(leads_to: str, why: str) -> Ranking:
    """The helpers are the same, because each request waits for the memory of any other."""
    return Ranking(
        leads_to, (*_GOES_ON, *_MEETS), witnesses=_WITNESSES,
        using=(
            Use("a_sending_source_has_addresses", {p: sender, h: moving, d: there}),
            Use("a_page_has_a_slot", {h: keeper, d: there, g: leaf}),
            Use("a_slot_has_a_page", {h: lodger, d: there, m: row}),
            Use("a_granted_sink_has_a_lease", _TENANT),
            Use("a_publishing_sink_has_an_address", _TENANT),
        ),
        assumed={"one_sink": forall((d, e), d.same(e)),
                 "the_source_feeds_every_sink": forall((p, d), feeds(p, d))},
        why=why)


RANKINGS: Final[tuple[Ranking, ...]] = ()
FAULT_FREE: Final = FaultFree(
    ("crash",), lemmas=_CALM,
    rankings=(
        _ranking("L5_no_capacity_deadlock",
                 "a request with its destination goes on, and one without makes room for it"),
        _ranking("L1_a_sink_ends", "the sink gets memory, and its pass a destination"),
        _ranking("L4_slots_and_running_slots_come_back",
                 "every request is sent, and gives back all that it has"),
        _ranking("L4_every_page_comes_back", "every sink commits, and every answer ends"),
    ),
)
