"""A decode rank of SGLang 0.5.23: the receiver, its message thread, and the release of pages."""

from typing import Final

from lab.peers.sglang_ends import (
    OPEN,
    READY,
    Generation,
    Status,
    abort,
    abort_ack,
    acked,
    armed,
    arrived,
    content,
    d,
    early_abort,
    failed,
    found,
    invited,
    k,
    metadata,
    p,
    page,
    published,
    r,
    receiving,
    sink,
    spent,
    success,
)
from pdproto.spec.handoff.roles import Source
from pdproto.spec.language import (
    ANY,
    Call,
    Ignore,
    Row,
    Table,
    Timer,
    each,
    exists,
    forall,
)

q, other, each_k = Source("q"), Generation("other"), Generation("each_k")

ENDED: Final = (Status.SUCCESS, Status.FAILED)
OTHERS_ARRIVED: Final = forall(q, q.same(p) | arrived(d, r, q))
SOME_MISSING: Final = exists(q, q.differs(p) & ~arrived(d, r, q))
UNARMED: Final = forall(each_k, ~armed(d, r, each_k))
FRESH: Final = [UNARMED, ~spent(d, r, k)]
ARMED_ALREADY: Final = [armed(d, r, other), ~spent(d, r, k), k.differs(other)]
ARM: Final = (armed(d, r, k).to(True), spent(d, r, k).to(True))
ABORT_ALL: Final = each(q, abort(d, r, q, k))
ALL_ACKED: Final = forall(q, acked(d, r, k, q))
AFRESH: Final = (
    invited(d, r).to(True), found(d, r).to(False), published(d, r).to(False),
)
PUBLISHED: Final = (
    published(d, r).to(True), page(d, r).to(True), content(d, r, ANY, ANY).to(False),
)

RECEIVER: Final = (
    Row("open_receiver", on=Call("open_receiver"), at=Status.ABSENT, to=Status.BOOTSTRAPPING,
        when=~invited(d, r), do=AFRESH),
    Row("reopen_receiver", on=Call("reopen_receiver"), at=Status.ABSENT,
        to=Status.BOOTSTRAPPING, when=invited(d, r), do=AFRESH, why="the number is used again"),
    Row("reopen_receiver_abandoned", on=Call("reopen_receiver"), at=Status.FAILED,
        why="the earlier receiver has failed and was never cleared"),
    Row("find_ranks", on=Call("init"), at=Status.BOOTSTRAPPING, to=Status.WAITING,
        do=[found(d, r).to(True)], fair=True),
    Row("miss_ranks", on=Call("init_failed"), at=Status.BOOTSTRAPPING, to=Status.FAILED,
        why="the look-up, or the registration of the pages, has failed"),
    Row("publish", on=Call("send_metadata"), at=READY, when=[found(d, r), ~published(d, r)],
        do=PUBLISHED, send=[each(q, metadata(d, r, q))]),
    Ignore(Call("send_metadata"), at=Status.FAILED, why="the receiver has concluded"),
    Row("abort_unfound", on=Call("abort_receiver"), at=OPEN, to=Status.FAILED,
        when=[~found(d, r), ~published(d, r)],
        why="no prefill rank is known, so none gets the abort"),
    Row("abort_unpublished", on=Call("abort_receiver"), at=READY, to=Status.FAILED,
        when=[found(d, r), ~published(d, r)], send=[each(q, early_abort(d, r, q))]),
    Row("abort_published", on=Call("abort_receiver"), at=(*READY, Status.SUCCESS),
        to=Status.FAILED, choose=(k,), when=[published(d, r), *FRESH], do=ARM, send=[ABORT_ALL]),
    Row("abort_published_again", on=Call("abort_receiver"), at=(*READY, Status.SUCCESS),
        to=Status.FAILED, choose=(k, other), when=[published(d, r), *ARMED_ALREADY],
        do=[*ARM, armed(d, r, other).to(False)], send=[ABORT_ALL],
        why="the pages of the earlier use are held, but the set of its answers is lost"),
    Row("give_up", on=Timer("waiting_timeout"), at=Status.WAITING, to=Status.FAILED, choose=(k,),
        when=[published(d, r), *FRESH], do=ARM, send=[ABORT_ALL], why="after 300 s"),
    Row("notify", on=Call("ensure_abort_notified"), at=Status.FAILED, choose=(k,),
        when=[found(d, r), page(d, r), *FRESH], do=ARM, send=[ABORT_ALL], fair=True,
        why="another rank has failed: its siblings may be writing"),
    Row("notify_again", on=Call("ensure_abort_notified"), at=Status.FAILED, choose=(k, other),
        when=[found(d, r), page(d, r), *ARMED_ALREADY], do=[*ARM, armed(d, r, other).to(False)],
        send=[ABORT_ALL], why="as in abort_published_again"),
    Row("lose_prefill", on=Timer("heartbeat", detector=True), at=OPEN, to=Status.FAILED,
        fair=False, why="/health has failed twice; here the prefill rank always lives"),
    Row("clear_receiver", on=Call("clear"), at=ENDED, to=Status.ABSENT,
        do=[arrived(d, r, ANY).to(False)], fair=True),
    Row("keep_pages", on=Call("commit"), at=Status.SUCCESS, when=page(d, r),
        do=[page(d, r).to(False)], why="the pages now belong to the running request"),
)

HEARING: Final = (
    Row("take_part", on=success(p, r, d), at=(*OPEN, Status.SUCCESS), when=SOME_MISSING,
        do=[arrived(d, r, p).to(True)]),
    Row("take_last_part", on=success(p, r, d), at=(*OPEN, Status.SUCCESS), to=Status.SUCCESS,
        when=OTHERS_ARRIVED, do=[arrived(d, r, p).to(True)]),
    Row("take_part_late", on=success(p, r, d), at=Status.FAILED, do=[arrived(d, r, p).to(True)]),
    Ignore(success(p, r, d), at=Status.ABSENT, why="the rank does not know this room"),
    Row("hear_failure", on=failed(p, r, d), at=(*OPEN, Status.SUCCESS), to=Status.FAILED,
        why="Failed replaces any status"),
    Ignore(failed(p, r, d), at=(Status.ABSENT, Status.FAILED), why="the room is over here too"),
    Row("note_ack", on=abort_ack(p, r, d, k), when=armed(d, r, k),
        do=[acked(d, r, k, p).to(True)]),
    Ignore(abort_ack(p, r, d, k), when=~armed(d, r, k),
           why="the answer belongs to an earlier abort"),
)

HELD: Final = (Status.ABSENT, Status.FAILED)
RELEASE: Final = (page(d, r).to(False), armed(d, r, ANY).to(False))

HOLDING: Final = (
    Row("release_drained", on=Call("release"), at=HELD, choose=(k,),
        when=[armed(d, r, k), ALL_ACKED], do=RELEASE, fair=True),
    Row("release_by_clock", on=Timer("deferred_release"), at=HELD, choose=(k,),
        when=[armed(d, r, k), page(d, r)], do=RELEASE, fair=True, why="after 30 s"),
)

SINK: Final = Table(sink, state=receiving, rows=(*RECEIVER, *HEARING, *HOLDING))
