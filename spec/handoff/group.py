"""The tables of a group of ranks that decide alike (agreement.py has their properties).

The ranks of one server (pipeline stages x tensor ranks x context ranks) run the same batches, so
they must take and drop the same requests in the same order. One of them is the *entry*: clients
talk to it, and it has one table more than the others. It asks every rank, decides, numbers its
decisions, and answers the client. It sends messages to its own rank as to any other. On a prefill
server "running" is the forward pass and the transfers, and a release frees the source pages. On a
decode server it is the transfers into its pages, and a release commits the first token.

Rule 1: Only a decision changes which requests a rank runs or ends. A rank never acts on its own
        poll, not even to drain a request that has failed there.
Rule 2: A rank reports all that it knows before the decision. It votes ready when every local
        condition is ready (grammar, prefetch, bootstrap). It votes dead as soon as it cannot take
        part, even after a ready vote. After the decision no rank checks its conditions again.
Rule 3: Decisions are numbered. A rank applies each once, and only after all earlier ones.
Rule 4: A decision names the metadata slot. A rank never looks for a free one.
Rule 5: An admitted request keeps its memory until every rank has reported that its part of the
        transfer has ended (no read or write is under way), and the entry has decided.
Rule 6: A decision that a request has failed may reach a rank before the request does. The rank then
        closes the request all the same, and turns it away when it comes.
Rule 7: The entry answers the client once, when it decides.
Rule 8: A rank does not outlive its group. Restarted ranks are another group, with their own lives.
"""

from typing import Final

from pdproto.spec.handoff.roles import Life, Slot
from pdproto.spec.language import (
    ANY,
    Call,
    Formula,
    Ignore,
    Machine,
    Message,
    Reject,
    Row,
    Sort,
    State,
    Table,
    Timer,
    all_of,
    any_of,
    auto,
    each,
    exists,
    forall,
    implies,
    lose,
)
from pdproto.spec.language.symbols import Sent


class Rank(Sort, prefix="k"):
    """A process of the group."""


class Decision(Sort, ordered=True, prefix="n"):
    """The first, second, ... decision of the group. A life needs at most two."""


class Health(State):
    UP = auto()
    DOWN = auto()


class Stage(State):
    """The state of a request at one rank."""

    ABSENT = auto()
    QUEUED = auto()
    PREPARED = auto()  # grammar and prefetch are ready
    READY = auto()  # the bootstrap is ready too: the rank has voted, and waits for the group
    FAILED = auto()  # the rank cannot take part, and has reported it
    RUNNING = auto()  # admitted
    DONE = auto()  # this rank's part of the transfer has ended well
    BROKEN = auto()  # this rank's part has ended badly
    CLOSED = auto()


class Status(State):
    """The entry's knowledge of a request. Clients get the last two as their answer."""

    NEW = auto()
    OPEN = auto()
    ADMITTED = auto()
    SERVED = auto()
    REFUSED = auto()  # status 500, with the reason of the first rank that failed


class Verdict(State):
    NONE = auto()
    ADMIT = auto()
    FAIL = auto()
    RELEASE = auto()
    DROP = auto()


h, k = Life("h"), Life("k")
r, peer = Rank("r"), Rank("peer")
n, o = Decision("n"), Decision("o")
m, spare = Slot("m"), Slot("spare")

rank = Machine("rank", r)
entry = Machine("entry")
world = Machine("world", world=True)

health = rank.function("health", Health, edges={Health.UP: (Health.DOWN,)})
stage = rank.function("stage", Stage, Life, edges={
    Stage.ABSENT: (Stage.QUEUED, Stage.CLOSED),
    Stage.QUEUED: (Stage.PREPARED, Stage.FAILED, Stage.CLOSED),
    Stage.PREPARED: (Stage.READY, Stage.FAILED, Stage.CLOSED),
    Stage.READY: (Stage.FAILED, Stage.RUNNING, Stage.CLOSED),
    Stage.FAILED: (Stage.BROKEN, Stage.CLOSED),
    Stage.RUNNING: (Stage.DONE, Stage.BROKEN, Stage.CLOSED),
    Stage.DONE: (Stage.CLOSED,),
    Stage.BROKEN: (Stage.CLOSED,),
})
applied = rank.relation("applied", Decision)
prefetched = rank.relation("prefetched", Life)
slot = rank.relation("holding", Life, Slot)

group = entry.function("group", Health, edges={Health.UP: (Health.DOWN,)})
status = entry.function("status", Status, Life, edges={
    Status.NEW: (Status.OPEN,),
    Status.OPEN: (Status.ADMITTED, Status.REFUSED),
    Status.ADMITTED: (Status.SERVED, Status.REFUSED),
})
log = entry.function("log", Verdict, Decision, Life, edges={
    Verdict.NONE: (Verdict.ADMIT, Verdict.FAIL, Verdict.RELEASE, Verdict.DROP),
})
numbered = entry.relation("numbered", Decision)
taken = entry.relation("taken", Slot)
granted = entry.relation("granted", Life, Slot)
confirmed = entry.relation("confirmed", Rank, Life)

