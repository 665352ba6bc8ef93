"""Silence, suspicion and death: what a node knows of a run of a peer's process.

A process that says nothing may stand still (stopped, frozen, without processor time), may be cut
off, or may have ended. Its requests end at once only by a proof that it has ended (rule 1), and
where its host refuses a connection (rule 4).

Rule 1: a process has ended if it says so, if another run answers under its name, or if the
        application says so. Silence proves nothing, and neither does a connection that ends.
Rule 2: a process of which no sign of life comes is suspected. Its requests wait, and go on when it
        does. New ones wait with them.
Rule 3: requests wait no longer than the operator allows. Then each fails as by any time-out, and
        both ends hear of that when the process goes on. Until then no clock of theirs goes on.
Rule 4: a host that refuses its connection has no process that listens there. Its requests fail at
        once, as those of a dead one.
Rule 5: what is lost by a refusal, or is silent for much longer than rule 3 says, may still run,
        behind a proxy that is down. So nothing that rests on its death follows: its writes are
        fenced, and never taken for ended.

The tables of the hand-over have the effects: `miss_source` and `miss_sink` for OVERDUE; `gone` and
`sink_over` for LOST and ENDED.
"""

from typing import Final

from pdproto.spec.handoff.roles import Incarnation, Life
from pdproto.spec.language import (
    AddRow,
    Always,
    Call,
    Configuration,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    ReplaceProperties,
    ReplaceRow,
    Row,
    Sometimes,
    State,
    System,
    Table,
    Timer,
    all_of,
    any_of,
    auto,
    edited,
    forall,
    implies,
)


class Presence(State):
    """What a node knows of a run of a peer's process."""

    PRESENT = auto()  # signs of life come
    SUSPECTED = auto()  # none comes, or the connection has ended
    OVERDUE = auto()  # for so long that no request waits any more
    LOST = auto()  # no process listens, or nothing has come for so long that nothing is kept
    ENDED = auto()  # its process has ended


e, f = Incarnation("e"), Incarnation("f")
h = Life("h")

watcher = Machine("watcher", e)
outside = Machine("outside", world=True)

presence = watcher.function("presence", Presence, edges={
    Presence.PRESENT: (Presence.SUSPECTED, Presence.LOST, Presence.ENDED),
    Presence.SUSPECTED: (Presence.PRESENT, Presence.OVERDUE, Presence.LOST, Presence.ENDED),
    Presence.OVERDUE: (Presence.PRESENT, Presence.LOST, Presence.ENDED),
    Presence.LOST: (Presence.PRESENT, Presence.ENDED),
})

ended = outside.relation("ended", Incarnation)

sign = Message("sign", e, sender=outside, receiver=watcher)  # a batch of this run has come
cut = Message("cut", e, sender=outside, receiver=watcher)  # its connection has not come back
refused = Message("refused", e, sender=outside, receiver=watcher)  # and the host refuses another
# It has said so, it is followed by another run, or the application says so.
proof = Message("proof", e, sender=outside, receiver=watcher)

KNOWN: Final = (Presence.PRESENT, Presence.SUSPECTED, Presence.OVERDUE)
SILENT: Final = (Presence.SUSPECTED, Presence.OVERDUE)
# In these no clock of a hand-over with this process goes on (timers.py: `stands`).
HELD: Final = (Presence.SUSPECTED,)
OVER: Final = (Presence.LOST, Presence.ENDED)
GIVEN_UP: Final = (Presence.OVERDUE, *OVER)

# Its name is at another address now, or it writes a format that nobody reads here.
REPLACE: Final = Call("replace", any_time=True)

