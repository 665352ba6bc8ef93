"""The source: a prefill rank, once for each life of a room that it hands over.

Rule 1: it writes only to an address that this life's sink published, and only while TRANSFERRING:
        each chunk after those that the caller handed over before it, so the metadata row last.
Rule 2: Success and Failed are for good. Failed begins no write, but ends none either.
Rule 3: DRAINED to a sink means that nothing of this life is being written there, or ever will be;
        ABORT_ACK means that the abort has been heard, and no more.
Rule 4: the pages are held for as long as the engine reads them. What it has given up on it reads no
        more (engine.py), though it may still land: that holds back DRAINED, and no page.
Rule 5: a process answers for the lives that were begun with it. Of those of the process in whose
        place it came it says that they are gone, and never DRAINED: it cannot know.
Rule 6: every sink that introduced itself hears of a failure at once; who comes later is told then.
Rule 7: while a sink is missing a clock runs. Once all have introduced themselves none does: a sink
        may wait for memory as long as its own server lets it. It ends, or is over, and says so.

A call that no row answers is the caller's mistake, which it is told of: a chunk out of turn, or one
before every sink has published (a poll answers WaitingForInput from then on).

A life that ended is remembered as Success or Failed, so that what comes late meets the same answer.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    UNDER_WAY,
    Drain,
    Sending,
    Write,
    abort,
    abort_ack,
    address,
    b,
    c,
    d,
    done,
    drain,
    drained,
    expecting,
    failed,
    feeds,
    gone,
    h,
    handed,
    introduce,
    known,
    kv,
    p,
    publish,
    sending,
    sink_over,
    source,
    target,
    write,
)
from pdproto.spec.handoff.roles import Chunk, Landing, Sink
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

other, spot, part = Sink("other"), Landing("spot"), Chunk("part")

OPEN: Final = (Sending.UNKNOWN, Sending.BOOTSTRAPPING, Sending.TRANSFERRING)
RUNNING: Final = (Sending.BOOTSTRAPPING, Sending.TRANSFERRING)
ENDED: Final = (Sending.SUCCESS, Sending.FAILED)

# This sink has not said where its part goes.
UNADDRESSED: Final = forall(spot, ~target(p, h, d, spot))
# Nothing of this life is under way to this sink; to any sink.
QUIET: Final = forall(part, ~write(p, h, d, part).among(*UNDER_WAY))
QUIESCENT: Final = forall((other, part), ~write(p, h, other, part).among(*UNDER_WAY))
# The engine reads no page of this life.
UNREAD: Final = forall((other, part), write(p, h, other, part) != Write.POSTED)
# A sink that it feeds has not introduced itself; or it feeds none, so that none ends it.
UNMET: Final = exists(other, feeds(p, other) & ~known(p, h, other)) | forall(
    other, ~feeds(p, other)
)
# Every sink that this source feeds has said where its part goes.
ALL_PUBLISHED: Final = forall(
    other, implies(feeds(p, other), exists(spot, target(p, h, other, spot)))
)
# Chunks are handed over in their order, and go to each sink in that order.
EARLIER_HANDED: Final = forall(part, implies(part.before(c), handed(p, h, part)))
EARLIER_POSTED: Final = forall(
    part, implies(part.before(c), write(p, h, d, part).among(Write.POSTED, Write.LANDED))
)
MORE_TO_COME: Final = exists(part, ~handed(p, h, part))
# Every chunk has been handed over, and is at every sink that this source feeds.
ALL_LANDED: Final = forall(
    (other, part), implies(feeds(p, other), write(p, h, other, part) == Write.LANDED)
)

SOURCE: Final = Table(source, state=sending, rows=(
    Row("begin_send", on=Call("open_sender"), at=Sending.UNKNOWN, to=Sending.BOOTSTRAPPING,
        do=[kv(p, h).to(True)]),
    Ignore(Call("open_sender"), at=Sending.FAILED,
           why="the sink gave up first: the caller polls Failed, and prefill is not run"),
    Ignore(Call("open_sender"), at=Sending.GONE,
           why="the sink began with the process before this one: the caller polls Failed"),
    Row("meet", on=introduce(d, h, p), at=OPEN, when=~known(p, h, d),
        do=[known(p, h, d).to(True)],
        why="it has nothing to offer yet, but must hear of it if we fail"),
    Row("answer_meeting", on=introduce(d, h, p), at=Sending.BOOTSTRAPPING, when=known(p, h, d),
        send=[expecting(p, h, d)],
        why="it asks again, so it waits for memory: the request has reached both servers"),
    Ignore(introduce(d, h, p), at=Sending.UNKNOWN, when=known(p, h, d),
           why="the request has not come here yet, and may never: its clock runs on"),
    Ignore(introduce(d, h, p), at=Sending.TRANSFERRING, when=known(p, h, d),
           why="it has published since, so that is late"),
    Row("learn", on=publish(d, h, p), at=OPEN, choose=(b,), when=[address(d, h, b), UNADDRESSED],
        do=[target(p, h, d, b).to(True), known(p, h, d).to(True)]),
    Row("send", on=Call("send", c), at=Sending.BOOTSTRAPPING, to=Sending.TRANSFERRING,
        when=[ALL_PUBLISHED, EARLIER_HANDED], do=[handed(p, h, c).to(True)]),
    Row("send_more", on=Call("send", c), at=Sending.TRANSFERRING,
        when=[~handed(p, h, c), EARLIER_HANDED], do=[handed(p, h, c).to(True)],
        why="prefill hands over the chunks as it computes them"),
    Ignore(Call("send", c), at=(Sending.TRANSFERRING, Sending.SUCCESS), when=handed(p, h, c),
           why="it has been handed over, and is sent once"),
    Ignore(Call("send", c), at=(Sending.FAILED, Sending.GONE),
           why="the hand-over ended while prefill was computing: the caller polls Failed"),
    Row("post", at=Sending.TRANSFERRING, choose=(d, b, c),
        when=[feeds(p, d), target(p, h, d, b), handed(p, h, c), write(p, h, d, c) == Write.NONE,
              EARLIER_POSTED],
        do=[write(p, h, d, c).to(Write.POSTED)],
        why="the worker looks at the state again before every chunk and every destination"),
    Row("succeed", at=Sending.TRANSFERRING, to=Sending.SUCCESS,
        when=ALL_LANDED, send=[each(d, done(p, h, d), where=feeds(p, d))]),
    Row("meet_refusal", at=Sending.TRANSFERRING, to=Sending.FAILED, choose=(d, c),
        when=write(p, h, d, c) == Write.REFUSED,
        why="a sink has fenced us: it has given this life up"),
    Row("give_up_waiting", on=Timer("bootstrap_timeout"), at=Sending.BOOTSTRAPPING,
        to=Sending.FAILED, when=UNMET,
        why="a request that reached one server only must end there"),
    Row("lose_sink", on=Timer("heartbeat", detector=True), at=Sending.BOOTSTRAPPING,
        to=Sending.FAILED, choose=(d,), when=[known(p, h, d), sink_over(d, h, p)],
        why="no clock runs any more, and its address will not come; a write would be refused"),
    Row("give_up_sending", on=Timer("transfer_timeout"), at=Sending.TRANSFERRING,
        to=Sending.FAILED, when=MORE_TO_COME,
        why="the rest was never handed over, and without a write nothing tells of a dead sink"),
    Row("meet_error", on=Completion("error", d, c), at=(Sending.TRANSFERRING, Sending.FAILED),
        to=Sending.FAILED, when=write(p, h, d, c) == Write.POSTED,
        do=[write(p, h, d, c).to(Write.IN_DOUBT)], fair=False,
        why="the engine gives up on a write that may still land, and reads its pages no more"),
    Ignore(Completion("error", d, c), at=(Sending.TRANSFERRING, Sending.FAILED),
           when=write(p, h, d, c) != Write.POSTED, why="it has ended, or is known to be in doubt"),
    Ignore(Completion("error", d, c),
           at=(Sending.UNKNOWN, Sending.BOOTSTRAPPING, Sending.SUCCESS, Sending.GONE),
           why="nothing of this life is under way that this process has posted"),
    Row("skip", on=Completion("skipped", d, c), at=Sending.FAILED,
        when=write(p, h, d, c) == Write.POSTED, do=[write(p, h, d, c).to(Write.SKIPPED)],
        fair=False, why="it had not begun, and of a hand-over that has failed nothing begins"),
    Ignore(Completion("skipped", d, c), at=Sending.FAILED,
           when=write(p, h, d, c) != Write.POSTED, why="it has ended, or is known to be in doubt"),
    Ignore(Completion("skipped", d, c), at=(*OPEN, Sending.SUCCESS, Sending.GONE),
           why="only of a hand-over that has failed is anything skipped that this process posted"),
    Row("abort_send", on=Call("abort_sender"), at=RUNNING, to=Sending.FAILED,
        why="the client has left, or the server ends the request"),
    Ignore(Call("abort_sender"), at=(*ENDED, Sending.GONE),
           why="it has ended by itself meanwhile: the caller polls how"),
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
    Row("release_kv", at=ENDED, when=[kv(p, h), UNREAD], do=[kv(p, h).to(False)],
        why="no write of this life reads them any more"),

    Row("refuse_meeting", on=introduce(d, h, p), at=Sending.FAILED, send=[failed(p, h, d)],
        why="it comes late, or has not heard: it must not wait for us"),
    Row("refuse_address", on=publish(d, h, p), at=Sending.FAILED, send=[failed(p, h, d)],
        why="it comes late, or has not heard: no write follows"),
    Row("done_again", on=publish(d, h, p), at=Sending.SUCCESS, send=[done(p, h, d)],
        why="the answer may have been lost"),
    Ignore(introduce(d, h, p), at=Sending.SUCCESS, why="it has published since, so that is late"),
    Ignore(publish(d, h, p), at=OPEN, when=exists(spot, target(p, h, d, spot)),
           why="the address is known"),
    Reject(publish(d, h, p), at=OPEN, when=[UNADDRESSED, forall(spot, ~address(d, h, spot))],
           why="it publishes nothing"),
    Reject(abort(d, h, p), at=OPEN, when=drain(p, h, d) != Drain.UNASKED,
           why="the first abort ends the life"),
    # Where there is no successor nobody answers, and then the transport has said it.
    Row("disown_meeting", on=introduce(d, h, p), at=Sending.GONE, send=[gone(p, h, d)],
        why="the successor knows no such life"),
    Row("disown_address", on=publish(d, h, p), at=Sending.GONE, send=[gone(p, h, d)],
        why="the address was meant for the process before this one"),
    Row("disown_abort", on=abort(d, h, p), at=Sending.GONE, send=[gone(p, h, d)],
        why="DRAINED would be a lie: the dead process's adapter may still be writing"),
))
