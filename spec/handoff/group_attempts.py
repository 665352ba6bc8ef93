"""Attempts as decisions of a group: prefill before its bootstrap, on ranks that run alike.

attempts.py takes all ranks of the source as one, and says which request waits for which. Here there
are several ranks, and the question is whether they run the same passes. The entry decides
(group.py): to run a chunk, to finalize, to yield, to admit, to fail. It numbers its decisions, and
every rank applies each once and in order. The entry knows a rank only by its reports: its bootstrap
is there, it cannot take part, or its pass has reached some chunk.

Rule 1: A rank computes a chunk only by decision. Every rank computes a chunk that is decided, even
        if the next decision ends the request: the other stages of the pipeline compute it too.
Rule 2: A pass is finalized by decision, when all ranks have reported their bootstraps. No rank
        checks its own again. A finalized pass runs to its end on every rank.
Rule 3: A pass yields when every rank has reported that it has computed the decided chunks. It runs
        again if an attempt is left. Otherwise the request is admitted when every rank has its
        bootstrap, like a request that never ran.
Rule 4: KV is dropped by decision. Each rank drops it when no launched chunk writes it.
Rule 5: The entry reads the sample that forces a retry, and only on the first pass.
Rule 6: A rank does not outlive its group.

Which request needs whose place is left open: a pass may yield whenever rule 3 allows it
(attempts.py says when it does). The entry owns slots and running slots, as there. After the
hand-over of a request agreement.py applies as for any other request. Properties and system:
optimistic_group.py; with lost messages: optimistic_group_loss.py.
"""

from collections.abc import Mapping
from typing import Any, Final

from pdproto.spec.handoff.attempts import Forward, Target, a, again, sampled
from pdproto.spec.handoff.group import Decision, Health, h, n, o, peer, r
from pdproto.spec.handoff.roles import Attempt, Life
from pdproto.spec.language import (
    ANY,
    Call,
    Completion,
    Formula,
    Ignore,
    Machine,
    Message,
    Reject,
    Row,
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
)
from pdproto.spec.language.symbols import Sent


class Vote(State):
    """A rank's report about its bootstrap. DEAD: it takes no part, or no longer."""

    NONE = auto()
    READY = auto()
    DEAD = auto()


class AtRank(State):
    """The state of a request at one rank."""

    QUEUED = auto()
    RUNNING = auto()  # in a pass, or parked after it
    SENDING = auto()  # handed over: agreement.py continues from here
    CLOSED = auto()


class AtEntry(State):
    """The state of a request at the entry."""

    NEW = auto()
    QUEUED = auto()
    FIRST = auto()  # the entry has decided the first chunk of a pass
    LAST = auto()  # the entry has decided the last chunk too
    HANDED = auto()
    REFUSED = auto()


rank = Machine("rank", r)
entry = Machine("entry")
world = Machine("world", world=True)

health = rank.function("health", Health, edges={Health.UP: (Health.DOWN,)})
vote = rank.function("vote", Vote, Life, edges={
    Vote.NONE: (Vote.READY, Vote.DEAD), Vote.READY: (Vote.DEAD,),
})
stage = rank.function("stage", AtRank, Life, edges={
    AtRank.QUEUED: (AtRank.RUNNING, AtRank.SENDING, AtRank.CLOSED),
    AtRank.RUNNING: (AtRank.QUEUED, AtRank.SENDING, AtRank.CLOSED),
    AtRank.SENDING: (AtRank.CLOSED,),
})
forward = rank.function("forward", Forward, Life, edges={
    Forward.NONE: (Forward.FIRST,),
    Forward.FIRST: (Forward.HALF,),
    Forward.HALF: (Forward.LAST, Forward.NONE),
    Forward.LAST: (Forward.WHOLE,),
    Forward.WHOLE: (Forward.NONE,),
})
link = rank.function("link", Target, Life, edges={Target.PENDING: (Target.FINALIZED,)})
kv = rank.relation("kv", Life)
begun = rank.relation("begun", Life, Attempt)  # the passes that this rank has begun
applied = rank.relation("applied", Decision)

