"""The transfer with the bootstrap that comes before it: one system made of the tables of both.

The tables are those of the parts (registry.py; source.py, sink.py and engine.py). registry.py ends
with a hand-over in WaitingForInput. In transfer.py a call opens a receiver, and the transport
reports a dead source. Here the first leads to the second, and both are about the same processes.
Only the rows of HOST and CRASH read both parts.

Rule 1: A receiver is opened when its hand-over is in WaitingForInput, and never before.
Rule 2: A life begins with the run of the source that has opened its sender or has welcomed it,
        whichever comes first, and with no other run. When that run ends, the life is gone.
Rule 3: When the sink's heartbeat finds a run dead, every life that began with it is gone.
Rule 4: Once a receiver is open, the transfer decides how its hand-over ends.

A run that has welcomed a life may die before the sink has the welcome. Either the welcome arrives
all the same: then the life is gone (CRASH's `crash`). Or it never arrives: then nothing of the life
is left, and the next run may take it (`lose_welcome`, before `crash`). There is no third case, but
each life of the run has a case of its own. Until the run dies, it is as if the introduction were
still under way.

The detectors of the registry and of the sinks are never wrong here, and clocks are right:
registry.py covers a run whose number does not count, and a sink that is cut off from a living run.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff import bootstrap, registry, registry_world, transfer, transfer_claims
from pdproto.spec.handoff.bootstrap import GONE, PeerLink, Phase, Reason, Run, e, f
from pdproto.spec.handoff.end_to_end_ends import INTRODUCED, OPENED, RECEIVER, SENDER, UNOPENED
from pdproto.spec.handoff.ends import (
    COMMITTED,
    RECEIVING_ENDED,
    RECEIVING_NOW,
    Memory,
    Receiving,
    Sending,
    abort,
    b,
    d,
    g,
    gone,
    h,
    introduce,
    k,
    kv,
    lease,
    memory,
    p,
    page,
    publish,
    receiving,
    sending,
)
from pdproto.spec.handoff.engine import ENGINE
from pdproto.spec.handoff.registry_claims import PROPERTIES
from pdproto.spec.handoff.renaming import Renamed
from pdproto.spec.handoff.roles import (
    Buffer,
    Chunk,
    Incarnation,
    Life,
    Page,
    Sink,
    Slot,
    Source,
)
from pdproto.spec.handoff.sink import POOL
from pdproto.spec.handoff.transfer_claims import INTRODUCED_ITSELF
from pdproto.spec.language import (
    ANY,
    AddClause,
    AddEffect,
    Always,
    Call,
    Configuration,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    OnRow,
    Reject,
    ReplaceRow,
    Row,
    Sizes,
    Sometimes,
    System,
    Table,
    all_of,
    any_of,
    each,
    edited,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.properties import Property
from pdproto.spec.language.symbols import Sent

BOOTSTRAP: Final = Renamed(
    (registry_world.OPERATOR, registry.SOURCE, registry.REGISTRY, registry.SINK,
     registry_world.OUTAGE),
    machines={"source": "process", "sink": "directory", "world": "operator"},
    symbols={"introduce": "hello"},
    rows={"learn": "note_address"},
)
*TABLES, OUTAGE = BOOTSTRAP.tables
run: Final = BOOTSTRAP.symbol(bootstrap.run)
phase: Final = BOOTSTRAP.symbol(bootstrap.phase)
reason: Final = BOOTSTRAP.symbol(bootstrap.reason)
link: Final = BOOTSTRAP.symbol(bootstrap.link)
dead: Final = BOOTSTRAP.symbol(bootstrap.dead)
disconnected: Final = BOOTSTRAP.symbol(bootstrap.disconnected)
cached: Final = BOOTSTRAP.symbol(bootstrap.cached)
located: Final = BOOTSTRAP.symbol(bootstrap.located)
welcome: Final = BOOTSTRAP.symbol(bootstrap.welcome)
refuse: Final = BOOTSTRAP.symbol(bootstrap.refuse)
suspected: Final = BOOTSTRAP.symbol(bootstrap.suspected)
outdated: Final = BOOTSTRAP.symbol(bootstrap.outdated)
missed: Final = BOOTSTRAP.symbol(bootstrap.missed)
# The life began with this run.
begun: Final = BOOTSTRAP.machine(bootstrap.source).relation("begun", Life)

host = Machine("host", host=True)
world = Machine("world", world=True)

_LOSE: Final = registry.SINK.row("lose_connection")

HOST: Final = Table(host, rows=(
    Row("open_own_sender", on=Call("open_sender", p, e, h),
        when=[run(p, e) == Run.UP, sending(p, h) == Sending.UNKNOWN],
        do=[sending(p, h).to(Sending.BOOTSTRAPPING), kv(p, h).to(True),
            begun(p, e, h).to(True)]),
    Row("open_receiver", choose=(d, h),
        when=[phase(d, h) == Phase.WAITING_FOR_INPUT, UNOPENED],
        do=OPENED, send=INTRODUCED),
    Row("notice", choose=(d, h, p, e),
        when=[dead(d, p, e), link(d, h, p, e) == PeerLink.WELCOMED,
              receiving(d, h) != Receiving.UNKNOWN, ~gone(p, h, d)],
        do=[gone(p, h, d).to(True)],
        why="one heartbeat for each process, and not one for each life"),
    Row("disown", choose=(d, h, p, e),
        when=[introduce(d, h, p), run(p, e) == Run.UP, sending(p, h) == Sending.GONE,
              ~gone(p, h, d)],
        do=[gone(p, h, d).to(True)],
        why="the current run answers only for itself; if there is none, no answer comes"),
))

# All lives that began with the run end with it.
TAKEN_ALONG: Final = each(h, sending(p, h).to(Sending.GONE), where=begun(p, e, h))
CRASH: Final = Table(world, rows=(
    Row("crash", choose=(p, e), when=run(p, e) == Run.UP,
        do=[run(p, e).to(Run.CRASHED), suspected(p, e).to(True), missed(p, e).to(True),
            TAKEN_ALONG], fair=False,
        why="a process dies; its adapter may still be writing"),
    Row("lose_welcome", choose=(p, e, h),
        when=[run(p, e) == Run.UP, begun(p, e, h), sending(p, h) == Sending.UNKNOWN,
              forall(d, link(d, h, p, e) != PeerLink.WELCOMED)],
        do=[begun(p, e, h).to(False), welcome(ANY, h, p, e).to(False)], fair=False,
        why="the process dies next, and its connections lose all that it has sent about this life"),
))

LOOKED_UP: Final = phase(d, h) == Phase.WAITING_FOR_INPUT
NOT_FOUND: Final = phase(d, h).among(Phase.FAILED, Phase.CLEARED)
BOUND: Final = link(d, h, p, e) == PeerLink.WELCOMED
NOTHING_HELD: Final = all_of(
    receiving(d, h) == Receiving.UNKNOWN, memory(d, h) == Memory.UNASKED,
    forall(b, ~lease(d, h, b)), forall(g, ~page(d, h, g)))

TOGETHER: Final[tuple[Property, ...]] = (
    INTRODUCED_ITSELF,
    Always("a_failed_look_up_begins_no_transfer", implies(NOT_FOUND, NOTHING_HELD),
           why="the room ends at the sink, which has asked for no memory and met no source"),
    Sometimes("a_look_up_fails_while_prefill_waits", all_of(
        reason(d, h) == Reason.NOT_FOUND, sending(p, h) == Sending.BOOTSTRAPPING)),
    Always("a_life_is_begun_with_one_run",
           implies(all_of(begun(p, e, h), begun(p, f, h), sending(p, h) != Sending.GONE),
                   e.same(f)),
           why="the first contact binds it; the run after a dead one only says so"),
    Always("an_open_sender_is_of_a_run",
           implies(~sending(p, h).among(Sending.UNKNOWN, Sending.GONE),
                   exists(e, begun(p, e, h) & (run(p, e) == Run.UP))),
           why="rule 2: only a run that is there opens it, and when that run ends, it is gone"),
    OnRow("only_a_living_run_that_is_asked_disowns", "disown",
          all_of(introduce(d, h, p), run(p, e) == Run.UP),
          why="a dead process answers nothing, and a living one only its peers"),
    OnRow("a_sink_notices_for_an_open_receiver", "notice", receiving(d, h) != Receiving.UNKNOWN,
          why="before that the look-up ends with the connection"),
    OnRow("the_writing_run_was_looked_up", "post",
          forall((d, e), implies(BOUND, all_of(begun(p, e, h), run(p, e) == Run.UP))),
          why="no run takes over a life of a sink that it has not met"),
    OnRow("the_writing_run_is_not_older_than_the_answer", "post",
          forall((e, f), implies(begun(p, e, h) & e.before(f), ~located(d, h, p, f))),
          why="no earlier run writes to a sink that knows of a later one"),
    Always("a_source_called_lost_is_gone", implies(gone(p, h, d), sending(p, h) == Sending.GONE),
           why="a run that is found dead takes with it only lives that began with it"),
    Sometimes("a_peer_restarts_under_a_look_up", all_of(
        e.before(f), cached(d, p, e), run(p, e).among(*GONE), run(p, f) == Run.UP,
        phase(d, h) == Phase.BOOTSTRAPPING)),
    Sometimes("a_stale_address_reaches_a_new_source_and_all_is_well", all_of(
        refuse(d, h, p, e, f), COMMITTED)),
    Sometimes("a_bound_run_dies", all_of(
        BOUND, run(p, e).among(*GONE), receiving(d, h) == Receiving.WAITING)),
)
IN_TIME: Final[tuple[Property, ...]] = (
    LeadsTo("a_failed_look_up_gives_everything_back", NOT_FOUND & kv(p, h),
            ~kv(p, h) | (sending(p, h) == Sending.GONE), under=(Fairness.TIMERS,),
            why="prefill ends the request by its own clock, because no sink will introduce itself"),
    LeadsTo("a_run_that_ends_takes_its_transfers_along",
            all_of(BOUND, run(p, e).among(*GONE), RECEIVING_NOW),
            RECEIVING_ENDED, under=(Fairness.DETECTORS,),
            why="the heartbeat finds it, before any time-out"),
    LeadsTo("a_completed_look_up_begins_the_transfer",
            LOOKED_UP, receiving(d, h) != Receiving.UNKNOWN,
            under=(Fairness.NO_TIMERS,), why="the transfer begins by itself"),
    LeadsTo("a_run_disowns_the_lives_of_the_run_before",
            all_of(introduce(d, h, p), run(p, e) == Run.UP, sending(p, h) == Sending.GONE),
            gone(p, h, d) | (run(p, e) != Run.UP), under=(Fairness.NO_TIMERS,),
            why="a sink that speaks to a later run learns at once that its source is gone"),
)
# The composition could break these; registry.py covers the rest.
_OF_BOOTSTRAP: Final = (
    "S3_failed_stays_failed", "M1_2_a_failed_look_up_has_no_info", "M1_3_every_target_rank_is_met",
    "S12_a_stale_address_is_refused", "S12_only_current_addresses",
)
OF_BOOTSTRAP: Final = tuple(
    BOOTSTRAP.claim(claim) for claim in PROPERTIES if claim.name in _OF_BOOTSTRAP
)
OVER: Final = all_of(
    transfer.FINAL,
    forall((d, h), any_of(
        phase(d, h) == Phase.CLEARED,
        LOOKED_UP & (receiving(d, h) != Receiving.UNKNOWN))),
)

SIZES: Final[Sizes] = {
    Source: 1, Incarnation: 2, Sink: 1, Life: 1, Buffer: 1, Chunk: 1, Page: 1, Slot: 1,
}
_PARTS: Final = System(
    "parts", "The tables of the bootstrap and of the transfer, side by side.",
    tables=(SENDER, RECEIVER, POOL, ENGINE, *TABLES, HOST),
    properties=(*transfer.SAFETY, *OF_BOOTSTRAP, *TOGETHER, *transfer_claims.LIVENESS, *IN_TIME),
    final=OVER,
    faults={"crash": (CRASH,), "outage": (OUTAGE,)},
    configurations={
        # Two runs of one rank: the sink may know one while the other is there.
        "default": Configuration(SIZES, faults=("crash",), dead_bits=True),
        "deep": Configuration(SIZES, faults=("crash", "outage"), dead_bits=True),
    },
)


def _to_nobody(name: str, message: Sent) -> ReplaceRow:
    return ReplaceRow(name, Ignore(
        message, at=Sending.GONE,
        why="the message was for an earlier run: HOST has the row `disown`"))


# The parts leave these steps to each other.
JOINED: Final = (
    _to_nobody("disown_meeting", introduce(d, h, p)),
    _to_nobody("disown_address", publish(d, h, p)),
    _to_nobody("disown_abort", abort(d, h, p)),
    # The registry strikes out only runs that are gone.
    ReplaceRow("renew", Reject(outdated(p, e, f), at=Run.UP, why="the run gives signs of life")),
    DropRow("come_back"),
    # A sink misses only runs that are gone.
    DropRow("abandon"), DropRow("fail_abandoned"),
    AddEffect("accept", begun(p, e, h).to(True)),
    # A server that stops on purpose ends its lives first.
    AddClause("leave", forall(k, ~begun(p, e, k))),
    # Rule 4.
    ReplaceRow("lose_connection", BOOTSTRAP.row(replace(_LOSE, when=tuple(
        bootstrap.phase(d, h) == Phase.BOOTSTRAPPING if clause == _LOSE.conditions[0] else clause
        for clause in _LOSE.conditions
    )))),
)
SYSTEM: Final = edited(
    _PARTS, "end-to-end-bootstrap", *JOINED,
    about="The transfer with the bootstrap that comes before it, of a source that restarts.",
)
