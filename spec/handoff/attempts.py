"""Prefill in attempts: the forward pass begins before the sink has published where the KV goes.

The source is the group of prefill ranks as one: one decision counts for all its ranks and stages
(agreement.py), and it reads the reduced poll. A sink answers the bootstrap (*publish*) only when it
has a page for the request. So each side may wait for the other: one request holds a slot and a
running slot here and waits for a page there, and another the reverse.

Rule 1: A request reserves a slot when it leaves the bootstrap queue, never before. A request that
        finds none is passed over, and the requests behind it are still tried.
Rule 2: The bootstrap is polled before every further chunk and after the last. When it is there the
        pass is finalized, once. This cannot fail, because the slot is reserved already.
Rule 3: A source sends nothing before the pass is finalized.
Rule 4: A pass that ends before that is parked, with its KV. It yields as soon as another request
        that could go on lacks a running slot or a slot: its KV is dropped, and it runs again from
        the beginning.
Rule 5: The attempts are counted. After the last one a request waits for its bootstrap without a
        slot, and does not run before it.
Rule 6: KV is dropped only when no launched batch writes it, for any reason.
Rule 7: For tests, a sample that depends on the request alone forces a retry, and only on the
        request's first pass.

transfer.py covers late remote writes to a page: here an abort gives the page back at once.
Properties and systems: optimistic.py.
"""

from typing import Final

from pdproto.spec.handoff.roles import Attempt, Life, Page, Slot
from pdproto.spec.language import (
    ANY,
    Call,
    Completion,
    Ignore,
    Machine,
    Message,
    Reject,
    Rigid,
    Row,
    Sort,
    State,
    Table,
    Timer,
    all_of,
    any_of,
    auto,
    exists,
    forall,
    implies,
    lose,
)


class RunningSlot(Sort):
    """A row of the source's request table, with room for the KV of one request."""


class Stage(State):
    """The state of a request at the source."""

    NEW = auto()
    QUEUED = auto()  # in the bootstrap queue, with no slot
    WAITING = auto()  # for a running slot, with a slot
    HEAD = auto()  # for a running slot, before all WAITING requests: it has run, and runs again
    RUNNING = auto()
    PARKED = auto()  # all chunks are computed; it holds its slot, its running slot and its KV
    DEFERRED = auto()  # in the bootstrap queue again, with no slot and no attempts left
    SENDING = auto()
    SUCCESS = auto()
    FAILED = auto()


class Forward(State):
    """The state of the forward pass of a request of two chunks."""

    NONE = auto()
    FIRST = auto()  # the device computes the first chunk
    HALF = auto()
    LAST = auto()  # the device computes the last chunk
    WHOLE = auto()


class Target(State):
    """Whether the pass knows where its KV goes."""

    PENDING = auto()
    FINALIZED = auto()


class Receiving(State):
    """The state of a request at the sink."""

    NEW = auto()
    ASKED = auto()  # the request waits for a page
    PUBLISHED = auto()
    SUCCESS = auto()
    FAILED = auto()


h, k, other = Life("h"), Life("k"), Life("other")
m, spare = Slot("m"), Slot("spare")
s, t = RunningSlot("s"), RunningSlot("t")
g = Page("g")
a, again = Attempt("a"), Attempt("again")

prefill = Machine("prefill")
decode = Machine("decode")
network = Machine("network", world=True)

_END: Final = (Stage.FAILED,)

stage = prefill.function("stage", Stage, Life, edges={
    Stage.NEW: (Stage.QUEUED, *_END),
    Stage.QUEUED: (Stage.WAITING, *_END),
    Stage.WAITING: (Stage.RUNNING, *_END),
    Stage.HEAD: (Stage.RUNNING, *_END),
    Stage.RUNNING: (Stage.PARKED, Stage.SENDING, Stage.HEAD, Stage.DEFERRED, *_END),
    Stage.PARKED: (Stage.SENDING, Stage.HEAD, Stage.DEFERRED, *_END),
    Stage.DEFERRED: (Stage.WAITING, *_END),
    Stage.SENDING: (Stage.SUCCESS, *_END),
})
forward = prefill.function("forward", Forward, Life, edges={
    Forward.NONE: (Forward.FIRST,),
    Forward.FIRST: (Forward.HALF,),
    Forward.HALF: (Forward.LAST, Forward.NONE),
    Forward.LAST: (Forward.WHOLE,),
    Forward.WHOLE: (Forward.NONE,),
})
link = prefill.function("link", Target, Life, edges={Target.PENDING: (Target.FINALIZED,)})
ready = prefill.relation("ready", Life)
slot = prefill.relation("slot", Life, Slot)
running_slot = prefill.relation("running_slot", Life, RunningSlot)
tried = prefill.relation("tried", Life, Attempt)
retried = prefill.relation("retried", Life)

