"""The abort of one hand-over by itself: ABORT, ABORT_ACK, DRAINED and the fence.

This is the part of transfer.py that handles a failed hand-over: one source, one sink, one chunk,
memory that is there from the beginning. It is small enough for `pdproto prove --suggest` to find
the proof by itself: a lease ends only when no write can land any more.

    pdproto prove pdproto.spec.handoff.abort:SYSTEM --suggest

States are those of ends.py, and rows have the same names as in source.py, sink.py and engine.py.
"""

from typing import Final

from pdproto.spec.handoff.ends import Claim, Drain, Receiving, Sending, Write
from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Reject,
    Row,
    Sometimes,
    System,
    Table,
    Timer,
    forall,
    implies,
    lose,
)

h = Life("h")
source, sink = Machine("source", h), Machine("sink", h)
engine, world = Machine("engine", world=True), Machine("world", world=True)

sending = source.function("sending", Sending)
write = source.function("write", Write)
write.shared_with(engine, writes=(Write.LANDED, Write.REFUSED))
drain = source.function("drain", Drain)
receiving = sink.function("receiving", Receiving)
lease = sink.relation("lease")
claim = sink.function("claim", Claim)
claim.shared_with(engine, writes=(Claim.FENCED,))

publish = Message("publish", h, sender=sink, receiver=source)
abort = Message("abort", h, sender=sink, receiver=source)
done = Message("done", h, sender=source, receiver=sink)
failed = Message("failed", h, sender=source, receiver=sink)
abort_ack = Message("abort_ack", h, sender=source, receiver=sink)
drained = Message("drained", h, sender=source, receiver=sink)

OPEN: Final = (Sending.UNKNOWN, Sending.TRANSFERRING)
ENDED: Final = (Sending.SUCCESS, Sending.FAILED)
THREATENS: Final = (Claim.OUT, Claim.STOPPING, Claim.FENCING)
SETTLED: Final = (Claim.LANDED, Claim.DRAINED, Claim.FENCED)

SOURCE: Final = Table(source, state=sending, rows=(
    Row("learn", on=publish(h), at=Sending.UNKNOWN, to=Sending.TRANSFERRING),
    Row("post", at=Sending.TRANSFERRING, when=write(h) == Write.NONE,
        do=[write(h).to(Write.POSTED)]),
    Row("succeed", at=Sending.TRANSFERRING, to=Sending.SUCCESS, when=write(h) == Write.LANDED,
        send=[done(h)]),
    Row("meet_refusal", at=Sending.TRANSFERRING, to=Sending.FAILED,
        when=write(h) == Write.REFUSED, send=[failed(h)],
        why="the sink has fenced this source: it has given the life up"),
    Row("abort_send", on=Call("abort_sender"), at=Sending.TRANSFERRING, to=Sending.FAILED,
        send=[failed(h)], why="the client has left; a posted write may still land"),
    Row("stop", on=abort(h), at=OPEN, to=Sending.FAILED, when=drain(h) == Drain.UNASKED,
        do=[drain(h).to(Drain.ASKED)], send=[abort_ack(h)]),
    Row("stop_late", on=abort(h), at=ENDED, when=drain(h) == Drain.UNASKED,
        do=[drain(h).to(Drain.ASKED)], send=[abort_ack(h)],
        why="the source has ended already, but its write may still run"),
    Row("say_drained", at=ENDED, when=[drain(h) == Drain.ASKED, write(h) != Write.POSTED],
        do=[drain(h).to(Drain.SAID)], send=[drained(h)]),
    Row("say_drained_again", on=abort(h), at=ENDED, when=drain(h) == Drain.SAID,
        send=[drained(h)], why="the answer may have been lost"),
    Row("done_again", on=publish(h), at=Sending.SUCCESS, send=[done(h)],
        why="the answer may have been lost"),
    Row("refuse_address", on=publish(h), at=Sending.FAILED, send=[failed(h)],
        why="the sink is late, or the failure did not reach it: no write follows"),
    Ignore(publish(h), at=Sending.TRANSFERRING, why="the source has this address already"),
    Ignore(abort(h), at=ENDED, when=drain(h) == Drain.ASKED, why="DRAINED will answer"),
    Reject(abort(h), at=OPEN, when=drain(h) != Drain.UNASKED, why="the first abort ends the life"),
))

