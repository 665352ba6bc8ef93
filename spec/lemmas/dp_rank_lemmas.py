"""Why decode asks the rank that runs a room, however many ranks and rooms.

A request is put on one rank, plainly or by name, and each half of it bears witness of how. Either
half may be lost, so that every pair of traces that the two may leave behind must agree.
"""

from collections.abc import Mapping
from typing import Final

from pdproto.spec.handoff.routing import (
    Entry,
    Group,
    Mode,
    Phase,
    Question,
    Routing,
    Runs,
    answer,
    disown,
    enroll_published,
    enroll_rule,
    entry,
    g,
    gone,
    h,
    heard,
    k,
    keeps_list,
    keeps_rule,
    knocked,
    meet,
    met,
    mode,
    modulo,
    phase,
    prompt,
    prompt_named,
    publish,
    publishes,
    query,
    question,
    refuse,
    routing,
    runs,
    serves,
    target,
    wanted,
    wanted_named,
)
from pdproto.spec.language import Always, Formula, all_of, any_of, exists, implies

i, j = Group("i"), Group("j")

HERE: Final = runs(g, h).among(Runs.WAITING, Runs.MET, Runs.FAILED)
OPEN: Final = runs(g, h).among(Runs.WAITING, Runs.MET)
ROUTED: Final = routing(h) == Routing.ROUTED
ASKING: Final = phase(h).among(Phase.PENDING, Phase.FAILED)

# What the proof takes for granted of the rigid symbols, besides the system's own axioms.
ASSUMED: Final[Mapping[str, Formula]] = {
    "a room has one remainder": implies(modulo(h, g) & modulo(h, k), g.same(k)),
}

_ROUTED_ONCE: Final = (
    Always("prompts_are_routed", implies(prompt(h, g), ROUTED & serves()),
           why="the router sends both halves at once, to a server that is open"),
    Always("named_prompts_are_routed", implies(prompt_named(h, g, k), ROUTED & serves()),
           why="the router sends both halves at once, to a server that is open"),
    Always("wishes_are_routed", implies(wanted(h), ROUTED),
           why="the router sends both halves at once"),
    Always("named_wishes_are_routed", implies(wanted_named(h, k), ROUTED),
           why="the router sends both halves at once"),
    Always("rooms_are_routed", implies(runs(g, h) != Runs.ABSENT, ROUTED),
           why="a rank has heard of the room"),
    Always("phases_are_routed", implies(phase(h) != Phase.IDLE, ROUTED),
           why="decode has heard of the room"),
    Always("one_prompt", implies(prompt(h, g) & prompt(h, k), g.same(k)),
           why="a request is put on one rank"),
    Always("one_named_prompt",
           implies(prompt_named(h, g, i) & prompt_named(h, k, j), g.same(k) & i.same(j)),
           why="a request is put on one rank, and names one"),
    Always("prompts_are_of_one_kind", ~(prompt(h, g) & prompt_named(h, k, j)),
           why="a request names a rank or does not"),
    Always("wishes_are_of_one_kind", ~(wanted(h) & wanted_named(h, k)),
           why="a request names a rank or does not"),
    Always("halves_are_of_one_kind",
           all_of(~(wanted(h) & prompt_named(h, g, k)), ~(wanted_named(h, k) & prompt(h, g))),
           why="both halves name the rank or neither does"),
    Always("halves_name_one_rank", implies(wanted_named(h, k) & prompt_named(h, g, j), k.same(j)),
           why="both halves name the same rank"),
    Always("pending_is_plain",
           implies(phase(h) == Phase.PENDING, ~prompt_named(h, g, k) & ~wanted_named(h, k)),
           why="decode resolves a named rank at once"),
)

_ONE_RANK: Final = (
    Always("one_rank_has_it",
           implies(HERE & runs(k, h).among(Runs.WAITING, Runs.MET, Runs.FAILED), g.same(k)),
           why="a request is put on one rank"),
    Always("a_prompt_is_where_it_runs", implies(HERE & prompt(h, k), g.same(k)),
           why="a request is put on one rank"),
    Always("a_named_prompt_is_where_it_runs", implies(HERE & prompt_named(h, k, j), g.same(k)),
           why="a request is put on one rank"),
    Always("disowned_by_the_rank_that_failed_it",
           implies(disown(k, h, g), (runs(k, h) == Runs.FAILED) & k.differs(g)),
           why="the rank that was given the room tells another"),
    Always("no_prompt_where_disowned",
           implies(runs(g, h) == Runs.DISOWNED, ~prompt(h, g) & ~prompt_named(h, g, k)),
           why="the request was put on the rank that disowned it"),
    Always("published_where_it_runs", implies(publish(h, g), HERE),
           why="a rank publishes the rooms that it has"),
)

