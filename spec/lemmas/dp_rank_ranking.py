"""Why decode finds the rank that runs a room, and both halves of a request end, however many.

A server opens when every rank has said how its rooms are found. From then on a room that decode
looks for goes one way: by the rule; by a query, which the registry answers as soon as it has heard
of the room; or to the rank that is named. Whoever is asked answers. What never gets that far, for
the other half of the request is lost, has a clock.
"""

from typing import Final

from pdproto.spec.handoff.routing import (
    Entry,
    Group,
    Phase,
    Question,
    Routing,
    Runs,
    answer,
    conflict,
    differs,
    disown,
    enroll_published,
    enroll_rule,
    enrolled,
    entry,
    gone,
    h,
    meet,
    modulo,
    phase,
    posted,
    publish,
    publishes,
    queried,
    query,
    question,
    retire,
    routing,
    runs,
    serves,
    target,
    wanted,
    wanted_named,
    withdraw,
    x,
    y,
)
from pdproto.spec.language import Always, all_of, any_of, exists, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness

# Another rank; room modulo ranks; whom decode asks; whose room the registry knows; its answer.
j, home, asked, listed, told = (
    Group("j"), Group("home"), Group("asked"), Group("listed"), Group("told"))

PLAIN: Final = any_of(wanted(h), phase(h) == Phase.PENDING)

LEMMAS: Final = (
    Always("an_enrolled_rank_has_said_so",
           implies(enrolled(x), enroll_rule(x) | enroll_published(x)),
           why="a rank says how its rooms are found as it enrolls"),
    Always("rooms_are_routed_to_a_serving_server",
           implies(routing(h) == Routing.ROUTED, serves()),
           why="the router waits until the server is open"),
    Always("a_queried_room_has_a_question", implies(queried(h), query(h)),
           why="decode notes that it has asked as it does"),
    Always("a_target_has_a_knock", implies(target(h, x), meet(h, x)),
           why="decode turns to a rank as it settles on it"),
    Always("a_resolved_room_has_a_target",
           implies(phase(h) == Phase.RESOLVED, exists(x, target(h, x))),
           why="a room is resolved by its target"),
    Always("a_withdrawn_room_has_failed", implies(withdraw(h), phase(h) == Phase.FAILED),
           why="decode withdraws its question as its clock runs out"),
    Always("a_closed_question_has_its_answer",
           implies(question(h) == Question.CLOSED,
                   any_of(withdraw(h), gone(h), exists(x, answer(h, x)))),
           why="it is closed with the answer, or because nobody waits for one"),
    Always("a_kept_question_is_about_the_unknown",
           implies(question(h) == Question.PENDING, entry(h, x) == Entry.NEVER),
           why="what the registry knows or comes to know of the room answers it"),
    Always("a_failed_room_has_withdrawn",
           implies(all_of(query(h), phase(h) == Phase.FAILED),
                   any_of(withdraw(h), question(h) == Question.CLOSED)),
           why="its clock has run out, or its question was answered"),
    Always("a_room_to_be_found_is_published",
           implies(all_of(runs(x, h) == Runs.WAITING, PLAIN, publishes(x)),
                   x.same(j) | publish(h, x)),
           why="a rank that publishes does so with every room whose request names no rank"),
    Always("a_published_room_is_posted_or_retired",
           implies(publish(h, x), posted(x, h) | retire(h, x)),
           why="what was published is posted until it is retired"),
    Always("a_conflicting_rank_does_not_publish",
           implies(all_of(conflict(x, h), PLAIN), ~publishes(x)),
           why="where every room is published there is no elsewhere for decode to look"),
    Always("a_conflict_is_said_where_the_rule_leads",
           implies(all_of(conflict(x, h), PLAIN, modulo(h, y)), disown(x, h, y)),
           why="a rank that fails a room says so to the one that decode will ask"),
    Always("a_conflict_is_said_where_the_request_leads",
           implies(all_of(conflict(x, h), wanted_named(h, y)), disown(x, h, y)),
           why="a rank that fails a room says so to the one that decode will ask"),
    Always("a_conflict_is_said_to_the_target",
           implies(all_of(conflict(x, h), target(h, y)), x.same(y) | disown(x, h, y)),
           why="decode asks where the rule or the request leads it"),
)

MONOTONE: Final[tuple[Monotone, ...]] = ()

