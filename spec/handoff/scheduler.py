"""The answers to a decode scheduler of SGLang about a hand-over, until it has its pages back.

SGLang knows a request before its hand-over can begin, and takes the pages back as soon as a poll
answers an end. So the answers to its polls have a table of their own. It reads the scheduler's
calls, and the state of the hand-over (`status`, `reached`, `row`: the node writes them).

Rule 1: A poll answers failure only when no copy into the pages is under way or will begin.
Rule 2: A poll answers success only when the metadata row is in its slot.
Rule 3: SGLang gives memory to a request that answers WaitingForInput. The answer means that the
        rank that runs the room is known. A request never goes back from there.
Rule 4: The ranks of a group open their hand-overs in the order of the requests. So a request
        without a hand-over passes its turn.
"""

from typing import Final

from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Ignore,
    LeadsTo,
    Machine,
    OnRow,
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


class Knowledge(State):
    """SGLang's knowledge of a request."""

    ASKED = auto()  # the ranks that run the room are not known yet
    FOUND = auto()  # the ranks are known; the turn to open the hand-over has not come
    OPEN = auto()
    MOVING = auto()  # the first bytes have landed
    SUCCESS = auto()
    FAILED = auto()


class Reported(State):
    """The state of the hand-over, as its node reports it."""

    NONE = auto()
    UNDER_WAY = auto()
    MOVING = auto()
    LANDED = auto()
    BROKEN = auto()


class Slot(State):
    """The metadata row of the request. The node writes it when all parts have landed."""

    EMPTY = auto()
    WRITTEN = auto()
    UNFIT = auto()  # its length differs from the rows here


h = Life("h")

view = Machine("view", h)
node = Machine("node", world=True)

knows = view.function("knows", Knowledge, edges={
    Knowledge.ASKED: (Knowledge.FOUND, Knowledge.FAILED),
    Knowledge.FOUND: (Knowledge.OPEN, Knowledge.FAILED),
    Knowledge.OPEN: (Knowledge.MOVING, Knowledge.SUCCESS, Knowledge.FAILED),
    Knowledge.MOVING: (Knowledge.SUCCESS, Knowledge.FAILED),
    Knowledge.SUCCESS: (Knowledge.FAILED,),
})
passed = view.relation("passed")  # the turn has passed without a hand-over
stopped = view.relation("stopped")  # the scheduler has asked the hand-over to end
closed = view.relation("closed")  # SGLang has its pages back
left = view.relation("left")  # SGLang has cleared it before its turn
status = view.function("status", Reported, edges={
    Reported.NONE: (Reported.UNDER_WAY,),
    Reported.UNDER_WAY: (Reported.MOVING, Reported.LANDED, Reported.BROKEN),
    Reported.MOVING: (Reported.LANDED, Reported.BROKEN),
})
status.shared_with(node, writes=(Reported.MOVING, Reported.LANDED, Reported.BROKEN))
reached = view.relation("reached")  # a write into the pages may be under way
reached.shared_with(node, writes=(True, False))
row = view.function("row", Slot, edges={Slot.EMPTY: (Slot.WRITTEN, Slot.UNFIT)})
row.shared_with(node, writes=(Slot.WRITTEN, Slot.UNFIT))

BEFORE: Final = (Knowledge.ASKED, Knowledge.FOUND)
OPENED: Final = (Knowledge.OPEN, Knowledge.MOVING)
ENDED: Final = (Knowledge.SUCCESS, Knowledge.FAILED)

# SGLang does not ask in which state a request is.
FIND, GIVE_UP, CLEAR = (Call(name, any_time=True) for name in ("find", "give_up", "clear"))

