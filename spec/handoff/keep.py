"""A room that is asked for more than once: prefill keeps its KV for further decode requests.

A *leg* is a request of decode for a room: a sample of `n`, a hedged one, or one that a router
repeats because a decode server has died. Each leg has a life of its own (transfer.py); this table
says which legs get one, and for how long prefill keeps the KV.

Rule 1: A leg is served while the room is open or kept. Otherwise it is refused, with the reason. It
        waits for no clock.
Rule 2: When its first leg has ended, a room is kept if there is a place for it. A place is memory
        for so many pages; a long prompt has several. So what is kept is bounded, in rooms and in
        pages.
Rule 3: The clock of a kept room runs while no leg reads it. No clock gives pages back that a leg
        reads.
Rule 4: A leg gets the KV of its own prompt, or none.

Assumption: each leg that is served ends, which the other tables of the hand-over show.
"""

from typing import Final

from pdproto.spec.handoff.roles import Life, Slot
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
    Timer,
    all_of,
    any_of,
    auto,
    each,
    exists,
    forall,
    implies,
)


class KeptRoom(Sort, prefix="r"):
    """A request that prefill has computed, and whose KV it holds."""


class Keeping(State):
    """What prefill does with the KV of a room."""

    NEW = auto()  # it has no room of this name yet
    OPEN = auto()  # no leg has ended
    KEPT = auto()  # it waits for further legs, in its places
    CLOSING = auto()  # no further leg is served; some may still read
    OVER = auto()  # the pages have been given back


class AtLeg(State):
    """What a leg knows of its request to prefill."""

    IDLE = auto()
    ASKING = auto()
    SERVED = auto()
    REFUSED = auto()


h, k, room, other, m = Life("h"), Life("k"), KeptRoom("room"), KeptRoom("other"), Slot("m")

keeper = Machine("keeper")
leg = Machine("leg", h)

of = Rigid("of", h, room)  # the leg is of the prompt of the room
keeping = keeper.function("keeping", Keeping, KeptRoom, edges={
    Keeping.NEW: (Keeping.OPEN,), Keeping.OPEN: (Keeping.KEPT, Keeping.CLOSING),
    Keeping.KEPT: (Keeping.CLOSING,), Keeping.CLOSING: (Keeping.OVER,), Keeping.OVER: ()})
held = keeper.relation("held", KeptRoom)  # the pages of the room are given to nobody else
reads = keeper.relation("reads", Life, KeptRoom)  # a leg reads them, or will
answered = keeper.relation("answered", Life)
has_read = keeper.relation("has_read", Life)  # it has read, and has ended
place = keeper.function("place", KeptRoom, Slot)  # the room that has this place
asking = leg.function("asking", AtLeg, edges={
    AtLeg.IDLE: (AtLeg.ASKING,), AtLeg.ASKING: (AtLeg.SERVED, AtLeg.REFUSED),
    AtLeg.SERVED: (), AtLeg.REFUSED: ()})

ask = Message("ask", h, room, sender=leg, receiver=keeper)
served = Message("served", h, sender=keeper, receiver=leg)
refused = Message("refused", h, sender=keeper, receiver=leg)

UNANSWERED: Final = (ask(h, room), ~answered(h))
UNREAD: Final = forall(k, ~reads(k, room))
HAS_NO_END: Final = keeping(room) == Keeping.OPEN
NO_PLACE: Final = forall(m, place(m).is_set)
END_READ: Final = Call("end_read", h, room)
END: Final = (reads(h, room).to(False), has_read(h).to(True))
PASS_BY: Final = Call("pass_by", room)
LEAVE_PLACES: Final = (
    keeping(room).to(Keeping.CLOSING), each(m, place(m).clear(), where=place(m) == room))