SINK: Final = Table(sink, state=receiving, rows=(
    Row("publish_memory", on=Call("open_receiver"), at=Receiving.UNKNOWN, to=Receiving.WAITING,
        do=[lease(h).to(True), claim(h).to(Claim.OUT)], send=[publish(h)]),
    Row("publish_again", on=Timer("no_bytes"), at=Receiving.WAITING, send=[publish(h)]),
    Row("take_part", on=done(h), at=Receiving.WAITING, to=Receiving.SUCCESS,
        do=[claim(h).to(Claim.LANDED), lease(h).to(False)]),
    Row("abort_receive", on=Call("abort_receiver"), at=Receiving.WAITING, to=Receiving.FAILED,
        send=[abort(h)]),
    Row("hear_failure", on=failed(h), at=Receiving.WAITING, to=Receiving.FAILED, send=[abort(h)]),
    Row("give_up_transfer", on=Timer("transfer_timeout"), at=Receiving.WAITING,
        to=Receiving.FAILED, send=[abort(h)]),
    Row("abort_again", on=Timer("no_answer"), at=Receiving.FAILED,
        when=claim(h).among(*THREATENS), send=[abort(h)]),
    Row("note_stopping", on=abort_ack(h), at=Receiving.FAILED, when=claim(h) == Claim.OUT,
        do=[claim(h).to(Claim.STOPPING)],
        why="the source has received the abort, and may be writing"),
    Row("note_drained", on=drained(h), at=Receiving.FAILED, when=claim(h).among(*THREATENS),
        do=[claim(h).to(Claim.DRAINED)]),
    Row("note_landed", on=done(h), at=Receiving.FAILED, when=claim(h).among(*THREATENS),
        do=[claim(h).to(Claim.LANDED)], why="the source had finished before it received the abort"),
    Row("fence_silent", on=Timer("no_drain"), at=Receiving.FAILED,
        when=claim(h).among(Claim.OUT, Claim.STOPPING), do=[claim(h).to(Claim.FENCING)],
        why="a time-out proves nothing: it leads to a fence, never to reuse"),
    Row("end_lease", at=Receiving.FAILED, when=[lease(h), claim(h).among(*SETTLED)],
        do=[lease(h).to(False)], why="no source that has the address can still write to it"),
    Ignore(done(h), at=Receiving.SUCCESS,
           why="DONE answers an address that the sink published again"),
    Ignore(done(h), at=Receiving.FAILED, when=claim(h).among(*SETTLED),
           why="the sink knows more already"),
    Ignore(failed(h), at=(Receiving.SUCCESS, Receiving.FAILED), why="the life has ended here too"),
    Ignore(abort_ack(h), at=Receiving.FAILED, when=claim(h) != Claim.OUT,
           why="the sink knows more already"),
    Ignore(drained(h), at=Receiving.FAILED, when=claim(h).among(*SETTLED),
           why="the sink knows more already"),
    *(Reject(message(h), at=Receiving.UNKNOWN, why="the source has no address to write to")
      for message in (done, failed)),
    *(Reject(message(h), at=(Receiving.UNKNOWN, Receiving.WAITING, Receiving.SUCCESS),
             why="the sink has sent no abort") for message in (abort_ack, drained)),
    *(Reject(message(h), at=Receiving.FAILED, when=claim(h).among(Claim.NONE, Claim.TOLD),
             why="a failed life has published its address") for message in (done, drained)),
))

ENGINE: Final = Table(engine, rows=(
    Row("land", choose=(h,), when=[write(h) == Write.POSTED, claim(h) != Claim.FENCED],
        do=[write(h).to(Write.LANDED)], fair=False, why="a write may land late, or never"),
    Row("refuse", choose=(h,), when=[write(h) == Write.POSTED, claim(h) == Claim.FENCED],
        do=[write(h).to(Write.REFUSED)], why="the sink keeps this source out"),
    Row("finish_fence", choose=(h,), when=claim(h) == Claim.FENCING,
        do=[claim(h).to(Claim.FENCED)]),
))
LOSSY: Final = Table(world, rows=tuple(
    map(lose, (publish, abort, done, failed, abort_ack, drained))
))

SYSTEM: Final = System(
    "transfer-abort",
    "The abort of one hand-over: nothing lands after its lease has ended.",
    tables=(SOURCE, SINK, ENGINE),
    properties=(
        OnRow("a_write_lands_in_leased_memory", "land", lease(h),
              why="a lease ends when no write of its life can land any more"),
        Sometimes("a_write_lands_after_the_failure",
                  (receiving(h) == Receiving.FAILED) & (write(h) == Write.LANDED) & lease(h)),
        Always("drained_means_quiescent", implies(drained(h), write(h) != Write.POSTED),
               why="a source that has said DRAINED has no write under way, and begins none"),
        Always("no_success_after_a_failure",
               implies(receiving(h) == Receiving.SUCCESS, sending(h) == Sending.SUCCESS),
               why="no source of a sink that answers Success has failed"),
        Sometimes("both_succeed", receiving(h) == Receiving.SUCCESS),
        LeadsTo("every_lease_ends", lease(h), ~lease(h), under=(Fairness.TIMERS,),
                why="under any loss, and for a write of any length"),
    ),
    final=forall(h, ~lease(h)),
    faults={"lossy": (LOSSY,)},
    configurations={"default": Configuration({Life: 1}, faults=("lossy",), dead_bits=True)},
)