group = entry.function("group", Health, edges={Health.UP: (Health.DOWN,)})
status = entry.function("status", AtEntry, Life, edges={
    AtEntry.NEW: (AtEntry.QUEUED,),
    AtEntry.QUEUED: (AtEntry.FIRST, AtEntry.HANDED, AtEntry.REFUSED),
    AtEntry.FIRST: (AtEntry.LAST, AtEntry.QUEUED, AtEntry.REFUSED),
    AtEntry.LAST: (AtEntry.QUEUED, AtEntry.HANDED, AtEntry.REFUSED),
})
finalized = entry.relation("finalized", Life)
tried = entry.relation("tried", Life, Attempt)
retried = entry.relation("retried", Life)
numbered = entry.relation("numbered", Decision)

ready = Message("ready", r, h, sender=rank, receiver=entry)
dead = Message("dead", r, h, sender=rank, receiver=entry)
half = Message("half", r, h, a, sender=rank, receiver=entry)
whole = Message("whole", r, h, a, sender=rank, receiver=entry)
run = Message("run", r, n, h, a, sender=entry, receiver=rank)
go_on = Message("go_on", r, n, h, sender=entry, receiver=rank)
finalize = Message("finalize", r, n, h, sender=entry, receiver=rank)
give_way = Message("give_way", r, n, h, sender=entry, receiver=rank)
admit = Message("admit", r, n, h, sender=entry, receiver=rank)
fail = Message("fail", r, n, h, sender=entry, receiver=rank)
gone = Message("left", peer, r, sender=rank.at(peer), receiver=rank, reliable=True)
lost = Message("lost", r, sender=rank, receiver=entry, reliable=True)

MESSAGES: Final[Mapping[str, Message[*tuple[Any, ...]]]] = {
    message.name: message
    for message in (ready, dead, half, whole, run, go_on, finalize, give_way, admit, fail)
}

OPEN: Final = (AtEntry.QUEUED, AtEntry.FIRST, AtEntry.LAST)
IN_PASS: Final = (AtEntry.FIRST, AtEntry.LAST)
ENDED: Final = (AtEntry.HANDED, AtEntry.REFUSED)
ACTIVE: Final = (AtRank.QUEUED, AtRank.RUNNING)

COMPUTING: Final = forward(r, h).among(Forward.FIRST, Forward.LAST)
FRESH: Final = ~applied(r, n)
EARLIER: Final = forall(o, implies(o.before(n), applied(r, o)))
TURN: Final = (FRESH, EARLIER)
# The current pass of this rank.
CURRENT: Final = all_of(
    begun(r, h, a), forall(again, implies(a.before(again), ~begun(r, h, again))))

NEXT: Final = (~numbered(n), forall(o, implies(o.before(n), numbered(o))))
LATEST: Final = all_of(tried(h, a), forall(again, implies(a.before(again), ~tried(h, again))))
NEXT_ATTEMPT: Final = all_of(~tried(h, a), forall(again, implies(again.before(a), tried(h, again))))
ALL_READY: Final = forall(r, ready(r, h))
ALL_WHOLE: Final = all_of(status(h) == AtEntry.LAST, forall(r, whole(r, h, a)))
ALL_COMPUTED: Final = any_of(
    ALL_WHOLE, all_of(status(h) == AtEntry.FIRST, forall(r, half(r, h, a)))
)
FORCED: Final = all_of(sampled(h), ~retried(h))
UNDECIDED: Final = (status(h).among(*OPEN), ~finalized(h))


def _besides(decision: Sent, when: Formula, wait: Formula | None = None) -> tuple[Row, ...]:
    """Rows for a decision that the rank does not apply. wait: it comes too early."""
    rows = (
        Ignore(decision, at=Health.UP,
               when=any_of(applied(r, n), exists(o, o.before(n) & ~applied(r, o))),
               why="its turn has not come, or is over"),
        Reject(decision, at=Health.UP, when=[*TURN, ~when],
               why="the entry decides once, and for all ranks alike"),
        Ignore(decision, at=Health.DOWN, why="the group has ended"),
    )
    if wait is None:
        return rows
    return (*rows, Row(f"wait_before_{decision.symbol.name}", on=decision, at=Health.UP,
                       when=[*TURN, when, wait], fair=False, kind="ignore",
                       why="the rank first computes the chunks of earlier decisions (rules 1 and "
                           "4)"))


RUNNING: Final = stage(r, h) == AtRank.RUNNING
IN_QUEUE: Final = stage(r, h) == AtRank.QUEUED
EMPTY: Final = all_of(IN_QUEUE, forward(r, h) == Forward.NONE)
CLOSE: Final = (stage(r, h).to(AtRank.CLOSED), kv(r, h).to(False), vote(r, h).to(Vote.DEAD))
CHUNKS: Final = (("first_chunk", Forward.FIRST), ("last_chunk", Forward.LAST))

