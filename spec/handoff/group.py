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


h, g = Life("h"), Life("g")
k, q = Rank("k"), Rank("q")
n, p = Decision("n"), Decision("p")
m, s = Slot("m"), Slot("s")

rank = Machine("rank", k)
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

request = Message("request", k, h, sender=entry, receiver=rank)
ready = Message("ready", k, h, sender=rank, receiver=entry)
dead = Message("dead", k, h, sender=rank, receiver=entry)
done = Message("ended", k, h, sender=rank, receiver=entry)
broke = Message("broke", k, h, sender=rank, receiver=entry)
closed = Message("closed", k, h, sender=rank, receiver=entry)
admit = Message("admit", k, n, h, m, sender=entry, receiver=rank)
fail = Message("fail", k, n, h, sender=entry, receiver=rank)
release = Message("release", k, n, h, sender=entry, receiver=rank)
drop = Message("drop", k, n, h, sender=entry, receiver=rank)
gone = Message("left", q, k, sender=rank.at(q), receiver=rank, reliable=True)
lost = Message("lost", k, sender=rank, receiver=entry, reliable=True)

WAITING: Final = (Stage.QUEUED, Stage.PREPARED)
VOTED: Final = (Stage.READY, Stage.FAILED)

# A rank's turn to apply decision n has come: it has applied all earlier ones, and not yet this one.
EARLIER: Final = forall(p, implies(p.before(n), applied(k, p)))
FRESH: Final = ~applied(k, n)
TURN: Final = (FRESH, EARLIER)
# The entry may make decision n: it is the next number.
NEXT: Final = (log(n, h) == Verdict.NONE, ~numbered(n),
               forall(p, implies(p.before(n), numbered(p))))


def at(*stages: Stage) -> Formula:
    """The request is at one of these stages at this rank."""
    return stage(k, h).among(*stages)


def besides(decision: Sent, *stages: Stage) -> tuple[Row, ...]:
    """What a rank does with a decision that it does not apply. stages: where it can apply it."""
    return (
        Ignore(decision, at=Health.UP,
               when=any_of(all_of(FRESH, exists(p, all_of(p.before(n), ~applied(k, p)))),
                           all_of(applied(k, n), ~at(Stage.CLOSED))),
               why="its turn has not come, or is over; the entry repeats it until it is confirmed"),
        Reject(decision, at=Health.UP, when=[*TURN, ~at(*stages)],
               why="the entry decides once, and only on what this rank has voted itself"),
        Ignore(decision, at=Health.DOWN, why="the group has ended"),
    )


def confirmation(decision: Sent) -> Row:
    """The answer to a decision that has closed the request here, when it comes once more."""
    return Row(
        f"confirm_{decision.symbol.name}", on=decision, at=Health.UP,
        when=[applied(k, n), at(Stage.CLOSED)], send=[closed(k, h)],
        why="the entry repeats what it has not heard the end of: the confirmation was lost",
    )


