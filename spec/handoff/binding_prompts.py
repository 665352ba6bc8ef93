"""The binding where both callers name the prompt of a request: a life gets the KV of its own.

A room is a number that somebody has drawn. It may come twice at a time, and a router may send two
prompts under it. So the callers of both servers name the prompt: a digest of all that its KV
depends on. A sink says it in each message about a life.

Rule 1: a rank binds a life only to a request of its prompt: to the first that waits, in the order
        of binding_ordered.py, or to that of its number (binding_named.py).
Rule 2: where the number names the request, and its prompt is another, both ends are told at once.
Rule 3: where the room alone names it, the request of this prompt may still come. A life that asks
        again, while the room has only requests of other prompts, is told that they are others. A
        request that waits beside such a life is told so if no life of its own comes meanwhile.

Rule 3 waits for the time of one repeated introduction, as rule 4 in binding_tables.py does and for
its reason: until then, the run with a mix-up is for both servers the same as one in which two pairs
share the room, and the other half of each is under way.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from pdproto.spec.handoff import binding_named, binding_ordered
from pdproto.spec.handoff.binding import (
    BOUND_ONCE,
    COMMITTED_AS_ONE,
    IN_TIME,
    NAMED_BY_EITHER,
    TOLD_IS_MET,
)
from pdproto.spec.handoff.binding_named import ASKS, named
from pdproto.spec.handoff.binding_ordered import (
    ALL_EARLIER_MET,
    BOTH_SUCCEED,
    NAMING,
    NOTHING_FAILED,
    S2_ALIKE,
    earlier,
    pairs,
)
from pdproto.spec.handoff.binding_tables import (
    FREE,
    LATEST,
    NONE_WAITS,
    OLDEST,
    Meeting,
    Opening,
    Status,
    ask,
    binds,
    d,
    h,
    k,
    meeting,
    met,
    opening,
    p,
    rank,
    status,
    took,
    u,
    v,
)
from pdproto.spec.handoff.roles import Life, Prompt, Sink, Source, Use
from pdproto.spec.language import (
    AddClause,
    AddEffect,
    AddRow,
    Always,
    Configuration,
    DropClause,
    DropEffect,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    OnRow,
    ReplaceProperties,
    ReplaceRow,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    System,
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
from pdproto.spec.language.sorts import Sort

prompt, other, last = Prompt("prompt"), Prompt("other"), Use("last")


def _in_turn(of: type[Sort], sizes: Sizes) -> list[int]:
    """Of each element its prompt: the first elements have the first, as many the second."""
    return [i * sizes[Prompt] // sizes[of] for i in range(sizes[of])]


def _named(of: type[Sort]) -> Callable[[Sizes], Tuples]:
    return lambda sizes: list(enumerate(_in_turn(of, sizes)))


def _equal(one: type[Sort], other: type[Sort]) -> Callable[[Sizes], Tuples]:
    return lambda sizes: [(i, j) for i, of_one in enumerate(_in_turn(one, sizes))
                          for j, of_other in enumerate(_in_turn(other, sizes))
                          if of_one == of_other]


# The caller on decode, or on prefill, names this prompt.
wants: Final = Rigid("wants", h, prompt, given=_named(Life))
has: Final = Rigid("has", u, prompt, given=_named(Use))
# Two lives, two requests, and a life and a request of one prompt.
akin: Final = Rigid("akin", h, k, given=_equal(Life, Life))
alike: Final = Rigid("alike", u, v, given=_equal(Use, Use))
fits: Final = Rigid("fits", h, u, given=_equal(Life, Use))
BY_PROMPT: Final = (akin, alike, fits)
# The rank has compared the prompts of the two, and tells the life, the request or both.
differ = rank.relation("differ", Life, Use)

# As in binding_tables.py and binding_ordered.py, among those of one prompt.
OLDEST_ALIKE: Final = forall(v, implies(
    all_of(v.before(u), alike(u, v)), opening(p, v) != Opening.WAITING))
EARLIER_ALIKE_MET: Final = forall(k, implies(
    all_of(earlier(k, h), akin(h, k)), meeting(p, k) != Meeting.UNBOUND))
NONE_ALIKE_WAITS: Final = forall(v, implies(fits(h, v), opening(p, v) != Opening.WAITING))
LATEST_ALIKE: Final = forall(v, implies(
    all_of(u.before(v), alike(u, v)), opening(p, v) == Opening.NEVER))
HERE: Final = (Opening.WAITING, Opening.OVER)
NONE_ALIKE_OPEN: Final = forall(v, implies(fits(h, v), ~opening(p, v).among(*HERE)))
# No request of this prompt has ended as the last of its prompt.
NONE_TO_TELL: Final = forall(last, implies(
    all_of(fits(h, last), opening(p, last) == Opening.OVER),
    exists(v, all_of(last.before(v), alike(last, v), opening(p, v) != Opening.NEVER))))
# The rank asks about this request no more.
REQUEST_IS_OVER: Final = any_of(opening(p, u) == Opening.BOUND,
                                all_of(opening(p, u) == Opening.OVER, ~LATEST_ALIKE))
NAMING_ALIKE: Final = (
    each(k, meeting(p, k).to(Meeting.UNBOUND),
         where=all_of(earlier(k, h), akin(h, k), meeting(p, k) == Meeting.UNMET)),
    each(k, met(p, k, d).to(True), where=all_of(earlier(k, h), akin(h, k))),
)

FIND_OTHER: Final = Row(
    "find_other_prompt", choose=(h, u),
    when=[named(p, h, u), meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.WAITING,
          ~fits(h, u)],
    do=[meeting(p, h).to(Meeting.FAILED), opening(p, u).to(Opening.BOUND), binds(p, h, u).to(True),
        differ(p, h, u).to(True)],
    why="the request that the life names has another prompt: both end, each with both prompts")
TELL_OTHER: Final = Row(
    "tell_other_prompt", on=ask(d, h, p), choose=(u,),
    when=[meeting(p, h) == Meeting.UNBOUND, NONE_ALIKE_OPEN,
          opening(p, u).among(*HERE), ~fits(h, u)],
    do=[meeting(p, h).to(Meeting.FAILED), differ(p, h, u).to(True)],
    why="the life has waited, and the room has a request of another prompt only")
END_OTHER: Final = Row(
    "end_other_prompt", on=Timer("no_other_life"), choose=(h, u),
    when=[meeting(p, h) == Meeting.FAILED, FREE, opening(p, u) == Opening.WAITING,
          OLDEST_ALIKE, ~fits(h, u), NONE_ALIKE_WAITS,
          forall(k, implies(fits(k, u), meeting(p, k) != Meeting.UNBOUND))],
    do=[opening(p, u).to(Opening.BOUND), binds(p, h, u).to(True), differ(p, h, u).to(True)],
    why="the life of the room was of another prompt, and the sink brings no other")
_ROWS: Final = (
    DropClause("open", forall(v, implies(v.before(u), opening(p, v) != Opening.NEVER))),
    AddClause("open", forall(v, implies(all_of(v.before(u), alike(u, v)),
                                        opening(p, v) != Opening.NEVER))),
    AddClause("bind", fits(h, u)), DropClause("bind", OLDEST), AddClause("bind", OLDEST_ALIKE),
    DropClause("bind", ALL_EARLIER_MET), AddClause("bind", EARLIER_ALIKE_MET),
    *(edit for row in ("meet_first", "be_asked_first")
      for had, has_now in zip(NAMING, NAMING_ALIKE, strict=True)
      for edit in (DropEffect(row, had), AddEffect(row, has_now))),
    AddClause("pass_failure_on", fits(h, u)),
    DropClause("pass_failure_on", NONE_WAITS), AddClause("pass_failure_on", NONE_ALIKE_WAITS),
    DropClause("pass_failure_on", LATEST), AddClause("pass_failure_on", LATEST_ALIKE),
    ReplaceRow("ignore_ask", Ignore(
        ask(d, h, p), name="ignore_ask",
        when=[meeting(p, h) == Meeting.UNBOUND,
              any_of(~NONE_ALIKE_WAITS, all_of(NONE_TO_TELL, any_of(~NONE_ALIKE_OPEN, forall(
                  v, implies(~fits(h, v), ~opening(p, v).among(*HERE))))))],
        why="its request has not come here yet")),
    DropClause("end_with_life", OLDEST), AddClause("end_with_life", OLDEST_ALIKE),
    AddClause("end_with_life", fits(h, u)),
    DropClause("end_with_life", forall(k, meeting(p, k) != Meeting.UNBOUND)),
    AddClause("end_with_life", forall(k, implies(fits(k, u), meeting(p, k) != Meeting.UNBOUND))),
    AddRow(rank, TELL_OTHER), AddRow(rank, END_OTHER),
)

S19: Final = Always(
    "S19_a_success_has_the_prompt_of_its_life",
    implies(all_of(status(d, h) == Status.SUCCESS, took(d, h, p, u), wants(h, prompt)),
            has(u, prompt)),
    why="each part is of the request that its rank has bound to the life")
ALIKE: Final = (
    S19,
    Always("S19_a_running_life_has_its_prompt",
           implies(all_of(binds(p, h, u), meeting(p, h).among(Meeting.BOUND, Meeting.SENT),
                          wants(h, prompt)), has(u, prompt)),
           why="a rank binds a life to a request of its prompt"),
)
NAMED_ALIKE: Final = (
    *ALIKE,
    Always("S19_only_other_prompts_differ",
           implies(all_of(differ(p, h, u), wants(h, prompt)), ~has(u, prompt)),
           why="a rank says so of two prompts that it has compared"),
    Always("S19_a_mix_up_ends_its_life",
           implies(differ(p, h, u), meeting(p, h) == Meeting.FAILED),
           why="the row that compares the prompts ends it"),
)
_AXIOMS: Final = {
    "a_life_names_one_prompt": implies(
        all_of(wants(h, prompt), wants(h, other)), prompt.same(other)),
    "a_life_names_a_prompt": exists(prompt, wants(h, prompt)),
    "a_request_has_one_prompt": implies(all_of(has(u, prompt), has(u, other)), prompt.same(other)),
    "a_request_has_a_prompt": exists(prompt, has(u, prompt)),
    "lives_of_one_prompt": implies(wants(h, prompt), all_of(
        implies(akin(h, k), wants(k, prompt)), implies(wants(k, prompt), akin(h, k)))),
    "requests_of_one_prompt": implies(has(u, prompt), all_of(
        implies(alike(u, v), has(v, prompt)), implies(has(v, prompt), alike(u, v)))),
    "a_life_and_a_request_of_one_prompt": implies(wants(h, prompt), all_of(
        implies(fits(h, u), has(u, prompt)), implies(has(u, prompt), fits(h, u)))),
}
NOT_FAILED_BY_PREDECESSOR: Final = OnRow(
    "a_retry_is_not_failed_by_its_predecessor", "pass_failure_on",
    all_of(ask(d, h, p), NONE_ALIKE_WAITS, LATEST_ALIKE),
    why="an ended request answers only if it is the last, and only a life that asks again")
TOLD_LAST: Final = (
    OnRow("S19_a_request_of_its_prompt_is_preferred", "tell_other_prompt",
          all_of(ask(d, h, p), NONE_ALIKE_WAITS),
          why="a life is told of another prompt only if none of its own waits"),
    OnRow("S19_a_life_of_its_prompt_is_preferred", "end_other_prompt",
          forall(k, implies(fits(k, u), meeting(p, k) != Meeting.UNBOUND)),
          why="a request is told of another prompt only if no life of its own waits"),
    OnRow("S19_a_life_ends_one_request_of_another_prompt", "end_other_prompt",
          all_of(FREE, NONE_ALIKE_WAITS),
          why="another request may still get a life of its own"),
)
SEEN: Final = Sometimes(
    "a_room_has_two_prompts", all_of(
        ~fits(h, u), meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.WAITING))
CROSSED: Final = Sometimes(
    "a_later_life_is_bound_first", all_of(
        earlier(k, h), ~akin(h, k), binds(p, h, u), meeting(p, k) == Meeting.UNBOUND,
        meeting(p, h) == Meeting.BOUND),
    why="the earlier life waits for a request of its own prompt")
IN_ORDER: Final = (
    S2_ALIKE,
    Always("S2_a_life_gets_the_request_of_its_place",
           implies(all_of(NOTHING_FAILED, binds(p, h, u)), pairs(h, u)),
           why="the first life of a prompt gets the first request of it"),
    Always("a_rank_knows_the_lives_before_one_that_it_knows",
           implies(all_of(earlier(k, h), akin(h, k), meeting(p, h).among(
               Meeting.UNBOUND, Meeting.BOUND, Meeting.SENT)), meeting(p, k) != Meeting.UNMET),
           why="the later one names them"),
    OnRow("a_rank_binds_the_first_life_to_the_first_request", "bind",
          all_of(fits(h, u), OLDEST_ALIKE, EARLIER_ALIKE_MET),
          why="each order is that of the other ranks, too"),
)


BOUND: Final = LeadsTo(
    "L1_a_life_and_a_request_of_its_prompt_are_bound",
    all_of(fits(h, u), meeting(p, h) == Meeting.UNBOUND,
           opening(p, u) == Opening.WAITING),
    any_of(meeting(p, h) != Meeting.UNBOUND, opening(p, u) != Opening.WAITING),
    under=(Fairness.NO_TIMERS,), why="neither waits for one of another prompt")
# Where no end gives up.
TOLD: Final = (
    LeadsTo("L2_a_mix_up_ends_its_life",
            all_of(status(d, h) == Status.BEGUN, ~fits(h, u),
                   opening(p, u) == Opening.WAITING),
            any_of(status(d, h) != Status.BEGUN, opening(p, u) != Opening.WAITING,
                   exists(v, all_of(fits(h, v), opening(p, v) != Opening.NEVER))),
            under=(Fairness.TIMERS,), why="the life asks again"),
    LeadsTo("L2_a_mix_up_ends_its_request",
            all_of(meeting(p, h) == Meeting.FAILED,
                   opening(p, u) == Opening.WAITING),
            any_of(opening(p, u) != Opening.WAITING, exists(v, binds(p, h, v)),
                   exists(k, all_of(fits(k, u), meeting(p, k) != Meeting.UNMET))),
            under=(Fairness.TIMERS,), why="no other life comes"),
)


def _configuration(
    *faults: str, sources: int = 1, sinks: int = 1, lives: int = 2
) -> Configuration:
    return Configuration(
        {Source: sources, Sink: sinks, Life: lives, Use: lives, Prompt: 2}, faults=faults,
        dead_bits=True, symmetry=True)


ORDERED: Final[System] = edited(
    replace(binding_ordered.SYSTEM, configurations={}, like=binding_ordered.SYSTEM, axioms={
        **binding_ordered.SYSTEM.axioms, **_AXIOMS,
        "a_place_is_of_one_prompt": implies(all_of(pairs(h, u), wants(h, prompt)), has(u, prompt)),
        "places_follow_the_order": implies(
            all_of(pairs(h, u), pairs(k, v), u.before(v), alike(u, v)), earlier(h, k)),
    }),
    "binding-prompts", *_ROWS,
    ReplaceProperties((
        *NAMED_ALIKE, *IN_ORDER, SEEN, CROSSED, BOTH_SUCCEED, *COMMITTED_AS_ONE, *NAMED_BY_EITHER,
        BOUND_ONCE, TOLD_IS_MET, NOT_FAILED_BY_PREDECESSOR, *TOLD_LAST, *IN_TIME)),
    about="The binding where both callers name the prompt, and the room alone names the request.",
    configurations={"default": _configuration(), "deep": _configuration(lives=3)},
)

NO_TIMERS: Final[System] = edited(
    ORDERED, "binding-prompts-no-timers",
    *(DropRow(row.name) for table in ORDERED.tables for row in table.rows
      if isinstance(row.on, Timer)),
    ReplaceProperties((
        *ALIKE, *IN_ORDER, SEEN, CROSSED, BOTH_SUCCEED, *COMMITTED_AS_ONE, *NAMED_BY_EITHER,
        BOUND_ONCE, TOLD_IS_MET, BOUND)),
    about="The binding by the prompt on two ranks a side, without a clock.",
    configurations={"default": _configuration(sources=2), "sinks": _configuration(sinks=2)},
)

NO_TIMEOUTS: Final[System] = edited(
    ORDERED, "binding-prompts-no-timeouts", DropRow("give_up"), DropRow("give_up_waiting"),
    ReplaceProperties((*NAMED_ALIKE, *TOLD)),
    about="The binding by the prompt where no end gives up.",
    configurations={"default": _configuration(), "deep": _configuration(sources=2)},
)

LOSS: Final[System] = edited(
    ORDERED, "binding-prompts-loss",
    ReplaceProperties((*NAMED_ALIKE, *IN_ORDER, *COMMITTED_AS_ONE, *IN_TIME)),
    about="The binding by the prompt, where messages are lost.",
    configurations={"default": _configuration("lossy")},
)


# One of two lives asks for a request of its prompt, the other for one of another.
_NUMBERED: Final = Configuration({Source: 1, Sink: 1, Life: 2, Use: 3, Prompt: 2},
                                 dead_bits=True, symmetry=True)
# Two ranks, and the life asks for a request of another prompt.
_OTHER: Final = Configuration(
    {Source: 2, Sink: 1, Life: 1, Use: 1, Prompt: 2},
    given={has: lambda _: [(0, 1)], fits: lambda _: []}, dead_bits=True, symmetry=True)


_OF_NAMED: Final = (AddClause("bind_named", fits(h, u)), AddRow(rank, FIND_OTHER))
SUCCEEDS: Final = Sometimes("a_life_of_its_prompt_succeeds", status(d, h) == Status.SUCCESS)
FOUND: Final = Sometimes("a_mix_up_is_found", exists((h, u), differ(p, h, u)))
WAITS: Final = OnRow(
    "S19_a_mix_up_is_of_a_life_that_waits", "find_other_prompt", meeting(p, h) == Meeting.UNBOUND,
    why="a life that has ended, or has a request, ends no other")
NAMED: Final[System] = edited(
    replace(binding_named.SYSTEM, configurations={}, like=binding_named.SYSTEM,
            axioms={**binding_named.SYSTEM.axioms, **_AXIOMS}),
    "binding-prompts-named", *_OF_NAMED,
    ReplaceProperties((*NAMED_ALIKE, *binding_named.SAFETY, ASKS, SUCCEEDS, FOUND)),
    about="The binding where both callers name the prompt, and the number of the request.",
    configurations={"default": _NUMBERED},
)

NAMED_NO_TIMERS: Final[System] = edited(
    replace(binding_named.NO_TIMERS, configurations={}, like=binding_named.NO_TIMERS,
            axioms={**binding_named.NO_TIMERS.axioms, **_AXIOMS}),
    "binding-prompts-named-no-timers", *_OF_NAMED,
    ReplaceProperties((
        *NAMED_ALIKE, FOUND, WAITS, *binding_named.liveness(
            Fairness.NO_TIMERS, Fairness.CONSUMED))),
    about="The binding by the number, where a mix-up is told to both ends without a clock.",
    configurations={"default": _NUMBERED, "ranks": _OTHER},
)
