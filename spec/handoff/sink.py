"""The sink: a decode rank, once for each life of a room that it receives, and its memory.

Rule 1: Sources write into a staging buffer that is leased to one life, never into a page.
Rule 2: A sink commits when every source has reported that its part has landed, and the digest of
        the bytes that it copies into its own page agrees.
Rule 3: A lease ends when every source that has the address has landed, has drained or is fenced.
        No clock ends a lease: a time-out asks for a fence.
Rule 4: Any failure stops every source. The sink repeats the abort until they answer. If all parts
        have landed, there is nothing to stop.
Rule 5: A clock runs while a source may not have the request. Once all sources have confirmed it,
        the request waits for memory as long as its own server allows (`queue_timeout`).
Rule 6: A fence tells a source nothing. So the sink repeats the abort until the source knows that
        the life has ended, or is gone: also a source that has never heard of the life.
Rule 7: Silence of a source proves nothing: it may stand still, and go on. It fails the life when it
        has lasted for as long as the operator allows (`miss_source`), and never makes the source
        count as gone.
Rule 8: Page and metadata slot belong to the sink alone: it copies the landed bytes into them when
        it commits. They are free as soon as the life has failed.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    Claim,
    Memory,
    Receiving,
    abort,
    abort_ack,
    address,
    aware,
    b,
    claim,
    content,
    d,
    done,
    drained,
    expecting,
    failed,
    feeds,
    g,
    gone,
    h,
    has_met,
    introduce,
    k,
    lease,
    m,
    memory,
    p,
    page,
    pool,
    publish,
    receiving,
    sink,
    slot,
)
from pdproto.spec.handoff.roles import Chunk, Source
from pdproto.spec.language import (
    ANY,
    Call,
    Ignore,
    Reject,
    Row,
    Table,
    Timer,
    each,
    exists,
    forall,
    implies,
)

q, part = Source("q"), Chunk("part")

UNDER_WAY: Final = (Receiving.BOOTSTRAPPING, Receiving.WAITING, Receiving.TRANSFERRING)
PUBLISHED: Final = (Receiving.WAITING, Receiving.TRANSFERRING)
ENDED: Final = (Receiving.SUCCESS, Receiving.FAILED)

# The source may be about to write, or writing.
THREATENS: Final = (Claim.OUT, Claim.STOPPING, Claim.FENCING)
# The source has not answered the abort.
UNANSWERED: Final = (Claim.TOLD, Claim.OUT, Claim.STOPPING)
# The sink fences the source, or has fenced it, and the source may not know that the life has ended.
UNTOLD: Final = claim(d, h, p).among(Claim.FENCING, Claim.FENCED) & ~aware(d, h, p)
UNAWARE: Final = (claim(d, h, p) == Claim.FENCED) & ~aware(d, h, p)
ABORTED_AGAIN: Final = claim(d, h, p).among(*UNANSWERED, Claim.FENCING) | UNAWARE

ALL_LANDED: Final = forall(q, implies(feeds(q, d), claim(d, h, q) == Claim.LANDED))
NO_CLAIM: Final = forall(q, implies(feeds(q, d), ~claim(d, h, q).among(*THREATENS)))
ALL_MET: Final = forall(q, implies(feeds(q, d), has_met(d, h, q)))
SOME_UNMET: Final = exists(q, feeds(q, d) & ~has_met(d, h, q))
INTACT: Final = forall((q, part), implies(feeds(q, d), content(d, h, b, q, part)))
SPOILT: Final = exists((q, part), feeds(q, d) & ~content(d, h, b, q, part))

# Every failure frees page and slot, and withdraws the request for memory.
DROP: Final = (
    page(d, h, ANY).to(False), slot(d, h, ANY).to(False), memory(d, h).to(Memory.UNASKED)
)
STOP_ALL: Final = each(q, abort(d, h, q), where=feeds(q, d))

# The source has been silent for as long as the operator allows.
MISS: Final = Call("miss_source", p)

SINK: Final = Table(sink, state=receiving, rows=(
    Row("begin_receive", on=Call("open_receiver"), at=Receiving.UNKNOWN,
        to=Receiving.BOOTSTRAPPING, when=forall(q, claim(d, h, q) == Claim.NONE),
        do=[memory(d, h).to(Memory.ASKED), claim(d, h, ANY).to(Claim.TOLD)],
        send=[each(q, introduce(d, h, q), where=feeds(q, d))],
        why="sources learn of the sink before it has memory, so that they can report a failure"),
    Row("introduce_again", on=Timer("no_news"), at=Receiving.BOOTSTRAPPING,
        send=[each(q, introduce(d, h, q), where=feeds(q, d))],
        why="the introduction, or the failure that answers it, may have been lost"),
    Row("note_met", on=expecting(p, h, d), at=Receiving.BOOTSTRAPPING,
        do=[has_met(d, h, p).to(True)], why="the request has reached this source too"),
    Row("publish_memory", at=Receiving.BOOTSTRAPPING, to=Receiving.WAITING, choose=(b,),
        when=[lease(d, h, b), forall(q, claim(d, h, q) == Claim.TOLD)],
        do=[address(d, h, b).to(True), claim(d, h, ANY).to(Claim.OUT)],
        send=[each(q, publish(d, h, q), where=feeds(q, d))]),
    Row("publish_again", on=Timer("no_bytes"), at=PUBLISHED, choose=(p,),
        when=[feeds(p, d), claim(d, h, p) == Claim.OUT], send=[publish(d, h, p)],
        why="the address, or the answer to it, may have been lost"),
    Row("take_part", on=done(p, h, d), at=PUBLISHED, to=Receiving.TRANSFERRING,
        when=claim(d, h, p) == Claim.OUT, do=[claim(d, h, p).to(Claim.LANDED)]),
    Row("commit", at=Receiving.TRANSFERRING, to=Receiving.SUCCESS, choose=(b,),
        when=[address(d, h, b), ALL_LANDED, INTACT], do=[lease(d, h, b).to(False)]),
    Row("find_spoilt", at=Receiving.TRANSFERRING, to=Receiving.FAILED, choose=(b,),
        when=[address(d, h, b), ALL_LANDED, SPOILT], do=DROP,
        why="the digest differs: another write has reached this chunk; all sources have ended"),
    Row("finish", on=Call("finish"), at=Receiving.SUCCESS, choose=(g, m),
        when=[page(d, h, g), slot(d, h, m)],
        do=[page(d, h, g).to(False), slot(d, h, m).to(False)], fair=True,
        why="every answer ends"),

    Row("abort_receive", on=Call("abort_receiver"), at=UNDER_WAY, to=Receiving.FAILED,
        do=DROP, send=[STOP_ALL], why="the client has left, or the server ends the request"),
    Ignore(Call("abort_receiver"), at=(*ENDED, Receiving.GONE),
           why="the hand-over has ended meanwhile: the caller polls its result"),
    Ignore(Call("finish"), at=Receiving.SUCCESS, when=forall(g, ~page(d, h, g)),
           why="the caller has closed it already"),
    Ignore(Call("finish"), at=(Receiving.FAILED, Receiving.GONE),
           why="its pages were freed when it failed"),
    Row("hear_failure", on=failed(p, h, d), at=UNDER_WAY, to=Receiving.FAILED,
        do=DROP, send=[STOP_ALL],
        why="one source's failure ends the hand-over, and its siblings may be writing"),
    Row("give_up_bootstrap", on=Timer("bootstrap_timeout"), at=Receiving.BOOTSTRAPPING,
        to=Receiving.FAILED, when=SOME_UNMET, do=DROP, send=[STOP_ALL],
        why="a request that reached only one server must end there"),
    Row("give_up_queue", on=Timer("queue_timeout"), at=Receiving.BOOTSTRAPPING,
        to=Receiving.FAILED, when=ALL_MET, do=DROP, send=[STOP_ALL], fair=False,
        why="the server's bound for the wait for memory is over; by default there is none"),
    Row("give_up_transfer", on=Timer("transfer_timeout"), at=PUBLISHED, to=Receiving.FAILED,
        do=DROP, send=[STOP_ALL], why="no state waits for bytes for ever"),
    Row("lose_source", on=Timer("heartbeat", detector=True), at=UNDER_WAY, to=Receiving.FAILED,
        choose=(p,), when=[feeds(p, d), gone(p, h, d), claim(d, h, p) != Claim.LANDED],
        do=DROP, send=[STOP_ALL], why="this source's part will never come"),
    Row("give_up_source", on=MISS, at=UNDER_WAY, to=Receiving.FAILED,
        when=[feeds(p, d), claim(d, h, p) != Claim.LANDED], do=DROP, send=[STOP_ALL],
        why="the bound for silence is over: a time-out, like the others"),
    Ignore(MISS, at=UNDER_WAY,
           when=~feeds(p, d) | (claim(d, h, p) == Claim.LANDED),
           why="the sink needs nothing more of this source"),
    Ignore(MISS, at=(Receiving.UNKNOWN, *ENDED, Receiving.GONE),
           why="no request waits for it here"),

    Row("abort_again", on=Timer("no_answer"), at=Receiving.FAILED, choose=(p,),
        when=[feeds(p, d), ABORTED_AGAIN],
        send=[abort(d, h, p)],
        why="the abort, or the answer to it, may have been lost; a fence does not tell the source"),
    Row("note_stopping", on=abort_ack(p, h, d), at=Receiving.FAILED,
        when=claim(d, h, p) == Claim.OUT,
        do=[claim(d, h, p).to(Claim.STOPPING), aware(d, h, p).to(True)],
        why="the source has received the abort, and may still be writing"),
    Row("note_stopped", on=abort_ack(p, h, d), at=Receiving.FAILED,
        when=claim(d, h, p) == Claim.TOLD, do=[claim(d, h, p).to(Claim.DRAINED)],
        why="this source never had an address"),
    Row("note_drained", on=drained(p, h, d), at=Receiving.FAILED,
        when=claim(d, h, p).among(*UNANSWERED, Claim.FENCING),
        do=[claim(d, h, p).to(Claim.DRAINED)],
        why="this source can no longer write here"),
    Row("note_landed", on=done(p, h, d), at=Receiving.FAILED,
        when=claim(d, h, p).among(*THREATENS), do=[claim(d, h, p).to(Claim.LANDED)],
        why="the source had finished before it received the abort"),
    Row("note_aware", on=abort_ack(p, h, d), at=Receiving.FAILED, when=UNTOLD,
        do=[aware(d, h, p).to(True)], why="the source may still be writing, and a fence ends that"),
    Row("note_aware_by_drain", on=drained(p, h, d), at=Receiving.FAILED, when=UNAWARE,
        do=[aware(d, h, p).to(True)], why="the fence is done, and so is the source"),
    Row("note_gone", on=Timer("heartbeat", detector=True), at=Receiving.FAILED, choose=(p,),
        when=[feeds(p, d), gone(p, h, d), UNTOLD], do=[aware(d, h, p).to(True)],
        why="no process is left that the sink could tell"),
    Row("fence_silent", on=Timer("no_drain"), at=Receiving.FAILED, choose=(p,),
        when=[feeds(p, d), claim(d, h, p).among(Claim.OUT, Claim.STOPPING)],
        do=[claim(d, h, p).to(Claim.FENCING)],
        why="a time-out proves nothing: it leads to a fence, never to reuse"),
    Row("fence_lost", on=Timer("heartbeat", detector=True), at=Receiving.FAILED, choose=(p,),
        when=[feeds(p, d), gone(p, h, d), claim(d, h, p).among(*UNANSWERED)],
        do=[claim(d, h, p).to(Claim.FENCING), aware(d, h, p).to(True)],
        why="the process is gone, and its posted writes may still land"),
    Row("end_lease", at=Receiving.FAILED, choose=(b,), when=[lease(d, h, b), NO_CLAIM],
        do=[lease(d, h, b).to(False)],
        why="no source that has the address can still write to it"),

    Ignore(expecting(p, h, d), at=(*PUBLISHED, *ENDED), why="the sink waits for memory no more"),
    Ignore(failed(p, h, d), at=ENDED, why="the life has ended here too"),
    Ignore(done(p, h, d), at=(*PUBLISHED, Receiving.FAILED),
           when=claim(d, h, p).among(Claim.LANDED, Claim.DRAINED, Claim.FENCED),
           why="the sink expects nothing more of this source"),
    Ignore(done(p, h, d), at=Receiving.SUCCESS,
           why="DONE answers an address that the sink published again"),
    Ignore(abort_ack(p, h, d), at=Receiving.FAILED,
           when=~(claim(d, h, p).among(Claim.TOLD, Claim.OUT) | UNTOLD),
           why="the sink knows this, or more"),
    Ignore(drained(p, h, d), at=Receiving.FAILED,
           when=claim(d, h, p).among(Claim.LANDED, Claim.DRAINED, Claim.FENCED) & ~UNAWARE,
           why="the sink knows this, or did not wait for it"),
    Ignore(expecting(p, h, d), at=Receiving.GONE,
           why="the sink's successor does not know this life"),
    Ignore(failed(p, h, d), at=Receiving.GONE, why="the sink's successor does not know this life"),
    Ignore(done(p, h, d), at=Receiving.GONE, why="the sink's successor does not know this life"),
    Ignore(abort_ack(p, h, d), at=Receiving.GONE,
           why="the sink's successor does not know this life"),
    Ignore(drained(p, h, d), at=Receiving.GONE, why="the sink's successor does not know this life"),
    Reject(expecting(p, h, d), at=Receiving.UNKNOWN, why="the source cannot know of this sink yet"),
    Reject(failed(p, h, d), at=Receiving.UNKNOWN, why="the source cannot know of this sink yet"),
    Reject(done(p, h, d), at=(Receiving.UNKNOWN, Receiving.BOOTSTRAPPING),
           why="the source has no address to write to"),
    Reject(done(p, h, d), at=PUBLISHED,
           when=claim(d, h, p).among(Claim.NONE, Claim.TOLD, Claim.STOPPING, Claim.FENCING),
           why="a source that has the address may write until the life fails"),
    Reject(done(p, h, d), at=Receiving.FAILED, when=claim(d, h, p).among(Claim.NONE, Claim.TOLD),
           why="this source never had an address to write to"),
    Reject(drained(p, h, d), at=Receiving.FAILED, when=claim(d, h, p) == Claim.NONE,
           why="a life that has begun has a claim for every source"),
    Reject(abort_ack(p, h, d),
           at=(Receiving.UNKNOWN, *UNDER_WAY, Receiving.SUCCESS), why="the sink has sent no abort"),
    Reject(drained(p, h, d),
           at=(Receiving.UNKNOWN, *UNDER_WAY, Receiving.SUCCESS), why="the sink has sent no abort"),
))

POOL: Final = Table(pool, rows=(
    Row("grant", choose=(h, b, g, m),
        when=[memory(d, h) == Memory.ASKED,
              forall(k, ~lease(d, k, b)), forall(k, ~page(d, k, g)), forall(k, ~slot(d, k, m))],
        do=[memory(d, h).to(Memory.GIVEN), lease(d, h, b).to(True), page(d, h, g).to(True),
            slot(d, h, m).to(True)],
        why="the pool grants a staging buffer, a page and a slot together, if all are free"),
))
