"""A prefill rank of SGLang 0.5.23: the sender, the control thread and the transfer worker.

Rule 1: A row is one step of one thread. The three threads share the tables of the manager.
Rule 2: A row does what the code does, even where that is a mistake. defects.py lists the mistakes.
"""

from typing import Final

from lab.peers.sglang_ends import (
    ACTIVE,
    OPEN,
    READY,
    Generation,
    Status,
    Write,
    abort,
    abort_ack,
    ack_due,
    begun,
    c,
    came,
    counted,
    d,
    debt,
    early_abort,
    failed,
    handed,
    heard,
    info,
    k,
    looked,
    metadata,
    owes,
    owner,
    p,
    poisoned,
    queued,
    r,
    sending,
    source,
    success,
    write,
)
from pdproto.spec.handoff.roles import Chunk, Sink
from pdproto.spec.language import (
    ANY,
    Call,
    Completion,
    Ignore,
    Row,
    Table,
    Timer,
    each,
    exists,
    forall,
)

other, part, number = Sink("other"), Chunk("part"), Generation("number")

LAST: Final = forall(part, part.same(c) | part.before(c))
MORE_TO_COME: Final = exists(part, c.before(part) & part.differs(c))
SOME_MISSING: Final = exists(other, other.differs(d) & ~info(p, r, other))
NONE_MISSING: Final = forall(other, other.same(d) | info(p, r, other))
ALL_LANDED: Final = forall(other, write(p, r, other, c) == Write.LANDED)
# A new entry for a room drops all that is left of the earlier one, even the count of chunks that a
# worker still has.
ANEW: Final = (
    counted(p, r, ANY).to(False), debt(p, r).to(False), poisoned(p, r).to(False),
    ack_due(p, r, ANY, ANY).to(False),
)
LEARNT: Final = (info(p, r, d).to(True), heard(p, r, d).to(True))
OPENED: Final = (came(p, r).to(True), owner(p, r).to(True))
NONE_WRITTEN: Final = forall(other, write(p, r, other, c) == Write.NONE)
NONE_POSTED: Final = forall(other, write(p, r, other, c) != Write.POSTED)
IS_OVER: Final = ~begun(p, r, c) | (ALL_LANDED & LAST)
NOT_BUSY: Final = forall(part, ~begun(p, r, part))
TAKEN: Final = (
    queued(p, r, c).to(False), begun(p, r, c).to(True), owes(p, r, c).to(True),
    looked(p, r, c).to(False),
    write(p, r, ANY, c).to(Write.NONE),
)
SKIPPED: Final = (
    begun(p, r, c).to(False), owes(p, r, c).to(False), counted(p, r, ANY).to(False))
TELL_SUCCESS: Final = each(d, success(p, r, d))
TELL_FAILURE: Final = each(d, failed(p, r, d))

SENDER: Final = (
    Row("open_sender", on=Call("open_sender"), at=Status.ABSENT, to=Status.BOOTSTRAPPING,
        when=~came(p, r), do=[*OPENED, *ANEW], fair=True, why="every request comes in the end"),
    Row("open_sender_late", on=Call("open_sender"), at=(*READY, Status.FAILED),
        when=~came(p, r), do=OPENED, fair=True,
        why="the metadata came before the request: this is how it waits"),
    Row("reopen_sender", on=Call("reopen_sender"), at=Status.ABSENT, to=Status.BOOTSTRAPPING,
        when=[came(p, r), ~owner(p, r)], do=[*OPENED, *ANEW], why="the number is used again"),
    Row("reopen_sender_late", on=Call("reopen_sender"), at=(*READY, Status.FAILED),
        when=[came(p, r), ~owner(p, r)], do=OPENED,
        why="the entry that is there counts for the new use"),
    Row("reopen_sender_abandoned", on=Call("reopen_sender"), at=Status.FAILED,
        when=owner(p, r), why="the earlier sender was aborted and never cleared"),
    Row("send", on=Call("send", c), at=READY,
        when=[owner(p, r), ~handed(p, r, c), exists(d, info(p, r, d))],
        do=[handed(p, r, c).to(True), queued(p, r, c).to(True)]),
    Ignore(Call("send", c), at=(Status.ABSENT, Status.FAILED), why="the chunk is dropped silently"),
    Row("abort_sender", on=Call("abort_sender"), at=(*OPEN, Status.SUCCESS), to=Status.FAILED,
        when=owner(p, r), why="decode gets no message"),
    Ignore(Call("abort_sender"), at=(Status.ABSENT, Status.FAILED), why="the room is over"),
    Row("give_up_waiting", on=Timer("bootstrap_timeout"), at=Status.BOOTSTRAPPING,
        to=Status.FAILED, when=owner(p, r), why="decode gets no message"),
    Row("clear", on=Call("clear"), at=(Status.SUCCESS, Status.FAILED), to=Status.ABSENT,
        when=owner(p, r), do=[owner(p, r).to(False)], fair=True,
        why="the scheduler clears a room whose end it has polled"),
    Row("forget_addresses", choose=(d,), at=(Status.ABSENT, Status.SUCCESS, Status.FAILED),
        when=info(p, r, d), do=[info(p, r, ANY).to(False)], fair=False,
        why="after the room is cleared, or its last chunk is sent"),
)

