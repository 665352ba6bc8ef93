"""A room that decode asks for when prefill has ended its request.

Where prefill has a request for each leg, as under SGLang, both come at the same time, on two ways.
So when the request of a room has ended and a leg of the room comes, either its own request is still
to come, or none is: a router has repeated the decode request alone. Only decode can tell the two
apart.

Rule 1: A leg says whether it is asked for *once*: it is the only one of its request, and decode has
        not had prefill compute the request again. A sample of `n`, and a request whose KV decode
        has given back, are not.
Rule 2: A leg that is asked for once is refused at once, with the reason, when the requests of its
        room and prompt have ended here. Each other leg waits for a request of its own.
Rule 3: Prefill remembers so many ended rooms. A leg of a room that it has forgotten waits as it
        would for a room that never was.

Assumption: a router that repeats a whole request gives it another room.
"""

from typing import Final

from pdproto.spec.handoff.roles import Life, Use
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
    Rigid,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    exists,
    forall,
    implies,
)


class AskedRoom(Sort, prefix="r"):
    """A room and a prompt, for which a leg asks."""


class AtLeg(State):
    """The state of a leg's request to prefill. LEFT: it waits no longer."""

    IDLE = auto()
    ASKING = auto()
    SERVED = auto()
    REFUSED = auto()
    LEFT = auto()


h, u, v, room, other = (
    Life("h"), Use("u"), Use("v"), AskedRoom("room"), AskedRoom("other"))

rooms = Machine("rooms")
leg = Machine("leg", h)

once = Rigid("once", h)  # rule 1
came = rooms.relation("came", Use)  # the request of prefill
runs = rooms.relation("runs", Use, AskedRoom)  # it has not ended
had = rooms.relation("had", AskedRoom, Use)  # the request ran in the room, and has ended
taken = rooms.relation("taken", Use)  # it has a leg
ended = rooms.relation("ended", AskedRoom)  # a request of the room and prompt has
waits = rooms.relation("waits", Life, AskedRoom)  # the leg has asked, and has no answer
answered = rooms.relation("answered", Life)
asking = leg.function("asking", AtLeg, edges={
    AtLeg.IDLE: (AtLeg.ASKING,), AtLeg.ASKING: (AtLeg.SERVED, AtLeg.REFUSED, AtLeg.LEFT),
    AtLeg.SERVED: (), AtLeg.REFUSED: (), AtLeg.LEFT: ()})

ask = Message("ask", h, room, sender=leg, receiver=rooms)
leave = Message("leave", h, room, sender=leg, receiver=rooms)
served = Message("served", h, sender=rooms, receiver=leg)
refused = Message("refused", h, sender=rooms, receiver=leg)

NONE_RUNS: Final = forall(u, ~runs(u, room))
NONE_WAITS: Final = forall(h, ~waits(h, room))
ANSWER: Final = (answered(h).to(True), waits(h, room).to(False))

ROOMS: Final = Table(rooms, rows=(
    Row("open_request", on=Call("open_request", u, room), when=~came(u),
        do=[came(u).to(True), runs(u, room).to(True)]),
    Row("note_leg", on=ask(h, room), when=~answered(h), do=[waits(h, room).to(True)]),
    Ignore(ask(h, room), when=answered(h), why="an introduction is repeated"),
    Row("note_leave", on=leave(h, room), when=waits(h, room), do=ANSWER),
    Ignore(leave(h, room), when=~waits(h, room), why="it has its answer"),
    Row("bind", on=Call("bind", h, u, room), when=[waits(h, room), runs(u, room), ~taken(u)],
        do=[*ANSWER, taken(u).to(True)], send=[served(h)], fair=True,
        why="the tables of binding choose the request"),
    Row("end_request", on=Call("end_request", u, room), when=runs(u, room),
        do=[runs(u, room).to(False), had(room, u).to(True), ended(room).to(True)], fair=True,
        why="well or not: its pages are free, and nobody sends them"),
    Row("refuse_ended", choose=(h, room), when=[waits(h, room), once(h), ended(room), NONE_RUNS],
        do=ANSWER, send=[refused(h)],
        why="no request will come: the router sends the whole request again, in another room"),
    Row("forget_room", on=Call("forget_room", room), when=[ended(room), NONE_WAITS],
        do=[ended(room).to(False)], why="rule 3: the memory is bounded"),
))