KEEPER: Final = Table(keeper, rows=(
    Row("open_room", on=Call("open_room", room), when=keeping(room) == Keeping.NEW,
        do=[keeping(room).to(Keeping.OPEN), held(room).to(True)], fair=True,
        why="prefill names the room before its worker has opened it, and a leg may come between"),
    Row("serve", choose=(h, room),
        when=[*UNANSWERED, of(h, room), keeping(room).among(Keeping.OPEN, Keeping.KEPT)],
        do=[answered(h).to(True), reads(h, room).to(True)], send=[served(h)]),
    Row("refuse_other", choose=(h, room),
        when=[*UNANSWERED, ~of(h, room), keeping(room) != Keeping.NEW],
        do=[answered(h).to(True)], send=[refused(h)],
        why="the room has the KV of another prompt"),
    Row("refuse_late", choose=(h, room),
        when=[*UNANSWERED, of(h, room), keeping(room).among(Keeping.CLOSING, Keeping.OVER)],
        do=[answered(h).to(True)], send=[refused(h)],
        why="the pages are given back: the router sends the whole request again, or decode "
            "computes it"),
    Row("keep", on=END_READ, choose=(m,), when=[reads(h, room), HAS_NO_END, place(m).unset],
        do=[*END, keeping(room).to(Keeping.KEPT), place(m).to(room)], fair=True,
        why="it has ended well or not: if its server has died, another one may ask"),
    Row("keep_not", on=END_READ, when=[reads(h, room), HAS_NO_END, NO_PLACE],
        do=[*END, keeping(room).to(Keeping.CLOSING)], fair=True,
        why="the bound of the operator; with the bound 0 no room is kept"),
    Row("note_end", on=END_READ, when=[reads(h, room), ~HAS_NO_END], do=END, fair=True,
        why="every leg ends"),
    Row("keep_unread", on=PASS_BY, choose=(m,), when=[HAS_NO_END, UNREAD, place(m).unset],
        do=[keeping(room).to(Keeping.KEPT), place(m).to(room)],
        why="a leg has come to its sender that had ended before, or is of another prompt"),
    Row("keep_unread_not", on=PASS_BY, when=[HAS_NO_END, UNREAD, NO_PLACE],
        do=[keeping(room).to(Keeping.CLOSING)], why="the bound of the operator"),
    Row("pass_read", on=PASS_BY, when=any_of(~HAS_NO_END, ~UNREAD),
        why="another leg decides what becomes of the room"),
    Row("widen", on=Call("widen", room), choose=(m,),
        when=[keeping(room) == Keeping.KEPT, place(m).unset], do=[place(m).to(room)],
        why="its pages need more than one place"),
    Row("cede", on=Call("cede", room), when=[keeping(room) == Keeping.KEPT, UNREAD],
        do=LEAVE_PLACES, why="a later room needs its places"),
    Row("leave", on=Call("leave", room),
        when=any_of(keeping(room) == Keeping.KEPT, all_of(HAS_NO_END, ~UNREAD)), do=LEAVE_PLACES,
        why="the server drains: the legs that read go on, and no further one is served"),
    Row("end_keep", on=Timer("keep"), choose=(room,), when=[keeping(room) == Keeping.KEPT, UNREAD],
        do=LEAVE_PLACES, why="no further leg has come in the time of the operator"),
    Row("end_unasked", on=Timer("bootstrap_timeout"), choose=(room,), when=[HAS_NO_END, UNREAD],
        do=[keeping(room).to(Keeping.CLOSING)], why="no leg has come at all"),
    Row("give_up_room", on=Call("give_up_room", room), when=[HAS_NO_END, UNREAD],
        do=[keeping(room).to(Keeping.CLOSING)],
        why="the application has ended the request, or no leg of it has come to its sender"),
    Row("give_back", choose=(room,), when=[keeping(room) == Keeping.CLOSING, UNREAD],
        do=[keeping(room).to(Keeping.OVER), held(room).to(False)]),
))

LEG: Final = Table(leg, state=asking, rows=(
    Row("ask", on=Call("ask", room), at=AtLeg.IDLE, to=AtLeg.ASKING, send=[ask(h, room)], fair=True,
        why="at any time: prefill may have ended the room long ago"),
    Row("be_served", on=served(h), at=AtLeg.ASKING, to=AtLeg.SERVED),
    Ignore(served(h), at=AtLeg.SERVED, why="the leg knows it"),
    Reject(served(h), at=(AtLeg.IDLE, AtLeg.REFUSED), why="a leg that asks has one answer"),
    Row("be_refused", on=refused(h), at=AtLeg.ASKING, to=AtLeg.REFUSED),
    Ignore(refused(h), at=AtLeg.REFUSED, why="the leg knows it"),
    Reject(refused(h), at=(AtLeg.IDLE, AtLeg.SERVED), why="a leg that asks has one answer"),
))

