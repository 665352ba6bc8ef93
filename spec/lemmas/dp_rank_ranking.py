"""Why decode finds the rank that runs a room, and both halves of a request end, for any number.

A server opens when every rank has enrolled with its way to find rooms. From then on decode finds a
room in one of three ways: by the rule; by a query, which the registry answers as soon as the room
is published; or at the rank that the request names. That rank answers. If the other half of the
request is lost, a clock ends the room.
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
    met,
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
    run_over,
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

# Another rank; room modulo ranks; the rank that decode asks; the listed rank; the answered rank.
j, home, asked, listed, told = (
    Group("j"), Group("home"), Group("asked"), Group("listed"), Group("told"))

PLAIN: Final = any_of(wanted(h), phase(h) == Phase.PENDING)

LEMMAS: Final = (
    Always("an_enrolled_rank_has_said_so",
           implies(enrolled(x), enroll_rule(x) | enroll_published(x)),
           why="a rank states its way to find rooms when it enrolls"),
    Always("rooms_are_routed_to_a_serving_server",
           implies(routing(h) == Routing.ROUTED, serves()),
           why="the router waits until the server is open"),
    Always("a_queried_room_has_a_question", implies(queried(h), query(h)),
           why="decode notes that it has asked when it asks"),
    Always("a_target_has_a_meet", implies(target(h, x), meet(h, x)),
           why="decode asks a rank when it makes it its target"),
    Always("a_resolved_room_has_a_target",
           implies(phase(h) == Phase.RESOLVED, exists(x, target(h, x))),
           why="a room is resolved by its target"),
    Always("a_withdrawn_room_has_failed", implies(withdraw(h), phase(h) == Phase.FAILED),
           why="decode withdraws its question when its clock runs out"),
    Always("a_closed_question_has_its_answer",
           implies(question(h) == Question.CLOSED,
                   any_of(withdraw(h), gone(h), exists(x, answer(h, x)))),
           why="an answer closes it, or the registry closes it because decode has withdrawn"),
    Always("a_kept_question_is_about_the_unknown",
           implies(question(h) == Question.PENDING, entry(h, x) == Entry.NEVER),
           why="the registry answers a question when it knows the room"),
    Always("a_failed_room_has_withdrawn",
           implies(all_of(query(h), phase(h) == Phase.FAILED),
                   any_of(withdraw(h), question(h) == Question.CLOSED)),
           why="its clock has run out, or its question has an answer"),
    Always("a_room_to_be_found_is_published",
           implies(all_of(runs(x, h) == Runs.WAITING, PLAIN, publishes(x)),
                   x.same(j) | publish(h, x)),
           why="a rank that publishes does so with every room whose request names no rank"),
    Always("a_published_room_is_posted_or_retired",
           implies(publish(h, x), any_of(posted(x, h), retire(h, x), run_over(h, x))),
           why="a published room is posted until it is retired, or its process has died"),
    Always("a_conflicting_rank_does_not_publish",
           implies(all_of(conflict(x, h), PLAIN), ~publishes(x)),
           why="where every room is published, decode looks at no other rank"),
    Always("a_conflict_is_said_where_the_rule_leads",
           implies(all_of(conflict(x, h), PLAIN, modulo(h, y)), disown(x, h, y)),
           why="a rank that fails a room tells the one that decode will ask"),
    Always("a_conflict_is_said_where_the_request_leads",
           implies(all_of(conflict(x, h), wanted_named(h, y)), disown(x, h, y)),
           why="a rank that fails a room tells the one that decode will ask"),
    Always("a_conflict_is_said_to_the_target",
           implies(all_of(conflict(x, h), target(h, y)), x.same(y) | disown(x, h, y)),
           why="decode asks only the rank of the rule or of the request"),
)

MONOTONE: Final[tuple[Monotone, ...]] = ()

_REMAINDER: Final = {"every_room_has_a_remainder": exists(x, modulo(h, x))}
_HOME: Final = Witness(home, modulo(h, home))
_LISTED: Final = Witness(listed, entry(h, listed) != Entry.NEVER)
_TOLD: Final = Witness(told, answer(h, told))
_ANSWERED: Final = Use("a_closed_question_has_its_answer")

# Decode learns the rank.
_BY_RULE: Final = (Help("resolve_by_rule", at={x: home}), Help("fail_unlisted", at={x: home}))
_WHILE_IT_RUNS: Final = (Help("answer_query", at={x: listed}), Help("keep_question"))
_TAKEN: Final = (*_WHILE_IT_RUNS, Help("answer_gone", at={x: listed}))
_ANSWER: Final = (Help("resolve_by_query", at={x: told}),
                  Help("fail_answer_unlisted", at={x: told}), Help("fail_gone"))
# The registry accepts every rank.
_HEARD: Final = (
    Help("hear_rule_first"), Help("hear_list_first"), Help("hear_rule"), Help("hear_list"),
    Help("refuse_rule", ~differs(x)), Help("refuse_list", ~differs(x)), Help("learn_mismatch"),
)
_LIST: Final = (Help("list_room"), Help("list_room_and_answer"))

RANKINGS: Final = (
    Ranking("M2_3_the_query_finds_the_room",
            (Help("resolve_alone"), Help("fail_unlisted"), *_BY_RULE, Help("ask", at={x: home}),
             *_WHILE_IT_RUNS, Help("list_room_and_answer"), *_ANSWER),
            witnesses=(_HOME, _LISTED, _TOLD), using=(_ANSWERED,), assumed=_REMAINDER,
            why=
            "a room that is neither alone nor under the rule is published, which answers it"),
    Ranking("L2_a_conflict_reaches_decode",
            (*_BY_RULE, Help("hear_meet", at={x: asked}),
             Help("be_disowned", at={y: x, x: asked}), Help("turn_away", at={x: asked}),
             Help("be_turned_away", at={x: asked})),
            witnesses=(_HOME, Witness(asked, target(h, asked))),
            using=(Use("a_resolved_room_has_a_target"),), assumed=_REMAINDER,
            why="the rank that decode asks has been told of the conflict"),
    Ranking("L2_a_request_for_an_unlisted_rank_fails", (Help("fail_unlisted"),),
            why="nothing else ends it, since each way to a target asks for the address"),
    Ranking("L2_decode_is_turned_away",
            (Help("hear_meet"), Help("turn_away"), Help("be_turned_away")),
            why="a rank that has failed a room answers every request for it"),
    Ranking("L2_a_rank_that_is_asked_answers",
            (Help("hear_meet"), Help("greet"), Help("greet_again", ~met(x, h)), Help("turn_away")),
            why="a rank that has the room, or knows that it failed elsewhere, answers each time"),
    Ranking("L2_a_question_is_taken", _TAKEN, witnesses=(_LISTED,),
            why="the registry answers from its list, or keeps the question"),
    Ranking("L2_decode_hears_that_a_room_is_gone",
            (*_TAKEN, Help("strike_room_and_tell"), *_ANSWER),
            witnesses=(_LISTED, _TOLD), using=(_ANSWERED,),
            why="a room that is struck out answers the question about it"),
    Ranking("both_meet_without_a_clock", (Help("hear_meet"), Help("greet")),
            why="a rank that waits for decode greets it"),
    Ranking("L1_prefill_ends", (Help("stop_waiting"),), why="prefill has a clock"),
    Ranking("L1_decode_ends", (Help("give_up"),), why="decode has a clock"),
    Ranking("L1_every_rank_enrolls", (Help("enroll_for_rule"), Help("enroll_for_list")),
            why="a rank enrolls by itself"),
    Ranking("L1_an_enrolled_rank_is_heard", _HEARD,
            why="the registry accepts or refuses each rank once"),
    Ranking("M2_3_mismatched_ranks_are_refused",
            (Help("hear_rule_first"), Help("refuse_list", ~differs(x), at={x: y}),
             Help("refuse_rule", ~differs(x)),
             Help("learn_mismatch"), Help("learn_mismatch", at={x: y})),
            why="the second of the two differs from the first"),
    Ranking("L3_a_published_room_is_listed", _LIST, why="the registry lists by itself"),
    Ranking("a_posted_room_is_listed", _LIST, why="a posted room is published"),
    Ranking("L3_a_retired_room_is_struck_out",
            (Help("strike_room"), Help("strike_room_and_tell")),
            why="the registry strikes out by itself"),
    Ranking("L3_entries_are_cleaned_up",
            (Help("stop_waiting"), Help("tidy_up"), Help("strike_room"),
             Help("strike_room_of_run")),
            why="a rank waits for decode until its clock runs out, and retires ended rooms; the "
                "registry finds a rank silent that has died"),
    Ranking("L3_questions_are_closed", (Help("give_up"), Help("drop_question")),
            why="decode waits until its clock runs out, and withdraws its question"),
)
