"""Which data-parallel rank of the prefill server runs a room, and how decode finds out.

Rule 1: decode resolves the rank in this order: the one that the request names; the only one there
is; room modulo ranks, if the registry says that the server keeps to that rule; else a query.
Rule 2: whether every room is published is one setting of the whole server, agreed at the registry
(it holds if queries are forced, or if the load balancing follows no rule). Decode does what the
registry says and has no setting of its own. Ranks that disagree are a mistake of configuration: the
server serves nobody.
Rule 3: a rank that gets a room which decode will look for elsewhere fails it at once, and tells the
rank where decode will ask, so that decode is turned away instead of waiting. If every room is
published, there is no elsewhere, unless the request itself names another rank.
Rule 4: as long as rooms keep to the rule, nothing is published and nothing is queried.
Rule 5: a query about a room that is not known yet stays with the registry, which answers as soon as
it knows. Both sides have a clock for a request whose other half never arrives.

The router is not ours. It may put a request on any rank, name any rank in it, and lose either half.
"""

from typing import Final

from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Reject,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    Timer,
    Tuples,
    all_of,
    any_of,
    auto,
    each,
    exists,
    forall,
    implies,
    lose,
)


class Group(Sort, prefix="k"):
    """A data-parallel rank of the prefill server, with all the ranks that work for it."""


class Routing(State):
    UNROUTED = auto()
    ROUTED = auto()


class Runs(State):
    """What a prefill rank knows of a room."""

    ABSENT = auto()
    WAITING = auto()  # it runs here, and waits for decode
    MET = auto()
    FAILED = auto()
    DISOWNED = auto()  # it runs on another rank, where decode does not look


class Mode(State):
    """What the ranks have said so far."""

    OPEN = auto()
    RULE = auto()  # rooms keep to the rule, and are not published
    PUBLISHED = auto()
    DISAGREE = auto()


class Entry(State):
    """What the registry holds of a room on a rank."""

    NEVER = auto()
    KNOWN = auto()
    OVER = auto()


class Question(State):
    """Whether decode waits for an answer about a room."""

    NONE = auto()
    PENDING = auto()
    CLOSED = auto()


class Phase(State):
    """What decode knows of a room."""

    IDLE = auto()
    PENDING = auto()  # the rank is not known
    RESOLVED = auto()
    MET = auto()
    FAILED = auto()


g, k = Group("g"), Group("k")
h = Life("h")

router = Machine("router", h)
rank = Machine("rank", g)
sender = Machine("sender", g, h)
registry = Machine("registry")
receiver = Machine("receiver", h)
network = Machine("network", world=True)


def remainder(sizes: Sizes) -> Tuples:
    """Room modulo ranks."""
    return {(life, life % sizes[Group]) for life in range(sizes[Life])}


modulo = Rigid("modulo", h, g, given=remainder)
publishes = Rigid("publishes", g, visible_to=(rank, sender))

routing = router.function("routing", Routing)

enrolled = rank.relation("enrolled")

runs = sender.function("runs", Runs, edges={
    Runs.ABSENT: (Runs.WAITING, Runs.FAILED, Runs.DISOWNED),
    Runs.WAITING: (Runs.MET, Runs.FAILED),
    Runs.MET: (),
    Runs.FAILED: (),
    Runs.DISOWNED: (),
})
conflict = sender.relation("conflict")
knocked = sender.relation("knocked")
posted = sender.relation("posted")

mode = registry.function("mode", Mode, edges={
    Mode.OPEN: (Mode.RULE, Mode.PUBLISHED),
    Mode.RULE: (Mode.DISAGREE,),
    Mode.PUBLISHED: (Mode.DISAGREE,),
    Mode.DISAGREE: (),
})
heard = registry.relation("heard", Group)
settled = registry.relation("settled")
entry = registry.function("entry", Entry, Life, Group, edges={
    Entry.NEVER: (Entry.KNOWN, Entry.OVER),
    Entry.KNOWN: (Entry.OVER,),
    Entry.OVER: (),
})
question = registry.function("question", Question, Life, edges={
    Question.NONE: (Question.PENDING, Question.CLOSED),
    Question.PENDING: (Question.CLOSED,),
    Question.CLOSED: (),
})

phase = receiver.function("phase", Phase, edges={
    Phase.IDLE: (Phase.PENDING, Phase.RESOLVED),
    Phase.PENDING: (Phase.RESOLVED, Phase.FAILED),
    Phase.RESOLVED: (Phase.MET, Phase.FAILED),
    Phase.MET: (),
    Phase.FAILED: (),
})
target = receiver.relation("target", Group)
queried = receiver.relation("queried")

