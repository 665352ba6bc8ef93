"""Bootstrap: prefill ranks register, a sink looks all of them up, and notices ranks that have died.

Rule 1: A rank registers under its incarnation, a number. A message about one run of a process says
nothing about another run. A number that the registry has struck out stays struck out.
Rule 2: The registry is ready when every rank is there. It counts ranks, not registrations.
Rule 3: A hand-over needs the address of every rank. If one is missing, the hand-over fails with a
reason, and the sink removes the addresses that it has found: it never uses half a list.
Rule 4: Failed is final. A failed hand-over never shows WaitingForInput.
Rule 5: An address names an incarnation, and another run at the same address refuses it. The sink
then forgets the address, asks the registry, and tries again. If the run that died had welcomed the
hand-over, the hand-over fails at once instead: that run had a part of its state.

Rule 6: The registry may wrongly take a rank for silent, and a clock may give a later run the lower
number. The registry tells a run whose number does not count which number to exceed. The run takes a
later number, and registers under it. The registry does not say so while another run of the rank is
registered: only a later number displaces a run that shows signs of life.
Rule 7: A sink counts a run as gone when their connection breaks, though the run may live. It never
uses the address of that run again. If the registry goes on listing the run, the sink is abandoned:
its open look-ups fail, and a sink under a new name, which has lost no run, takes its place.

Hand-overs of one sink share its cache. One of them fills it. Those that come meanwhile wait for the
result. If the look-up fails, the next of them tries for itself.

Assumptions: detectors find every run that is gone (a heartbeat misses, a connection breaks). The
registry does not list a run that is gone for longer than `still_listed`. False alarms come to an
end. A run under a later number does not answer for earlier numbers: lives that began under those
are lost. Requests are finitely many, and each is made. After WaitingForInput the transfer decides
how a hand-over ends.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.bootstrap import (
    GONE,
    Cache,
    Info,
    PeerLink,
    Phase,
    Ready,
    Reason,
    Record,
    Run,
    asked,
    cache,
    cached,
    d,
    dead,
    disconnected,
    e,
    enrolled,
    entry,
    f,
    filler,
    goodbye,
    got,
    h,
    info,
    introduce,
    joined,
    link,
    located,
    lookup,
    missed,
    outdated,
    p,
    phase,
    present,
    q,
    ready,
    reason,
    recorded,
    refuse,
    register,
    registry,
    registry_down,
    run,
    sink,
    source,
    suspected,
    to_exceed,
    unlocated,
    welcome,
    z,
)
from pdproto.spec.handoff.registry_claims import AT_ONCE, FORGOTTEN, PROPERTIES
from pdproto.spec.handoff.registry_world import (
    ALARM,
    CLOCKS,
    CRASH,
    DISCONNECTED,
    LOSSY,
    OPERATOR,
    OUTAGE,
)
from pdproto.spec.handoff.roles import Incarnation, Life, Sink, Source
from pdproto.spec.language import (
    ANY,
    AddRow,
    Call,
    Configuration,
    DropRow,
    Fairness,
    Ignore,
    Reject,
    ReplaceProperties,
    Row,
    System,
    Table,
    Timer,
    all_of,
    any_of,
    each,
    edited,
    forall,
    implies,
)
from pdproto.spec.language.symbols import Update

ALIVE: Final = (Ready.COLLECTING, Ready.READY)
NOT_FILLING: Final = (Cache.EMPTY, Cache.WHOLE, Cache.ABANDONED)

SOURCE: Final = Table(source, state=run, rows=(
    Row("enroll", at=Run.UP, when=~asked(p, e), do=[asked(p, e).to(True)], send=[register(p, e)]),
    Row("enroll_again", on=Timer("not_recorded"), at=Run.UP, when=[asked(p, e), ~enrolled(p, e)],
        send=[register(p, e)], why="the registration or its answer may have been lost"),
    Row("be_recorded", on=recorded(p, e), at=Run.UP, when=~enrolled(p, e),
        do=[enrolled(p, e).to(True)]),
    Ignore(recorded(p, e), at=Run.UP, when=enrolled(p, e),
           why="the rank registered more than once"),
    Ignore(recorded(p, e), at=GONE, why="no process is left to read it"),
    Reject(recorded(p, e), at=Run.UNBORN, why="this run has not registered"),
    Row("show_sign_of_life", on=Timer("sign_of_life"), at=Run.UP, when=enrolled(p, e),
        send=[register(p, e)],
        why="the answer tells a rank if the registry took it for silent"),
    Row("renew", on=outdated(p, e, f), at=Run.UP, to=Run.RENEWED,
        do=[to_exceed(p, e, f).to(True)],
        send=[suspected(p, e), missed(p, e)],
        why="the process lives, and its number no longer counts: it takes another"),
    Ignore(outdated(p, e, f), at=GONE, why="the run has this answer already, or is gone"),
    Reject(outdated(p, e, f), at=Run.UNBORN, why="this run has not registered"),
    Row("leave", on=Call("stop"), at=Run.UP, to=Run.LEFT,
        send=[goodbye(p, e), suspected(p, e), missed(p, e)],
        why="a server that stops on purpose says so: no peer has to wait for a detector"),
    Row("accept", on=introduce(d, h, p, f), at=Run.UP, when=f.same(e), send=[welcome(d, h, p, e)]),
    Row("decline", on=introduce(d, h, p, f), at=Run.UP, when=f.differs(e),
        send=[refuse(d, h, p, f, e)],
        why="the sink means an earlier run at this address, and its memory is gone"),
    Ignore(introduce(d, h, p, f), at=(Run.UNBORN, *GONE), why="no process listens"),
))

no_later_run = forall(z, implies(e.before(z), entry(p, z) == Record.NEVER))
is_out = any_of(entry(p, e) == Record.OVER,
                all_of(entry(p, e) == Record.NEVER, ~no_later_run))
nobody_is_current = forall(z, entry(p, z) != Record.CURRENT)

REGISTRY: Final = Table(registry, state=ready, rows=(
    Row("record", on=register(p, e), at=ALIVE,
        when=[entry(p, e) == Record.NEVER, forall(f, entry(p, f) != Record.CURRENT), no_later_run],
        do=[entry(p, e).to(Record.CURRENT), present(p).to(True)], send=[recorded(p, e)]),
    Row("take_over", on=register(p, e), at=ALIVE, choose=(f,),
        when=[entry(p, e) == Record.NEVER, entry(p, f) == Record.CURRENT, f.before(e), f.differs(e),
              no_later_run],
        do=[entry(p, e).to(Record.CURRENT), entry(p, f).to(Record.OVER)], send=[recorded(p, e)],
        why="a rank with a new number has restarted: its earlier run is gone"),
    Row("record_again", on=register(p, e), at=ALIVE, when=entry(p, e) == Record.CURRENT,
        send=[recorded(p, e)], why="the answer may have been lost; it is still one rank"),
    Row("answer_outdated", on=register(p, e), at=ALIVE, choose=(f,),
        when=[is_out, nobody_is_current, entry(p, f) != Record.NEVER, ~f.before(e)],
        send=[outdated(p, e, f)],
        why="the run was struck out and lives, or its clock is behind: a greater one counts"),
    Ignore(register(p, e), at=ALIVE, when=[is_out, ~nobody_is_current],
           why="another run is registered: a lower number counts only when that one is gone"),
    Row("strike_out", on=goodbye(p, e), at=ALIVE, to=Ready.COLLECTING,
        when=entry(p, e) == Record.CURRENT,
        do=[entry(p, e).to(Record.OVER), present(p).to(False)]),
    Row("strike_out_early", on=goodbye(p, e), at=ALIVE, when=entry(p, e) == Record.NEVER,
        do=[entry(p, e).to(Record.OVER)],
        why="the goodbye overtook the registration, which must not count when it arrives"),
    Ignore(goodbye(p, e), at=ALIVE, when=entry(p, e) == Record.OVER,
           why="this number is struck out already"),
    Row("expire", on=Timer("no_sign_of_life", detector=True), at=ALIVE, to=Ready.COLLECTING,
        choose=(p, e), when=[suspected(p, e), entry(p, e) == Record.CURRENT],
        do=[entry(p, e).to(Record.OVER), present(p).to(False)],
        why="a registration lives as long as its process shows signs of life"),
    Row("complete", at=Ready.COLLECTING, to=Ready.READY, when=forall(p, present(p))),
    Row("locate", on=lookup(d, h, p), at=Ready.READY, choose=(e,),
        when=entry(p, e) == Record.CURRENT, send=[located(d, h, p, e)]),
    Row("answer_not_found", on=lookup(d, h, p), at=Ready.COLLECTING, send=[unlocated(d, h, p)],
        why="some rank is missing, and a sink cannot use a part of the ranks"),
    Reject(lookup(d, h, p), at=Ready.READY, when=forall(e, entry(p, e) != Record.CURRENT),
           why="a ready registry has an entry for every rank"),
    Ignore(register(p, e), at=Ready.DOWN, why="the registry is down"),
    Ignore(goodbye(p, e), at=Ready.DOWN, why="the registry is down"),
    Ignore(lookup(d, h, p), at=Ready.DOWN, why="the registry is down"),
))

# A sink does this when its cache is wrong or cannot be filled.
FORGET: Final = (
    cached(d, ANY, ANY).to(False), got(d, ANY).to(False), filler(d, ANY).to(False),
)


def failing(why: Reason) -> tuple[Update, ...]:
    """The updates that fail hand-over h, with every attribute defined."""
    return (phase(d, h).to(Phase.FAILED), reason(d, h).to(why), info(d, h).to(Info.NO_INFO))


LOOK_UP: Final = (
    Row("open", on=Call("open", h), when=phase(d, h) == Phase.IDLE,
        do=[phase(d, h).to(Phase.BOOTSTRAPPING)], fair=True,
        why="every request is made some time"),
    Row("fill", at=Cache.EMPTY, to=Cache.FILLING, choose=(h, q),
        when=[phase(d, h) == Phase.BOOTSTRAPPING, ~joined(d, h, q)],
        do=[filler(d, h).to(True)], send=[each(p, lookup(d, h, p))]),
    Row("look_again", on=Timer("no_answer"), at=Cache.FILLING, choose=(h, p),
        when=[filler(d, h), ~got(d, p)], send=[lookup(d, h, p)],
        why="the question or its answer may have been lost"),
    Row("learn", on=located(d, h, p, e), at=Cache.FILLING,
        when=[filler(d, h), ~got(d, p), ~dead(d, p, e)],
        do=[cached(d, p, e).to(True), got(d, p).to(True)]),
    Ignore(located(d, h, p, e), at=Cache.FILLING,
           when=any_of(~filler(d, h), got(d, p), dead(d, p, e)),
           why="the address is of an earlier look-up, comes twice, or names a run that is gone"),
    Ignore(located(d, h, p, e), at=NOT_FILLING,
           why="the answer belongs to an earlier look-up"),
    Row("filled", at=Cache.FILLING, to=Cache.WHOLE, when=forall(p, got(d, p)),
        do=[filler(d, ANY).to(False)]),
    Row("miss", on=unlocated(d, h, p), at=Cache.FILLING, to=Cache.EMPTY,
        when=[filler(d, h), phase(d, h) == Phase.BOOTSTRAPPING],
        do=[*failing(Reason.NOT_FOUND), *FORGET],
        why="one missing rank fails the whole look-up: a sink cannot use half a list"),
    Ignore(unlocated(d, h, p), at=Cache.FILLING,
           when=any_of(~filler(d, h), phase(d, h) != Phase.BOOTSTRAPPING),
           why="the answer belongs to an earlier look-up"),
    Ignore(unlocated(d, h, p), at=NOT_FILLING,
           why="the answer belongs to an earlier look-up"),
    Row("give_up", on=Timer("registry_unreachable", detector=True), at=Cache.FILLING,
        to=Cache.EMPTY, choose=(h,),
        when=[filler(d, h), phase(d, h) == Phase.BOOTSTRAPPING, registry_down()],
        do=[*failing(Reason.UNREACHABLE), *FORGET],
        why="otherwise the sink would ask a registry that is down for ever"),
)

CONNECT: Final = (
    Row("call_on", at=Cache.WHOLE, choose=(h, p, e),
        when=[phase(d, h) == Phase.BOOTSTRAPPING, cached(d, p, e), ~joined(d, h, p),
              ~dead(d, p, e), link(d, h, p, e) == PeerLink.UNTOLD],
        do=[link(d, h, p, e).to(PeerLink.TOLD)], send=[introduce(d, h, p, e)]),
    Row("call_again", on=Timer("no_welcome"), choose=(h, p, e),
        when=[phase(d, h) == Phase.BOOTSTRAPPING, link(d, h, p, e) == PeerLink.TOLD,
              ~dead(d, p, e)],
        send=[introduce(d, h, p, e)], why="the introduction or its answer may have been lost"),
    Row("be_welcomed", on=welcome(d, h, p, e),
        when=[phase(d, h) == Phase.BOOTSTRAPPING, link(d, h, p, e) == PeerLink.TOLD,
              ~dead(d, p, e)],
        do=[link(d, h, p, e).to(PeerLink.WELCOMED), joined(d, h, p).to(True)]),
    Ignore(welcome(d, h, p, e),
           when=[link(d, h, p, e) != PeerLink.UNTOLD,
                 any_of(phase(d, h) != Phase.BOOTSTRAPPING, link(d, h, p, e) == PeerLink.WELCOMED,
                        dead(d, p, e))],
           why="the welcome comes twice, or too late to be of use"),
    Reject(welcome(d, h, p, e), when=link(d, h, p, e) == PeerLink.UNTOLD,
           why="the sink has not introduced this hand-over to this run"),
    Row("connect", choose=(h,),
        when=[phase(d, h) == Phase.BOOTSTRAPPING, ~filler(d, h), forall(p, joined(d, h, p))],
        do=[phase(d, h).to(Phase.WAITING_FOR_INPUT), info(d, h).to(Info.FOUND)]),
)

LOSS: Final = (
    Row("be_refused", on=refuse(d, h, p, f, e), when=~dead(d, p, f),
        do=[dead(d, p, f).to(True)], why="the address belongs to an earlier run of this rank"),
    Ignore(refuse(d, h, p, f, e), when=dead(d, p, f), why="the sink knows that this run is gone"),
    Row("miss_heartbeat", on=Timer("heartbeat", detector=True), choose=(p, e),
        when=[missed(p, e) | disconnected(d, p, e), ~dead(d, p, e)],
        do=[dead(d, p, e).to(True)],
        why="the process is gone, or the connection to it broke: the sink cannot tell which"),
    Row("forget", at=(Cache.FILLING, Cache.WHOLE), to=Cache.EMPTY, choose=(p, e),
        when=[cached(d, p, e), dead(d, p, e)], do=FORGET,
        why="the address is useless now: a hand-over that needs it asks the registry again"),
    Row("lose_connection", choose=(h, p, e),
        when=[phase(d, h).among(Phase.BOOTSTRAPPING, Phase.WAITING_FOR_INPUT),
              ~filler(d, h), link(d, h, p, e) == PeerLink.WELCOMED, dead(d, p, e)],
        do=failing(Reason.LOST_CONNECTION),
        why="the run that had welcomed this hand-over is gone, and no later run knows of it"),
    Row("clear", on=Call("clear", h), when=phase(d, h) == Phase.FAILED,
        do=[phase(d, h).to(Phase.CLEARED)], fair=True,
        why="a caller that polls a failure clears it"),
)

MISTAKE: Final = (
    Row("abandon", on=Timer("still_listed", detector=True), at=Cache.FILLING, to=Cache.ABANDONED,
        choose=(h, p, e),
        when=[filler(d, h), ~got(d, p), located(d, h, p, e), dead(d, p, e),
              disconnected(d, p, e)],
        do=FORGET, why="the run lives, and this sink never uses its address again"),
    Row("fail_abandoned", at=Cache.ABANDONED, choose=(h,),
        when=phase(d, h) == Phase.BOOTSTRAPPING, do=failing(Reason.ABANDONED),
        why="the sink under the new name looks up for the next hand-over"),
)

SINK: Final = Table(sink, state=cache, rows=(*LOOK_UP, *CONNECT, *LOSS, *MISTAKE))

OVER: Final = forall((d, h), phase(d, h).among(Phase.WAITING_FOR_INPUT, Phase.CLEARED))

SYSTEM: Final = System(
    "registry",
    "Prefill ranks register, a sink looks all of them up, and notices ranks that have died.",
    tables=(OPERATOR, SOURCE, REGISTRY, SINK),
    properties=PROPERTIES,
    final=OVER,
    faults={"crash": (CRASH,), "outage": (OUTAGE,), "lossy": (LOSSY,), "alarm": (ALARM,),
            "clocks": (CLOCKS,), "disconnect": (DISCONNECTED,)},
    configurations={
        # Two ranks: one may be missing while the other is there.
        "default": Configuration(
            {Source: 2, Incarnation: 1, Sink: 1, Life: 1}, faults=("crash", "outage"),
            dead_bits=True,
        ),
        # Two hand-overs: the second finds the cache as the first has left it.
        "restart": Configuration(
            {Source: 1, Incarnation: 2, Sink: 1, Life: 2}, dead_bits=True
        ),
        "lossy": Configuration(
            {Source: 1, Incarnation: 2, Sink: 1, Life: 1}, faults=("crash", "lossy"),
            dead_bits=True,
        ),
        # The registry strikes a living run out, and it comes back under the next number.
        "alarm": Configuration(
            {Source: 1, Incarnation: 2, Sink: 1, Life: 1}, faults=("alarm",), dead_bits=True,
        ),
        # The network loses every registration: only the sign of life shows the run.
        "alarm-lossy": Configuration(
            {Source: 1, Incarnation: 1, Sink: 1, Life: 1}, faults=("alarm", "lossy"),
            dead_bits=True,
        ),
        # The greater number may come first: the registry tells the next run to exceed it.
        "clocks": Configuration(
            {Source: 1, Incarnation: 2, Sink: 1, Life: 1}, faults=("crash", "clocks"),
            dead_bits=True,
        ),
        # The sink counts the only run as gone, which lives: its two hand-overs fail.
        "disconnect": Configuration(
            {Source: 1, Incarnation: 1, Sink: 1, Life: 2}, faults=("disconnect", "crash"),
            dead_bits=True,
        ),
        # The sink has found one rank when it is abandoned for the other.
        "disconnect-two": Configuration(
            {Source: 2, Incarnation: 1, Sink: 1, Life: 1}, faults=("disconnect",), dead_bits=True,
        ),
        # A later run takes the place of the one that the sink counts as gone.
        "disconnect-restart": Configuration(
            {Source: 1, Incarnation: 2, Sink: 1, Life: 1}, faults=("disconnect",), dead_bits=True,
        ),
        "deep": Configuration(
            {Source: 2, Incarnation: 1, Sink: 1, Life: 2}, faults=("crash",), symmetry=True,
            dead_bits=True,
        ),
    },
)

# A repeated message hides that the first one was missing, or its answer: here nothing repeats.
NO_RETRY: Final = edited(
    SYSTEM, "registry-no-retry",
    ReplaceProperties(AT_ONCE),
    DropRow("enroll_again"), DropRow("show_sign_of_life"), DropRow("look_again"),
    DropRow("call_again"),
    about="Bootstrap where nothing is lost, and no message is repeated.",
    configurations={
        "default": Configuration(
            {Source: 1, Incarnation: 2, Sink: 1, Life: 1}, faults=("crash",), dead_bits=True,
        ),
        # Two hand-overs: the second finds the cache as the first has left it when it gave up.
        "outage": Configuration(
            {Source: 1, Incarnation: 1, Sink: 1, Life: 2}, faults=("crash", "outage"),
            dead_bits=True,
        ),
    },
)

# A hand-over that gives up empties the cache. That hides a sink that would not empty it otherwise.
NO_TIMEOUTS: Final = edited(
    replace(NO_RETRY, final=OVER | registry_down()), "registry-no-timeouts",
    ReplaceProperties((replace(FORGOTTEN, under=(Fairness.TIMERS,)),)),
    DropRow("give_up"), AddRow(sink, Ignore(registry_down(),
                                            why="the sink waits for the registry")),
    about="Bootstrap that waits for its registry without a bound.",
    configurations={
        "default": Configuration(
            {Source: 2, Incarnation: 1, Sink: 1, Life: 1}, faults=("crash", "outage"),
            dead_bits=True,
        ),
    },
)