receiving = decode.function("receiving", Receiving, Life, edges={
    Receiving.NEW: (Receiving.ASKED, Receiving.FAILED),
    Receiving.ASKED: (Receiving.PUBLISHED, Receiving.FAILED),
    Receiving.PUBLISHED: (Receiving.SUCCESS, Receiving.FAILED),
})
page = decode.relation("page", Life, Page)

publish = Message("publish", h, sender=decode, receiver=prefill)
abort = Message("abort", h, sender=decode, receiver=prefill)
done = Message("done", h, sender=prefill, receiver=decode)
failed = Message("failed", h, sender=prefill, receiver=decode)

# SHA-256 of the request's id, below a threshold: every rank computes the same.
sampled = Rigid("sampled", h)

QUEUED: Final = (Stage.QUEUED, Stage.DEFERRED)
FOR_A_RUNNING_SLOT: Final = (Stage.WAITING, Stage.HEAD)
ADMITTED: Final = (*FOR_A_RUNNING_SLOT, Stage.RUNNING, Stage.PARKED)
BEFORE_SENDING: Final = (*QUEUED, *ADMITTED)
ACTIVE: Final = (*BEFORE_SENDING, Stage.SENDING)
ENDED: Final = (Stage.SUCCESS, Stage.FAILED)
OPEN: Final = (Receiving.ASKED, Receiving.PUBLISHED)

AT_REST: Final = ~forward(h).among(Forward.FIRST, Forward.LAST)
POLLED: Final = any_of(
    stage(h) == Stage.PARKED,
    all_of(stage(h) == Stage.RUNNING, forward(h).among(Forward.HALF, Forward.WHOLE)),
)
HAS_PARKED: Final = all_of(stage(h) == Stage.PARKED, forward(h) == Forward.WHOLE)
BETWEEN_CHUNKS: Final = all_of(stage(h) == Stage.RUNNING, forward(h) == Forward.HALF)
UNSENT: Final = link(h) == Target.PENDING
FINALIZED: Final = link(h) == Target.FINALIZED
FORCED: Final = all_of(sampled(h), ~retried(h))
SLOT_IS_FREE: Final = forall(other, ~slot(other, m))
RUNNING_SLOT_IS_FREE: Final = forall(other, ~running_slot(other, s))
NEXT_ATTEMPT: Final = all_of(~tried(h, a), forall(again, implies(again.before(a), tried(h, again))))
NO_ATTEMPT_LEFT: Final = forall(again, tried(h, again))
# k has its bootstrap, and waits only for a running slot or a slot.
WANTS_RUNNING_SLOT: Final = all_of(
    ready(k), stage(k).among(*FOR_A_RUNNING_SLOT), forall(t, exists(other, running_slot(other, t)))
)
WANTS_SLOT: Final = all_of(
    ready(k), stage(k).among(*QUEUED), forall(spare, exists(other, slot(other, spare)))
)
# h has no destination, and k could go on in its place.
WITHOUT_LINK: Final = (~ready(h), UNSENT, ~FORCED, any_of(HAS_PARKED, BETWEEN_CHUNKS))
YIELDS: Final = (*WITHOUT_LINK, any_of(WANTS_RUNNING_SLOT, WANTS_SLOT))
DROP_KV: Final = (forward(h).to(Forward.NONE), running_slot(h, ANY).to(False), retried(h).to(True))
RUN_AGAIN: Final = (stage(h).to(Stage.HEAD), tried(h, a).to(True), *DROP_KV)
FREE_SLOT: Final = slot(h, ANY).to(False)
FALL_BACK: Final = (stage(h).to(Stage.DEFERRED), FREE_SLOT, *DROP_KV)
FAIL: Final = (stage(h).to(Stage.FAILED),)

