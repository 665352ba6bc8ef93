"""The tables of a group of ranks that decide alike (agreement.py says what they achieve).

The ranks of one server (pipeline stages x tensor ranks x context ranks) run the same batches, so
they must take and drop the same requests in the same order. One of them is the *entry*: clients
talk to it, and it has a part that the others lack. It asks every rank, decides, numbers what it
decides, and answers the client. To its own rank it speaks as to any other. On a prefill server
"running" is the forward pass and the transfers, and a release frees the source pages; on a decode
server it is the transfers into its pages, and a release commits the first token.

Rule 1: only a decision changes what a rank runs or ends. A rank never acts on its own poll, not
        even to drain a request that has failed there.
Rule 2: a rank says all it knows before the decision: it votes ready when everything local is
        ready (grammar, prefetch, bootstrap), and it votes dead as soon as it cannot take part,
        also after it has voted ready. After the decision nobody looks again.
Rule 3: decisions are numbered. A rank applies each once, and only after all that come before it.
Rule 4: a metadata slot is part of the decision, never found free by a rank.
Rule 5: what an admitted request holds is freed when every rank has said that its part of the
        transfer has ended (nothing is being read or written any more), and by decision.
Rule 6: a rank that is told of a failed request before the request has reached it closes it all
        the same, and turns the request away when it comes.
Rule 7: the client is answered once, by the entry, when it decides.
Rule 8: a rank does not outlive its group. Restarted ranks are another group, with lives of its own.
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
    """The first, second, ... decision of the group. A life needs two at most."""


class Health(State):
    UP = auto()
    DOWN = auto()


class Stage(State):
    """How far a request has come at one rank."""

    ABSENT = auto()
    QUEUED = auto()
    PREPARED = auto()  # grammar and prefetch are ready
    READY = auto()  # the bootstrap too: it has voted, and waits for the group
    FAILED = auto()  # it cannot take part, and has said so
    RUNNING = auto()  # admitted
    DONE = auto()  # its part of the transfer has ended well
    BROKEN = auto()  # its part has ended, and not well
    CLOSED = auto()


class Status(State):
    """What the entry knows of a request. The last two are the answers that clients get."""

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

# A rank's turn to apply decision n has come: it has applied all earlier ones, and not yet this one.
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
    """What a rank does with a decision that it does not apply. stages: where it can apply it."""
    return (
        Ignore(decision, at=Health.UP,
               when=any_of(all_of(FRESH, exists(o, all_of(o.before(n), ~applied(r, o)))),
                           all_of(applied(r, n), ~at(Stage.CLOSED))),
               why="its turn has not come, or is over; the entry repeats it until it is confirmed"),
        Reject(decision, at=Health.UP, when=[*TURN, ~at(*stages)],
               why="the entry decides once, and only on what this rank has voted itself"),
        Ignore(decision, at=Health.DOWN, why="the group has ended"),
    )


def confirmation(decision: Sent) -> Row:
    """The answer to a decision that has closed the request here, when it comes once more."""
    return Row(
        f"confirm_{decision.symbol.name}", on=decision, at=Health.UP,
        when=[applied(r, n), at(Stage.CLOSED)], send=[closed(r, h)],
        why="the entry repeats what it has not heard the end of: the confirmation was lost",
    )


RANK: Final = Table(rank, state=health, rows=(
    Row("arrive", on=request(r, h), at=Health.UP, when=at(Stage.ABSENT),
        do=[stage(r, h).to(Stage.QUEUED)]),
    Ignore(request(r, h), at=Health.UP, when=~at(Stage.ABSENT),
           why="a repeat, or it has failed before it came (rule 6)"),
    Ignore(request(r, h), at=Health.DOWN, why="the group has ended"),

    Row("prepare", on=Call("prepared", h), at=Health.UP, when=at(Stage.QUEUED),
        do=[stage(r, h).to(Stage.PREPARED), prefetched(r, h).to(True)],
        why="a prefetch may hang: nothing relies on it"),
    Row("vote_ready", on=Call("bootstrapped", h), at=Health.UP, when=at(Stage.PREPARED),
        do=[stage(r, h).to(Stage.READY)], send=[ready(r, h)],
        why="the other side may never come; its bootstrap is looked at last, so that a vote has "
            "every local condition in it"),
    Row("vote_dead", on=Call("failed", h), at=Health.UP, when=at(*WAITING, Stage.READY),
        do=[stage(r, h).to(Stage.FAILED)], send=[dead(r, h)],
        why="an abort that came this way, or a failed bootstrap; it may follow a ready vote, and "
            "even so it only votes"),
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
        why="it failed after its ready vote: its forward is in the batch that all others run, and "
            "its transfer has ended before it began"),
    *besides(admit(r, n, h, m), Stage.READY, Stage.FAILED),
    Row("ignore_old_admit", on=admit(r, n, h, m), at=Health.UP,
        when=[applied(r, n), at(Stage.CLOSED)], fair=False, kind="ignore",
        why="a late repeat: what closed the request is confirmed, not what began it"),

    Row("transferred", on=Call("transferred", h), at=Health.UP, when=at(Stage.RUNNING),
        do=[stage(r, h).to(Stage.DONE)], send=[done(r, h)],
        why="the other side may stop in the middle"),
    Row("break_off", on=Call("transfer_failed", h), at=Health.UP, when=at(Stage.RUNNING),
        do=[stage(r, h).to(Stage.BROKEN)], send=[broke(r, h)],
        why="an error or an abort, and the engine has said that it touches nothing any more"),
    Row("cut_off", on=Timer("transfer_timeout"), at=Health.UP, choose=(h,),
        when=at(Stage.RUNNING), do=[stage(r, h).to(Stage.BROKEN)], send=[broke(r, h)],
        why="nobody answers; what was still in flight has been fenced"),
    Row("vote_done_again", on=Timer("no_release"), at=Health.UP, choose=(h,),
        when=at(Stage.DONE), send=[done(r, h)], why="the vote may have been lost"),
    Row("vote_broke_again", on=Timer("no_release"), at=Health.UP, choose=(h,),
        when=at(Stage.BROKEN), send=[broke(r, h)], why="the vote may have been lost"),

    Row("drain", on=fail(r, n, h), at=Health.UP, when=[*TURN, at(*WAITING, *VOTED)],
        do=[applied(r, n).to(True), stage(r, h).to(Stage.CLOSED), prefetched(r, h).to(False)],
        send=[closed(r, h)]),
    Row("turn_away", on=fail(r, n, h), at=Health.UP, when=[*TURN, at(Stage.ABSENT)],
        do=[applied(r, n).to(True), stage(r, h).to(Stage.CLOSED)], send=[closed(r, h)],
        why="the request has reached only some ranks; when it comes it is not taken up"),
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
        why="a rank whose own part went well throws it away with the others"),
    confirmation(drop(r, n, h)),
    *besides(drop(r, n, h), Stage.DONE, Stage.BROKEN),

    Row("follow", on=gone(peer, r), at=Health.UP, to=Health.DOWN,
        do=[stage(r, ANY).to(Stage.CLOSED), prefetched(r, ANY).to(False),
            slot(r, ANY, ANY).to(False)],
        why="a rank without its group can do nothing, and may hold nothing (rule 8)"),
    Ignore(gone(peer, r), at=Health.DOWN, why="it has ended already"),
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
        why="the client is gone, or its time is up, wherever the request may be by now"),
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
    Ignore(closed(r, h), at=Health.UP, when=confirmed(r, h), why="a repeat"),
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
        why="a group that lacks a rank can serve nobody (rule 8)"),
    Row("answer_lost", at=Health.DOWN, choose=(h,),
        when=status(h).among(Status.OPEN, Status.ADMITTED), do=[status(h).to(Status.REFUSED)],
        why="whoever still waits is told that the group has died"),
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
        fair=False, why="a process dies; whoever is connected to it sees the connection close"),
))
