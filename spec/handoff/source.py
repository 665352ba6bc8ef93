"""The source: a prefill rank, once for each life of a room that it hands over.

Rule 1: A source writes only to an address that this life's sink has published, and only while it is
        TRANSFERRING. It writes chunks in the order of the hand-over, the metadata row last.
Rule 2: Success and Failed are final. A Failed source begins no write, and ends none either.
Rule 3: DRAINED tells a sink that no write of this life is under way or will begin. ABORT_ACK tells
        it only that the source has received the abort.
Rule 4: The source holds the pages for as long as the engine reads them. The engine reads no page of
        a write that it has given up (engine.py), but the write may still land. Such a write delays
        DRAINED, and holds no page.
Rule 5: A process answers for the lives that began with it. For the lives of the process before it,
        it answers that they are gone, and never DRAINED: it cannot know.
Rule 6: The source tells a failure at once to every sink that has introduced itself. A sink that
        comes later gets the failure as its answer.
Rule 7: Silence of a sink proves nothing: it may stand still, and go on. It fails a request that
        waits for the sink when it has lasted for as long as the operator allows (`miss_sink`).
Rule 8: A clock runs while a sink is missing. Once all sinks have introduced themselves no clock
        runs: a sink may wait for memory as long as its own server allows. The sink ends, or its
        process is over, and the source learns of either.

A call that no row answers is a mistake of the caller, and raises an error: a chunk out of order, or
a chunk before every sink has published (a poll answers WaitingForInput from then on).

The source remembers an ended life as Success or Failed, so a late message gets the same answer.
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
from pdproto.spec.handoff.roles import Buffer, Chunk, Sink
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

other, spot, part = Sink("other"), Buffer("spot"), Chunk("part")

OPEN: Final = (Sending.UNKNOWN, Sending.BOOTSTRAPPING, Sending.TRANSFERRING)
UNSENT: Final = (Sending.UNKNOWN, Sending.BOOTSTRAPPING)
RUNNING: Final = (Sending.BOOTSTRAPPING, Sending.TRANSFERRING)
ENDED: Final = (Sending.SUCCESS, Sending.FAILED)

# This sink has not published where its part goes.
UNADDRESSED: Final = forall(spot, ~target(p, h, d, spot))
# No write of this life is under way to this sink; to any sink.
QUIET: Final = forall(part, ~write(p, h, d, part).among(*UNDER_WAY))
QUIESCENT: Final = forall((other, part), ~write(p, h, other, part).among(*UNDER_WAY))
# The engine reads no page of this life.
UNREAD: Final = forall((other, part), write(p, h, other, part) != Write.POSTED)
# A sink that the source feeds has not introduced itself; or it feeds none, so no sink ends it.
UNMET: Final = exists(other, feeds(p, other) & ~known(p, h, other)) | forall(
    other, ~feeds(p, other)
)
# Every sink that this source feeds has published where its part goes.
ALL_PUBLISHED: Final = forall(
    other, implies(feeds(p, other), exists(spot, target(p, h, other, spot)))
)
# The caller hands chunks over in order, and they go to each sink in that order.
EARLIER_HANDED: Final = forall(part, implies(part.before(c), handed(p, h, part)))
EARLIER_POSTED: Final = forall(
    part, implies(part.before(c), write(p, h, d, part).among(Write.POSTED, Write.LANDED))
)
MORE_TO_COME: Final = exists(part, ~handed(p, h, part))
# The caller has handed every chunk over, and each has landed at every sink of this source.
ALL_LANDED: Final = forall(
    (other, part), implies(feeds(p, other), write(p, h, other, part) == Write.LANDED)
)

# The sink has been silent for as long as the operator allows.
MISS: Final = Call("miss_sink", d)

SOURCE: Final = Table(source, state=sending, rows=(
    Row("begin_send", on=Call("open_sender"), at=Sending.UNKNOWN, to=Sending.BOOTSTRAPPING,
        do=[kv(p, h).to(True)]),
    Ignore(Call("open_sender"), at=Sending.FAILED,
           why="the sink gave up first: the caller polls Failed, and does not run prefill"),
    Ignore(Call("open_sender"), at=Sending.GONE,
           why="the sink began this life with an earlier process: the caller polls Failed"),
    Row("meet", on=introduce(d, h, p), at=OPEN, when=~known(p, h, d),
        do=[known(p, h, d).to(True)],
        why="the source has no request yet, but it must tell this sink of a failure"),
    Row("answer_meeting", on=introduce(d, h, p), at=Sending.BOOTSTRAPPING, when=known(p, h, d),
        send=[expecting(p, h, d)],
        why="the sink waits for memory, so it asks again: the request has reached both servers"),
    Ignore(introduce(d, h, p), at=Sending.UNKNOWN, when=known(p, h, d),
           why="the request has not come here yet, and may never come: the sink's clock runs on"),
    Ignore(introduce(d, h, p), at=Sending.TRANSFERRING, when=known(p, h, d),
           why="the sink has published since, so this introduction is late"),
    Row("learn", on=publish(d, h, p), at=OPEN, choose=(b,), when=[address(d, h, b), UNADDRESSED],
        do=[target(p, h, d, b).to(True), known(p, h, d).to(True)]),
    Row("send", on=Call("send", c), at=Sending.BOOTSTRAPPING, to=Sending.TRANSFERRING,
        when=[ALL_PUBLISHED, EARLIER_HANDED], do=[handed(p, h, c).to(True)]),
    Row("send_more", on=Call("send", c), at=Sending.TRANSFERRING,
        when=[~handed(p, h, c), EARLIER_HANDED], do=[handed(p, h, c).to(True)],
        why="prefill hands over each chunk when it has computed it"),
    Ignore(Call("send", c), at=(Sending.TRANSFERRING, Sending.SUCCESS), when=handed(p, h, c),
           why="the caller has handed this chunk over already: it is sent once"),
    Ignore(Call("send", c), at=(Sending.FAILED, Sending.GONE),
           why="the hand-over ended while prefill was computing: the caller polls Failed"),
    Row("post", at=Sending.TRANSFERRING, choose=(d, b, c),
        when=[feeds(p, d), target(p, h, d, b), handed(p, h, c), write(p, h, d, c) == Write.NONE,
              EARLIER_POSTED],
        do=[write(p, h, d, c).to(Write.POSTED)],
        why="the worker reads the state again before every chunk and every destination"),
    Row("succeed", at=Sending.TRANSFERRING, to=Sending.SUCCESS,
        when=ALL_LANDED, send=[each(d, done(p, h, d), where=feeds(p, d))]),
    Row("meet_refusal", at=Sending.TRANSFERRING, to=Sending.FAILED, choose=(d, c),
        when=write(p, h, d, c) == Write.REFUSED,
        why="a sink has fenced this source: it has given the life up"),
    Row("give_up_waiting", on=Timer("bootstrap_timeout"), at=Sending.BOOTSTRAPPING,
        to=Sending.FAILED, when=UNMET,
        why="a request that reached one server only must end there"),
    Row("lose_sink", on=Timer("heartbeat", detector=True), at=UNSENT, to=Sending.FAILED,
        choose=(d,), when=[known(p, h, d), sink_over(d, h, p)],
        why="no clock runs now, the address will not come, and a write would be refused; a request "
            "that comes later finds it Failed"),
    Row("give_up_sink", on=MISS, at=Sending.BOOTSTRAPPING, to=Sending.FAILED,
        when=known(p, h, d), why="the bound for silence is over: a time-out, like the others"),
    Ignore(MISS, at=Sending.BOOTSTRAPPING, when=~known(p, h, d),
           why="`bootstrap_timeout` bounds the wait for a sink that has never come"),
    Ignore(MISS, at=(Sending.UNKNOWN, *ENDED, Sending.GONE),
           why="no request waits for it here"),
    Ignore(MISS, at=Sending.TRANSFERRING,
           why="the engine says how each write ends, and another clock runs for missing chunks"),
    Row("give_up_sending", on=Timer("transfer_timeout"), at=Sending.TRANSFERRING,
        to=Sending.FAILED, when=MORE_TO_COME,
        why="the caller stopped handing chunks over, and only a write would show a dead sink"),
    Row("meet_error", on=Completion("error", d, c), at=(Sending.TRANSFERRING, Sending.FAILED),
        to=Sending.FAILED, when=write(p, h, d, c) == Write.POSTED,
        do=[write(p, h, d, c).to(Write.IN_DOUBT)], fair=False,
        why="the engine gives up a write that may still land, and stops reading its pages"),
    Ignore(Completion("error", d, c), at=(Sending.TRANSFERRING, Sending.FAILED),
           when=write(p, h, d, c) != Write.POSTED,
           why="this write has ended, or is already in doubt"),
    Ignore(Completion("error", d, c),
           at=(Sending.UNKNOWN, Sending.BOOTSTRAPPING, Sending.SUCCESS, Sending.GONE),
           why="this process has no write of this life under way"),
    Row("skip", on=Completion("skipped", d, c), at=Sending.FAILED,
        when=write(p, h, d, c) == Write.POSTED, do=[write(p, h, d, c).to(Write.SKIPPED)],
        fair=False,
        why="the engine had not begun this write, and begins none for a failed hand-over"),
    Ignore(Completion("skipped", d, c), at=Sending.FAILED,
           when=write(p, h, d, c) != Write.POSTED,
           why="this write has ended, or is already in doubt"),
    Ignore(Completion("skipped", d, c), at=(*OPEN, Sending.SUCCESS, Sending.GONE),
           why="the engine skips writes only after the hand-over has failed in this process"),
    Row("abort_send", on=Call("abort_sender"), at=RUNNING, to=Sending.FAILED,
        why="the client has left, or the server ends the request"),
    Ignore(Call("abort_sender"), at=(*ENDED, Sending.GONE),
           why="the hand-over has ended meanwhile: the caller polls its result"),
    Row("tell_failure", at=Sending.FAILED, choose=(d,), when=known(p, h, d),
        do=[known(p, h, d).to(False)], send=[failed(p, h, d)],
        why="one message carries a failure, in either direction"),

    Row("stop", on=abort(d, h, p), at=OPEN, to=Sending.FAILED,
        when=drain(p, h, d) == Drain.UNASKED,
        do=[drain(p, h, d).to(Drain.ASKED), known(p, h, d).to(False)], send=[abort_ack(p, h, d)],
        why="also for a life the source has not met: a later request of it finds it Failed"),
    Row("stop_late", on=abort(d, h, p), at=ENDED, when=drain(p, h, d) == Drain.UNASKED,
        do=[drain(p, h, d).to(Drain.ASKED), known(p, h, d).to(False)], send=[abort_ack(p, h, d)],
        why="the source has ended already, but its writes may still run"),
    Row("acknowledge_again", on=abort(d, h, p), at=ENDED, when=drain(p, h, d) == Drain.ASKED,
        send=[abort_ack(p, h, d)],
        why="the answer may have been lost, and DRAINED may have to wait for the end of this sink"),
    Row("say_drained", at=ENDED, choose=(d,), when=[drain(p, h, d) == Drain.ASKED, QUIET],
        do=[drain(p, h, d).to(Drain.SAID)], send=[drained(p, h, d)],
        why="no write is under way to this sink, and no row of an ended life begins one"),
    Row("say_drained_again", on=abort(d, h, p), at=ENDED, when=drain(p, h, d) == Drain.SAID,
        send=[drained(p, h, d)], why="the answer may have been lost"),
    Row("release_kv", at=ENDED, when=[kv(p, h), UNREAD], do=[kv(p, h).to(False)],
        why="no write of this life reads the pages any more"),

    Row("refuse_meeting", on=introduce(d, h, p), at=Sending.FAILED, send=[failed(p, h, d)],
        why="the sink is late, or the failure did not reach it: it must not wait"),
    Row("refuse_address", on=publish(d, h, p), at=Sending.FAILED, send=[failed(p, h, d)],
        why="the sink is late, or the failure did not reach it: no write follows"),
    Row("done_again", on=publish(d, h, p), at=Sending.SUCCESS, send=[done(p, h, d)],
        why="the answer may have been lost"),
    Ignore(introduce(d, h, p), at=Sending.SUCCESS,
           why="the sink has published since, so this introduction is late"),
    Ignore(publish(d, h, p), at=OPEN, when=exists(spot, target(p, h, d, spot)),
           why="the source has this address already"),
    Reject(publish(d, h, p), at=OPEN, when=[UNADDRESSED, forall(spot, ~address(d, h, spot))],
           why="the message carries no address"),
    Reject(abort(d, h, p), at=OPEN, when=drain(p, h, d) != Drain.UNASKED,
           why="the first abort ends the life"),
    # If there is no successor, no answer comes; then the transport has reported the death.
    Row("disown_meeting", on=introduce(d, h, p), at=Sending.GONE, send=[gone(p, h, d)],
        why="the successor does not know this life"),
    Row("disown_address", on=publish(d, h, p), at=Sending.GONE, send=[gone(p, h, d)],
        why="the address was meant for the process before this one"),
    Row("disown_abort", on=abort(d, h, p), at=Sending.GONE, send=[gone(p, h, d)],
        why="DRAINED would be false: the dead process's adapter may still be writing"),
))