PREFILL: Final = Table(prefill, rows=(
    Row("submit", on=Call("submit", h), when=stage(h) == Stage.NEW,
        do=[stage(h).to(Stage.QUEUED)], fair=True,
        why="the router sends each request to both servers"),
    Ignore(Call("submit", h), when=stage(h) == Stage.FAILED,
           why="the sink gave up first: the caller gets Failed, and does not run prefill"),
    Row("reserve_early", choose=(h, m, a),
        when=[stage(h) == Stage.QUEUED, ~ready(h), SLOT_IS_FREE, NEXT_ATTEMPT],
        do=[stage(h).to(Stage.WAITING), slot(h, m).to(True), tried(h, a).to(True)],
        why="the source computes while it waits for the sink"),
    Row("reserve", choose=(h, m), when=[stage(h).among(*QUEUED), ready(h), SLOT_IS_FREE],
        do=[stage(h).to(Stage.WAITING), slot(h, m).to(True)]),
    Row("start", choose=(h, s),
        when=[stage(h) == Stage.WAITING, forward(h) == Forward.NONE,
              forall(k, stage(k) != Stage.HEAD), RUNNING_SLOT_IS_FREE],
        do=[stage(h).to(Stage.RUNNING), running_slot(h, s).to(True), forward(h).to(Forward.FIRST)]),
    Row("start_again", choose=(h, s),
        when=[stage(h) == Stage.HEAD, forward(h) == Forward.NONE, RUNNING_SLOT_IS_FREE],
        do=[stage(h).to(Stage.RUNNING), running_slot(h, s).to(True), forward(h).to(Forward.FIRST)],
        why="this request has waited longest, and most of its prefix is still cached"),
    Row("finish_first", on=Completion("first_chunk", h), when=forward(h) == Forward.FIRST,
        do=[forward(h).to(Forward.HALF)]),
    Row("launch_last", choose=(h,),
        when=[BETWEEN_CHUNKS, any_of(~ready(h), FINALIZED, FORCED)],
        do=[forward(h).to(Forward.LAST)]),
    Row("finish_last", on=Completion("last_chunk", h), when=forward(h) == Forward.LAST,
        do=[forward(h).to(Forward.WHOLE)]),
    Row("finalize", choose=(h,), when=[POLLED, ready(h), UNSENT, ~FORCED],
        do=[link(h).to(Target.FINALIZED)],
        why="a poll between chunks, after the last one, or while parked finds the sink"),
    Row("send", choose=(h,),
        when=[stage(h).among(Stage.RUNNING, Stage.PARKED), forward(h) == Forward.WHOLE,
              FINALIZED],
        do=[stage(h).to(Stage.SENDING)]),
    Row("succeed", on=Completion("landed", h), when=stage(h) == Stage.SENDING,
        do=[stage(h).to(Stage.SUCCESS), running_slot(h, ANY).to(False), FREE_SLOT], send=[done(h)]),
    *(Ignore(Completion(chunk, h), when=forward(h) != computing,
             why="a device reports the end of a chunk that it was given")
      for chunk, computing in (("first_chunk", Forward.FIRST), ("last_chunk", Forward.LAST))),
    Ignore(Completion("landed", h), when=stage(h) != Stage.SENDING,
           why="the request has failed meanwhile: the landed bytes do not count"),

    Row("park", choose=(h,),
        when=[stage(h) == Stage.RUNNING, forward(h) == Forward.WHOLE, UNSENT,
              any_of(~ready(h), FORCED)],
        do=[stage(h).to(Stage.PARKED)],
        why="a request keeps its KV until another needs its place"),
    Row("run_again", choose=(h, k, a), when=[*YIELDS, NEXT_ATTEMPT], do=RUN_AGAIN,
        why="k has its bootstrap, and needs the running slot or, in the end, the slot"),
    Row("fall_back", choose=(h, k), when=[*YIELDS, NO_ATTEMPT_LEFT], do=FALL_BACK,
        why="k needs the place, and h has no attempt left"),
    Row("force_retry", choose=(h, a),
        when=[HAS_PARKED, UNSENT, FORCED, NEXT_ATTEMPT], do=RUN_AGAIN,
        why="a test forces a retry; all ranks sample alike"),
    Row("force_fall_back", choose=(h,),
        when=[HAS_PARKED, UNSENT, FORCED, NO_ATTEMPT_LEFT], do=FALL_BACK,
        why="a test forces a retry, and there is only one attempt"),

    Row("give_up_waiting", on=Timer("bootstrap_timeout"), choose=(h,),
        when=[stage(h).among(*BEFORE_SENDING), ~ready(h)], do=FAIL, send=[failed(h)],
        why="a request that reached one server only must end there"),
    Row("abort_prefill", on=Call("abort_prefill", h), when=stage(h).among(*ACTIVE),
        do=FAIL, send=[failed(h)]),
    Row("stop", on=abort(h), when=stage(h).among(Stage.NEW, *ACTIVE), do=FAIL,
        why="also for a request that has not come yet: it finds Failed when it comes"),
    Row("release", choose=(h,),
        when=[stage(h) == Stage.FAILED, AT_REST,
              any_of(exists(m, slot(h, m)), exists(s, running_slot(h, s)))],
        do=[running_slot(h, ANY).to(False), FREE_SLOT],
        why="as soon as no launched batch writes the KV"),

    Row("learn", on=publish(h), when=[stage(h).among(Stage.NEW, *BEFORE_SENDING), ~ready(h)],
        do=[ready(h).to(True)]),
    Row("done_again", on=publish(h), when=stage(h) == Stage.SUCCESS, send=[done(h)],
        why="the answer may have been lost"),
    Row("refuse", on=publish(h), when=stage(h) == Stage.FAILED, send=[failed(h)],
        why="the sink is late, or the failure did not reach it: nothing will be sent"),
    Ignore(publish(h), when=[stage(h).among(Stage.NEW, *ACTIVE), ready(h)],
           why="the source has this address already"),
    Reject(publish(h), when=[stage(h) == Stage.SENDING, ~ready(h)],
           why="nothing is sent before the address is known"),
    Ignore(abort(h), when=stage(h).among(*ENDED), why="the request has ended here too"),
))

