"""The sink: a decode rank, once for each life of a room that it receives, and its memory.

Rule 1: sources write into a landing chunk that is leased to one life, never into a page.
Rule 2: it commits when every source says that its part has landed, and the digest of what it copies
        into its own page agrees.
Rule 3: a lease ends when every source that was given the address has landed, has drained or is
        fenced. No clock ends it: a time-out asks for a fence.
Rule 4: a failure, wherever it comes from, stops every source, and is repeated until they answer;
        unless all have landed, when there is nothing left to stop.
Rule 5: a clock runs while a source may not have the request. Once all have said that they do, the
        request waits for memory as long as its own server lets it (`queue_timeout`).
Rule 6: the page and the metadata slot are the sink's alone: what lands is copied into them when it
        commits. They are free as soon as the life has failed.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    Claim,
    Memory,
    Receiving,
    abort,
    abort_ack,
    address,
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
# It has not answered the abort.
UNANSWERED: Final = (Claim.TOLD, Claim.OUT, Claim.STOPPING)

ALL_LANDED: Final = forall(q, implies(feeds(q, d), claim(d, h, q) == Claim.LANDED))
NO_CLAIM: Final = forall(q, implies(feeds(q, d), ~claim(d, h, q).among(*THREATENS)))
ALL_MET: Final = forall(q, implies(feeds(q, d), has_met(d, h, q)))
SOME_UNMET: Final = exists(q, feeds(q, d) & ~has_met(d, h, q))
INTACT: Final = forall((q, part), implies(feeds(q, d), content(d, h, b, q, part)))
SPOILT: Final = exists((q, part), feeds(q, d) & ~content(d, h, b, q, part))

# What every failure does: page and slot are free, the request for memory withdrawn.
DROP: Final = (
    page(d, h, ANY).to(False), slot(d, h, ANY).to(False), memory(d, h).to(Memory.UNASKED)
)
STOP_ALL: Final = each(q, abort(d, h, q), where=feeds(q, d))

SINK: Final = Table(sink, state=receiving, rows=(
    Row("begin_receive", on=Call("open_receiver"), at=Receiving.UNKNOWN,
        to=Receiving.BOOTSTRAPPING, when=forall(q, claim(d, h, q) == Claim.NONE),
        do=[memory(d, h).to(Memory.ASKED), claim(d, h, ANY).to(Claim.TOLD)],
        send=[each(q, introduce(d, h, q), where=feeds(q, d))],
        why="sources hear of it before there is memory, so that they can tell it of a failure"),
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
        why="the address, or what answers it, may have been lost"),
    Row("take_part", on=done(p, h, d), at=PUBLISHED, to=Receiving.TRANSFERRING,
        when=claim(d, h, p) == Claim.OUT, do=[claim(d, h, p).to(Claim.LANDED)]),
    Row("commit", at=Receiving.TRANSFERRING, to=Receiving.SUCCESS, choose=(b,),
        when=[address(d, h, b), ALL_LANDED, INTACT], do=[lease(d, h, b).to(False)]),
    Row("find_spoilt", at=Receiving.TRANSFERRING, to=Receiving.FAILED, choose=(b,),
        when=[address(d, h, b), ALL_LANDED, SPOILT], do=DROP,
        why="the digest disagrees: somebody has written into our chunk; no source is left to stop"),
    Row("finish", on=Call("finish"), at=Receiving.SUCCESS, choose=(g, m),
        when=[page(d, h, g), slot(d, h, m)],
        do=[page(d, h, g).to(False), slot(d, h, m).to(False)], fair=True,
        why="no answer is generated for ever"),

    Row("abort_receive", on=Call("abort_receiver"), at=UNDER_WAY, to=Receiving.FAILED,
        do=DROP, send=[STOP_ALL], why="the client has left, or the server ends the request"),
    Ignore(Call("abort_receiver"), at=(*ENDED, Receiving.GONE),
           why="it has ended by itself meanwhile: the caller polls how"),
    Ignore(Call("finish"), at=Receiving.SUCCESS, when=forall(g, ~page(d, h, g)),
           why="it has been closed"),
    Ignore(Call("finish"), at=(Receiving.FAILED, Receiving.GONE),
           why="nothing is left to give back: its pages went with the failure"),
    Row("hear_failure", on=failed(p, h, d), at=UNDER_WAY, to=Receiving.FAILED,
        do=DROP, send=[STOP_ALL],
        why="one source's failure ends the hand-over, and its siblings may be writing"),
    Row("give_up_bootstrap", on=Timer("bootstrap_timeout"), at=Receiving.BOOTSTRAPPING,
        to=Receiving.FAILED, when=SOME_UNMET, do=DROP, send=[STOP_ALL],
        why="a request that reached one server only must end there"),
    Row("give_up_queue", on=Timer("queue_timeout"), at=Receiving.BOOTSTRAPPING,
        to=Receiving.FAILED, when=ALL_MET, do=DROP, send=[STOP_ALL],
        why="its server lets no request wait longer for memory"),
    Row("give_up_transfer", on=Timer("transfer_timeout"), at=PUBLISHED, to=Receiving.FAILED,
        do=DROP, send=[STOP_ALL], why="no state waits for ever for bytes"),
    Row("lose_source", on=Timer("heartbeat", detector=True), at=UNDER_WAY, to=Receiving.FAILED,
        choose=(p,), when=[feeds(p, d), gone(p, h, d), claim(d, h, p) != Claim.LANDED],
        do=DROP, send=[STOP_ALL], why="a part will never come"),

    Row("abort_again", on=Timer("no_answer"), at=Receiving.FAILED, choose=(p,),
        when=[feeds(p, d), claim(d, h, p).among(*UNANSWERED, Claim.FENCING)],
        send=[abort(d, h, p)],
        why="the abort, or what answers it, may have been lost; a fence tells the source nothing"),
    Row("note_stopping", on=abort_ack(p, h, d), at=Receiving.FAILED,
        when=claim(d, h, p) == Claim.OUT, do=[claim(d, h, p).to(Claim.STOPPING)],
        why="it has heard us, and that is all that this says: it may be writing"),
    Row("note_stopped", on=abort_ack(p, h, d), at=Receiving.FAILED,
        when=claim(d, h, p) == Claim.TOLD, do=[claim(d, h, p).to(Claim.DRAINED)],
        why="it never had an address"),
    Row("note_drained", on=drained(p, h, d), at=Receiving.FAILED,
        when=claim(d, h, p).among(*UNANSWERED, Claim.FENCING),
        do=[claim(d, h, p).to(Claim.DRAINED)],
        why="this source cannot write here again"),
    Row("note_landed", on=done(p, h, d), at=Receiving.FAILED,
        when=claim(d, h, p).among(*THREATENS), do=[claim(d, h, p).to(Claim.LANDED)],
        why="it had finished before it heard of the abort"),
    Row("fence_silent", on=Timer("no_drain"), at=Receiving.FAILED, choose=(p,),
        when=[feeds(p, d), claim(d, h, p).among(Claim.OUT, Claim.STOPPING)],
        do=[claim(d, h, p).to(Claim.FENCING)],
        why="a time proves nothing: it leads to a fence, never to reuse"),
    Row("fence_lost", on=Timer("heartbeat", detector=True), at=Receiving.FAILED, choose=(p,),
        when=[feeds(p, d), gone(p, h, d), claim(d, h, p).among(*UNANSWERED)],
        do=[claim(d, h, p).to(Claim.FENCING)],
        why="the process is gone, and what it had posted may still land"),
    Row("end_lease", at=Receiving.FAILED, choose=(b,), when=[lease(d, h, b), NO_CLAIM],
        do=[lease(d, h, b).to(False)],
        why="nobody who was given the address can still write to it"),

    Ignore(expecting(p, h, d), at=(*PUBLISHED, *ENDED), why="it waits for memory no more"),
    Ignore(failed(p, h, d), at=ENDED, why="it is over here too"),
    Ignore(done(p, h, d), at=(*PUBLISHED, Receiving.FAILED),
           when=claim(d, h, p).among(Claim.LANDED, Claim.DRAINED, Claim.FENCED),
           why="nothing more is expected of it"),
    Ignore(done(p, h, d), at=Receiving.SUCCESS, why="an answer to what we asked twice"),
    Ignore(abort_ack(p, h, d), at=Receiving.FAILED,
           when=~claim(d, h, p).among(Claim.TOLD, Claim.OUT), why="we know, or know more"),
    Ignore(drained(p, h, d), at=Receiving.FAILED,
           when=claim(d, h, p).among(Claim.LANDED, Claim.DRAINED, Claim.FENCED),
           why="we know, or did not wait for it"),
    Ignore(expecting(p, h, d), at=Receiving.GONE, why="its successor knows no such life"),
    Ignore(failed(p, h, d), at=Receiving.GONE, why="its successor knows no such life"),
    Ignore(done(p, h, d), at=Receiving.GONE, why="its successor knows no such life"),
    Ignore(abort_ack(p, h, d), at=Receiving.GONE, why="its successor knows no such life"),
    Ignore(drained(p, h, d), at=Receiving.GONE, why="its successor knows no such life"),
    Reject(expecting(p, h, d), at=Receiving.UNKNOWN, why="it cannot know of us yet"),
    Reject(failed(p, h, d), at=Receiving.UNKNOWN, why="it cannot know of us yet"),
    Reject(done(p, h, d), at=(Receiving.UNKNOWN, Receiving.BOOTSTRAPPING),
           why="it has no address to write to"),
    Reject(done(p, h, d), at=PUBLISHED,
           when=claim(d, h, p).among(Claim.NONE, Claim.TOLD, Claim.STOPPING, Claim.FENCING),
           why="whoever is published to may write, until the life fails"),
    Reject(done(p, h, d), at=Receiving.FAILED, when=claim(d, h, p).among(Claim.NONE, Claim.TOLD),
           why="it never had an address to write to"),
    Reject(drained(p, h, d), at=Receiving.FAILED, when=claim(d, h, p) == Claim.NONE,
           why="a life that has begun has claims"),
    Reject(abort_ack(p, h, d),
           at=(Receiving.UNKNOWN, *UNDER_WAY, Receiving.SUCCESS), why="no abort was sent"),
    Reject(drained(p, h, d),
           at=(Receiving.UNKNOWN, *UNDER_WAY, Receiving.SUCCESS), why="no abort was sent"),
))

POOL: Final = Table(pool, rows=(
    Row("grant", choose=(h, b, g, m),
        when=[memory(d, h) == Memory.ASKED,
              forall(k, ~lease(d, k, b)), forall(k, ~page(d, k, g)), forall(k, ~slot(d, k, m))],
        do=[memory(d, h).to(Memory.GIVEN), lease(d, h, b).to(True), page(d, h, g).to(True),
            slot(d, h, m).to(True)],
        why="a landing chunk, a page and a slot that are nobody's, all at once"),
))