LEG: Final = Table(leg, state=asking, rows=(
    Row("ask", on=Call("ask", room), at=AtLeg.IDLE, to=AtLeg.ASKING, send=[ask(h, room)], fair=True,
        why="at any time: the request at prefill may have ended, or be still to come"),
    Row("leave", on=Call("leave", room), at=AtLeg.ASKING, to=AtLeg.LEFT, when=ask(h, room),
        send=[leave(h, room)], why="its client has left, a clock has ended, or its request has"),
    Row("be_served", on=served(h), at=AtLeg.ASKING, to=AtLeg.SERVED),
    Ignore(served(h), at=(AtLeg.SERVED, AtLeg.LEFT), why="the leg knows it, or needs it no more"),
    Reject(served(h), at=(AtLeg.IDLE, AtLeg.REFUSED), why="a leg that asks has one answer"),
    Row("be_refused", on=refused(h), at=AtLeg.ASKING, to=AtLeg.REFUSED),
    Ignore(refused(h), at=(AtLeg.REFUSED, AtLeg.LEFT), why="the leg knows it, or needs it no more"),
    Reject(refused(h), at=(AtLeg.IDLE, AtLeg.SERVED), why="a leg that asks has one answer"),
))

PROPERTIES: Final = (
    Always("a_leg_that_waits_for_its_request_is_not_refused", implies(refused(h), once(h)),
           why="prefill computes a sample, or KV that decode has given back, after the first"),
    OnRow("no_leg_is_refused_while_a_request_runs", "refuse_ended", all_of(ended(room), NONE_RUNS),
          why="it may be the leg's own, as one that is still to come may be"),
    OnRow("no_room_is_forgotten_under_a_leg", "forget_room", NONE_WAITS,
          why="the leg would wait for a clock"),
    OnRow("a_request_that_runs_serves_one_leg", "bind", all_of(runs(u, room), ~taken(u)),
          why="its pages go to one decode request"),
    OnRow("only_a_request_that_runs_ends", "end_request", runs(u, room),
          why="a room ends by a request of its own"),
    Always("a_request_that_runs_has_come", implies(runs(u, room), came(u))),
    Always("a_request_runs_until_it_ends",
           implies(came(u), exists(room, any_of(runs(u, room), had(room, u)))),
           why="the end of one request ends no other one, which may have a leg to serve"),
    Always("a_request_that_has_ended_runs_no_more", implies(had(room, u), ~runs(u, other))),
    Always("a_room_that_has_ended_had_a_request", implies(ended(room), exists(u, had(room, u))),
           why="a leg of another room would be refused before its request comes"),
    Always("a_request_is_of_one_room",
           implies(all_of(any_of(runs(u, room), had(room, u)),
                          any_of(runs(u, other), had(other, u))), room.same(other))),
    Always("a_leg_leaves_the_room_that_it_asked_for", implies(leave(h, room), ask(h, room))),
    LeadsTo("L2_a_leg_of_an_ended_room_is_told_at_once",
            all_of(waits(h, room), once(h), ended(room)),
            asking(h) != AtLeg.ASKING, under=(Fairness.NO_TIMERS,),
            why="rule 2: the router may act at once, and decode holds no pages for it"),
    Sometimes("a_leg_of_an_ended_room_is_refused", all_of(ended(room), refused(h))),
    Sometimes("a_leg_is_served_in_a_room_that_has_ended_before",
              all_of(ask(h, room), ended(room), ~once(h), asking(h) == AtLeg.SERVED)),
    Sometimes("a_leg_waits_in_an_ended_room",
              all_of(ask(h, room), ended(room), ~once(h), asking(h) == AtLeg.ASKING)),
    Sometimes("a_room_is_forgotten", all_of(
        came(u), forall(room, all_of(~runs(u, room), ~ended(room))))),
    Sometimes("two_requests_of_a_room_run", all_of(
        runs(u, room), runs(v, room), u.differs(v))),
    Sometimes("a_request_has_a_leg_and_another_one_none", all_of(taken(u), came(v), ~taken(v))),
    Sometimes("a_leg_leaves_without_an_answer", all_of(answered(h), ~served(h), ~refused(h))),
    Sometimes("a_leg_knows_that_it_is_refused", asking(h) == AtLeg.REFUSED),
)

SYSTEM: Final = System(
    "ended-rooms",
    "A room that decode asks for when prefill has ended its request: which leg is refused at once.",
    tables=(ROOMS, LEG),
    properties=PROPERTIES,
    final=forall(h, forall(room, any_of(~waits(h, room), ~once(h), ~ended(room)))),
    configurations={
        "default": Configuration({AskedRoom: 1, Life: 2, Use: 2}),
        "two-rooms": Configuration({AskedRoom: 2, Life: 2, Use: 2}),
        "deep": Configuration({AskedRoom: 2, Life: 2, Use: 3}),
    },
)
