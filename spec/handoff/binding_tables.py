"""The request of a room to which a life belongs, where two servers share only the room number.

A room may come again: for parallel samples of one prompt, or for a retry. Every rank of a prefill
server opens the same requests in the same order. So the number of an opening is a name that the
ranks share without messages: the *use* of the room. A life is bound to one use, on every rank.

Rule 1: One rank decides: the *leader*, which decode names. It binds a life to the oldest request of
        the room that waits there. The other ranks bind as the leader has decided.
Rule 2: The leader names the use in every message about the life to its sinks. They pass the use on
        to the other ranks. A rank that does not have the request yet waits for it, and a rank whose
        request has ended says so.
Rule 3: A sink compares the uses that its sources name, and fails the request if they differ.
Rule 4: A request that ended before it was bound is no candidate while there is another, and neither
        is such a life. The leader tells the failure of such a request only to a life that has asked
        again, and only if the room has no later request. It tells no request of such a life.
Rule 5: A life that has ended ends its request on every rank: sinks pass its use on all the same.

No server can tell these two cases apart: the life is the other half of the request that has ended
here, or of the next one, which has not come here yet. Rule 4 assumes the next one until the life
asks again.
"""

from typing import Final

from pdproto.spec.handoff.roles import Life, Sink, Source, Use
from pdproto.spec.language import (
    Call,
    Ignore,
    Machine,
    Message,
    Reject,
    Rigid,
    Row,
    Sizes,
    State,
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


class Opening(State):
    """A request of the room on a prefill rank. OVER: it ended before it was bound."""

    NEVER = auto()
    WAITING = auto()
    BOUND = auto()
    OVER = auto()


class Meeting(State):
    """A life on a prefill rank. UNBOUND: it has introduced itself, and its request is not known.

    SENT: its part has landed at the sinks.
    """

    UNMET = auto()
    UNBOUND = auto()
    BOUND = auto()
    SENT = auto()
    FAILED = auto()


class Status(State):
    """A life at its sink."""

    NONE = auto()
    BEGUN = auto()
    SUCCESS = auto()
    FAILED = auto()


p, q, d, h, k = Source("p"), Source("q"), Sink("d"), Life("h"), Life("k")
u, v = Use("u"), Use("v")


def _first_leads(sizes: Sizes) -> Tuples:
    return [(i, 0) for i in range(sizes[Life])]


# This source decides for the life. All its sinks name the same one.
leads: Final = Rigid("leads", h, p, given=_first_leads)

rank = Machine("rank", p)
sink = Machine("sink", d, h)
world = Machine("world", world=True)

opening = rank.function("opening", Opening, Use, edges={
    Opening.NEVER: (Opening.WAITING,),
    Opening.WAITING: (Opening.BOUND, Opening.OVER),
    Opening.OVER: (Opening.BOUND,),
})
meeting = rank.function("meeting", Meeting, Life, edges={
    Meeting.UNMET: (Meeting.UNBOUND, Meeting.FAILED),
    Meeting.UNBOUND: (Meeting.BOUND, Meeting.FAILED),
    Meeting.BOUND: (Meeting.SENT, Meeting.FAILED),
})
binds = rank.relation("binds", Life, Use)  # the life is bound to this use on this rank
named = rank.relation("named", Life, Use)  # the leader has named this use
met = rank.relation("met", Life, Sink)  # this sink of the life has introduced itself
told = rank.relation("told", Life, Sink)  # the rank has told this sink the use
warned = rank.relation("warned", Life, Sink)  # the rank has told this sink that the life has failed

status = sink.function("status", Status, edges={
    Status.NONE: (Status.BEGUN,), Status.BEGUN: (Status.SUCCESS, Status.FAILED),
})
knows = sink.relation("knows", Use)  # the use that the leader has named
took = sink.relation("took", Source, Use)  # this source's part has landed, and names this use

introduce = Message("introduce", d, h, p, sender=sink, receiver=rank)
ask = Message("ask", d, h, p, sender=sink, receiver=rank)  # a repeated introduction
# In PUBLISH, in a repeated introduction, and in ABORT.
name = Message("name", d, h, p, u, sender=sink, receiver=rank)
abort = Message("abort", d, h, p, sender=sink, receiver=rank)
# In EXPECTING, FAILED and ABORT_ACK.
bound = Message("bound", p, h, d, u, sender=rank, receiver=sink)
done = Message("done", p, h, d, u, sender=rank, receiver=sink)
failed = Message("failed", p, h, d, sender=rank, receiver=sink)

ENDED: Final = (Status.SUCCESS, Status.FAILED)
OVER: Final = (Meeting.SENT, Meeting.FAILED)
UNNAMED: Final = forall(v, ~named(p, h, v))
NOT_KNOWN: Final = forall(v, ~knows(d, h, v))
FREE: Final = forall(v, ~binds(p, h, v))
OLDEST: Final = forall(v, implies(v.before(u), opening(p, v) != Opening.WAITING))
NONE_WAITS: Final = forall(v, opening(p, v) != Opening.WAITING)
LATEST: Final = forall(v, implies(u.before(v), opening(p, v) == Opening.NEVER))
STOP_ALL: Final = each(q, abort(d, h, q))
# The rank asks about this request no more; about this life.
REQUEST_IS_OVER: Final = any_of(opening(p, u) == Opening.BOUND,
                                all_of(opening(p, u) == Opening.OVER, ~LATEST))
LIFE_IS_OVER: Final = any_of(meeting(p, h).among(Meeting.BOUND, Meeting.SENT), ~FREE)

RANK: Final = Table(rank, rows=(
    Row("open", on=Call("open_sender", u),
        when=[opening(p, u) == Opening.NEVER,
              forall(v, implies(v.before(u), opening(p, v) != Opening.NEVER))],
        do=[opening(p, u).to(Opening.WAITING)], why="the ranks open requests in one order"),
    Row("leave", on=Call("abort_sender", u), when=opening(p, u) == Opening.WAITING,
        do=[opening(p, u).to(Opening.OVER)],
        why="the client has left, or the server ends the request"),
    Row("give_up_waiting", on=Timer("bootstrap_timeout"), choose=(u,),
        when=opening(p, u) == Opening.WAITING, do=[opening(p, u).to(Opening.OVER)],
        why="a request that reached one server only must end there"),
    Row("fail", on=Call("abort_life", h), when=meeting(p, h) == Meeting.BOUND,
        do=[meeting(p, h).to(Meeting.FAILED)], why="a bound request ends with its life"),
    Row("send", on=Call("send", h), choose=(u,),
        when=[binds(p, h, u), meeting(p, h) == Meeting.BOUND, forall(d, met(p, h, d))],
        do=[meeting(p, h).to(Meeting.SENT)], send=[each(d, done(p, h, d, u))]),

    Row("meet_first", on=introduce(d, h, p), when=[meeting(p, h) == Meeting.UNMET, ~met(p, h, d)],
        do=[meeting(p, h).to(Meeting.UNBOUND), met(p, h, d).to(True)]),
    Row("meet", on=introduce(d, h, p), when=[meeting(p, h) != Meeting.UNMET, ~met(p, h, d)],
        do=[met(p, h, d).to(True)]),
    Ignore(introduce(d, h, p), when=met(p, h, d), why="the rank has met this sink already"),
    Row("bind", choose=(h, u),
        when=[leads(h, p), meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.WAITING,
              OLDEST],
        do=[meeting(p, h).to(Meeting.BOUND), opening(p, u).to(Opening.BOUND),
            binds(p, h, u).to(True)],
        why="the leader decides, and cannot tell which of several requests it is"),
    Row("tell_use", choose=(d, h, u),
        when=[leads(h, p), met(p, h, d), binds(p, h, u), ~told(p, h, d)],
        do=[told(p, h, d).to(True)], send=[bound(p, h, d, u)],
        why="also for a life that has failed: the other ranks have the request too"),
    Row("learn_use_first", on=name(d, h, p, u), when=[meeting(p, h) == Meeting.UNMET],
        do=[meeting(p, h).to(Meeting.UNBOUND), met(p, h, d).to(True), named(p, h, u).to(True)]),
    Row("learn_use", on=name(d, h, p, u), when=[meeting(p, h) != Meeting.UNMET, UNNAMED],
        do=[met(p, h, d).to(True), named(p, h, u).to(True)]),
    Ignore(name(d, h, p, u), when=[meeting(p, h) != Meeting.UNMET, exists(v, named(p, h, v))],
           why="the rank has the name already"),
    Row("bind_named", choose=(h, u),
        when=[named(p, h, u), meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.WAITING],
        do=[meeting(p, h).to(Meeting.BOUND), opening(p, u).to(Opening.BOUND),
            binds(p, h, u).to(True)]),
    Row("end_named", choose=(h, u),
        when=[named(p, h, u), meeting(p, h) == Meeting.FAILED, FREE,
              opening(p, u) == Opening.WAITING],
        do=[opening(p, u).to(Opening.BOUND), binds(p, h, u).to(True)],
        why="the life has ended, so its request has ended: prefill does not run"),
    Row("find_over", choose=(h, u),
        when=[named(p, h, u), meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.OVER],
        do=[meeting(p, h).to(Meeting.FAILED), opening(p, u).to(Opening.BOUND),
            binds(p, h, u).to(True)],
        why="on this rank the request had ended before it was bound"),
    Row("find_taken", choose=(h, u),
        when=[named(p, h, u), meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.BOUND],
        do=[meeting(p, h).to(Meeting.FAILED)],
        why="the leader of another life has bound the request to that one"),
    Row("pass_failure_on", on=ask(d, h, p), choose=(u,),
        when=[leads(h, p), meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.OVER,
              NONE_WAITS, LATEST],
        do=[meeting(p, h).to(Meeting.FAILED), opening(p, u).to(Opening.BOUND),
            binds(p, h, u).to(True)],
        why="the life has waited, and no other request of the room has come"),
    Ignore(ask(d, h, p), when=[meeting(p, h) == Meeting.UNBOUND, leads(h, p),
                               any_of(~NONE_WAITS, forall(u, implies(
                                   opening(p, u) == Opening.OVER, ~LATEST)))],
           why="its request has not come here yet"),
    Ignore(ask(d, h, p), when=[meeting(p, h) == Meeting.UNBOUND, ~leads(h, p)],
           name="ignore_ask_of_another", why="the leader has not named the request yet"),
    Row("be_asked_first", on=ask(d, h, p), when=meeting(p, h) == Meeting.UNMET,
        do=[meeting(p, h).to(Meeting.UNBOUND), met(p, h, d).to(True)],
        why="the first introduction was lost"),
    Row("tell_again", on=ask(d, h, p), choose=(u,),
        when=[leads(h, p), meeting(p, h) == Meeting.BOUND, binds(p, h, u)],
        do=[met(p, h, d).to(True), told(p, h, d).to(True)], send=[bound(p, h, d, u)],
        why="the answer may have been lost"),
    Ignore(ask(d, h, p), when=[~leads(h, p), meeting(p, h) == Meeting.BOUND],
           name="ignore_ask_bound", why="this rank has bound it as the leader has decided"),
    Row("done_again", on=ask(d, h, p), choose=(u,),
        when=[meeting(p, h) == Meeting.SENT, binds(p, h, u)], send=[done(p, h, d, u)],
        why="the answer may have been lost"),
    Reject(ask(d, h, p), when=[meeting(p, h) == Meeting.SENT, FREE],
           why="a part that is sent belongs to a request"),
    Reject(ask(d, h, p), when=[leads(h, p), meeting(p, h) == Meeting.BOUND, FREE],
           name="reject_ask_bound", why="a bound life has a request"),
    Row("fail_again", on=ask(d, h, p), when=[meeting(p, h) == Meeting.FAILED],
        do=[met(p, h, d).to(True), warned(p, h, d).to(True)], send=[failed(p, h, d)]),
    Row("tell_failure", choose=(d, h),
        when=[meeting(p, h) == Meeting.FAILED, met(p, h, d), ~warned(p, h, d)],
        do=[warned(p, h, d).to(True)], send=[failed(p, h, d)]),
    Row("stop", on=abort(d, h, p), when=~meeting(p, h).among(*OVER),
        do=[meeting(p, h).to(Meeting.FAILED), met(p, h, d).to(True), warned(p, h, d).to(True)],
        why="an unbound life ends no request: the next one of the room may be a retry"),
    Row("stop_again", on=abort(d, h, p), choose=(u,),
        when=[leads(h, p), meeting(p, h).among(*OVER), binds(p, h, u)],
        do=[met(p, h, d).to(True), told(p, h, d).to(True)], send=[bound(p, h, d, u)],
        why="the other ranks have the request too"),
    Ignore(abort(d, h, p), when=[~leads(h, p), meeting(p, h).among(*OVER)],
           name="ignore_abort_of_another", why="the life has ended here"),
    Ignore(abort(d, h, p), when=[leads(h, p), FREE, meeting(p, h).among(*OVER)],
           name="ignore_abort_unbound", why="the life has ended, and no request ended with it"),
))

SINK: Final = Table(sink, state=status, rows=(
    Row("begin", on=Call("open_receiver"), at=Status.NONE, to=Status.BEGUN,
        send=[each(p, introduce(d, h, p))],
        why="to all sources at once: no source waits for another"),
    Row("ask_again", on=Timer("no_news"), at=Status.BEGUN, when=NOT_KNOWN,
        send=[each(q, ask(d, h, q))],
        why="the introduction, or the answer to it, may have been lost"),
    Row("hear_use", on=bound(p, h, d, u), at=(Status.BEGUN, Status.FAILED), when=NOT_KNOWN,
        do=[knows(d, h, u).to(True)], send=[each(q, name(d, h, q, u), where=~leads(h, q))],
        why="the sink passes the use on to the other ranks at once"),
    Ignore(bound(p, h, d, u), at=(Status.BEGUN, Status.FAILED), when=~NOT_KNOWN,
           why="the sink knows the use already"),
    Ignore(bound(p, h, d, u), at=Status.SUCCESS, why="the life has ended"),
    Reject(bound(p, h, d, u), at=Status.NONE, why="the source cannot know of this life yet"),
    Row("ask_again_by_name", on=Timer("no_news"), at=Status.BEGUN, choose=(u,),
        when=knows(d, h, u),
        send=[each(q, ask(d, h, q)), each(q, name(d, h, q, u), where=~leads(h, q))],
        why="the message with the use, or the answer to it, may have been lost"),
    Row("take_first", on=done(p, h, d, u), at=Status.BEGUN,
        when=[leads(h, p), NOT_KNOWN, ~took(d, h, p, u)],
        do=[took(d, h, p, u).to(True), knows(d, h, u).to(True)],
        send=[each(q, name(d, h, q, u), where=~leads(h, q))],
        why="the leader's earlier message was lost, or is late"),
    Row("take", on=done(p, h, d, u), at=Status.BEGUN,
        when=[~took(d, h, p, u), any_of(~leads(h, p), ~NOT_KNOWN)],
        do=[took(d, h, p, u).to(True)]),
    Ignore(done(p, h, d, u), at=Status.BEGUN, when=took(d, h, p, u),
           why="this part has landed already"),
    Ignore(done(p, h, d, u), at=ENDED, why="the life has ended"),
    Reject(done(p, h, d, u), at=Status.NONE, why="the source cannot know of this life yet"),
    Row("commit", at=Status.BEGUN, to=Status.SUCCESS,
        when=[forall(p, exists(u, took(d, h, p, u))),
              forall((p, u, v), implies(took(d, h, p, u) & knows(d, h, v), u.same(v))),
              ~NOT_KNOWN],
        why="every part has landed, and all belong to the request that the leader has named"),
    Row("find_mixed", at=Status.BEGUN, to=Status.FAILED, choose=(p, u, v),
        when=[took(d, h, p, u), knows(d, h, v), u.differs(v)], send=[STOP_ALL],
        why="two requests are never mixed, even if a source is wrong"),
    Row("hear_failure", on=failed(p, h, d), at=Status.BEGUN, to=Status.FAILED, send=[STOP_ALL]),
    Ignore(failed(p, h, d), at=ENDED, why="the life has ended"),
    Reject(failed(p, h, d), at=Status.NONE, why="the source cannot know of this life yet"),
    Row("abort", on=Call("abort_receiver"), at=Status.BEGUN, to=Status.FAILED, send=[STOP_ALL]),
    Row("give_up", on=Timer("bootstrap_timeout"), at=Status.BEGUN, to=Status.FAILED,
        send=[STOP_ALL], why="a request that reached one server only must end there"),
    Row("abort_again", on=Timer("no_answer"), at=Status.FAILED, when=NOT_KNOWN, send=[STOP_ALL],
        why="the abort, or the answer to it, may have been lost"),
    Row("abort_again_by_name", on=Timer("no_answer"), at=Status.FAILED, choose=(u,),
        when=knows(d, h, u),
        send=[STOP_ALL, each(q, name(d, h, q, u), where=~leads(h, q))],
        why="the other ranks may not know which request has ended"),
))

# A rank that decides for itself: rule 4 holds for lives, and not for requests.
END_WITH_LIFE: Final = Row(
    "end_with_life", on=Timer("no_other_life"), choose=(h, u),
    when=[leads(h, p), meeting(p, h) == Meeting.FAILED, FREE, opening(p, u) == Opening.WAITING,
          OLDEST, forall(k, meeting(p, k) != Meeting.UNBOUND)],
    do=[opening(p, u).to(Opening.BOUND), binds(p, h, u).to(True)],
    why="the sink has ended the life, and brings no other: the request is not a retry, so it does "
        "not wait for decode any longer")

LOSSY: Final = Table(world, rows=tuple(
    lose(message) for message in (introduce, ask, name, abort, bound, done, failed)
))
# Ranks decided like this before there was a leader. Rule 3 protects against such a rank.
ALONE: Final = Table(world, rows=(
    Row("bind_alone", choose=(p, h, u),
        when=[~leads(h, p), meeting(p, h) == Meeting.UNBOUND, opening(p, u) == Opening.WAITING],
        do=[meeting(p, h).to(Meeting.BOUND), opening(p, u).to(Opening.BOUND),
            binds(p, h, u).to(True)],
        fair=False, why="a rank that decides for itself"),
))
