"""A server drains: it ends its requests, takes no new one, says when it is empty, and ends.

Rule 1: A request that the server has taken before the drain ends as if there were no drain.
Rule 2: A request that comes later is refused at once, and its client is told.
Rule 3: An empty server has no request that is open, or whose client is not done with it, and gets
none any more.
Rule 4: The registry answers no new request with a server that drains. The address of an old request
is still found.
Rule 5: No request fails because the process of an empty server was stopped.

The client of a request is its other end. It is not done when the server is: a decode rank still
reads and compares what a prefill rank has written, or waits for other ranks. Until it says that it
is done, it needs the server.

Assumption: a request that is taken ends, which the other tables of the hand-over show.
"""

from typing import Final

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
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    forall,
    implies,
)


class Serving(State):
    """The state of a server that may be drained. STOPPED: its operator has ended the process."""

    OPEN = auto()
    DRAINING = auto()
    EMPTY = auto()
    STOPPED = auto()


class Taken(State):
    """The state of a request at the server. ENDED: the server has done its part.

    OVER: the client is done with it too, and sends no more messages about it.
    """

    UNKNOWN = auto()
    OPEN = auto()
    ENDED = auto()
    OVER = auto()
    REFUSED = auto()


class Listing(State):
    """The entry of the server at the registry."""

    LISTED = auto()
    STRUCK_OUT = auto()


class AtClient(State):
    """The state of a request at its client. READING: the server has ended it, and the client still
    reads the result. REFUSED: the client asks another server.
    """

    IDLE = auto()
    LOOKING_UP = auto()
    ASKING = auto()
    OPEN = auto()
    READING = auto()
    DONE = auto()
    REFUSED = auto()


h = Life("h")

server = Machine("server")
registry = Machine("registry")
client = Machine("client", h)

serving = server.function("serving", Serving, edges={
    Serving.OPEN: (Serving.DRAINING,), Serving.DRAINING: (Serving.EMPTY,),
    Serving.EMPTY: (Serving.STOPPED,), Serving.STOPPED: ()})
request = server.function("request", Taken, Life, edges={
    Taken.UNKNOWN: (Taken.OPEN, Taken.REFUSED), Taken.OPEN: (Taken.ENDED,),
    Taken.ENDED: (Taken.OVER,), Taken.OVER: (), Taken.REFUSED: ()})
listing = registry.function("listing", Listing)
known = registry.relation("known", Life)
asking = client.function("asking", AtClient, edges={
    AtClient.IDLE: (AtClient.LOOKING_UP,),
    AtClient.LOOKING_UP: (AtClient.ASKING, AtClient.REFUSED),
    AtClient.ASKING: (AtClient.OPEN, AtClient.READING, AtClient.REFUSED),
    AtClient.OPEN: (AtClient.READING,),
    AtClient.READING: (AtClient.DONE,)})

look_up = Message("look_up", h, sender=client, receiver=registry)
found = Message("found", h, sender=registry, receiver=client)
turned_away = Message("turned_away", h, sender=registry, receiver=client)
ask = Message("ask", h, sender=client, receiver=server)
taken = Message("taken", h, sender=server, receiver=client)
refused = Message("refused", h, sender=server, receiver=client)
ended = Message("ended", h, sender=server, receiver=client)
confirmed = Message("confirmed", h, sender=client, receiver=server)
# The process of the server has ended. The transport reports it when the connection breaks.
gone = Message("gone", h, sender=server, receiver=client)
leave = Message("leave", sender=server, receiver=registry)

TAKEN: Final = (Taken.OPEN, Taken.ENDED, Taken.OVER)
DRAINED: Final = (Serving.EMPTY, Serving.STOPPED)
ALL_CONFIRMED: Final = forall(h, request(h) != Taken.ENDED)

