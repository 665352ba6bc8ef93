"""The binding where each rank decides for itself, and lives come in their order: ranks bind alike.

Two servers share only the room, and each rank binds a life as it comes. A decode server begins its
lives one after the other. So its order is a name that the ranks share, as the order of the openings
is on a prefill server (binding_tables.py). An introduction that is lost or late would break the
order on one rank.

Rule 1: a sink names in the introduction of a life the earlier lives of the room that it has begun
        and not aborted. A rank that is met by the later life has met those too, before it.
Rule 2: a rank binds the oldest life that waits to the oldest request that waits.

So while no end fails, every rank binds the first life to the first request, the second to the
second. No message is added, and no rank waits for another. If an end fails before every rank has
bound it, ranks may bind differently: then the sink that compares their requests fails the life
(binding.py, GUARDED). Lives of several decode servers in one room have no order.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.binding import (
    BOUND_ONCE,
    COMMITTED_AS_ONE,
    GUARDED,
    IN_TIME,
    NAMED_BY_EITHER,
    NOT_FAILED_BY_PREDECESSOR,
    TOLD_IS_MET,
    landed_life_ends,
)
from pdproto.spec.handoff.binding_tables import (
    OLDEST,
    Meeting,
    Opening,
    Status,
    binds,
    d,
    h,
    introduce,
    k,
    meeting,
    met,
    opening,
    p,
    q,
    status,
    u,
    v,
)
from pdproto.spec.handoff.roles import Life, Sink, Source, Use
from pdproto.spec.language import (
    AddClause,
    AddEffect,
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
    Timer,
    Tuples,
    all_of,
    any_of,
    each,
    edited,
    exists,
    forall,
    implies,
)


def _by_number(sizes: Sizes) -> Tuples:
    return [(i, j) for j in range(sizes[Life]) for i in range(j)]


def _one_each(sizes: Sizes) -> Tuples:
    return [(i, i) for i in range(min(sizes[Life], sizes[Use]))]


earlier: Final = Rigid("earlier", h, k, given=_by_number)  # its number is the smaller one
# The life has the same place among the lives of the room as the use among its requests. No row
# reads it.
pairs: Final = Rigid("pairs", h, u, given=_one_each)
decode: Final = Machine("decode", host=True)

ALL_EARLIER_MET: Final = forall(k, implies(earlier(k, h), meeting(p, k) != Meeting.UNBOUND))
NOTHING_FAILED: Final = all_of(forall(h, meeting(p, h) != Meeting.FAILED),
                               forall(u, opening(p, u) != Opening.OVER))  # on this rank
# The life that waits for longest is bound first.
FIRST_LIFE_FIRST: Final = AddClause("bind", ALL_EARLIER_MET)
NAMING: Final = (
    each(k, meeting(p, k).to(Meeting.UNBOUND),
         where=all_of(earlier(k, h), meeting(p, k) == Meeting.UNMET)),
    each(k, met(p, k, d).to(True), where=earlier(k, h)),
)
BEGIN_IN_ORDER: Final = Row(
    "begin_in_order", on=Call("open_receiver"), choose=(d, h),
    when=[status(d, h) == Status.NONE,
          forall(k, implies(earlier(k, h), status(d, k) != Status.NONE))],
    do=[status(d, h).to(Status.BEGUN)], send=[each(p, introduce(d, h, p))],
    why="a decode server numbers its lives as it begins them")

S2_ALIKE: Final = Always(
    "S2_ranks_bind_a_life_alike_while_nothing_fails",
    implies(all_of(NOTHING_FAILED, forall(h, meeting(q, h) != Meeting.FAILED),
                   forall(u, opening(q, u) != Opening.OVER), binds(p, h, u), binds(q, h, v)),
            u.same(v)),
    by=("S2_a_life_gets_the_request_of_its_place",),
    why="each rank binds it to the request of its place, and a life has one place")
IN_ORDER: Final = (
    Always("S2_a_life_gets_the_request_of_its_place",
           implies(all_of(NOTHING_FAILED, binds(p, h, u)), pairs(h, u)),
           why="the first life gets the first request, the second the second"),
    Always("a_rank_knows_the_lives_before_one_that_it_knows",
           implies(all_of(earlier(k, h), meeting(p, h).among(
               Meeting.UNBOUND, Meeting.BOUND, Meeting.SENT)), meeting(p, k) != Meeting.UNMET),
           why="the later one names them"),
    OnRow("a_rank_binds_the_first_life_to_the_first_request", "bind",
          all_of(OLDEST, ALL_EARLIER_MET), why="each order is that of the other ranks, too"),
    Sometimes("a_life_is_met_with_a_later_one",
              all_of(earlier(h, k), meeting(p, h) == Meeting.UNBOUND,
                     meeting(p, k) == Meeting.UNBOUND)),
)
BOTH_SUCCEED: Final = Sometimes(
    "two_lives_of_the_room_succeed",
    all_of(h.differs(k), status(d, h) == Status.SUCCESS, status(d, k) == Status.SUCCESS))


def _configuration(*faults: str, sources: int = 2) -> Configuration:
    return Configuration({Source: sources, Sink: 1, Life: 2, Use: 2}, faults=faults,
                         dead_bits=True, symmetry=True)


SYSTEM: Final[System] = edited(
    replace(GUARDED, tables=(*GUARDED.tables, Table(decode, rows=(BEGIN_IN_ORDER,))),
            configurations={}, like=GUARDED, axioms={
                "an_order_is_strict": ~earlier(h, h),
                "an_order_has_one_direction": ~all_of(earlier(h, k), earlier(k, h)),
                "an_order_is_total": any_of(h.same(k), earlier(h, k), earlier(k, h)),
                "a_life_has_one_place": implies(pairs(h, u) & pairs(h, v), u.same(v)),
                "a_place_has_one_life": implies(pairs(h, u) & pairs(k, u), h.same(k)),
                "a_life_has_a_place": exists(u, pairs(h, u)),
                "a_place_has_a_life": exists(h, pairs(h, u)),
                "places_follow_the_order": implies(
                    all_of(pairs(h, u), pairs(k, v), u.before(v)), earlier(h, k)),
            }),
    "binding-ordered",
    DropRow("begin"), FIRST_LIFE_FIRST,
    *(AddEffect(row, effect) for row in ("meet_first", "be_asked_first") for effect in NAMING),
    ReplaceProperties((
        S2_ALIKE, *IN_ORDER, BOTH_SUCCEED, *COMMITTED_AS_ONE, *NAMED_BY_EITHER, BOUND_ONCE,
        TOLD_IS_MET, NOT_FAILED_BY_PREDECESSOR, *IN_TIME)),
    about="The binding where a life names those before it, so that ranks bind alike.",
    configurations={"default": _configuration(sources=1)},
)

# For safety a lost message is one that is late for ever, so no message is repeated here.
NO_TIMERS: Final[System] = edited(
    SYSTEM, "binding-ordered-no-timers",
    *(DropRow(row.name) for table in SYSTEM.tables for row in table.rows
      if isinstance(row.on, Timer)),
    ReplaceProperties((
        S2_ALIKE, *IN_ORDER, BOTH_SUCCEED, *COMMITTED_AS_ONE, *NAMED_BY_EITHER, BOUND_ONCE,
        TOLD_IS_MET,
        landed_life_ends(Fairness.NO_TIMERS, Fairness.CONSUMED),
        Sometimes("a_bound_life_fails_by_itself", all_of(
            meeting(p, h) == Meeting.FAILED, status(d, h) == Status.BEGUN, binds(p, h, u)),
            why="no sink has ended it"))),
    about="The binding in the order of lives on two ranks, without a clock.",
    configurations={"default": _configuration()},
)

# No end fails here, and no part is sent: only how ranks meet lives that are named late.
_LEFT_OUT: Final = ("leave", "give_up_waiting", "fail", "end_with_life", "abort", "give_up", "send",
                    "tell_use")
LOSS: Final[System] = edited(
    replace(SYSTEM, configurations={}, like=SYSTEM,
            final=forall((p, u), opening(p, u) != Opening.WAITING)),
    "binding-ordered-loss",
    *map(DropRow, _LEFT_OUT),
    ReplaceProperties((
        S2_ALIKE, *IN_ORDER,
        LeadsTo("L1_a_life_is_bound_to_the_request_of_its_place",
                all_of(status(d, h) == Status.BEGUN, pairs(h, u), opening(p, u) == Opening.WAITING),
                binds(p, h, u), under=(Fairness.TIMERS, Fairness.CONSUMED),
                why="a life names itself until the rank answers"),
    )),
    about="The binding in the order of lives, where introductions are lost and no end fails.",
    configurations={"default": _configuration("lossy")},
)
