"""Dynamo's request plane: the frontend takes a refusal for the acknowledgement.

A description after #13088 and #14271. Discovery lists an instance whose endpoint has no handler,
because it is not there yet, or was removed. The instance answers that it knows no such endpoint.
The frontend knows two texts as refusals and takes every other reply for the acknowledgement: it
waits for a stream that no instance opens. The instance stays listed, so nothing else ends the wait.
"""

from typing import Final

from pdproto.spec.language import (
    Call,
    Configuration,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    Reject,
    Retarget,
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


class Request(Sort, prefix="r"):
    """A request."""


class Asking(State):
    """A request on the frontend."""

    NEW = auto()
    SENT = auto()
    WAITING = auto()  # waits for the stream of the response
    DONE = auto()
    FAILED = auto()  # another instance may be asked


class Serving(State):
    """An instance that discovery lists."""

    LISTED = auto()  # without a handler
    SERVING = auto()
    REMOVED = auto()  # the handler, and not the instance


r = Request("r")
frontend = Machine("frontend", r)
instance = Machine("instance")
asking = frontend.function("asking", Asking)
serving = instance.function("serving", Serving)

work = Message("work", r, sender=frontend, receiver=instance)
accepted = Message("accepted", r, sender=instance, receiver=frontend)
refused = Message("refused", r, sender=instance, receiver=frontend)
stream = Message("stream", r, sender=instance, receiver=frontend)

ENDED: Final = (Asking.DONE, Asking.FAILED)

FRONTEND: Final = Table(frontend, state=asking, rows=(
    Row("ask", on=Call("generate"), at=Asking.NEW, to=Asking.SENT, send=[work(r)]),
    Row("hear_accepted", on=accepted(r), at=Asking.SENT, to=Asking.WAITING),
    Row("hear_refused", on=refused(r), at=Asking.SENT, to=Asking.WAITING,
        why="the frontend knows other texts as refusals"),
    Row("take_stream", on=stream(r), at=(Asking.SENT, Asking.WAITING), to=Asking.DONE),
    *(row for reply in (accepted(r), refused(r)) for row in (
        Ignore(reply, at=(Asking.WAITING, *ENDED), why="only the first reply counts"),
        Reject(reply, at=Asking.NEW, why="the frontend has sent nothing"))),
    Ignore(stream(r), at=ENDED, why="the request has ended"),
    Reject(stream(r), at=Asking.NEW, why="the frontend has sent nothing"),
))

INSTANCE: Final = Table(instance, state=serving, rows=(
    Row("register", on=Call("register_handler"), at=Serving.LISTED, to=Serving.SERVING),
    Row("unregister", on=Call("unregister_handler"), at=Serving.SERVING, to=Serving.REMOVED,
        why="the end of another endpoint with the same name removed this one too (#14271)"),
    Row("work", on=work(r), at=Serving.SERVING, send=[accepted(r), stream(r)]),
    Row("refuse", on=work(r), at=(Serving.LISTED, Serving.REMOVED), send=[refused(r)],
        why="the reply says `No handler found`"),
))

SYSTEM: Final = System(
    "dynamo-requests",
    "Dynamo's request plane, described after its reports: a refusal counts as an acceptance.",
    tables=(FRONTEND, INSTANCE),
    properties=(
        LeadsTo("L1_a_request_ends", asking(r) == Asking.SENT, asking(r).among(*ENDED),
                under=(Fairness.CONSUMED,),
                why="every request ends with an answer or with an error"),
        Sometimes("a_request_succeeds", asking(r) == Asking.DONE),
    ),
    final=forall(r, asking(r).among(Asking.NEW, *ENDED)),
    configurations={"default": Configuration({Request: 1})},
)

REFUSED: Final = edited(
    SYSTEM, "dynamo-requests-refused",
    Retarget("hear_refused", to=Asking.FAILED),
    about="Dynamo's request plane where every reply except an acceptance ends the request.",
)