SERVER: Final = Table(server, state=serving, rows=(
    Row("accept", on=ask(h), at=Serving.OPEN, when=request(h) == Taken.UNKNOWN,
        do=[request(h).to(Taken.OPEN)], send=[taken(h)]),
    Row("refuse", on=ask(h), at=(Serving.DRAINING, Serving.EMPTY),
        when=request(h) == Taken.UNKNOWN, do=[request(h).to(Taken.REFUSED)], send=[refused(h)],
        why="the client goes to another server at once, and waits for no timeout"),
    Ignore(ask(h), at=Serving.STOPPED, when=request(h) == Taken.UNKNOWN,
           why="there is no process: the transport tells the client"),
    Ignore(ask(h), when=request(h) != Taken.UNKNOWN, why="the server has answered this request"),
    Row("end", on=Call("end", h), when=request(h) == Taken.OPEN,
        do=[request(h).to(Taken.ENDED)], send=[ended(h)], fair=True,
        why="every hand-over ends, in a drain as well"),
    Row("note_over", on=confirmed(h), when=request(h) == Taken.ENDED,
        do=[request(h).to(Taken.OVER)],
        why="the client needs nothing of this process any more"),
    Ignore(confirmed(h), when=request(h) == Taken.OVER, why="the server knows it"),
    Reject(confirmed(h), when=request(h).among(Taken.UNKNOWN, Taken.OPEN, Taken.REFUSED),
           why="the server has not ended this request"),
    Row("drain", on=Call("drain"), at=Serving.OPEN, to=Serving.DRAINING, send=[leave()]),
    Ignore(Call("drain"), at=(Serving.DRAINING, *DRAINED), why="the server drains already"),
    Row("be_empty", at=Serving.DRAINING, to=Serving.EMPTY,
        when=[forall(h, request(h) != Taken.OPEN), ALL_CONFIRMED]),
    Row("stop", on=Call("stop"), at=Serving.EMPTY, to=Serving.STOPPED,
        why="the operator ends the process of a server that says it is empty"),
    Row("break_off", at=Serving.STOPPED, choose=(h,), when=~gone(h), send=[gone(h)],
        why="the connections of a process end with it"),
))

REGISTRY: Final = Table(registry, state=listing, rows=(
    Row("point", on=look_up(h), at=Listing.LISTED, do=[known(h).to(True)], send=[found(h)]),
    Row("point_again", on=look_up(h), at=Listing.STRUCK_OUT, when=known(h), send=[found(h)],
        why="a request from before the drain still finds its server"),
    Row("turn_away", on=look_up(h), at=Listing.STRUCK_OUT, when=~known(h), send=[turned_away(h)]),
    Row("strike_out", on=leave(), at=Listing.LISTED, to=Listing.STRUCK_OUT),
    Ignore(leave(), at=Listing.STRUCK_OUT, why="the server is struck out already"),
))

SERVED: Final = (AtClient.OPEN, AtClient.READING, AtClient.DONE)
ASKED: Final = (AtClient.ASKING, *SERVED)

CLIENT: Final = Table(client, state=asking, rows=(
    Row("begin", on=Call("request"), at=AtClient.IDLE, to=AtClient.LOOKING_UP, send=[look_up(h)],
        fair=True, why="every request is made some time"),
    Row("go", on=found(h), at=AtClient.LOOKING_UP, to=AtClient.ASKING, send=[ask(h)]),
    Ignore(found(h), at=(*ASKED, AtClient.REFUSED),
           why="the client has its server already"),
    Reject(found(h), at=AtClient.IDLE, why="it has not asked"),
    Row("be_turned_away", on=turned_away(h), at=AtClient.LOOKING_UP, to=AtClient.REFUSED),
    Ignore(turned_away(h), at=AtClient.REFUSED, why="the client knows it"),
    Reject(turned_away(h), at=(AtClient.IDLE, *ASKED),
           why="the registry gives one answer for a request"),
    Row("be_taken", on=taken(h), at=AtClient.ASKING, to=AtClient.OPEN),
    Ignore(taken(h), at=SERVED, why="the client knows it"),
    Reject(taken(h), at=(AtClient.IDLE, AtClient.LOOKING_UP, AtClient.REFUSED),
           why="the server has not been asked, or has refused"),
    Row("be_refused", on=refused(h), at=AtClient.ASKING, to=AtClient.REFUSED),
    Ignore(refused(h), at=AtClient.REFUSED, why="the client knows it"),
    Reject(refused(h), at=(AtClient.IDLE, AtClient.LOOKING_UP, *SERVED),
           why="the server has not been asked, or has taken the request"),
    Row("read", on=ended(h), at=(AtClient.ASKING, AtClient.OPEN), to=AtClient.READING,
        why="the end may arrive before the word that the request was taken"),
    Ignore(ended(h), at=(AtClient.READING, AtClient.DONE), why="the client knows it"),
    Reject(ended(h), at=(AtClient.IDLE, AtClient.LOOKING_UP, AtClient.REFUSED),
           why="the server has taken no such request"),
    Row("be_done", at=AtClient.READING, to=AtClient.DONE, send=[confirmed(h)],
        why="the client has read the whole result"),
    Reject(gone(h), at=(AtClient.OPEN, AtClient.READING),
           why="rule 5: the rest of the result, or an answer about it, would never come"),
    Row("go_elsewhere", on=gone(h), at=AtClient.ASKING, to=AtClient.REFUSED,
        why="the server has not taken the request, as far as the client knows"),
    Ignore(gone(h), at=(AtClient.IDLE, AtClient.LOOKING_UP),
           why="the client has not asked the server"),
    Ignore(gone(h), at=(AtClient.DONE, AtClient.REFUSED),
           why="the client needs nothing of the server"),
))