request = Message("request", r, h, sender=entry, receiver=rank)
ready = Message("ready", r, h, sender=rank, receiver=entry)
dead = Message("dead", r, h, sender=rank, receiver=entry)
done = Message("ended", r, h, sender=rank, receiver=entry)
broke = Message("broke", r, h, sender=rank, receiver=entry)
closed = Message("closed", r, h, sender=rank, receiver=entry)
admit = Message("admit", r, n, h, m, sender=entry, receiver=rank)
fail = Message("fail", r, n, h, sender=entry, receiver=rank)
release = Message("release", r, n, h, sender=entry, receiver=rank)
drop = Message("drop", r, n, h, sender=entry, receiver=rank)
gone = Message("left", peer, r, sender=rank.at(peer), receiver=rank, reliable=True)
lost = Message("lost", r, sender=rank, receiver=entry, reliable=True)

WAITING: Final = (Stage.QUEUED, Stage.PREPARED)
VOTED: Final = (Stage.READY, Stage.FAILED)

# A rank's turn to apply decision n: it has applied all earlier ones, and not yet this one.
EARLIER: Final = forall(o, implies(o.before(n), applied(r, o)))
FRESH: Final = ~applied(r, n)
TURN: Final = (FRESH, EARLIER)
# The entry may make decision n: it is the next number.
NEXT: Final = (log(n, h) == Verdict.NONE, ~numbered(n),
               forall(o, implies(o.before(n), numbered(o))))


def at(*stages: Stage) -> Formula:
    """The request is at one of these stages at this rank."""
    return stage(r, h).among(*stages)


def besides(decision: Sent, *stages: Stage) -> tuple[Row, ...]:
    """Rows for a decision that the rank does not apply. stages: where it can apply it."""
    return (
        Ignore(decision, at=Health.UP,
               when=any_of(all_of(FRESH, exists(o, all_of(o.before(n), ~applied(r, o)))),
                           all_of(applied(r, n), ~at(Stage.CLOSED))),
               why="its turn has not come, or is over; the entry repeats it until the rank "
                   "confirms"),
        Reject(decision, at=Health.UP, when=[*TURN, ~at(*stages)],
               why="the entry decides once, and only after this rank's own vote"),
        Ignore(decision, at=Health.DOWN, why="the group has ended"),
    )


def confirmation(decision: Sent) -> Row:
    """The rank confirms again a decision that has closed the request here."""
    return Row(
        f"confirm_{decision.symbol.name}", on=decision, at=Health.UP,
        when=[applied(r, n), at(Stage.CLOSED)], send=[closed(r, h)],
        why="the entry repeats the decision because the confirmation was lost",
    )