_TARGETS: Final = (
    Always("undecided_has_no_target",
           implies(phase(h).among(Phase.IDLE, Phase.PENDING), ~target(h, g)),
           why="a target is what resolves a room"),
    Always("a_target_and_a_prompt_agree",
           implies(prompt(h, g) & target(h, k),
                   any_of(g.same(k), modulo(h, k) & keeps_rule())),
           why="what is not the only rank or a published one goes by the rule"),
    Always("a_target_and_a_named_prompt_agree",
           implies(prompt_named(h, g, j) & target(h, k), k.same(j)),
           why="a named rank is the target"),
    Always("plain_rooms_run_by_rule_or_list",
           implies(OPEN & any_of(wanted(h), phase(h) == Phase.PENDING),
                   any_of(g.same(j), modulo(h, g), publishes(g))),
           why="a rank that is not alone keeps a plain room only so"),
    Always("named_rooms_run_where_named", implies(OPEN & wanted_named(h, k), g.same(k)),
           why="a rank keeps a named room only if it is the one"),
    Always("knocks_are_at_the_target",
           all_of(implies(meet(h, g), target(h, g)), implies(knocked(g, h), target(h, g)),
                  implies(met(g, h), target(h, g)), implies(refuse(g, h), target(h, g))),
           why="decode turns to its target, which alone answers"),
    Always("met_is_met", implies(met(g, h), runs(g, h) == Runs.MET),
           why="a rank greets as it meets, and that is the end"),
    Always("refused_is_refused",
           implies(refuse(g, h), runs(g, h).among(Runs.FAILED, Runs.DISOWNED)),
           why="a rank turns away what has failed, and that is the end"),
)

_REGISTRY: Final = (
    Always("rule_ranks_do_not_publish", implies(enroll_rule(g), ~publishes(g)),
           why="a rank enrolls as it is configured"),
    Always("list_ranks_publish", implies(enroll_published(g), publishes(g)),
           why="a rank enrolls as it is configured"),
    Always("heard_ranks_keep_the_mode",
           implies(heard(g), all_of(implies(mode() == Mode.RULE, ~publishes(g)),
                                    implies(mode() == Mode.PUBLISHED, publishes(g)),
                                    mode() != Mode.OPEN)),
           why="the registry takes the first rank's word, and hears only those that agree"),
    Always("the_rule_is_everybodys",
           implies(keeps_rule(), all_of(~publishes(g), heard(g))),
           why="the server opens when every rank has been heard"),
    Always("the_list_is_everybodys",
           implies(keeps_list(), all_of(publishes(g), heard(g), mode() != Mode.RULE,
                                        mode() != Mode.OPEN)),
           why="the server opens when every rank has been heard"),
    Always("who_serves_has_said_how", implies(serves(), keeps_rule() | keeps_list()),
           why="both are said at once"),
    Always("published_by_list", implies(publish(h, g), keeps_list()),
           why="a rank that publishes serves a server that does"),
    Always("asked_by_list", implies(query(h), keeps_list()),
           why="decode asks only if rooms are listed"),
    Always("asked_among_several", implies(query(h), exists(g, exists(k, g.differs(k)))),
           why="decode does not ask for the only rank"),
    Always("asked_is_not_idle", implies(query(h), phase(h) != Phase.IDLE),
           why="decode asks about a room that it knows"),
    Always("questions_are_asked", implies(question(h) == Question.PENDING, query(h)),
           why="a question is kept when it is asked"),
    Always("known_is_published", implies(entry(h, g) == Entry.KNOWN, publish(h, g)),
           why="a room is listed as it is published"),
    Always("an_answer_closes",
           implies(answer(h, g), all_of(question(h) == Question.CLOSED, query(h), publish(h, g),
                                        ~gone(h))),
           why="a question has one answer, about a room that was published"),
    Always("gone_closes",
           implies(gone(h), all_of(question(h) == Question.CLOSED, query(h), ASKING)),
           why="a question has one answer, and this one fails the room"),
    Always("who_asks_waits",
           implies(query(h) & (question(h) != Question.CLOSED), ASKING),
           why="a room about which decode asks is resolved by the answer alone"),
)

LEMMAS: Final = (*_ROUTED_ONCE, *_ONE_RANK, *_TARGETS, *_REGISTRY)