WATCHER: Final = Table(watcher, state=presence, rows=(
    Row("suspect", on=Call("silence"), at=Presence.PRESENT, to=Presence.SUSPECTED, fair=True,
        why="a sign of life is due"),
    Row("suspect_cut", on=cut(e), at=Presence.PRESENT, to=Presence.SUSPECTED,
        why="it was not refused: a firewall or a proxy may have ended the connection"),
    Ignore(cut(e), at=(*SILENT, *OVER), why="it is suspected already, or more is known"),
    Row("give_up", on=Call("absence"), at=Presence.SUSPECTED, to=Presence.OVERDUE, fair=True,
        why="the bound of the operator: its requests fail"),
    Row("forget", on=Call("no_return"), at=Presence.OVERDUE, to=Presence.LOST, fair=True,
        why="results are not kept for ever for a host that has vanished"),
    Row("lose", on=refused(e), at=KNOWN, to=Presence.LOST,
        why="no process listens there, and no part of a request will come from it"),
    Ignore(refused(e), at=OVER, why="it is lost already"),
    Row("replace", on=REPLACE, at=KNOWN, to=Presence.LOST,
        why="no part of a request will come from it at this address"),
    Ignore(REPLACE, at=OVER, why="it is lost already"),
    Row("hear_again", on=sign(e), at=SILENT, to=Presence.PRESENT, why="it has gone on"),
    Row("begin_again", on=sign(e), at=Presence.LOST, to=Presence.PRESENT,
        why="it has gone on, and requests that come from now on may be served"),
    Ignore(sign(e), at=Presence.PRESENT, why="nobody has doubted it"),
    Ignore(sign(e), at=Presence.ENDED, why="it was sent before the end"),
    Row("end", on=proof(e), at=(*KNOWN, Presence.LOST), to=Presence.ENDED,
        why="no part of a request will come from it any more"),
    Ignore(proof(e), at=Presence.ENDED, why="one proof is enough"),
))

RUNS: Final = all_of(~ended(e), forall(f, implies(f.before(e), ended(f))))

OUTSIDE: Final = Table(outside, rows=(
    Row("speak", choose=e, when=RUNS, send=[sign(e)], fair=False,
        why="a process that stands still says nothing"),
    Row("break_off", choose=e, when=RUNS, send=[cut(e)], fair=False,
        why="a proxy is started again, or a firewall forgets a connection"),
    Row("die", choose=e, when=RUNS, do=[ended(e).to(True)], fair=False,
        why="the process is killed, or its host vanishes"),
    Row("refuse", choose=e, send=[refused(e)], fair=False,
        why="the process has ended, and its host has not; or a proxy is down"),
    Row("prove", choose=e, when=ended(e), send=[proof(e)], fair=False,
        why="a host that has vanished may never come back"),
))

SYSTEM: Final = System(
    "presence",
    "Silence, suspicion and death: what a node knows of a run of a peer's process.",
    tables=(WATCHER, OUTSIDE),
    final=forall(e, presence(e).among(*OVER)),
    properties=(
        Always("L7_only_a_process_that_has_ended_is_said_to_have",
               implies(presence(e) == Presence.ENDED, ended(e)), why="rule 1"),
        OnRow("L7_a_request_waits_out_a_suspicion", "give_up", presence(e) == Presence.SUSPECTED,
              why="rule 3: a suspicion alone fails no request"),
        LeadsTo("L7_the_end_of_a_process_is_noticed", ended(e), presence(e).among(*OVER),
                under=(Fairness.CONSUMED,), why="at once, or by silence in the end"),
        Sometimes("a_suspected_process_may_run", all_of(
            presence(e) == Presence.SUSPECTED, ~ended(e))),
        Sometimes("a_lost_process_may_run", all_of(presence(e) == Presence.LOST, ~ended(e))),
    ),
    configurations={"default": Configuration({Incarnation: 2})},
)

# Of each way to lose a process the other one hides whether a row takes it.
TOLD: Final[System] = edited(
    SYSTEM, "presence-told",
    *map(DropRow, (
        "suspect", "give_up", "forget", "replace", "ignore_replace_lost_ended")),
    ReplaceProperties((
        Always("L7_only_a_host_that_refuses_loses_a_process",
               implies(presence(e) == Presence.LOST, refused(e)),
               why="rule 1: a connection that ends proves nothing"),
        Always("L7_only_a_cut_is_a_reason_for_suspicion",
               implies(presence(e) == Presence.SUSPECTED, cut(e))),
        Always("L7_no_request_is_given_up_without_a_clock", presence(e) != Presence.OVERDUE,
               why="rule 3: only the bound of the operator makes a process overdue"),
        LeadsTo("L7_a_refusal_loses_a_process", refused(e), presence(e).among(*OVER), why="rule 4"),
        LeadsTo("L7_a_proof_ends_a_process", proof(e), presence(e) == Presence.ENDED, why="rule 1"),
        LeadsTo("L7_a_suspected_process_goes_on",
                all_of(presence(e) == Presence.SUSPECTED, sign(e)),
                presence(e) != Presence.SUSPECTED, why="rule 2: its requests go on when it does"),
        LeadsTo("L7_a_lost_process_goes_on", all_of(presence(e) == Presence.LOST, sign(e)),
                presence(e) != Presence.LOST, why="rule 5: it may still run"),
        Sometimes("a_cut_connection_is_suspected", presence(e) == Presence.SUSPECTED),
    )),
    about="What a node knows of a run of a peer's process where no clock runs.",
    configurations={"default": Configuration({Incarnation: 2})},
)