# The two halves of a request; the named forms carry the rank that the request asks for.
prompt = Message("prompt", h, g, sender=router, receiver=sender)
prompt_named = Message("prompt_named", h, g, k, sender=router, receiver=sender)
wanted = Message("wanted", h, sender=router, receiver=receiver)
wanted_named = Message("wanted_named", h, k, sender=router, receiver=receiver)
enroll_rule = Message("enroll_rule", g, sender=rank, receiver=registry, reliable=True)
enroll_published = Message("enroll_published", g, sender=rank, receiver=registry, reliable=True)
serves = Message("serves", sender=registry, receiver=router, reliable=True)
keeps_rule = Message("keeps_rule", sender=registry, receiver=receiver, reliable=True)
keeps_list = Message("keeps_list", sender=registry, receiver=receiver, reliable=True)
publish = Message("publish", h, g, sender=sender, receiver=registry, reliable=True)
retire = Message("retire", h, g, sender=sender, receiver=registry, reliable=True)
query = Message("query", h, sender=receiver, receiver=registry, reliable=True)
withdraw = Message("withdraw", h, sender=receiver, receiver=registry, reliable=True)
answer = Message("answer", h, g, sender=registry, receiver=receiver, reliable=True)
gone = Message("gone", h, sender=registry, receiver=receiver, reliable=True)
disown = Message("disown", g, h, k, sender=sender, receiver=sender.at(k, h), reliable=True)
meet = Message("meet", h, g, sender=receiver, receiver=sender, reliable=True)
met = Message("met", g, h, sender=sender, receiver=receiver, reliable=True)
refuse = Message("refuse", g, h, sender=sender, receiver=receiver, reliable=True)

alone = forall(k, k.same(g))
several = exists(k, k.differs(g))

ROUTER: Final = Table(router, state=routing, rows=(
    Row("route", on=Call("route"), at=Routing.UNROUTED, to=Routing.ROUTED, choose=(g,),
        when=serves(), send=[prompt(h, g), wanted(h)],
        why="by the server's rule or against it"),
    Row("route_named", on=Call("route_named"), at=Routing.UNROUTED, to=Routing.ROUTED,
        choose=(g, k), when=serves(), send=[prompt_named(h, g, k), wanted_named(h, k)],
        why="the request names a rank, which may not be the one that it is put on"),
))

RANK: Final = Table(rank, rows=(
    Row("enroll_for_rule", when=[~enrolled(g), ~publishes(g)], do=[enrolled(g).to(True)],
        send=[enroll_rule(g)]),
    Row("enroll_for_list", when=[~enrolled(g), publishes(g)], do=[enrolled(g).to(True)],
        send=[enroll_published(g)]),
))

SENDER: Final = Table(sender, state=runs, rows=(
    Row("serve_by_rule", on=prompt(h, g), at=Runs.ABSENT, to=Runs.WAITING,
        when=any_of(alone, all_of(~publishes(g), modulo(h, g)))),
    Row("serve_and_publish", on=prompt(h, g), at=Runs.ABSENT, to=Runs.WAITING,
        when=[publishes(g), several], do=[posted(g, h).to(True)], send=[publish(h, g)],
        why="every room, and not only those that break the rule: decode asks about each"),
    Row("fail_conflict", on=prompt(h, g), at=Runs.ABSENT, to=Runs.FAILED,
        when=[~publishes(g), ~modulo(h, g), several], do=[conflict(g, h).to(True)],
        send=[each(k, disown(g, h, k), where=modulo(h, k))],
        why="decode goes by the rule, and will ask another rank about this room"),
    Row("serve_named", on=prompt_named(h, g, k), at=Runs.ABSENT, to=Runs.WAITING,
        when=g.same(k)),
    Row("fail_misplaced", on=prompt_named(h, g, k), at=Runs.ABSENT, to=Runs.FAILED,
        when=g.differs(k), do=[conflict(g, h).to(True)], send=[disown(g, h, k)],
        why="decode goes to the rank that the request names, and this is another one"),
    Ignore(prompt(h, g), at=(Runs.WAITING, Runs.MET, Runs.FAILED), why="it is here already"),
    Ignore(prompt_named(h, g, k), at=(Runs.WAITING, Runs.MET, Runs.FAILED),
           why="it is here already"),
    Reject(prompt(h, g), at=Runs.DISOWNED, why="a request is put on one rank"),
    Reject(prompt_named(h, g, k), at=Runs.DISOWNED, why="a request is put on one rank"),
    Row("be_disowned", on=disown(k, h, g), at=Runs.ABSENT, to=Runs.DISOWNED,
        why="decode will ask here, or has asked, about a room that failed on another rank"),
    Ignore(disown(k, h, g), at=Runs.DISOWNED, why="it has been said"),
    Reject(disown(k, h, g), at=(Runs.WAITING, Runs.MET, Runs.FAILED),
           why="a request is put on one rank"),
    Row("hear_knock", on=meet(h, g), when=~knocked(g, h), do=[knocked(g, h).to(True)],
        why="the room may arrive later than decode does"),
    Ignore(meet(h, g), when=knocked(g, h), why="it has knocked"),
    Row("greet", at=Runs.WAITING, to=Runs.MET, when=knocked(g, h), send=[met(g, h)]),
    Row("turn_away", at=(Runs.FAILED, Runs.DISOWNED), when=[knocked(g, h), ~refuse(g, h)],
        send=[refuse(g, h)], why="decode learns at once that nobody will run this room for it"),
    Row("stop_waiting", on=Timer("no_decode"), at=Runs.WAITING, to=Runs.FAILED,
        why="the half of the request that goes to decode may have been lost"),
    Row("tidy_up", at=(Runs.MET, Runs.FAILED), when=posted(g, h), do=[posted(g, h).to(False)],
        send=[retire(h, g)], why="decode has found the room, or never will"),
))