RANK: Final = Table(rank, state=health, rows=(
    Row("arrive", on=request(k, h), at=Health.UP, when=at(Stage.ABSENT),
        do=[stage(k, h).to(Stage.QUEUED)]),
    Ignore(request(k, h), at=Health.UP, when=~at(Stage.ABSENT),
           why="a repeat, or it has failed before it came (rule 6)"),
    Ignore(request(k, h), at=Health.DOWN, why="the group has ended"),

    Row("prepare", on=Call("prepared", h), at=Health.UP, when=at(Stage.QUEUED),
        do=[stage(k, h).to(Stage.PREPARED), prefetched(k, h).to(True)],
        why="a prefetch may hang: nothing relies on it"),
    Row("vote_ready", on=Call("bootstrapped", h), at=Health.UP, when=at(Stage.PREPARED),
        do=[stage(k, h).to(Stage.READY)], send=[ready(k, h)],
        why="the other side may never come; its bootstrap is looked at last, so that a vote has "
            "every local condition in it"),
    Row("vote_dead", on=Call("failed", h), at=Health.UP, when=at(*WAITING, Stage.READY),
        do=[stage(k, h).to(Stage.FAILED)], send=[dead(k, h)],
        why="an abort that came this way, or a failed bootstrap; it may follow a ready vote, and "
            "even so it only votes"),
    Row("give_up", on=Timer("bootstrap_timeout"), at=Health.UP, choose=(h,), when=at(*WAITING),
        do=[stage(k, h).to(Stage.FAILED)], send=[dead(k, h)],
        why="a bootstrap or a prefetch may never answer"),
    Row("vote_ready_again", on=Timer("no_decision"), at=Health.UP, choose=(h,),
        when=at(Stage.READY), send=[ready(k, h)], why="the vote may have been lost"),
    Row("vote_dead_again", on=Timer("no_decision"), at=Health.UP, choose=(h,),
        when=at(Stage.FAILED), send=[dead(k, h)], why="the vote may have been lost"),

    Row("start", on=admit(k, n, h, m), at=Health.UP, when=[*TURN, at(Stage.READY)],
        do=[applied(k, n).to(True), stage(k, h).to(Stage.RUNNING), slot(k, h, m).to(True)]),
    Row("start_dead", on=admit(k, n, h, m), at=Health.UP, when=[*TURN, at(Stage.FAILED)],
        do=[applied(k, n).to(True), stage(k, h).to(Stage.BROKEN), slot(k, h, m).to(True)],
        send=[broke(k, h)],
        why="it failed after its ready vote: its forward is in the batch that all others run, and "
            "its transfer has ended before it began"),
    *besides(admit(k, n, h, m), Stage.READY, Stage.FAILED),
    Row("ignore_old_admit", on=admit(k, n, h, m), at=Health.UP,
        when=[applied(k, n), at(Stage.CLOSED)], fair=False, kind="ignore",
        why="a late repeat: what closed the request is confirmed, not what began it"),

    Row("transferred", on=Call("transferred", h), at=Health.UP, when=at(Stage.RUNNING),
        do=[stage(k, h).to(Stage.DONE)], send=[done(k, h)],
        why="the other side may stop in the middle"),
    Row("break_off", on=Call("transfer_failed", h), at=Health.UP, when=at(Stage.RUNNING),
        do=[stage(k, h).to(Stage.BROKEN)], send=[broke(k, h)],
        why="an error or an abort, and the engine has said that it touches nothing any more"),
    Row("cut_off", on=Timer("transfer_timeout"), at=Health.UP, choose=(h,),
        when=at(Stage.RUNNING), do=[stage(k, h).to(Stage.BROKEN)], send=[broke(k, h)],
        why="nobody answers; what was still in flight has been fenced"),
    Row("vote_done_again", on=Timer("no_release"), at=Health.UP, choose=(h,),
        when=at(Stage.DONE), send=[done(k, h)], why="the vote may have been lost"),
    Row("vote_broke_again", on=Timer("no_release"), at=Health.UP, choose=(h,),
        when=at(Stage.BROKEN), send=[broke(k, h)], why="the vote may have been lost"),

    Row("drain", on=fail(k, n, h), at=Health.UP, when=[*TURN, at(*WAITING, *VOTED)],
        do=[applied(k, n).to(True), stage(k, h).to(Stage.CLOSED), prefetched(k, h).to(False)],
        send=[closed(k, h)]),
    Row("turn_away", on=fail(k, n, h), at=Health.UP, when=[*TURN, at(Stage.ABSENT)],
        do=[applied(k, n).to(True), stage(k, h).to(Stage.CLOSED)], send=[closed(k, h)],
        why="the request has reached only some ranks; when it comes it is not taken up"),
    confirmation(fail(k, n, h)),
    *besides(fail(k, n, h), Stage.ABSENT, *WAITING, *VOTED),
    Row("free", on=release(k, n, h), at=Health.UP, when=[*TURN, at(Stage.DONE)],
        do=[applied(k, n).to(True), stage(k, h).to(Stage.CLOSED), prefetched(k, h).to(False),
            slot(k, h, ANY).to(False)],
        send=[closed(k, h)]),
    confirmation(release(k, n, h)),
    *besides(release(k, n, h), Stage.DONE),
    Row("free_broken", on=drop(k, n, h), at=Health.UP,
        when=[*TURN, at(Stage.DONE, Stage.BROKEN)],
        do=[applied(k, n).to(True), stage(k, h).to(Stage.CLOSED), prefetched(k, h).to(False),
            slot(k, h, ANY).to(False)],
        send=[closed(k, h)],
        why="a rank whose own part went well throws it away with the others"),
    confirmation(drop(k, n, h)),
    *besides(drop(k, n, h), Stage.DONE, Stage.BROKEN),

    Row("follow", on=gone(q, k), at=Health.UP, to=Health.DOWN,
        do=[stage(k, ANY).to(Stage.CLOSED), prefetched(k, ANY).to(False),
            slot(k, ANY, ANY).to(False)],
        why="a rank without its group can do nothing, and may hold nothing (rule 8)"),
    Ignore(gone(q, k), at=Health.DOWN, why="it has ended already"),
))