VIEW: Final = Table(view, state=knows, rows=(
    Row("find", on=FIND, at=Knowledge.ASKED, to=Knowledge.FOUND),
    Ignore(FIND, at=(Knowledge.FOUND, *OPENED, *ENDED),
           why="the ranks are known, or the request has ended"),
    Row("open", on=Call("open"), at=Knowledge.FOUND, to=Knowledge.OPEN,
        when=status(h) == Reported.NONE, do=[status(h).to(Reported.UNDER_WAY)]),
    Ignore(Call("open"), at=(Knowledge.ASKED, *OPENED, *ENDED),
           why="a request that has ended opens no hand-over"),
    Row("refuse", on=GIVE_UP, at=BEFORE, to=Knowledge.FAILED, do=[passed(h).to(True)],
        why="the request has no hand-over, and will have none"),
    Row("stop", on=GIVE_UP, at=OPENED, do=[stopped(h).to(True)],
        why="the hand-over ends, and reports when no write can reach the pages any more"),
    Row("take_back", on=GIVE_UP, at=Knowledge.SUCCESS, to=Knowledge.FAILED, when=~closed(h),
        do=[stopped(h).to(True)],
        why="SGLang has not committed it, and clears it when it has failed"),
    Ignore(GIVE_UP, at=Knowledge.SUCCESS, when=closed(h), name="ignore_give_up_closed",
           why="SGLang has its pages back already"),
    Ignore(GIVE_UP, at=Knowledge.FAILED, why="the request has ended already"),
    Row("move", at=Knowledge.OPEN, to=Knowledge.MOVING, when=status(h) == Reported.MOVING),
    Row("succeed", at=OPENED, to=Knowledge.SUCCESS,
        when=[status(h) == Reported.LANDED, row(h) == Slot.WRITTEN, ~stopped(h)]),
    Row("land_too_late", at=OPENED, to=Knowledge.FAILED,
        when=[status(h) == Reported.LANDED, row(h) == Slot.WRITTEN, stopped(h)],
        why="SGLang has given it up, and waits for a failure"),
    Row("find_unfit", at=OPENED, to=Knowledge.FAILED,
        when=[status(h) == Reported.LANDED, row(h) == Slot.UNFIT],
        why="the peer has other metadata: SGLang would read a row of another request"),
    Row("fail", at=OPENED, to=Knowledge.FAILED, when=[status(h) == Reported.BROKEN, ~reached(h)]),
    Row("leave", on=CLEAR, at=BEFORE, to=Knowledge.FAILED,
        do=[passed(h).to(True), closed(h).to(True), left(h).to(True)], fair=True,
        why="SGLang clears every request some time"),
    Row("give_back", on=CLEAR, at=(*OPENED, Knowledge.FAILED), when=~closed(h),
        do=[closed(h).to(True)], fair=True,
        why="this call gives up a hand-over that has not ended; SGLang clears every one but a "
            "success that it does not commit"),
    Row("give_success_back", on=CLEAR, at=Knowledge.SUCCESS, when=~closed(h),
        do=[closed(h).to(True)], why="SGLang has committed it"),
    Ignore(CLEAR, at=(*OPENED, *ENDED), when=closed(h),
           why="SGLang has its pages back already"),
))

NODE: Final = Table(node, rows=(
    Row("reach", choose=(h,),
        when=[status(h).among(Reported.UNDER_WAY, Reported.MOVING), ~reached(h)],
        do=[reached(h).to(True)], why="the node has published the pages"),
    Row("bring", choose=(h,), when=[status(h) == Reported.UNDER_WAY, reached(h)],
        do=[status(h).to(Reported.MOVING)]),
    Row("land", choose=(h,),
        when=[status(h).among(Reported.UNDER_WAY, Reported.MOVING), reached(h), ~stopped(h)],
        do=[status(h).to(Reported.LANDED), reached(h).to(False)]),
    Row("break", choose=(h,), when=status(h).among(Reported.UNDER_WAY, Reported.MOVING),
        do=[status(h).to(Reported.BROKEN)], fair=True,
        why="the hand-over fails, or its time is over"),
    Row("end_copies", choose=(h,), when=[status(h) == Reported.BROKEN, reached(h)],
        do=[reached(h).to(False)], fair=True, why="copies and fenced writes end"),
    Row("write_row", choose=(h,), when=[status(h) == Reported.LANDED, row(h) == Slot.EMPTY],
        do=[row(h).to(Slot.WRITTEN)], fair=True),
    Row("find_row_unfit", choose=(h,), when=[status(h) == Reported.LANDED, row(h) == Slot.EMPTY],
        do=[row(h).to(Slot.UNFIT)]),
))

# The answer of a poll: the first line whose formula holds.
VIEW_POLL: Final = (
    (knows(h) == Knowledge.FAILED, KVPoll.FAILED),
    (knows(h) == Knowledge.SUCCESS, KVPoll.SUCCESS),
    (knows(h) == Knowledge.MOVING, KVPoll.TRANSFERRING),
    (knows(h).among(Knowledge.FOUND, Knowledge.OPEN), KVPoll.WAITING_FOR_INPUT),
    (all_of(), KVPoll.BOOTSTRAPPING),
)