GIVE_UP: Final = (receiving(h).to(Receiving.FAILED), page(h, ANY).to(False))

DECODE: Final = Table(decode, rows=(
    Row("open", on=Call("open", h), when=receiving(h) == Receiving.NEW,
        do=[receiving(h).to(Receiving.ASKED)], fair=True,
        why="the router sends each request to both servers"),
    Ignore(Call("open", h), when=receiving(h) == Receiving.FAILED, why="the source gave up first"),
    Row("grant", choose=(h, g),
        when=[receiving(h) == Receiving.ASKED, forall(k, ~page(k, g))],
        do=[receiving(h).to(Receiving.PUBLISHED), page(h, g).to(True)], send=[publish(h)]),
    Row("publish_again", on=Timer("no_bytes"), choose=(h,),
        when=receiving(h) == Receiving.PUBLISHED, send=[publish(h)],
        why="the address, or the answer to it, may have been lost"),
    Row("take", on=done(h), when=receiving(h) == Receiving.PUBLISHED,
        do=[receiving(h).to(Receiving.SUCCESS)]),
    Row("finish", on=Call("finish", h, g), when=[receiving(h) == Receiving.SUCCESS, page(h, g)],
        do=[page(h, g).to(False)], fair=True, why="every answer ends"),
    Row("abort_decode", on=Call("abort_decode", h), when=receiving(h).among(*OPEN),
        do=GIVE_UP, send=[abort(h)]),
    Row("give_up_transfer", on=Timer("transfer_timeout"), choose=(h,),
        when=receiving(h).among(*OPEN), do=GIVE_UP, send=[abort(h)],
        why="a request that reached one server only must end there"),
    Row("hear_failure", on=failed(h), when=receiving(h).among(Receiving.NEW, *OPEN), do=GIVE_UP,
        why="also for a request that has not come yet: it gets Failed when it comes"),
    Ignore(failed(h), when=receiving(h) == Receiving.FAILED, why="the request has ended here too"),
    Ignore(done(h), when=receiving(h).among(Receiving.SUCCESS, Receiving.FAILED),
           why="the sink published its address twice, or the request has ended here"),
    Reject(failed(h), when=receiving(h) == Receiving.SUCCESS,
           why="a source that has succeeded does not fail"),
    Reject(done(h), when=receiving(h).among(Receiving.NEW, Receiving.ASKED),
           why="the sink has not published"),
))

LOSSY: Final = Table(network, rows=tuple(map(lose, (publish, abort, done, failed))))