PROPERTIES: Final = (
    Always("a_drained_server_has_no_open_request",
           implies(serving().among(*DRAINED), ~request(h).among(Taken.OPEN, Taken.ENDED)),
           why="rule 3: its process may be ended"),
    Always("a_stop_after_empty_fails_no_request",
           implies(serving() == Serving.STOPPED, ~asking(h).among(AtClient.OPEN, AtClient.READING)),
           why="rule 5: the end of an empty server's process fails nobody"),
    Always("a_taken_request_is_never_refused",
           implies(request(h).among(*TAKEN), asking(h) != AtClient.REFUSED),
           why="rule 1: a drain fails no request that was accepted before it"),
    Always("only_a_drain_refuses",
           implies(asking(h) == AtClient.REFUSED, serving() != Serving.OPEN),
           why="a server that serves refuses nothing"),
    Always("a_server_is_struck_out_for_a_drain",
           implies(listing() == Listing.STRUCK_OUT, serving() != Serving.OPEN)),
    Always("rule_4_only_a_request_that_has_looked_is_known", implies(known(h), look_up(h))),
    OnRow("rule_4_an_old_request_is_found", "turn_away", ~known(h),
          why="its server may have it"),
    OnRow("rule_4_no_new_request_is_pointed_to_it", "point_again", known(h),
          why="only a request that has found the server before may still find it"),
    OnRow("rule_2_a_drain_takes_no_request", "accept", serving() == Serving.OPEN,
          why="it goes to another server at once"),
    LeadsTo("a_request_is_answered_at_once", asking(h) == AtClient.ASKING,
            asking(h) != AtClient.ASKING, under=(Fairness.NO_TIMERS,),
            why="rule 2: no timer is needed for a refusal"),
    LeadsTo("a_drain_ends", serving() == Serving.DRAINING, serving() == Serving.EMPTY,
            why="the operator gets an answer"),
    LeadsTo("a_taken_request_is_done", request(h) == Taken.OPEN, asking(h) == AtClient.DONE,
            why="rule 1"),
    LeadsTo("a_drained_server_is_struck_out", serving() == Serving.DRAINING,
            listing() == Listing.STRUCK_OUT, under=(Fairness.NO_TIMERS,)),
    Sometimes("a_request_is_open_in_a_drain",
              all_of(serving() == Serving.DRAINING, request(h) == Taken.OPEN)),
    Sometimes("a_client_hears_that_it_is_taken", asking(h) == AtClient.OPEN),
    Sometimes("a_request_is_read_in_a_drain",
              all_of(serving() == Serving.DRAINING, request(h) == Taken.ENDED,
                     asking(h) == AtClient.READING)),
    Sometimes("a_request_is_refused", request(h) == Taken.REFUSED),
    Sometimes("a_request_is_turned_away",
              all_of(asking(h) == AtClient.REFUSED, request(h) == Taken.UNKNOWN)),
    Sometimes("a_server_is_empty", serving() == Serving.EMPTY),
    Sometimes("a_server_is_stopped", serving() == Serving.STOPPED),
    Sometimes("a_request_meets_a_stopped_server",
              all_of(gone(h), asking(h) == AtClient.ASKING, request(h) == Taken.UNKNOWN)),
)

SYSTEM: Final = System(
    "drain",
    "A server drains: it ends its requests, refuses new ones, says when it is empty, and ends.",
    tables=(SERVER, REGISTRY, CLIENT),
    properties=PROPERTIES,
    final=forall(h, any_of(asking(h) == AtClient.DONE, asking(h) == AtClient.REFUSED)),
    configurations={
        "default": Configuration({Life: 2}),
        "deep": Configuration({Life: 3}),
    },
)