PROPERTIES: Final = (
    Always("rule_1_pages_of_a_failure_are_free", implies(knows(h) == Knowledge.FAILED, ~reached(h)),
           why="SGLang gives them to another request at once"),
    Always("rule_1_no_hand_over_outlives_its_failure",
           implies(knows(h) == Knowledge.FAILED,
                   ~status(h).among(Reported.UNDER_WAY, Reported.MOVING)),
           why="the hand-over would write into pages that SGLang has given to another request"),
    Always("rule_1_no_row_is_written_after_a_failure",
           implies(all_of(knows(h) == Knowledge.FAILED, status(h) == Reported.LANDED),
                   row(h) != Slot.EMPTY),
           why="the node would write into a metadata slot that another request has by then"),
    Always("rule_2_success_has_its_row", implies(knows(h) == Knowledge.SUCCESS,
                                                 row(h) == Slot.WRITTEN),
           why="SGLang reads the slot in the same step"),
    Always("rule_4_a_turn_is_taken_or_passed",
           implies(any_of(knows(h).among(*ENDED), closed(h)),
                   any_of(passed(h), status(h) != Reported.NONE)),
           why="the requests behind this one wait for its turn"),
    Always("rule_4_a_turn_is_not_both", implies(passed(h), status(h) == Reported.NONE)),
    Always("a_failure_after_landing_is_of_the_row",
           implies(all_of(knows(h) == Knowledge.FAILED, status(h) == Reported.LANDED),
                   any_of(row(h) == Slot.UNFIT, stopped(h))),
           why="all the KV is there, so only the row can be wrong, or SGLang gives it up"),
    Sometimes("a_success_is_taken_back",
              all_of(knows(h) == Knowledge.FAILED, row(h) == Slot.WRITTEN, ~closed(h))),
    OnRow("moving_is_said_when_bytes_have_come", "move", status(h) == Reported.MOVING),
    Sometimes("a_request_is_refused", all_of(knows(h) == Knowledge.FAILED, passed(h), ~closed(h))),
    Sometimes("an_open_hand_over_is_stopped", all_of(knows(h) == Knowledge.OPEN, stopped(h))),
    Sometimes("a_moving_hand_over_is_stopped", all_of(knows(h) == Knowledge.MOVING, stopped(h))),
    Always("a_request_that_is_left_is_given_back", implies(left(h), all_of(passed(h), closed(h))),
           why="SGLang clears a request once"),
    Sometimes("a_request_is_left_before_its_turn", left(h)),
    Sometimes("an_open_hand_over_is_left", all_of(knows(h) == Knowledge.OPEN, closed(h))),
    Sometimes("a_moving_hand_over_is_left", all_of(knows(h) == Knowledge.MOVING, closed(h))),
    Sometimes("a_success_is_left", all_of(knows(h) == Knowledge.SUCCESS, closed(h))),
    Sometimes("a_request_succeeds", knows(h) == Knowledge.SUCCESS),
    Sometimes("a_row_does_not_fit", all_of(knows(h) == Knowledge.FAILED, row(h) == Slot.UNFIT)),
    Sometimes("a_failure_waits_for_its_pages",
              all_of(status(h) == Reported.BROKEN, reached(h))),
    LeadsTo("L1_an_open_hand_over_is_told", knows(h).among(*OPENED), knows(h).among(*ENDED),
            why="the scheduler gets an answer for every end"),
    LeadsTo("L4_a_request_is_given_back",
            ~closed(h), any_of(closed(h), knows(h) == Knowledge.SUCCESS),
            why="SGLang clears a request in any other state, and gets its pages back"),
    LeadsTo("L4_a_request_that_is_given_up_is_given_back", all_of(stopped(h), ~closed(h)),
            closed(h), why="also a success: SGLang has not committed it, and waits for a failure"),
)

SYSTEM: Final = System(
    "decode-scheduler",
    "How a decode scheduler of SGLang learns the end of a hand-over, and gets its pages back.",
    tables=(VIEW, NODE),
    properties=PROPERTIES,
    final=forall(h, ~knows(h).among(*OPENED)),
    configurations={
        "default": Configuration({Life: 1}),
        "two-lives": Configuration({Life: 2}),
    },
)