SILENCE: Final[System] = edited(
    SYSTEM, "presence-silence",
    DropRow("forget"),
    ReplaceRow("suspect_cut", Ignore(
        cut(e), at=Presence.PRESENT, why="here silence alone makes a process suspected")),
    ReplaceRow("lose", Ignore(
        refused(e), at=KNOWN, why="here another process under its name alone makes it lost")),
    ReplaceProperties((
        Sometimes("a_silent_process_is_overdue", presence(e) == Presence.OVERDUE),
        Sometimes("a_replaced_process_is_lost", presence(e) == Presence.LOST),
        LeadsTo("L7_a_silent_process_is_overdue", presence(e) == Presence.SUSPECTED,
                presence(e) != Presence.SUSPECTED, why="rule 3"),
    )),
    about="What a node knows of a run of a peer's process where it hears of neither cuts nor "
          "refusals.",
    configurations={"default": Configuration({Incarnation: 2})},
)


class Need(State):
    """A request that needs this run of the process."""

    OPEN = auto()
    SERVED = auto()
    TIMED_OUT = auto()  # by a clock of its own
    MISSED = auto()  # by the end of the patience with the process, or with the process


request = watcher.function("request", Need, Life, edges={
    Need.OPEN: (Need.SERVED, Need.TIMED_OUT, Need.MISSED),
})
served = Message("served", e, h, sender=outside, receiver=watcher)

# A request that waits for the process has a clock of its own, as short as an operator may set it.
WAITING: Final[System] = edited(
    SYSTEM, "presence-waiting",
    AddRow(watcher, Row(
        "time_out", on=Timer("bootstrap_timeout"),
        at=tuple(one for one in Presence if one not in HELD), choose=h,
        when=request(e, h) == Need.OPEN,
        do=[request(e, h).to(Need.TIMED_OUT)], fair="strong",
        why="the clock keeps its time while the process is suspected, and goes on after that")),
    AddRow(watcher, Row(
        "serve", on=served(e, h), when=request(e, h) == Need.OPEN,
        do=[request(e, h).to(Need.SERVED)])),
    AddRow(watcher, Ignore(served(e, h), when=request(e, h) != Need.OPEN,
                           why="it was served once, or is given up")),
    AddRow(outside, Row(
        "answer", choose=(e, h), when=RUNS, send=[served(e, h)], fair=False,
        why="it may stand still, or the request may not have come to it")),
    AddRow(watcher, Row(
        "miss", at=GIVEN_UP, choose=h, when=request(e, h) == Need.OPEN,
        do=[request(e, h).to(Need.MISSED)],
        why="nobody will serve it")),
    ReplaceProperties((
        OnRow("L7_no_clock_ends_during_a_suspicion", "time_out", ~presence(e).among(*HELD),
              why="rule 3: a suspicion fails no request, whatever clocks the operator sets"),
        OnRow("L7_a_suspicion_misses_no_request", "miss", presence(e).among(*GIVEN_UP),
              why="rule 3: only the end of the patience does, or the end of the process"),
        Always("a_request_that_is_served_was_answered",
               implies(request(e, h) == Need.SERVED, served(e, h))),
        LeadsTo("L7_no_request_waits_for_a_process_that_is_over",
                all_of(presence(e).among(*OVER), request(e, h) == Need.OPEN),
                any_of(request(e, h) != Need.OPEN, ~presence(e).among(*OVER)),
                under=(Fairness.NO_TIMERS,), why="its own clock need not end"),
        LeadsTo("L7_each_request_ends", request(e, h) == Need.OPEN, request(e, h) != Need.OPEN,
                under=(Fairness.TIMERS,),
                why="a process that is suspected again and again stops the clock each time, and "
                    "each time it goes on where it stood"),
        Sometimes("a_suspected_process_serves_its_request", all_of(
            presence(e) == Presence.SUSPECTED, request(e, h) == Need.SERVED)),
        Sometimes("a_clock_ends", request(e, h) == Need.TIMED_OUT),
        Sometimes("a_request_is_missed", request(e, h) == Need.MISSED),
    )),
    about="Requests that wait for a process that may stand still, each with a clock of its own: "
          "the clock stands still meanwhile, and each request ends.",
    configurations={"default": Configuration({Incarnation: 1, Life: 1}),
                    "two-requests": Configuration({Incarnation: 1, Life: 2}),
                    "deep": Configuration({Incarnation: 2, Life: 1})},
)