REGISTRY: Final = Table(registry, state=mode, rows=(
    Row("hear_rule_first", on=enroll_rule(g), at=Mode.OPEN, to=Mode.RULE,
        do=[heard(g).to(True)]),
    Row("hear_list_first", on=enroll_published(g), at=Mode.OPEN, to=Mode.PUBLISHED,
        do=[heard(g).to(True)]),
    Row("hear_rule", on=enroll_rule(g), at=Mode.RULE, when=~heard(g), do=[heard(g).to(True)]),
    Row("hear_list", on=enroll_published(g), at=Mode.PUBLISHED, when=~heard(g),
        do=[heard(g).to(True)]),
    Row("find_rule_at_odds", on=enroll_rule(g), at=Mode.PUBLISHED, to=Mode.DISAGREE,
        why="the ranks of one server differ in whether rooms are published"),
    Row("find_list_at_odds", on=enroll_published(g), at=Mode.RULE, to=Mode.DISAGREE,
        why="the ranks of one server differ in whether rooms are published"),
    Ignore(enroll_rule(g), at=Mode.RULE, when=heard(g), why="it has been heard"),
    Ignore(enroll_published(g), at=Mode.PUBLISHED, when=heard(g), why="it has been heard"),
    Ignore(enroll_rule(g), at=Mode.DISAGREE, why="the server is refused already"),
    Ignore(enroll_published(g), at=Mode.DISAGREE, why="the server is refused already"),
    Row("open_by_rule", at=Mode.RULE, when=[~settled(), forall(g, heard(g))],
        do=[settled().to(True)], send=[serves(), keeps_rule()]),
    Row("open_by_list", at=Mode.PUBLISHED, when=[~settled(), forall(g, heard(g))],
        do=[settled().to(True)], send=[serves(), keeps_list()]),
    Row("list_room", on=publish(h, g),
        when=[entry(h, g) == Entry.NEVER, question(h) != Question.PENDING],
        do=[entry(h, g).to(Entry.KNOWN)]),
    Row("list_room_and_answer", on=publish(h, g),
        when=[entry(h, g) == Entry.NEVER, question(h) == Question.PENDING],
        do=[entry(h, g).to(Entry.KNOWN), question(h).to(Question.CLOSED)], send=[answer(h, g)],
        why="decode asked before the room was known"),
    Ignore(publish(h, g), when=entry(h, g) != Entry.NEVER, why="listed already, or over"),
    Row("answer_query", on=query(h), choose=(g,),
        when=[question(h) == Question.NONE, entry(h, g) == Entry.KNOWN],
        do=[question(h).to(Question.CLOSED)], send=[answer(h, g)]),
    Row("answer_gone", on=query(h), choose=(g,),
        when=[question(h) == Question.NONE, entry(h, g) == Entry.OVER],
        do=[question(h).to(Question.CLOSED)], send=[gone(h)],
        why="the rank that ran the room has given it up"),
    Row("keep_question", on=query(h),
        when=[question(h) == Question.NONE, forall(g, entry(h, g) == Entry.NEVER)],
        do=[question(h).to(Question.PENDING)], why="the room is not known yet"),
    Ignore(query(h), when=question(h) != Question.NONE, why="asked before"),
    Row("strike_room", on=retire(h, g),
        when=[entry(h, g) != Entry.OVER, question(h) != Question.PENDING],
        do=[entry(h, g).to(Entry.OVER)]),
    Row("strike_room_and_tell", on=retire(h, g),
        when=[entry(h, g) != Entry.OVER, question(h) == Question.PENDING],
        do=[entry(h, g).to(Entry.OVER), question(h).to(Question.CLOSED)], send=[gone(h)],
        why="it was given up before its publication arrived"),
    Ignore(retire(h, g), when=entry(h, g) == Entry.OVER, why="struck out already"),
    Row("drop_question", on=withdraw(h), when=question(h) != Question.CLOSED,
        do=[question(h).to(Question.CLOSED)], why="decode waits no longer"),
    Ignore(withdraw(h), when=question(h) == Question.CLOSED, why="nobody waits"),
))

