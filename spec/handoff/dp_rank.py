"""The data-parallel rank of the prefill server that runs a room, and how decode finds it.

Rule 1: Decode resolves the rank in this order: the rank that the request names; the only rank there
        is; room modulo ranks, if the registry says that the server keeps to that rule; else a
        query.
Rule 2: Whether every room is published is one setting of the whole server, agreed at the registry.
        Every room is published if queries are forced, or if the load balancing follows no rule.
        Decode follows the registry and has no setting of its own. Ranks that disagree are a mistake
        of configuration: the server serves no request.
Rule 3: If decode will look for a room on another rank, the rank that has the room fails it at once,
        and tells the rank that decode will ask. So decode is turned away and does not wait. If
        every room is published, decode looks on no other rank, unless the request names one.
Rule 4: While rooms keep to the rule, no rank publishes a room and decode sends no query.
Rule 5: The registry keeps a query about an unknown room, and answers it as soon as it knows the
        room. Both sides have a clock for a request whose other half never arrives.
Rule 6: A request whose rank the registry does not name fails at once: there is no address to ask.
Rule 7: A room ends with the run of the rank that has listed it. The registry strikes both out, and
        does not send decode to a later run, which does not have the room.

The router is not part of pdproto. It may put a request on any rank, name any rank in it, and lose
either half.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.dp_rank_claims import PROPERTIES
from pdproto.spec.handoff.roles import Life
from pdproto.spec.handoff.routing import (
    Entry,
    Group,
    Mode,
    Phase,
    Question,
    Routing,
    Runs,
    alone,
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
    heard,
    keeps_list,
    keeps_rule,
    left_out,
    meet,
    met,
    mismatched,
    mode,
    modulo,
    network,
    phase,
    posted,
    prompt,
    prompt_named,
    publish,
    publishes,
    queried,
    query,
    question,
    rank,
    receiver,
    refuse,
    refused,
    registry,
    retire,
    router,
    routing,
    run_over,
    runs,
    sender,
    serves,
    settled,
    several,
    target,
    unlisted,
    wanted,
    wanted_named,
    was_asked,
    withdraw,
    x,
    y,
)
from pdproto.spec.language import (
    Call,
    Configuration,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    Reject,
    ReplaceProperties,
    Row,
    Sometimes,
    System,
    Table,
    Timer,
    all_of,
    any_of,
    each,
    edited,
    forall,
    implies,
    lose,
)

ROUTER: Final = Table(router, state=routing, rows=(
    Row("route", on=Call("route"), at=Routing.UNROUTED, to=Routing.ROUTED, choose=(x,),
        when=serves(), send=[prompt(h, x), wanted(h)],
        why="the router may follow the server's rule or not"),
    Row("route_named", on=Call("route_named"), at=Routing.UNROUTED, to=Routing.ROUTED,
        choose=(x, y), when=serves(), send=[prompt_named(h, x, y), wanted_named(h, y)],
        why="the request names a rank, and may be put on another"),
))

RANK: Final = Table(rank, rows=(
    Row("enroll_for_rule", when=[~enrolled(x), ~publishes(x)], do=[enrolled(x).to(True)],
        send=[enroll_rule(x)]),
    Row("enroll_for_list", when=[~enrolled(x), publishes(x)], do=[enrolled(x).to(True)],
        send=[enroll_published(x)]),
    Row("learn_mismatch", on=differs(x), when=~mismatched(x), do=[mismatched(x).to(True)],
        why="its server learns that, and may restart with the setting of the others"),
    Ignore(differs(x), when=mismatched(x), why="the rank knows it already"),
))

SENDER: Final = Table(sender, state=runs, rows=(
    Row("serve_by_rule", on=prompt(h, x), at=Runs.ABSENT, to=Runs.WAITING,
        when=any_of(alone, all_of(~publishes(x), modulo(h, x)))),
    Row("serve_and_publish", on=prompt(h, x), at=Runs.ABSENT, to=Runs.WAITING,
        when=[publishes(x), several], do=[posted(x, h).to(True)], send=[publish(h, x)],
        why="every room is published, because decode asks about each"),
    Row("fail_conflict", on=prompt(h, x), at=Runs.ABSENT, to=Runs.FAILED,
        when=[~publishes(x), ~modulo(h, x), several], do=[conflict(x, h).to(True)],
        send=[each(y, disown(x, h, y), where=modulo(h, y))],
        why="decode follows the rule, and will ask another rank about this room"),
    Row("serve_named", on=prompt_named(h, x, y), at=Runs.ABSENT, to=Runs.WAITING,
        when=x.same(y)),
    Row("fail_misplaced", on=prompt_named(h, x, y), at=Runs.ABSENT, to=Runs.FAILED,
        when=x.differs(y), do=[conflict(x, h).to(True)], send=[disown(x, h, y)],
        why="decode asks the rank that the request names, and this is another one"),
    Ignore(prompt(h, x), at=(Runs.WAITING, Runs.MET, Runs.FAILED),
           why="the rank has this room already"),
    Ignore(prompt_named(h, x, y), at=(Runs.WAITING, Runs.MET, Runs.FAILED),
           why="the rank has this room already"),
    Ignore(prompt(h, x), at=Runs.GONE, name="ignore_prompt_gone", why="no process reads it"),
    Reject(prompt(h, x), at=Runs.DISOWNED, why="the router puts a request on one rank"),
    Reject(prompt_named(h, x, y), at=Runs.DISOWNED, why="the router puts a request on one rank"),
    Reject(prompt_named(h, x, y), at=Runs.GONE, name="reject_prompt_named_gone",
           why="a room whose request names its rank is not listed, so the registry loses none"),
    Row("be_disowned", on=disown(y, h, x), at=Runs.ABSENT, to=Runs.DISOWNED,
        why="decode asks here about a room that has failed on another rank"),
    Ignore(disown(y, h, x), at=Runs.DISOWNED, why="the rank knows it already"),
    Reject(disown(y, h, x), at=(Runs.WAITING, Runs.MET, Runs.FAILED, Runs.GONE),
           why="the router puts a request on one rank"),
    Row("hear_meet", on=meet(h, x),
        at=(Runs.ABSENT, Runs.WAITING, Runs.MET, Runs.FAILED, Runs.DISOWNED),
        when=~was_asked(x, h), do=[was_asked(x, h).to(True)],
        why="the room may arrive after decode"),
    Ignore(meet(h, x), at=(Runs.ABSENT, Runs.WAITING), when=was_asked(x, h),
           why="the answer follows"),
    Ignore(meet(h, x), at=Runs.GONE, name="ignore_meet_gone",
           why="no process reads it: decode's clock runs on"),
    Ignore(meet(h, x), at=(Runs.FAILED, Runs.DISOWNED), when=[was_asked(x, h), ~refused(x, h)],
           why="the answer follows"),
    Row("greet_again", on=meet(h, x), at=Runs.MET, when=was_asked(x, h), send=[met(x, h)],
        why="another rank of the decode server asks, and each needs an answer"),
    Row("turn_away_again", on=meet(h, x), at=(Runs.FAILED, Runs.DISOWNED),
        when=[was_asked(x, h), refused(x, h)], send=[refuse(x, h)],
        why="another rank of the decode server asks, and each needs an answer"),
    Row("greet", at=Runs.WAITING, to=Runs.MET, when=was_asked(x, h), send=[met(x, h)]),
    Row("turn_away", at=(Runs.FAILED, Runs.DISOWNED), when=[was_asked(x, h), ~refused(x, h)],
        do=[refused(x, h).to(True)], send=[refuse(x, h)],
        why="decode learns of the failure at once"),
    Row("stop_waiting", on=Timer("no_decode"), at=Runs.WAITING, to=Runs.FAILED,
        why="decode's half of the request may have been lost"),
    Row("end_waiting", on=Call("end_room", x, h), at=Runs.WAITING, to=Runs.FAILED,
        why="the hand-over has ended before decode was met, and decode may still come"),
    Ignore(Call("end_room", x, h),
           at=(Runs.ABSENT, Runs.MET, Runs.FAILED, Runs.DISOWNED, Runs.GONE), name="ignore_end",
           why="the room does not wait for decode"),
    Row("tidy_up", at=(Runs.MET, Runs.FAILED), when=posted(x, h), do=[posted(x, h).to(False)],
        send=[retire(h, x)], why="decode has found the room, or never will"),
))

REGISTRY: Final = Table(registry, state=mode, rows=(
    Row("hear_rule_first", on=enroll_rule(x), at=Mode.OPEN, to=Mode.RULE,
        do=[heard(x).to(True)]),
    Row("hear_list_first", on=enroll_published(x), at=Mode.OPEN, to=Mode.PUBLISHED,
        do=[heard(x).to(True)]),
    Row("hear_rule", on=enroll_rule(x), at=Mode.RULE, when=~heard(x), do=[heard(x).to(True)]),
    Row("hear_list", on=enroll_published(x), at=Mode.PUBLISHED, when=~heard(x),
        do=[heard(x).to(True)]),
    Row("refuse_rule", on=enroll_rule(x), at=Mode.PUBLISHED, send=[differs(x)],
        why="the earlier ranks publish rooms: this rank is refused, and they go on"),
    Row("refuse_list", on=enroll_published(x), at=Mode.RULE, send=[differs(x)],
        why="the earlier ranks publish no rooms: this rank is refused, and they go on"),
    Ignore(enroll_rule(x), at=Mode.RULE, when=heard(x), why="the registry has this rank already"),
    Ignore(enroll_published(x), at=Mode.PUBLISHED, when=heard(x),
           why="the registry has this rank already"),
    Row("open_by_rule", at=Mode.RULE, when=[~settled(), forall(x, heard(x))],
        do=[settled().to(True)], send=[serves(), keeps_rule()]),
    Row("open_by_list", at=Mode.PUBLISHED, when=[~settled(), forall(x, heard(x))],
        do=[settled().to(True)], send=[serves(), keeps_list()]),
    Row("list_room", on=publish(h, x),
        when=[entry(h, x) == Entry.NEVER, question(h) != Question.PENDING],
        do=[entry(h, x).to(Entry.KNOWN)]),
    Row("list_room_and_answer", on=publish(h, x),
        when=[entry(h, x) == Entry.NEVER, question(h) == Question.PENDING],
        do=[entry(h, x).to(Entry.KNOWN), question(h).to(Question.CLOSED)], send=[answer(h, x)],
        why="decode asked before the room was known"),
    Ignore(publish(h, x), when=entry(h, x) != Entry.NEVER,
           why="the room is listed already, or over"),
    Row("answer_query", on=query(h), choose=(x,),
        when=[question(h) == Question.NONE, entry(h, x) == Entry.KNOWN],
        do=[question(h).to(Question.CLOSED)], send=[answer(h, x)]),
    Row("answer_gone", on=query(h), choose=(x,),
        when=[question(h) == Question.NONE, entry(h, x) == Entry.OVER],
        do=[question(h).to(Question.CLOSED)], send=[gone(h)],
        why="the rank of the room has given it up"),
    Row("keep_question", on=query(h),
        when=[question(h) == Question.NONE, forall(x, entry(h, x) == Entry.NEVER)],
        do=[question(h).to(Question.PENDING)], why="the room is not known yet"),
    Ignore(query(h), when=question(h) != Question.NONE, why="decode has asked already"),
    Row("strike_room", on=retire(h, x),
        when=[entry(h, x) != Entry.OVER, question(h) != Question.PENDING],
        do=[entry(h, x).to(Entry.OVER)]),
    Row("strike_room_and_tell", on=retire(h, x),
        when=[entry(h, x) != Entry.OVER, question(h) == Question.PENDING],
        do=[entry(h, x).to(Entry.OVER), question(h).to(Question.CLOSED)], send=[gone(h)],
        why="the rank gave the room up before its publication arrived"),
    Ignore(retire(h, x), when=entry(h, x) == Entry.OVER, why="the room is struck out already"),
    Row("strike_room_of_run", on=Timer("no_sign_of_life", detector=True), choose=(h, x),
        when=[run_over(h, x), entry(h, x) == Entry.KNOWN],
        do=[entry(h, x).to(Entry.OVER)],
        why="the run that listed the room is over, and a later run does not have the room"),
    Row("drop_question", on=withdraw(h), when=question(h) != Question.CLOSED,
        do=[question(h).to(Question.CLOSED)], why="decode no longer waits"),
    Ignore(withdraw(h), when=question(h) == Question.CLOSED, why="decode does not wait"),
))

RECEIVER: Final = Table(receiver, state=phase, rows=(
    Row("note_unlisted", on=left_out(h, x), at=Phase.IDLE, when=~unlisted(h, x),
        do=[unlisted(h, x).to(True)]),
    Ignore(left_out(h, x), at=Phase.IDLE, when=unlisted(h, x), name="ignore_left_out_again",
           why="decode knows it already"),
    Ignore(left_out(h, x), at=(Phase.PENDING, Phase.RESOLVED, Phase.MET, Phase.FAILED),
           why="the registry named the rank when decode looked up its server"),
    Row("take_named", on=wanted_named(h, y), at=Phase.IDLE, to=Phase.RESOLVED,
        when=~unlisted(h, y), do=[target(h, y).to(True)], send=[meet(h, y)],
        why="first: the rank in the request"),
    Row("fail_named_unlisted", on=wanted_named(h, y), at=Phase.IDLE, to=Phase.FAILED,
        when=unlisted(h, y), why="the rank in the request has no address"),
    Row("take", on=wanted(h), at=Phase.IDLE, to=Phase.PENDING),
    Ignore(wanted(h), at=(Phase.PENDING, Phase.RESOLVED, Phase.MET, Phase.FAILED),
           why="decode has this request already"),
    Ignore(wanted_named(h, y), at=(Phase.PENDING, Phase.RESOLVED, Phase.MET, Phase.FAILED),
           why="decode has this request already"),
    Row("resolve_alone", at=Phase.PENDING, to=Phase.RESOLVED, choose=(x,),
        when=[alone, ~unlisted(h, x)],
        do=[target(h, x).to(True)], send=[meet(h, x)], why="second: the only rank"),
    Row("resolve_by_rule", at=Phase.PENDING, to=Phase.RESOLVED, choose=(x,),
        when=[several, keeps_rule(), modulo(h, x), ~unlisted(h, x)],
        do=[target(h, x).to(True)], send=[meet(h, x)], why="third: the rule, at no cost"),
    Row("fail_unlisted", at=Phase.PENDING, to=Phase.FAILED, choose=(x,),
        when=[unlisted(h, x), any_of(alone, all_of(keeps_rule(), modulo(h, x)))],
        why="the only rank, or that of the rule, has no address"),
    Row("ask", at=Phase.PENDING, choose=(x,), when=[several, modulo(h, x), keeps_list(),
                                                    ~queried(h)],
        do=[queried(h).to(True)], send=[query(h)], why="fourth: the registry knows"),
    Row("resolve_by_query", on=answer(h, x), at=Phase.PENDING, to=Phase.RESOLVED,
        when=~unlisted(h, x), do=[target(h, x).to(True)], send=[meet(h, x)]),
    Row("fail_answer_unlisted", on=answer(h, x), at=Phase.PENDING, to=Phase.FAILED,
        when=unlisted(h, x), why="the rank that lists the room has no address"),
    Ignore(answer(h, x), at=(Phase.RESOLVED, Phase.MET, Phase.FAILED), why="decode no longer asks"),
    Row("fail_gone", on=gone(h), at=Phase.PENDING, to=Phase.FAILED,
        why="the rank of the room has given it up"),
    Ignore(gone(h), at=Phase.FAILED, why="decode no longer asks"),
    Reject(gone(h), at=(Phase.IDLE, Phase.RESOLVED, Phase.MET),
           why="a query has one answer, and this one fails the room"),
    Reject(answer(h, x), at=Phase.IDLE, why="decode has asked nothing"),
    Row("be_greeted", on=met(x, h), at=Phase.RESOLVED, to=Phase.MET, when=target(h, x)),
    Ignore(met(x, h), at=(Phase.MET, Phase.FAILED), why="the answer comes twice, or too late"),
    Row("be_turned_away", on=refuse(x, h), at=Phase.RESOLVED, to=Phase.FAILED,
        when=target(h, x), why="the room failed on prefill: a conflict of ranks, or a time-out"),
    Ignore(refuse(x, h), at=Phase.FAILED, why="the answer comes twice, or too late"),
    Reject(met(x, h), at=Phase.RESOLVED, when=~target(h, x), why="decode has asked another rank"),
    Reject(refuse(x, h), at=Phase.RESOLVED, when=~target(h, x),
           why="decode has asked another rank"),
    Reject(met(x, h), at=(Phase.IDLE, Phase.PENDING), why="decode has asked no rank"),
    Reject(refuse(x, h), at=(Phase.IDLE, Phase.PENDING, Phase.MET), why="decode has asked no rank"),
    Row("stop_looking", on=Call("end_request", h), at=(Phase.PENDING, Phase.RESOLVED),
        to=Phase.FAILED, send=[withdraw(h)],
        why="the hand-over has ended before its rank was met"),
    Ignore(Call("end_request", h), at=(Phase.IDLE, Phase.MET, Phase.FAILED),
           name="ignore_end_request", why="decode does not look for the room"),
    Row("give_up", on=Timer("unresolved"), at=(Phase.PENDING, Phase.RESOLVED), to=Phase.FAILED,
        send=[withdraw(h)], why="prefill's half of the request may have been lost"),
))

LOSSY: Final = Table(network, rows=tuple(
    lose(message) for message in (prompt, prompt_named, wanted, wanted_named)
))

CRASH: Final = Table(network, rows=(
    Row("crash", choose=(x, h), when=[runs(x, h) == Runs.WAITING, posted(x, h)],
        do=[runs(x, h).to(Runs.GONE), posted(x, h).to(False), run_over(h, x).to(True)], fair=False,
        why="a process dies while one of its rooms is listed"),
))

DRAINED: Final = Table(network, rows=(
    Row("leave_out", choose=(h, x), when=[phase(h) == Phase.IDLE, ~left_out(h, x)],
        do=[left_out(h, x).to(True)], fair=False,
        why="a rank drains, or is not registered, when decode looks up the server"),
))

AXIOMS: Final = {"one_remainder": implies(modulo(h, x) & modulo(h, y), x.same(y))}

SYSTEM: Final = System(
    "dp-rank",
    "The data-parallel rank of the prefill server that runs a room, and how decode finds it.",
    tables=(ROUTER, RANK, SENDER, REGISTRY, RECEIVER),
    properties=PROPERTIES,
    final=forall((x, h), all_of(runs(x, h) != Runs.WAITING, ~posted(x, h),
                                phase(h).among(Phase.IDLE, Phase.MET, Phase.FAILED))),
    faults={"lossy": (LOSSY,), "crash": (CRASH,), "drained": (DRAINED,)},
    axioms=AXIOMS,
    configurations={
        # Every setting of both ranks, even those in which they disagree.
        "default": Configuration({Group: 2, Life: 1}, faults=("lossy",), dead_bits=True),
        "two-rooms": Configuration({Group: 2, Life: 2}, dead_bits=True),
        "crash": Configuration({Group: 2, Life: 1}, faults=("lossy", "crash"), dead_bits=True),
        "drained": Configuration({Group: 2, Life: 1}, faults=("lossy", "drained"), dead_bits=True),
        "drained-alone": Configuration({Group: 1, Life: 2}, faults=("drained",), dead_bits=True),
        "alone": Configuration({Group: 1, Life: 2}, faults=("lossy",), dead_bits=True),
        "deep": Configuration({Group: 3, Life: 2}, faults=("lossy",), dead_bits=True),
    },
)

# The rows by which a hand-over that has ended ends its room, on either side.
OF_HAND_OVERS: Final = ("end_waiting", "ignore_end", "stop_looking", "ignore_end_request")
ENDED_WITH_ITS_HAND_OVER: Final = Sometimes(
    "a_room_ends_with_its_hand_over", all_of(runs(x, h) == Runs.FAILED, ~conflict(x, h)),
    why="where no clock runs, nothing else fails a room that has no conflict")

NO_TIMERS: Final = edited(
    SYSTEM, "dp-rank-no-timers",
    *(DropRow(name) for name in ("stop_waiting", "give_up", "stop_looking", "ignore_end_request")),
    ReplaceProperties((
        *(replace(claim, under=(Fairness.TIMERS, Fairness.CONSUMED)) for claim in PROPERTIES
          if isinstance(claim, LeadsTo)),
        ENDED_WITH_ITS_HAND_OVER)),
    about="The rank that runs a room, where no half of a request is lost, decode waits for its "
          "answer, and there is no clock.",
    configurations={
        "default": Configuration({Group: 2, Life: 1}, dead_bits=True),
        "two-rooms": Configuration({Group: 2, Life: 2}, dead_bits=True),
    },
)