RANK: Final = Table(rank, state=health, rows=(
    Row("vote_ready", on=Call("bootstrapped", h), at=Health.UP,
        when=[stage(r, h).among(*ACTIVE), vote(r, h) == Vote.NONE],
        do=[vote(r, h).to(Vote.READY)], send=[ready(r, h)],
        why="the other side may never come"),
    Row("vote_dead", on=Call("failed", h), at=Health.UP,
        when=[stage(r, h).among(*ACTIVE), vote(r, h) != Vote.DEAD],
        do=[vote(r, h).to(Vote.DEAD)], send=[dead(r, h)],
        why="a failed bootstrap, or an abort at this rank; it only votes"),
    Row("start", on=run(r, n, h, a), at=Health.UP, when=[*TURN, EMPTY],
        do=[applied(r, n).to(True), stage(r, h).to(AtRank.RUNNING), begun(r, h, a).to(True),
            forward(r, h).to(Forward.FIRST), kv(r, h).to(True)]),
    *_besides(run(r, n, h, a), EMPTY),
    Row("launch_last", on=go_on(r, n, h), at=Health.UP,
        when=[*TURN, RUNNING, forward(r, h) == Forward.HALF],
        do=[applied(r, n).to(True), forward(r, h).to(Forward.LAST)]),
    *_besides(go_on(r, n, h), RUNNING, forward(r, h) != Forward.HALF),
    Row("finish_first", on=Completion("first_chunk", h), at=Health.UP, choose=(a,),
        when=[forward(r, h) == Forward.FIRST, CURRENT],
        do=[forward(r, h).to(Forward.HALF)], send=[half(r, h, a)]),
    Row("finish_last", on=Completion("last_chunk", h), at=Health.UP, choose=(a,),
        when=[forward(r, h) == Forward.LAST, CURRENT],
        do=[forward(r, h).to(Forward.WHOLE)], send=[whole(r, h, a)]),
    Row("finalize", on=finalize(r, n, h), at=Health.UP, when=[*TURN, RUNNING],
        do=[applied(r, n).to(True), link(r, h).to(Target.FINALIZED)],
        why="this rank does not check its bootstrap again: the entry has decided"),
    *_besides(finalize(r, n, h), RUNNING),
    Row("send", at=Health.UP, choose=(h,),
        when=[RUNNING, forward(r, h) == Forward.WHOLE, link(r, h) == Target.FINALIZED],
        do=[stage(r, h).to(AtRank.SENDING)]),
    Row("drop", on=give_way(r, n, h), at=Health.UP, when=[*TURN, RUNNING, ~COMPUTING],
        do=[applied(r, n).to(True), stage(r, h).to(AtRank.QUEUED),
            forward(r, h).to(Forward.NONE), kv(r, h).to(False)]),
    *_besides(give_way(r, n, h), all_of(RUNNING, ~COMPUTING)),
    Row("take_up", on=admit(r, n, h), at=Health.UP, when=[*TURN, IN_QUEUE],
        do=[applied(r, n).to(True), stage(r, h).to(AtRank.SENDING), kv(r, h).to(True)]),
    *_besides(admit(r, n, h), IN_QUEUE),
    Row("drain", on=fail(r, n, h), at=Health.UP,
        when=[*TURN, stage(r, h).among(*ACTIVE), ~COMPUTING],
        do=[applied(r, n).to(True), *CLOSE]),
    *_besides(fail(r, n, h), stage(r, h).among(*ACTIVE), COMPUTING),
    Row("close", on=Call("released", h), at=Health.UP, when=stage(r, h) == AtRank.SENDING,
        do=CLOSE,
        why="the group has released the request here (agreement.py)"),
    *(Ignore(Completion(chunk, h), at=Health.UP, when=forward(r, h) != computing,
             why="a device reports the end of a chunk that it was given")
      for chunk, computing in CHUNKS),
    *(Reject(Completion(chunk, h), at=Health.UP,
             when=[forward(r, h) == computing, forall(a, ~begun(r, h, a))],
             why="a chunk is part of a pass")
      for chunk, computing in CHUNKS),
    *(Ignore(Completion(chunk, h), at=Health.DOWN, why="the group has ended")
      for chunk, _ in CHUNKS),
    Row("follow", on=gone(peer, r), at=Health.UP, to=Health.DOWN,
        do=[stage(r, ANY).to(AtRank.CLOSED), kv(r, ANY).to(False)],
        why="a rank without its group can do nothing, and may hold nothing (rule 6)"),
    Ignore(gone(peer, r), at=Health.DOWN, why="the group has ended already"),
))

