"""States, variables and messages of the bootstrap; its tables are in registry.py."""

from typing import Final

from pdproto.spec.handoff.roles import Incarnation, Life, Sink, Source
from pdproto.spec.language import Machine, Message, State, auto


class Run(State):
    """The state of one run of a prefill rank's process."""

    UNBORN = auto()
    UP = auto()
    LEFT = auto()  # the run has said goodbye
    CRASHED = auto()
    RENEWED = auto()  # the process lives, and now uses a later number


class Ready(State):
    COLLECTING = auto()
    READY = auto()
    DOWN = auto()  # the registry is down, and stays down


class Record(State):
    """The registry's entry for one incarnation."""

    NEVER = auto()
    CURRENT = auto()
    OVER = auto()


class Cache(State):
    """The addresses that a sink knows."""

    EMPTY = auto()
    FILLING = auto()
    WHOLE = auto()
    ABANDONED = auto()  # a sink under a new name takes the place of this one


class Phase(State):
    """The state of the hand-over before its transfer, as a poll answers it."""

    IDLE = auto()
    BOOTSTRAPPING = auto()
    WAITING_FOR_INPUT = auto()
    FAILED = auto()
    CLEARED = auto()


class Reason(State):
    """The reason of a failed hand-over, as its caller reads it."""

    NONE = auto()
    NOT_FOUND = auto()
    UNREACHABLE = auto()
    LOST_CONNECTION = auto()
    ABANDONED = auto()


class Info(State):
    """The bootstrap info that a caller may ask for; defined for every concluded hand-over."""

    UNDEFINED = auto()
    FOUND = auto()
    NO_INFO = auto()


class PeerLink(State):
    """The state of a hand-over towards one incarnation of one rank."""

    UNTOLD = auto()
    TOLD = auto()
    WELCOMED = auto()


# A process with a later number no longer answers to the earlier one.
GONE: Final = (Run.LEFT, Run.CRASHED, Run.RENEWED)
ENDED: Final = (Phase.FAILED, Phase.CLEARED)

p, q = Source("p"), Source("q")
e, f, z = Incarnation("e"), Incarnation("f"), Incarnation("z")
d, h = Sink("d"), Life("h")

source = Machine("source", p, e)
registry = Machine("registry")
sink = Machine("sink", d)
world = Machine("world", world=True)

run = source.function("run", Run, edges={
    Run.UNBORN: (Run.UP,),
    Run.UP: (Run.LEFT, Run.CRASHED, Run.RENEWED),
    Run.LEFT: (),
    Run.CRASHED: (),
    Run.RENEWED: (),
})
asked = source.relation("asked")
enrolled = source.relation("enrolled")
# The number that the registry told this run to exceed; whether its process has taken a later one.
to_exceed = source.relation("to_exceed", Incarnation)
back = source.relation("back")

ready = registry.function("ready", Ready)
entry = registry.function("entry", Record, Source, Incarnation, edges={
    Record.NEVER: (Record.CURRENT, Record.OVER),
    Record.CURRENT: (Record.OVER,),
    Record.OVER: (),
})
present = registry.relation("present", Source)

cache = sink.function("cache", Cache, edges={
    Cache.EMPTY: (Cache.FILLING,),
    Cache.FILLING: (Cache.EMPTY, Cache.WHOLE, Cache.ABANDONED),
    Cache.WHOLE: (Cache.EMPTY,),
    Cache.ABANDONED: (),
})
filler = sink.relation("filler", Life)
cached = sink.relation("cached", Source, Incarnation)
got = sink.relation("got", Source)
dead = sink.relation("dead", Source, Incarnation)
phase = sink.function("phase", Phase, Life, edges={
    Phase.IDLE: (Phase.BOOTSTRAPPING,),
    Phase.BOOTSTRAPPING: (Phase.WAITING_FOR_INPUT, Phase.FAILED),
    Phase.WAITING_FOR_INPUT: (Phase.FAILED,),
    Phase.FAILED: (Phase.CLEARED,),
    Phase.CLEARED: (),
})
reason = sink.function("reason", Reason, Life)
info = sink.function("info", Info, Life)
link = sink.function("link", PeerLink, Life, Source, Incarnation, edges={
    PeerLink.UNTOLD: (PeerLink.TOLD,),
    PeerLink.TOLD: (PeerLink.WELCOMED,),
    PeerLink.WELCOMED: (),
})
joined = sink.relation("joined", Life, Source)

register = Message("register", p, e, sender=source, receiver=registry)
goodbye = Message("goodbye", p, e, sender=source, receiver=registry, reliable=True)
recorded = Message("recorded", p, e, sender=registry, receiver=source)
# This number does not count, and never will. A number above f may.
outdated = Message("outdated", p, e, f, sender=registry, receiver=source)
lookup = Message("lookup", d, h, p, sender=sink, receiver=registry)
located = Message("located", d, h, p, e, sender=registry, receiver=sink)
unlocated = Message("unlocated", d, h, p, sender=registry, receiver=sink)
# It reaches the run of the rank that listens at the address now, and names the run it is for.
introduce = Message("introduce", d, h, p, f, sender=sink, receiver=source)
welcome = Message("welcome", d, h, p, e, sender=source, receiver=sink)
refuse = Message("refuse", d, h, p, f, e, sender=source, receiver=sink)
# The events of the failure detectors: from some time on this run sends nothing more.
suspected = Message("suspected", p, e, sender=source, receiver=registry, reliable=True)
missed = Message("missed", p, e, sender=source, receiver=sink, reliable=True)
# The connection between this sink and this run is broken; the run may live.
disconnected = Message("disconnected", d, p, e, sender=source, receiver=sink, reliable=True)
registry_down = Message("registry_down", sender=registry, receiver=sink, reliable=True)