RECEIVER: Final = Table(receiver, state=phase, rows=(
    Row("take_named", on=wanted_named(h, k), at=Phase.IDLE, to=Phase.RESOLVED,
        do=[target(h, k).to(True)], send=[meet(h, k)], why="first: the rank in the request"),
    Row("take", on=wanted(h), at=Phase.IDLE, to=Phase.PENDING),
    Ignore(wanted(h), at=(Phase.PENDING, Phase.RESOLVED, Phase.MET, Phase.FAILED),
           why="it is here already"),
    Ignore(wanted_named(h, k), at=(Phase.PENDING, Phase.RESOLVED, Phase.MET, Phase.FAILED),
           why="it is here already"),
    Row("resolve_alone", at=Phase.PENDING, to=Phase.RESOLVED, choose=(g,), when=alone,
        do=[target(h, g).to(True)], send=[meet(h, g)], why="second: the only rank"),
    Row("resolve_by_rule", at=Phase.PENDING, to=Phase.RESOLVED, choose=(g,),
        when=[several, keeps_rule(), modulo(h, g)],
        do=[target(h, g).to(True)], send=[meet(h, g)], why="third: the rule, at no cost"),
    Row("ask", at=Phase.PENDING, choose=(g,), when=[several, modulo(h, g), keeps_list(),
                                                    ~queried(h)],
        do=[queried(h).to(True)], send=[query(h)], why="fourth: the registry knows"),
    Row("resolve_by_query", on=answer(h, g), at=Phase.PENDING, to=Phase.RESOLVED,
        do=[target(h, g).to(True)], send=[meet(h, g)]),
    Ignore(answer(h, g), at=(Phase.RESOLVED, Phase.MET, Phase.FAILED), why="no longer asked"),
    Row("fail_gone", on=gone(h), at=Phase.PENDING, to=Phase.FAILED,
        why="the rank that ran the room has given it up"),
    Ignore(gone(h), at=Phase.FAILED, why="no longer asked"),
    Reject(gone(h), at=(Phase.IDLE, Phase.RESOLVED, Phase.MET),
           why="a query has one answer, and it was this one"),
    Reject(answer(h, g), at=Phase.IDLE, why="nothing was asked"),
    Row("be_greeted", on=met(g, h), at=Phase.RESOLVED, to=Phase.MET, when=target(h, g)),
    Ignore(met(g, h), at=(Phase.MET, Phase.FAILED), why="it came twice or too late"),
    Row("be_turned_away", on=refuse(g, h), at=Phase.RESOLVED, to=Phase.FAILED,
        when=target(h, g), why="the room failed on prefill: a conflict of ranks, or a time-out"),
    Ignore(refuse(g, h), at=Phase.FAILED, why="it came twice or too late"),
    Reject(met(g, h), at=Phase.RESOLVED, when=~target(h, g), why="another rank was asked"),
    Reject(refuse(g, h), at=Phase.RESOLVED, when=~target(h, g), why="another rank was asked"),
    Reject(met(g, h), at=(Phase.IDLE, Phase.PENDING), why="nobody has been asked"),
    Reject(refuse(g, h), at=(Phase.IDLE, Phase.PENDING, Phase.MET), why="nobody has been asked"),
    Row("give_up", on=Timer("unresolved"), at=(Phase.PENDING, Phase.RESOLVED), to=Phase.FAILED,
        send=[withdraw(h)], why="the half of the request that goes to prefill may have been lost"),
))