ENTRY: Final = Table(entry, state=group, rows=(
    Row("submit", on=Call("submit", h), at=Health.UP, when=status(h) == Status.NEW,
        do=[status(h).to(Status.OPEN)], send=[each(k, request(k, h))]),
    Row("submit_again", on=Timer("no_votes"), at=Health.UP, choose=(k, h),
        when=status(h) == Status.OPEN, send=[request(k, h)],
        why="the request may have been lost on its way to a rank"),
    Row("abort", on=Call("abort", h), at=Health.UP, choose=(n,),
        when=[status(h) == Status.OPEN, *NEXT],
        do=[numbered(n).to(True), log(n, h).to(Verdict.FAIL), status(h).to(Status.REFUSED)],
        send=[each(k, fail(k, n, h))],
        why="the client is gone, or its time is up, wherever the request may be by now"),
    Row("decide_admit", at=Health.UP, choose=(n, h, m),
        when=[status(h) == Status.OPEN, forall(k, ready(k, h)), ~taken(m), *NEXT],
        do=[numbered(n).to(True), log(n, h).to(Verdict.ADMIT), status(h).to(Status.ADMITTED),
            taken(m).to(True), granted(h, m).to(True)],
        send=[each(k, admit(k, n, h, m))]),
    Row("decide_fail", at=Health.UP, choose=(k, n, h),
        when=[status(h) == Status.OPEN, dead(k, h), *NEXT],
        do=[numbered(n).to(True), log(n, h).to(Verdict.FAIL), status(h).to(Status.REFUSED)],
        send=[each(q, fail(q, n, h))],
        why="one rank that cannot take part is enough"),
    Row("decide_release", at=Health.UP, choose=(n, h, m),
        when=[status(h) == Status.ADMITTED, forall(k, done(k, h)), granted(h, m), *NEXT],
        do=[numbered(n).to(True), log(n, h).to(Verdict.RELEASE), status(h).to(Status.SERVED),
            taken(m).to(False)],
        send=[each(k, release(k, n, h))]),
    Row("decide_drop", at=Health.UP, choose=(k, n, h, m),
        when=[status(h) == Status.ADMITTED, broke(k, h), forall(q, broke(q, h) | done(q, h)),
              granted(h, m), *NEXT],
        do=[numbered(n).to(True), log(n, h).to(Verdict.DROP), status(h).to(Status.REFUSED),
            taken(m).to(False)],
        send=[each(q, drop(q, n, h))],
        why="only when every rank has run it: the pipeline would wait for one that had not"),

    Row("confirm", on=closed(k, h), at=Health.UP, when=~confirmed(k, h),
        do=[confirmed(k, h).to(True)]),
    Ignore(closed(k, h), at=Health.UP, when=confirmed(k, h), why="a repeat"),
    Row("admit_again", on=Timer("no_confirmation"), at=Health.UP, choose=(k, n, h, m),
        when=[log(n, h) == Verdict.ADMIT, granted(h, m), ~confirmed(k, h)],
        send=[admit(k, n, h, m)], why="the decision may have been lost"),
    Row("fail_again", on=Timer("no_confirmation"), at=Health.UP, choose=(k, n, h),
        when=[log(n, h) == Verdict.FAIL, ~confirmed(k, h)],
        send=[fail(k, n, h)], why="the decision, or its confirmation, may have been lost"),
    Row("release_again", on=Timer("no_confirmation"), at=Health.UP, choose=(k, n, h),
        when=[log(n, h) == Verdict.RELEASE, ~confirmed(k, h)],
        send=[release(k, n, h)], why="the decision, or its confirmation, may have been lost"),
    Row("drop_again", on=Timer("no_confirmation"), at=Health.UP, choose=(k, n, h),
        when=[log(n, h) == Verdict.DROP, ~confirmed(k, h)],
        send=[drop(k, n, h)], why="the decision, or its confirmation, may have been lost"),

    Row("end", on=lost(k), at=Health.UP, to=Health.DOWN,
        why="a group that lacks a rank can serve nobody (rule 8)"),
    Row("answer_lost", at=Health.DOWN, choose=(h,),
        when=status(h).among(Status.OPEN, Status.ADMITTED), do=[status(h).to(Status.REFUSED)],
        why="whoever still waits is told that the group has died"),
    Ignore(lost(k), at=Health.DOWN, why="the group has ended"),
    Ignore(closed(k, h), at=Health.DOWN, why="the group has ended"),
))

LOSSY: Final = Table(world, rows=tuple(map(lose, (
    request, ready, dead, done, broke, closed, admit, fail, release, drop,
))))

CRASH: Final = Table(world, rows=(
    Row("crash", choose=(k,), when=health(k) == Health.UP,
        do=[health(k).to(Health.DOWN), stage(k, ANY).to(Stage.CLOSED),
            prefetched(k, ANY).to(False), slot(k, ANY, ANY).to(False), lost(k).to(True),
            gone(k, ANY).to(True)],
        fair=False, why="a process dies; whoever is connected to it sees the connection close"),
))
