"""The source: a prefill rank, once for each life of a room that it hands over.

Rule 1: it writes only to an address that this life's sink published, and only while TRANSFERRING.
Rule 2: Success and Failed are for good. Failed begins no write, but ends none either.
Rule 3: DRAINED to a sink means that nothing of this life is being written there, or ever will be;
        ABORT_ACK means that the abort has been heard, and no more.
Rule 4: the pages that the engine reads are held until no write of this life is under way.
Rule 5: every sink that introduced itself hears of a failure at once; who comes later is told then.

A life that ended is remembered as Success or Failed, so that what comes late meets the same answer.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    Drain,
    Sending,
    Write,
    abort,
    abort_ack,
    address,
    b,
    d,
    done,
    drain,
    drained,
    failed,
    feeds,
    h,
    introduce,
    known,
    kv,
    p,
    publish,
    sending,
    source,
    write,
)
from pdproto.spec.handoff.roles import Landing, Sink
from pdproto.spec.language import (
    Call,
    Completion,
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

other, spot = Sink("other"), Landing("spot")

OPEN: Final = (Sending.UNKNOWN, Sending.BOOTSTRAPPING, Sending.TRANSFERRING)
RUNNING: Final = (Sending.BOOTSTRAPPING, Sending.TRANSFERRING)
ENDED: Final = (Sending.SUCCESS, Sending.FAILED)

# This sink has not said where its part goes.
UNADDRESSED: Final = forall(spot, write(p, h, d, spot) == Write.NONE)
# Nothing of this life is under way to this sink; to any sink.
QUIET: Final = forall(spot, write(p, h, d, spot) != Write.POSTED)
QUIESCENT: Final = forall((other, spot), write(p, h, other, spot) != Write.POSTED)
# Every sink that this source feeds has said where its part goes.
ALL_PUBLISHED: Final = forall(
    other, implies(feeds(p, other), exists(spot, write(p, h, other, spot) == Write.READY))
)
ALL_LANDED: Final = forall(
    other, implies(feeds(p, other), exists(spot, write(p, h, other, spot) == Write.LANDED))
)
NOTHING_OPEN: Final = forall(
    (other, spot), write(p, h, other, spot).among(Write.NONE, Write.LANDED)
)

SOURCE: Final = Table(source, state=sending, rows=(
    Row("begin_send", on=Call("open_sender"), at=Sending.UNKNOWN, to=Sending.BOOTSTRAPPING,
        do=[kv(p, h).to(True)]),
    Ignore(Call("open_sender"), at=Sending.FAILED,
           why="the sink gave up first: the caller polls Failed, and prefill is not run"),
    Row("meet", on=introduce(d, h, p), at=OPEN, do=[known(p, h, d).to(True)],
        why="it has nothing to offer yet, but must hear of it if we fail"),
    Row("learn", on=publish(d, h, p), at=OPEN, choose=(b,), when=[address(d, h, b), UNADDRESSED],
        do=[write(p, h, d, b).to(Write.READY), known(p, h, d).to(True)]),
    Row("send", on=Call("send"), at=Sending.BOOTSTRAPPING, to=Sending.TRANSFERRING,
        when=ALL_PUBLISHED),
    Row("post", at=Sending.TRANSFERRING, choose=(d, b), when=write(p, h, d, b) == Write.READY,
        do=[write(p, h, d, b).to(Write.POSTED)],
        why="the worker looks at the state again before every destination"),
    Row("succeed", at=Sending.TRANSFERRING, to=Sending.SUCCESS,
        when=[ALL_LANDED, NOTHING_OPEN], send=[each(d, done(p, h, d), where=feeds(p, d))]),
    Row("meet_refusal", at=Sending.TRANSFERRING, to=Sending.FAILED, choose=(d, b),
        when=write(p, h, d, b) == Write.REFUSED,
        why="a sink has fenced us: it has given this life up"),
    Row("give_up_waiting", on=Timer("bootstrap_timeout"), at=Sending.BOOTSTRAPPING,
        to=Sending.FAILED, why="a request that reached one server only must end there"),
    Row("meet_error", on=Completion("error", d, b), at=Sending.TRANSFERRING, to=Sending.FAILED,
        when=write(p, h, d, b) == Write.POSTED, fair=False,
        why="the engine gives up on a write that may still land: failed is not quiescent"),
    Ignore(Completion("error", d, b), at=Sending.TRANSFERRING,
           when=write(p, h, d, b) != Write.POSTED, why="it has ended after all"),
    Ignore(Completion("error", d, b),
           at=(Sending.UNKNOWN, Sending.BOOTSTRAPPING, *ENDED, Sending.GONE),
           why="nobody counts on this write any more"),
    Row("abort_send", on=Call("abort_sender"), at=RUNNING, to=Sending.FAILED,
        why="the client has left, or the server ends the request"),
    Row("tell_failure", at=Sending.FAILED, choose=(d,), when=known(p, h, d),
        do=[known(p, h, d).to(False)], send=[failed(p, h, d)],
        why="failure travels both ways, in one message"),

    Row("stop", on=abort(d, h, p), at=OPEN, to=Sending.FAILED,
        when=drain(p, h, d) == Drain.UNASKED,
        do=[drain(p, h, d).to(Drain.ASKED), known(p, h, d).to(False)], send=[abort_ack(p, h, d)],
        why="also a life that it has not met yet: what comes of it later finds it Failed"),
    Row("stop_late", on=abort(d, h, p), at=ENDED, when=drain(p, h, d) == Drain.UNASKED,
        do=[drain(p, h, d).to(Drain.ASKED), known(p, h, d).to(False)], send=[abort_ack(p, h, d)],
        why="it has ended by itself, and its writes may not have"),
    Ignore(abort(d, h, p), at=ENDED, when=drain(p, h, d) == Drain.ASKED,
           why="DRAINED will answer, and says more than another ABORT_ACK"),
    Row("say_drained", at=ENDED, choose=(d,), when=[drain(p, h, d) == Drain.ASKED, QUIET],
        do=[drain(p, h, d).to(Drain.SAID)], send=[drained(p, h, d)],
        why="nothing is on its way to this sink, and no row of an ended life begins a write"),
    Row("say_drained_again", on=abort(d, h, p), at=ENDED, when=drain(p, h, d) == Drain.SAID,
        send=[drained(p, h, d)], why="the answer may have been lost"),
    Row("release_kv", at=ENDED, when=[kv(p, h), QUIESCENT], do=[kv(p, h).to(False)],
        why="no write of this life reads them any more"),

    Row("refuse_meeting", on=introduce(d, h, p), at=Sending.FAILED, send=[failed(p, h, d)],
        why="it comes late, or has not heard: it must not wait for us"),
    Row("refuse_address", on=publish(d, h, p), at=Sending.FAILED, send=[failed(p, h, d)],
        why="it comes late, or has not heard: no write follows"),
    Row("done_again", on=publish(d, h, p), at=Sending.SUCCESS, send=[done(p, h, d)],
        why="the answer may have been lost"),
    Ignore(introduce(d, h, p), at=Sending.SUCCESS, why="it has published since, so that is late"),
    Ignore(publish(d, h, p), at=OPEN, when=exists(spot, write(p, h, d, spot) != Write.NONE),
           why="the address is known"),
    Reject(publish(d, h, p), at=OPEN, when=[UNADDRESSED, forall(spot, ~address(d, h, spot))],
           why="it publishes nothing"),
    Reject(abort(d, h, p), at=OPEN, when=drain(p, h, d) != Drain.UNASKED,
           why="the first abort ends the life"),
    Ignore(introduce(d, h, p), at=Sending.GONE, why="nobody is there"),
    Ignore(publish(d, h, p), at=Sending.GONE, why="nobody is there"),
    Ignore(abort(d, h, p), at=Sending.GONE, why="nobody is there"),
))
