"""The request of a room to which a life belongs: what both ways to bind it have in common.

A room may come again: for parallel samples of one prompt, or for a retry. Every rank of a prefill
server opens the same requests in the same order. So the number of an opening is a name that the
ranks share without messages: the *use* of the room. A life is bound to one use, on every rank. A
rank names it in every message about the life to its sinks.

Where two servers share only the room, each rank decides for itself (binding.py). The caller may
number the requests (binding_named.py).
"""

from typing import Any, Final

from pdproto.spec.handoff.roles import Life, Sink, Source, Use
from pdproto.spec.language import (
    Call,
    Ignore,
    Machine,
    Message,
    Reject,
    Row,
    State,
    Table,
    Timer,
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
met = rank.relation("met", Life, Sink)  # this sink of the life has introduced itself
warned = rank.relation("warned", Life, Sink)  # the rank has told this sink that the life has failed

status = sink.function("status", Status, edges={
    Status.NONE: (Status.BEGUN,), Status.BEGUN: (Status.SUCCESS, Status.FAILED),
})
knows = sink.relation("knows", Use)  # the use of this life
took = sink.relation("took", Source, Use)  # this source's part has landed, and names this use

introduce = Message("introduce", d, h, p, sender=sink, receiver=rank)
ask = Message("ask", d, h, p, sender=sink, receiver=rank)  # a repeated introduction
abort = Message("abort", d, h, p, sender=sink, receiver=rank)
done = Message("done", p, h, d, u, sender=rank, receiver=sink)
failed = Message("failed", p, h, d, sender=rank, receiver=sink)

ENDED: Final = (Status.SUCCESS, Status.FAILED)
OVER: Final = (Meeting.SENT, Meeting.FAILED)
NOT_KNOWN: Final = forall(v, ~knows(d, h, v))
FREE: Final = forall(v, ~binds(p, h, v))
OLDEST: Final = forall(v, implies(v.before(u), opening(p, v) != Opening.WAITING))
NONE_WAITS: Final = forall(v, opening(p, v) != Opening.WAITING)
LATEST: Final = forall(v, implies(u.before(v), opening(p, v) == Opening.NEVER))
STOP_ALL: Final = each(q, abort(d, h, q))
# The rank asks about this life no more.
LIFE_IS_OVER: Final = any_of(meeting(p, h).among(Meeting.BOUND, Meeting.SENT), ~FREE)

# Rows of a rank and of a sink, however a life gets its request.
RANK_ROWS: Final = (
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
    Row("be_asked_first", on=ask(d, h, p), when=meeting(p, h) == Meeting.UNMET,
        do=[meeting(p, h).to(Meeting.UNBOUND), met(p, h, d).to(True)],
        why="the first introduction was lost"),
    Row("done_again", on=ask(d, h, p), choose=(u,),
        when=[meeting(p, h) == Meeting.SENT, binds(p, h, u)], send=[done(p, h, d, u)],
        why="the answer may have been lost"),
    Reject(ask(d, h, p), when=[meeting(p, h) == Meeting.SENT, FREE],
           why="a part that is sent belongs to a request"),
    Row("fail_again", on=ask(d, h, p), when=[meeting(p, h) == Meeting.FAILED],
        do=[met(p, h, d).to(True), warned(p, h, d).to(True)], send=[failed(p, h, d)]),
    Row("tell_failure", choose=(d, h),
        when=[meeting(p, h) == Meeting.FAILED, met(p, h, d), ~warned(p, h, d)],
        do=[warned(p, h, d).to(True)], send=[failed(p, h, d)]),
    Row("stop", on=abort(d, h, p), when=~meeting(p, h).among(*OVER),
        do=[meeting(p, h).to(Meeting.FAILED), met(p, h, d).to(True), warned(p, h, d).to(True)],
        why="an unbound life ends no request: the next one of the room may be a retry"),
)
SINK_ROWS: Final = (
    Ignore(done(p, h, d, u), at=Status.BEGUN, when=took(d, h, p, u),
           why="this part has landed already"),
    Ignore(done(p, h, d, u), at=ENDED, why="the life has ended"),
    Reject(done(p, h, d, u), at=Status.NONE, why="the source cannot know of this life yet"),
    Row("commit", at=Status.BEGUN, to=Status.SUCCESS,
        when=[forall(p, exists(u, took(d, h, p, u))),
              forall((p, u, v), implies(took(d, h, p, u) & knows(d, h, v), u.same(v))),
              ~NOT_KNOWN],
        why="every part has landed, and all belong to one request"),
    Row("find_mixed", at=Status.BEGUN, to=Status.FAILED, choose=(p, u, v),
        when=[took(d, h, p, u), knows(d, h, v), u.differs(v)], send=[STOP_ALL],
        why="two requests are never mixed, even if a source is wrong"),
    Row("hear_failure", on=failed(p, h, d), at=Status.BEGUN, to=Status.FAILED, send=[STOP_ALL]),
    Ignore(failed(p, h, d), at=ENDED, why="the life has ended"),
    Reject(failed(p, h, d), at=Status.NONE, why="the source cannot know of this life yet"),
    Row("abort", on=Call("abort_receiver"), at=Status.BEGUN, to=Status.FAILED, send=[STOP_ALL]),
    Row("give_up", on=Timer("bootstrap_timeout"), at=Status.BEGUN, to=Status.FAILED,
        send=[STOP_ALL], why="a request that reached one server only must end there"),
)

def losing(*messages: Message[*tuple[Any, ...]]) -> Table:
    """The fault layer that loses these messages."""
    return Table(world, rows=tuple(map(lose, messages)))