RANK: Final = Table(rank, state=health, rows=(
    Row("arrive", on=request(r, h), at=Health.UP, when=at(Stage.ABSENT),
        do=[stage(r, h).to(Stage.QUEUED)]),
    Ignore(request(r, h), at=Health.UP, when=~at(Stage.ABSENT),
           why="the request comes again, or has failed before it came (rule 6)"),
    Ignore(request(r, h), at=Health.DOWN, why="the group has ended"),

    Row("prepare", on=Call("prepared", h), at=Health.UP, when=at(Stage.QUEUED),
        do=[stage(r, h).to(Stage.PREPARED), prefetched(r, h).to(True)],
        why="a prefetch may hang: no property relies on it"),
    Row("vote_ready", on=Call("bootstrapped", h), at=Health.UP, when=at(Stage.PREPARED),
        do=[stage(r, h).to(Stage.READY)], send=[ready(r, h)],
        why="the other side may never come; the bootstrap is the last condition of a vote"),
    Row("vote_dead", on=Call("failed", h), at=Health.UP, when=at(*WAITING, Stage.READY),
        do=[stage(r, h).to(Stage.FAILED)], send=[dead(r, h)],
        why="an abort came to this rank, or its bootstrap failed, perhaps after a ready vote: it "
            "only votes"),
    Row("give_up", on=Timer("bootstrap_timeout"), at=Health.UP, choose=(h,), when=at(*WAITING),
        do=[stage(r, h).to(Stage.FAILED)], send=[dead(r, h)],
        why="a bootstrap or a prefetch may never answer"),
    Row("vote_ready_again", on=Timer("no_decision"), at=Health.UP, choose=(h,),
        when=at(Stage.READY), send=[ready(r, h)], why="the vote may have been lost"),
    Row("vote_dead_again", on=Timer("no_decision"), at=Health.UP, choose=(h,),
        when=at(Stage.FAILED), send=[dead(r, h)], why="the vote may have been lost"),

    Row("start", on=admit(r, n, h, m), at=Health.UP, when=[*TURN, at(Stage.READY)],
        do=[applied(r, n).to(True), stage(r, h).to(Stage.RUNNING), slot(r, h, m).to(True)]),
    Row("start_dead", on=admit(r, n, h, m), at=Health.UP, when=[*TURN, at(Stage.FAILED)],
        do=[applied(r, n).to(True), stage(r, h).to(Stage.BROKEN), slot(r, h, m).to(True)],
        send=[broke(r, h)],
        why="the rank failed after its ready vote: it computes with the others, and sends nothing"),
    *besides(admit(r, n, h, m), Stage.READY, Stage.FAILED),
    Row("ignore_old_admit", on=admit(r, n, h, m), at=Health.UP,
        when=[applied(r, n), at(Stage.CLOSED)], fair=False, kind="ignore",
        why="a late repeat: the rank confirms the later decision, which closed the request"),

    Row("transferred", on=Call("transferred", h), at=Health.UP, when=at(Stage.RUNNING),
        do=[stage(r, h).to(Stage.DONE)], send=[done(r, h)],
        why="the other side may stop in the middle"),
    Row("break_off", on=Call("transfer_failed", h), at=Health.UP, when=at(Stage.RUNNING),
        do=[stage(r, h).to(Stage.BROKEN)], send=[broke(r, h)],
        why="an error or an abort, and the engine reports that no read or write is left"),
    Row("cut_off", on=Timer("transfer_timeout"), at=Health.UP, choose=(h,),
        when=at(Stage.RUNNING), do=[stage(r, h).to(Stage.BROKEN)], send=[broke(r, h)],
        why="no answer came; the engine has fenced the writes that were under way"),
    Row("vote_done_again", on=Timer("no_release"), at=Health.UP, choose=(h,),
        when=at(Stage.DONE), send=[done(r, h)], why="the vote may have been lost"),
    Row("vote_broke_again", on=Timer("no_release"), at=Health.UP, choose=(h,),
        when=at(Stage.BROKEN), send=[broke(r, h)], why="the vote may have been lost"),

    Row("drain", on=fail(r, n, h), at=Health.UP, when=[*TURN, at(*WAITING, *VOTED)],
        do=[applied(r, n).to(True), stage(r, h).to(Stage.CLOSED), prefetched(r, h).to(False)],
        send=[closed(r, h)]),
    Row("turn_away", on=fail(r, n, h), at=Health.UP, when=[*TURN, at(Stage.ABSENT)],
        do=[applied(r, n).to(True), stage(r, h).to(Stage.CLOSED)], send=[closed(r, h)],
        why="the request has reached only some ranks; this rank will not take it"),
    confirmation(fail(r, n, h)),
    *besides(fail(r, n, h), Stage.ABSENT, *WAITING, *VOTED),
    Row("free", on=release(r, n, h), at=Health.UP, when=[*TURN, at(Stage.DONE)],
        do=[applied(r, n).to(True), stage(r, h).to(Stage.CLOSED), prefetched(r, h).to(False),
            slot(r, h, ANY).to(False)],
        send=[closed(r, h)]),
    confirmation(release(r, n, h)),
    *besides(release(r, n, h), Stage.DONE),
    Row("free_broken", on=drop(r, n, h), at=Health.UP,
        when=[*TURN, at(Stage.DONE, Stage.BROKEN)],
        do=[applied(r, n).to(True), stage(r, h).to(Stage.CLOSED), prefetched(r, h).to(False),
            slot(r, h, ANY).to(False)],
        send=[closed(r, h)],
        why="a rank whose own part went well drops it with the others"),
    confirmation(drop(r, n, h)),
    *besides(drop(r, n, h), Stage.DONE, Stage.BROKEN),

    Row("follow", on=gone(peer, r), at=Health.UP, to=Health.DOWN,
        do=[stage(r, ANY).to(Stage.CLOSED), prefetched(r, ANY).to(False),
            slot(r, ANY, ANY).to(False)],
        why="a rank without its group can do nothing, and may hold nothing (rule 8)"),
    Ignore(gone(peer, r), at=Health.DOWN, why="the group has ended already"),
))