_REMAINDER: Final = {"every_room_has_a_remainder": exists(x, modulo(h, x))}
_HOME: Final = Witness(home, modulo(h, home))
_LISTED: Final = Witness(listed, entry(h, listed) != Entry.NEVER)
_TOLD: Final = Witness(told, answer(h, told))
_ANSWERED: Final = Use("a_closed_question_has_its_answer")

# Decode comes to know the rank.
_BY_RULE: Final = Help("resolve_by_rule", at={x: home})
_WHILE_IT_RUNS: Final = (Help("answer_query", at={x: listed}), Help("keep_question"))
_TAKEN: Final = (*_WHILE_IT_RUNS, Help("answer_gone", at={x: listed}))
_ANSWER: Final = (Help("resolve_by_query", at={x: told}), Help("fail_gone"))
# The registry hears of every rank.
_HEARD: Final = (
    Help("hear_rule_first"), Help("hear_list_first"), Help("hear_rule"), Help("hear_list"),
    Help("refuse_rule", ~differs(x)), Help("refuse_list", ~differs(x)), Help("be_at_odds"),
)
_LIST: Final = (Help("list_room"), Help("list_room_and_answer"))

RANKINGS: Final = (
    Ranking("M2_3_the_query_finds_the_room",
            (Help("resolve_alone"), _BY_RULE, Help("ask", at={x: home}), *_WHILE_IT_RUNS,
             Help("list_room_and_answer"), *_ANSWER),
            witnesses=(_HOME, _LISTED, _TOLD), using=(_ANSWERED,), assumed=_REMAINDER,
            why="a room that is neither alone nor by the rule is published, and that answers"),
    Ranking("L2_a_conflict_reaches_decode",
            (_BY_RULE, Help("hear_knock", at={x: asked}),
             Help("be_disowned", at={y: x, x: asked}), Help("turn_away", at={x: asked}),
             Help("be_turned_away", at={x: asked})),
            witnesses=(_HOME, Witness(asked, target(h, asked))),
            using=(Use("a_resolved_room_has_a_target"),), assumed=_REMAINDER,
            why="whom decode asks has been told of the conflict"),
    Ranking("L2_decode_is_turned_away",
            (Help("hear_knock"), Help("turn_away"), Help("be_turned_away")),
            why="a rank that has failed a room answers whoever asks"),
    Ranking("L2_a_question_is_taken", _TAKEN, witnesses=(_LISTED,),
            why="the registry answers from its list, or keeps what is not listed"),
    Ranking("L2_decode_hears_that_a_room_is_gone",
            (*_TAKEN, Help("strike_room_and_tell"), *_ANSWER),
            witnesses=(_LISTED, _TOLD), using=(_ANSWERED,),
            why="a room that is struck out answers the question about it"),
    Ranking("both_meet_without_a_clock", (Help("hear_knock"), Help("greet")),
            why="a rank that waits for decode greets it"),
    Ranking("L1_prefill_ends", (Help("stop_waiting"),), why="it has a clock"),
    Ranking("L1_decode_ends", (Help("give_up"),), why="it has a clock"),
    Ranking("L1_every_rank_enrolls", (Help("enroll_for_rule"), Help("enroll_for_list")),
            why="enrolling needs nobody else"),
    Ranking("L1_an_enrolled_rank_is_heard", _HEARD, why="the registry hears each rank once"),
    Ranking("M2_3_ranks_at_odds_are_refused",
            (Help("hear_rule_first"), Help("refuse_list", ~differs(x), at={x: y}),
             Help("refuse_rule", ~differs(x)),
             Help("be_at_odds"), Help("be_at_odds", at={x: y})),
            why="whichever is heard first, the other is at odds with it"),
    Ranking("L3_a_published_room_is_listed", _LIST, why="listing needs nobody else"),
    Ranking("a_posted_room_is_listed", _LIST, why="what is posted is published"),
    Ranking("L3_a_retired_room_is_struck_out",
            (Help("strike_room"), Help("strike_room_and_tell")),
            why="striking out needs nobody else"),
    Ranking("L3_entries_are_cleaned_up",
            (Help("stop_waiting"), Help("tidy_up"), Help("strike_room")),
            why="a rank waits for decode until its clock runs out, and retires what has ended"),
    Ranking("L3_questions_are_closed", (Help("give_up"), Help("drop_question")),
            why="decode waits until its clock runs out, and withdraws what it has asked"),
)