LOSSY: Final = Table(network, rows=tuple(
    lose(message) for message in (prompt, prompt_named, wanted, wanted_named)
))

open_here = runs(g, h) == Runs.WAITING
trying = phase(h).among(Phase.PENDING, Phase.RESOLVED)

PROPERTIES: Final = (
    Always("S9_decode_addresses_the_rank_that_runs_it",
           implies(all_of(target(h, k), runs(g, h).among(Runs.WAITING, Runs.MET)), g.same(k)),
           why="no room runs on one rank while decode turns to another"),
    Always("S9_who_is_met_runs_it",
           implies(all_of(phase(h) == Phase.MET, target(h, g)), runs(g, h) == Runs.MET)),
    Always("one_rank_is_addressed", implies(all_of(target(h, g), target(h, k)), g.same(k))),
    Sometimes("both_sides_meet", all_of(phase(h) == Phase.MET, target(h, g))),
    OnRow("S14_only_conflicts_fail_for_one", "fail_conflict", all_of(~modulo(h, g), ~publishes(g)),
          why="a room that is where decode looks for it is not failed for a conflict (M2.2)"),
    Sometimes("a_conflict_is_found", any_of(conflict(g, h), alone)),
    Always("M2_4_the_rule_costs_nothing",
           implies(mode() == Mode.RULE, all_of(~publish(h, g), ~query(h))),
           why="without forced queries nothing is published and nothing is asked"),
    Sometimes("the_rule_serves", all_of(mode() == Mode.RULE, phase(h) == Phase.MET)),
    Sometimes("the_query_serves", any_of(all_of(queried(h), phase(h) == Phase.MET), alone)),
    Always("the_mode_is_everybodys",
           implies(all_of(keeps_rule(), target(h, g)), ~publishes(g)),
           why="a server whose ranks disagree about publishing serves nobody"),
    Always("who_serves_agrees", implies(all_of(serves(), publishes(g)), publishes(k)),
           why="a server whose ranks disagree about publishing serves nobody"),
    LeadsTo("M2_3_the_query_finds_it", all_of(phase(h) == Phase.PENDING, open_here),
            any_of(phase(h) != Phase.PENDING, runs(g, h) != Runs.WAITING),
            why="every room that runs is found, and without waiting for a clock"),
    LeadsTo("L2_a_conflict_reaches_decode", all_of(conflict(g, h), trying),
            phase(h) == Phase.FAILED, why="at once, and not when decode's clock runs out"),
    LeadsTo("both_meet_without_a_clock",
            all_of(phase(h) == Phase.RESOLVED, target(h, g), open_here),
            ~all_of(phase(h) == Phase.RESOLVED, open_here)),
    LeadsTo("L1_prefill_ends", open_here, runs(g, h) != Runs.WAITING, under=(Fairness.TIMERS,),
            why="also if decode never hears of the request"),
    LeadsTo("L1_decode_ends", trying, phase(h).among(Phase.MET, Phase.FAILED),
            under=(Fairness.TIMERS,), why="also if prefill never hears of the request"),
    LeadsTo("L3_entries_are_cleaned_up", entry(h, g) == Entry.KNOWN, entry(h, g) == Entry.OVER,
            under=(Fairness.TIMERS,)),
    LeadsTo("L3_questions_are_closed", question(h) == Question.PENDING,
            question(h) == Question.CLOSED, under=(Fairness.TIMERS,)),
)


def all_publish(sizes: Sizes) -> Tuples:
    """Queries are forced on every rank."""
    return {(group,) for group in range(sizes[Group])}


SYSTEM: Final = System(
    "dp-rank",
    "Which data-parallel rank of the prefill server runs a room, and how decode finds out.",
    tables=(ROUTER, RANK, SENDER, REGISTRY, RECEIVER),
    properties=PROPERTIES,
    final=forall((g, h), all_of(runs(g, h) != Runs.WAITING, ~posted(g, h),
                                phase(h).among(Phase.IDLE, Phase.MET, Phase.FAILED))),
    faults={"lossy": (LOSSY,)},
    configurations={
        # Every setting of both ranks, also those in which they disagree.
        "default": Configuration({Group: 2, Life: 1}, faults=("lossy",), dead_bits=True),
        "two-rooms": Configuration({Group: 2, Life: 2}, dead_bits=True),
        "alone": Configuration({Group: 1, Life: 2}, faults=("lossy",), dead_bits=True),
        "deep": Configuration({Group: 3, Life: 2}, faults=("lossy",), dead_bits=True),
    },
)