PROPERTIES: Final = (
    Always("S8_kv_is_held_while_a_leg_reads_it", implies(reads(h, room), held(room)),
           why="otherwise vLLM would give the pages to another request under the read"),
    Always("S19_a_leg_reads_the_kv_of_its_prompt", implies(reads(h, room), of(h, room)),
           why="rule 4: its answer would be that to another prompt"),
    Always("a_leg_reads_until_it_ends",
           implies(all_of(served(h), ask(h, room)), any_of(reads(h, room), has_read(h))),
           why="the end of one leg ends no other one, whose pages would be given back"),
    Always("a_leg_that_has_ended_reads_no_more", implies(has_read(h), ~reads(h, room)),
           why="its room would never be given back"),
    Always("a_kept_room_has_a_place",
           implies(keeping(room) == Keeping.KEPT, exists(m, place(m) == room)),
           why="rule 2: places bound what is kept"),
    Always("a_place_is_of_a_kept_room", implies(place(m) == room, keeping(room) == Keeping.KEPT),
           why="a place that no room leaves would be lost"),
    OnRow("no_clock_ends_a_room_that_is_read", "end_keep", UNREAD,
          why="rule 3: a leg that reads shows that the room is still asked for"),
    OnRow("no_room_cedes_while_it_is_read", "cede", UNREAD,
          why="its places are not free before its pages are"),
    OnRow("only_a_leg_that_reads_keeps_its_room", "keep", reads(h, room),
          why="a room that nobody has asked for has its own clock"),
    OnRow("only_a_leg_that_reads_closes_a_room_without_a_place", "keep_not", reads(h, room)),
    Always("a_leg_of_a_new_room_is_not_refused",
           implies(all_of(refused(h), ask(h, room)), keeping(room) != Keeping.NEW),
           why="which prompt the room has is not known yet"),
    OnRow("a_room_takes_free_places_alone", "widen", place(m).unset),
    OnRow("an_open_room_is_left_to_its_legs_alone", "leave",
          any_of(keeping(room) == Keeping.KEPT, ~UNREAD),
          why="a leg that is still to come may find its room"),
    OnRow("no_room_is_given_up_while_it_is_read", "give_up_room", UNREAD),
    OnRow("no_clock_ends_an_open_room_that_is_read", "end_unasked", UNREAD,
          why="a leg has come: other clocks bound its hand-over"),
    Always("a_leg_is_refused_with_reason",
           implies(all_of(refused(h), ask(h, room)),
                   any_of(~of(h, room), keeping(room).among(Keeping.CLOSING, Keeping.OVER))),
           why="while prefill keeps the KV, no prompt is computed again"),
    LeadsTo("L2_a_leg_is_answered_at_once", asking(h) == AtLeg.ASKING, asking(h) != AtLeg.ASKING,
            under=(Fairness.NO_TIMERS,), why="rule 1: served or refused, it waits for no clock"),
    LeadsTo("L4_the_kv_of_a_room_is_given_back", held(room), ~held(room), under=(Fairness.TIMERS,),
            why="rule 2: what is kept is bounded in time, too"),
    Sometimes("two_legs_read_a_room", all_of(h.differs(k), reads(h, room), reads(k, room))),
    Sometimes("a_kept_room_is_read", all_of(keeping(room) == Keeping.KEPT, reads(h, room))),
    Sometimes("a_room_is_kept_that_no_leg_has_read",
              all_of(keeping(room) == Keeping.KEPT, forall(h, ~answered(h)))),
    Sometimes("a_room_that_closes_is_read",
              all_of(keeping(room) == Keeping.CLOSING, reads(h, room))),
    Sometimes("a_room_that_closes_is_read_by_two",
              all_of(keeping(room) == Keeping.CLOSING, reads(h, room), reads(k, room),
                     h.differs(k))),
    Sometimes("a_leg_of_the_prompt_is_refused_while_a_room_closes",
              all_of(keeping(room) == Keeping.CLOSING, ask(h, room), of(h, room), refused(h))),
    Sometimes("a_leg_comes_before_its_room", all_of(ask(h, room), keeping(room) == Keeping.NEW)),
    Sometimes("a_leg_of_the_prompt_is_refused",
              all_of(ask(h, room), of(h, room), asking(h) == AtLeg.REFUSED)),
    Sometimes("a_leg_of_another_prompt_is_refused",
              all_of(ask(h, room), ~of(h, room), asking(h) == AtLeg.REFUSED)),
)

SYSTEM: Final = System(
    "kept-rooms",
    "A room that is asked for more than once: who is served, and for how long its KV is kept.",
    tables=(KEEPER, LEG),
    properties=PROPERTIES,
    final=all_of(forall(room, keeping(room) == Keeping.OVER),
                 forall(h, asking(h).among(AtLeg.SERVED, AtLeg.REFUSED))),
    configurations={
        "default": Configuration({KeptRoom: 2, Life: 2, Slot: 1}),
        "two-places": Configuration({KeptRoom: 1, Life: 2, Slot: 2}),
        "deep": Configuration({KeptRoom: 2, Life: 3, Slot: 2}),
    },
)