CONTROL: Final = (
    Row("learn", on=metadata(d, r, p), when=SOME_MISSING, do=LEARNT,
        why="the code does not check whether the room is known, or over"),
    Row("learn_last", on=metadata(d, r, p), at=(Status.BOOTSTRAPPING, *READY), to=Status.WAITING,
        when=NONE_MISSING, do=LEARNT),
    Row("learn_last_early", on=metadata(d, r, p), at=Status.ABSENT, to=Status.WAITING,
        when=NONE_MISSING, do=[*LEARNT, *ANEW],
        why="the request has not come yet, or is over: the code cannot tell which"),
    Row("learn_last_late", on=metadata(d, r, p), at=(Status.SUCCESS, Status.FAILED),
        when=NONE_MISSING, do=LEARNT),
    Row("hear_abort", on=abort(d, r, p, k), at=ACTIVE, to=Status.FAILED, when=~poisoned(p, r),
        do=[ack_due(p, r, d, k).to(True)]),
    Row("hear_abort_late", on=abort(d, r, p, k), at=(Status.ABSENT, Status.SUCCESS),
        when=~poisoned(p, r), do=[ack_due(p, r, d, k).to(True)],
        why="answered and forgotten, even if the request has not come yet"),
    Row("hear_abort_poisoned", on=abort(d, r, p, k), at=ACTIVE, to=Status.FAILED,
        when=poisoned(p, r), why="the room can give no answer any more"),
    Ignore(abort(d, r, p, k), at=(Status.ABSENT, Status.SUCCESS), when=poisoned(p, r),
           why="the room can give no answer any more"),
    Row("hear_early_abort", on=early_abort(d, r, p), at=ACTIVE, to=Status.FAILED),
    Ignore(early_abort(d, r, p), at=(Status.ABSENT, Status.SUCCESS),
           why="the rank does not know this room"),
    Row("say_ack", choose=(d, k), when=[ack_due(p, r, d, k), ~poisoned(p, r),
                                        forall(part, ~counted(p, r, part))],
        do=[ack_due(p, r, d, k).to(False)], send=[abort_ack(p, r, d, k)],
        why="the count of chunks under way is zero"),
)

