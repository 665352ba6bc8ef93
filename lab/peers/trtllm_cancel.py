"""TensorRT-LLM's cancellation of a running KV transfer: an early answer frees the buffer.

A description of the session protocol of its Python transceiver, as the review of #18517 describes
it (September 2026). The generation server has advertised a buffer. It cancels, the context server
answers at once, and the answer frees the buffer, while a write into it may be running.
"""

from typing import Final

from pdproto.spec.language import (
    AddClause,
    AddEffect,
    Call,
    Configuration,
    Ignore,
    Machine,
    Message,
    OnRow,
    Reject,
    ReplaceRow,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    auto,
    edited,
    forall,
)


class Attempt(Sort, prefix="a"):
    """One attempt to receive a request, with a number of its own."""


class Receiving(State):
    """An attempt on the generation server."""

    NEW = auto()
    OPEN = auto()
    CANCELLING = auto()
    DONE = auto()
    FAILED = auto()


class Sending(State):
    """An attempt on the context server."""

    IDLE = auto()
    WRITING = auto()
    CANCELLED = auto()
    SENT = auto()


class Write(State):
    """The write of the engine."""

    NONE = auto()
    POSTED = auto()
    LANDED = auto()


a, other = Attempt("a"), Attempt("other")

generation = Machine("generation")
context = Machine("context", a)
engine = Machine("engine", world=True)

receiving = generation.function("receiving", Receiving, Attempt)
buffer = generation.relation("buffer", Attempt)  # the one receive buffer belongs to this attempt
sending = context.function("sending", Sending)
write = context.function("write", Write)
write.shared_with(engine, writes=(Write.LANDED,))

advertise = Message("advertise", a, sender=generation, receiver=context)
cancel = Message("cancel", a, sender=generation, receiver=context)
cancelled = Message("cancelled", a, sender=context, receiver=generation)
sent = Message("sent", a, sender=context, receiver=generation)

FREE: Final = buffer(a).to(False)
ENDED: Final = (Receiving.DONE, Receiving.FAILED)

GENERATION: Final = Table(generation, rows=(
    Row("open", on=Call("receive", a),
        when=[receiving(a) == Receiving.NEW, forall(other, ~buffer(other))],
        do=[receiving(a).to(Receiving.OPEN), buffer(a).to(True)], send=[advertise(a)]),
    Row("cancel", on=Call("cancel", a), when=receiving(a) == Receiving.OPEN,
        do=[receiving(a).to(Receiving.CANCELLING)], send=[cancel(a)]),
    Row("succeed", on=sent(a), when=receiving(a) == Receiving.OPEN,
        do=[receiving(a).to(Receiving.DONE), FREE]),
    Row("end_late", on=sent(a), when=receiving(a) == Receiving.CANCELLING,
        do=[receiving(a).to(Receiving.FAILED), FREE]),
    Row("hear_cancelled", on=cancelled(a), when=receiving(a) == Receiving.CANCELLING,
        do=[receiving(a).to(Receiving.FAILED), FREE]),
    Ignore(sent(a), when=receiving(a).among(*ENDED), why="the attempt has ended"),
    Ignore(cancelled(a), when=receiving(a).among(*ENDED), why="the attempt has ended"),
    Reject(sent(a), when=receiving(a) == Receiving.NEW,
           why="the generation server has asked for nothing"),
    Reject(cancelled(a), when=receiving(a).among(Receiving.NEW, Receiving.OPEN),
           why="the generation server has not cancelled"),
))

CONTEXT: Final = Table(context, state=sending, rows=(
    Row("begin", on=advertise(a), at=Sending.IDLE, to=Sending.WRITING,
        do=[write(a).to(Write.POSTED)]),
    Row("finish", at=Sending.WRITING, to=Sending.SENT, when=write(a) == Write.LANDED,
        send=[sent(a)]),
    Row("stop_early", on=cancel(a), at=Sending.IDLE, to=Sending.CANCELLED, send=[cancelled(a)]),
    Row("stop", on=cancel(a), at=Sending.WRITING, to=Sending.CANCELLED, send=[cancelled(a)],
        why="the session is cancelled, and the write goes on"),
    Ignore(cancel(a), at=(Sending.CANCELLED, Sending.SENT), why="the session is over"),
    Ignore(advertise(a), at=(Sending.WRITING, Sending.CANCELLED, Sending.SENT),
           why="the context server has this buffer already"),
))

ENGINE: Final = Table(engine, rows=(
    Row("land", choose=(a,), when=write(a) == Write.POSTED, do=[write(a).to(Write.LANDED)],
        why="late"),
))

SYSTEM: Final = System(
    "trtllm-cancel",
    "TensorRT-LLM's cancelled session: the answer frees the buffer while a write may be running.",
    tables=(GENERATION, CONTEXT, ENGINE),
    properties=(
        OnRow("S1_writes_stay_in_own_memory", "land",
              forall(other, other.same(a) | ~buffer(other)),
              why="a write lands only in the buffer of its own attempt, or in a free one"),
        Sometimes("an_attempt_succeeds", receiving(a) == Receiving.DONE),
        Sometimes("an_attempt_is_cancelled", receiving(a) == Receiving.FAILED),
    ),
    final=forall(a, receiving(a).among(Receiving.NEW, *ENDED)),
    configurations={"default": Configuration({Attempt: 2})},
)

# 18517 (open): no answer during a write; its own end is the answer.
SILENT: Final = edited(
    SYSTEM, "trtllm-cancel-silent",
    ReplaceRow("stop", Ignore(cancel(a), at=Sending.WRITING, why="the write reports its own end")),
    about="TensorRT-LLM's cancelled session where a running write gets no early answer (#18517).",
)

poisoned = generation.relation("poisoned")

# 15238 (merged, off by default): a buffer that a peer may still write to is never used again.
POISONED: Final = edited(
    SYSTEM, "trtllm-cancel-poisoned",
    AddEffect("hear_cancelled", poisoned().to(True)),
    AddClause("open", ~poisoned()),
    about="TensorRT-LLM's cancelled session where the pool is poisoned (#15238) until a restart.",
)