ENTRY: Final = Table(entry, state=group, rows=(
    Row("submit", on=Call("submit", h), at=Health.UP, when=status(h) == Status.NEW,
        do=[status(h).to(Status.OPEN)], send=[each(r, request(r, h))]),
    Row("submit_again", on=Timer("no_votes"), at=Health.UP, choose=(r, h),
        when=status(h) == Status.OPEN, send=[request(r, h)],
        why="the request may have been lost on its way to a rank"),
    Row("abort", on=Call("abort", h), at=Health.UP, choose=(n,),
        when=[status(h) == Status.OPEN, *NEXT],
        do=[numbered(n).to(True), log(n, h).to(Verdict.FAIL), status(h).to(Status.REFUSED)],
        send=[each(r, fail(r, n, h))],
        why="the client is gone, or its time is over, at any stage of the request"),
    Row("decide_admit", at=Health.UP, choose=(n, h, m),
        when=[status(h) == Status.OPEN, forall(r, ready(r, h)), ~taken(m), *NEXT],
        do=[numbered(n).to(True), log(n, h).to(Verdict.ADMIT), status(h).to(Status.ADMITTED),
            taken(m).to(True), granted(h, m).to(True)],
        send=[each(r, admit(r, n, h, m))]),
    Row("decide_fail", at=Health.UP, choose=(r, n, h),
        when=[status(h) == Status.OPEN, dead(r, h), *NEXT],
        do=[numbered(n).to(True), log(n, h).to(Verdict.FAIL), status(h).to(Status.REFUSED)],
        send=[each(peer, fail(peer, n, h))],
        why="one rank that cannot take part is enough"),
    Row("decide_release", at=Health.UP, choose=(n, h, m),
        when=[status(h) == Status.ADMITTED, forall(r, done(r, h)), granted(h, m), *NEXT],
        do=[numbered(n).to(True), log(n, h).to(Verdict.RELEASE), status(h).to(Status.SERVED),
            taken(m).to(False)],
        send=[each(r, release(r, n, h))]),
    Row("decide_drop", at=Health.UP, choose=(r, n, h, m),
        when=[status(h) == Status.ADMITTED, broke(r, h),
              forall(peer, broke(peer, h) | done(peer, h)), granted(h, m), *NEXT],
        do=[numbered(n).to(True), log(n, h).to(Verdict.DROP), status(h).to(Status.REFUSED),
            taken(m).to(False)],
        send=[each(peer, drop(peer, n, h))],
        why="only when every rank has run it: the pipeline would wait for one that had not"),

    Row("confirm", on=closed(r, h), at=Health.UP, when=~confirmed(r, h),
        do=[confirmed(r, h).to(True)]),
    Ignore(closed(r, h), at=Health.UP, when=confirmed(r, h), why="the confirmation comes again"),
    Row("admit_again", on=Timer("no_confirmation"), at=Health.UP, choose=(r, n, h, m),
        when=[log(n, h) == Verdict.ADMIT, granted(h, m), ~confirmed(r, h)],
        send=[admit(r, n, h, m)], why="the decision may have been lost"),
    Row("fail_again", on=Timer("no_confirmation"), at=Health.UP, choose=(r, n, h),
        when=[log(n, h) == Verdict.FAIL, ~confirmed(r, h)],
        send=[fail(r, n, h)], why="the decision, or its confirmation, may have been lost"),
    Row("release_again", on=Timer("no_confirmation"), at=Health.UP, choose=(r, n, h),
        when=[log(n, h) == Verdict.RELEASE, ~confirmed(r, h)],
        send=[release(r, n, h)], why="the decision, or its confirmation, may have been lost"),
    Row("drop_again", on=Timer("no_confirmation"), at=Health.UP, choose=(r, n, h),
        when=[log(n, h) == Verdict.DROP, ~confirmed(r, h)],
        send=[drop(r, n, h)], why="the decision, or its confirmation, may have been lost"),

    Row("end", on=lost(r), at=Health.UP, to=Health.DOWN,
        why="a group that lacks a rank cannot serve any client (rule 8)"),
    Row("answer_lost", at=Health.DOWN, choose=(h,),
        when=status(h).among(Status.OPEN, Status.ADMITTED), do=[status(h).to(Status.REFUSED)],
        why="the entry tells waiting clients that the group has died"),
    Ignore(lost(r), at=Health.DOWN, why="the group has ended"),
    Ignore(closed(r, h), at=Health.DOWN, why="the group has ended"),
))

LOSSY: Final = Table(world, rows=tuple(map(lose, (
    request, ready, dead, done, broke, closed, admit, fail, release, drop,
))))

CRASH: Final = Table(world, rows=(
    Row("crash", choose=(r,), when=health(r) == Health.UP,
        do=[health(r).to(Health.DOWN), stage(r, ANY).to(Stage.CLOSED),
            prefetched(r, ANY).to(False), slot(r, ANY, ANY).to(False), lost(r).to(True),
            gone(r, ANY).to(True)],
        fair=False, why="a process dies; every connected peer sees the connection close"),
))