WORKER: Final = (
    Row("dequeue", choose=(c,), when=[queued(p, r, c), NOT_BUSY, ~debt(p, r)],
        do=[*TAKEN, counted(p, r, c).to(True)],
        why="one worker has all chunks of a room, and counts before it checks the status"),
    Row("dequeue_in_debt", choose=(c,), when=[queued(p, r, c), NOT_BUSY, debt(p, r)],
        do=[*TAKEN, debt(p, r).to(False)], why="minus one and one is zero"),
    Row("skip", at=(Status.ABSENT, Status.FAILED), choose=(c,),
        when=[begun(p, r, c), ~looked(p, r, c)], do=SKIPPED, why="the room has failed meanwhile"),
    Row("look", at=(*READY, Status.SUCCESS), choose=(c,), when=[begun(p, r, c), ~looked(p, r, c)],
        do=[looked(p, r, c).to(True)], why="the room has not failed: this chunk is sent"),
    Row("look_cleared", at=Status.ABSENT, choose=(c,), when=[begun(p, r, c), ~looked(p, r, c)],
        do=[looked(p, r, c).to(True)], fair=False,
        why="NIXL: a room that is cleared after the check counts as one that waits"),
    Row("skip_unaddressed", choose=(c,),
        when=[begun(p, r, c), looked(p, r, c), forall(other, ~info(p, r, other)), NONE_WRITTEN],
        do=SKIPPED, why="no decode rank is left to write to"),
    Row("mark_transferring", at=READY, to=Status.TRANSFERRING, choose=(c,), when=begun(p, r, c),
        fair=False, why="NIXL"),
    Row("post", choose=(d, c),
        when=[begun(p, r, c), looked(p, r, c), info(p, r, d), write(p, r, d, c) == Write.NONE],
        do=[write(p, r, d, c).to(Write.POSTED)],
        why=
        "the worker does not check the status again, nor between the destinations of the chunk"),
    Row("finish", choose=(c,), when=[begun(p, r, c), ALL_LANDED, MORE_TO_COME],
        do=[begun(p, r, c).to(False)]),
    Row("uncount", choose=(c,), when=[owes(p, r, c), counted(p, r, c), IS_OVER],
        do=[owes(p, r, c).to(False), counted(p, r, c).to(False)],
        why="Mooncake concludes before that, NIXL after"),
    Row("uncount_below_zero", choose=(c,), when=[owes(p, r, c), ~counted(p, r, c), IS_OVER],
        do=[owes(p, r, c).to(False), debt(p, r).to(True)],
        why="a new entry has been made meanwhile, and the count dropped"),
    Row("succeed", at=(*READY, Status.SUCCESS), to=Status.SUCCESS, choose=(c,),
        when=[begun(p, r, c), ALL_LANDED, LAST], do=[begun(p, r, c).to(False)],
        send=[TELL_SUCCESS]),
    Row("succeed_anyway", at=Status.FAILED, choose=(c,),
        when=[begun(p, r, c), ALL_LANDED, LAST], do=[begun(p, r, c).to(False)],
        send=[TELL_SUCCESS], fair=False,
        why="the room has failed between the check of its status and the message"),
    Row("conclude_failed", at=Status.FAILED, choose=(c,),
        when=[begun(p, r, c), ALL_LANDED, LAST], do=[begun(p, r, c).to(False)],
        send=[TELL_FAILURE]),
    Row("conclude_nothing", at=Status.ABSENT, choose=(c,),
        when=[begun(p, r, c), ALL_LANDED, LAST], do=[begun(p, r, c).to(False)],
        why="the room has been cleared"),
    Row("poison", choose=(d, c), when=[begun(p, r, c), write(p, r, d, c) == Write.POSTED],
        do=[poisoned(p, r).to(True), ack_due(p, r, ANY, ANY).to(False)], fair=False,
        why="the engine has given up a write that may still land"),
    Row("meet_error", on=Completion("error", c), at=(*OPEN, Status.SUCCESS, Status.FAILED),
        to=Status.FAILED, when=[begun(p, r, c), poisoned(p, r) | NONE_POSTED],
        do=[begun(p, r, c).to(False)], send=[TELL_FAILURE]),
    Row("meet_error_late", on=Completion("error", c), at=Status.ABSENT,
        when=[begun(p, r, c), poisoned(p, r) | NONE_POSTED], do=[begun(p, r, c).to(False)],
        why="the room has been cleared"),
    Ignore(Completion("error", c), when=~begun(p, r, c), why="no worker has that chunk"),
    Ignore(Completion("error", c), at=tuple(Status), when=[
        begun(p, r, c), ~poisoned(p, r), ~NONE_POSTED], why="the room is poisoned first"),
)

SOURCE: Final = Table(source, state=sending, rows=(*SENDER, *CONTROL, *WORKER))