ENTRY: Final = Table(entry, state=group, rows=(
    Row("submit", on=Call("submit", h), at=Health.UP, when=status(h) == AtEntry.NEW,
        do=[status(h).to(AtEntry.QUEUED)]),
    Row("decide_run", at=Health.UP, choose=(n, h, a),
        when=[status(h) == AtEntry.QUEUED, NEXT_ATTEMPT, *NEXT],
        do=[numbered(n).to(True), status(h).to(AtEntry.FIRST), tried(h, a).to(True)],
        send=[each(r, run(r, n, h, a))],
        why="the source computes while it waits for the sink"),
    Row("decide_to_go_on", at=Health.UP, choose=(n, h), when=[status(h) == AtEntry.FIRST, *NEXT],
        do=[numbered(n).to(True), status(h).to(AtEntry.LAST)], send=[each(r, go_on(r, n, h))]),
    Row("decide_finalize", at=Health.UP, choose=(n, h),
        when=[status(h).among(*IN_PASS), ~finalized(h), ALL_READY, ~FORCED, *NEXT],
        do=[numbered(n).to(True), finalized(h).to(True)], send=[each(r, finalize(r, n, h))]),
    Row("decide_to_yield", at=Health.UP, choose=(n, h, a),
        when=[ALL_COMPUTED, LATEST, ~finalized(h), ~FORCED, *NEXT],
        do=[numbered(n).to(True), status(h).to(AtEntry.QUEUED), retried(h).to(True)],
        send=[each(r, give_way(r, n, h))], fair=False,
        why="another request needs its place, or none does"),
    Row("force_retry", at=Health.UP, choose=(n, h, a),
        when=[ALL_WHOLE, LATEST, ~finalized(h), FORCED, *NEXT],
        do=[numbered(n).to(True), status(h).to(AtEntry.QUEUED), retried(h).to(True)],
        send=[each(r, give_way(r, n, h))],
        why="a test forces a retry"),
    Row("decide_admit", at=Health.UP, choose=(n, h),
        when=[status(h) == AtEntry.QUEUED, ALL_READY, ~FORCED, *NEXT],
        do=[numbered(n).to(True), status(h).to(AtEntry.HANDED)], send=[each(r, admit(r, n, h))],
        why="the request need not run before its bootstrap, or has no attempt left"),
    Row("hand_over", at=Health.UP, choose=(h, a), when=[ALL_WHOLE, LATEST, finalized(h)],
        do=[status(h).to(AtEntry.HANDED)]),
    Row("decide_fail", at=Health.UP, choose=(r, n, h), when=[*UNDECIDED, dead(r, h), *NEXT],
        do=[numbered(n).to(True), status(h).to(AtEntry.REFUSED)],
        send=[each(peer, fail(peer, n, h))],
        why="one rank that cannot take part is enough"),
    Row("give_up", on=Timer("bootstrap_timeout"), at=Health.UP, choose=(n, h),
        when=[*UNDECIDED, *NEXT],
        do=[numbered(n).to(True), status(h).to(AtEntry.REFUSED)], send=[each(r, fail(r, n, h))],
        why="a request that reached one server only must end there"),
    Row("abort", on=Call("abort", h), at=Health.UP, choose=(n,), when=[*UNDECIDED, *NEXT],
        do=[numbered(n).to(True), status(h).to(AtEntry.REFUSED)], send=[each(r, fail(r, n, h))],
        why="the client is gone"),
    Row("end", on=lost(r), at=Health.UP, to=Health.DOWN,
        why="a group that lacks a rank cannot serve any client (rule 6)"),
    Row("answer_lost", at=Health.DOWN, choose=(h,), when=status(h).among(*OPEN),
        do=[status(h).to(AtEntry.REFUSED)],
        why="the entry tells waiting clients that the group has died"),
    Ignore(lost(r), at=Health.DOWN, why="the group has ended"),
))

CRASH: Final = Table(world, rows=(
    Row("crash", choose=(r,), when=health(r) == Health.UP,
        do=[health(r).to(Health.DOWN), stage(r, ANY).to(AtRank.CLOSED), kv(r, ANY).to(False),
            lost(r).to(True), gone(r, ANY).to(True)],
        fair=False, why="a process dies; every connected peer sees the connection close"),
))
