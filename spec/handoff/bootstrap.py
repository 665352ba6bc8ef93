"""What bootstrap speaks of: states, variables and messages; its tables are in registry.py."""

from typing import Final

from pdproto.spec.handoff.roles import Incarnation, Life, Sink, Source
from pdproto.spec.language import Machine, Message, State, auto


class Run(State):
    """How one run of a prefill rank's process stands."""

    UNBORN = auto()
    UP = auto()
    LEFT = auto()  # it said goodbye
    CRASHED = auto()
    RENEWED = auto()  # its process lives, and goes by a later number


class Ready(State):
    COLLECTING = auto()
    READY = auto()
    DOWN = auto()  # the registry is down, and stays down


class Entry(State):
    """What the registry holds of one incarnation."""

    NEVER = auto()
    CURRENT = auto()
    OVER = auto()


class Cache(State):
    """The addresses that a sink knows."""

    EMPTY = auto()
    FILLING = auto()
    WHOLE = auto()


class Phase(State):
    """What a poll of the hand-off shows, before its transfer."""

    IDLE = auto()
    BOOTSTRAPPING = auto()
    WAITING_FOR_INPUT = auto()
    FAILED = auto()
    CLEARED = auto()


class Reason(State):
    """Why a hand-off failed, as its caller reads it."""

    NONE = auto()
    NOT_FOUND = auto()
    UNREACHABLE = auto()
    LOST_CONNECTION = auto()


class Info(State):
    """The bootstrap info that a caller may ask for; a concluded hand-off has always defined it."""

    UNDEFINED = auto()
    FOUND = auto()
    NO_INFO = auto()


class Link(State):
    """How far a hand-off has come with one incarnation of one rank."""

    UNTOLD = auto()
    TOLD = auto()
    WELCOMED = auto()


# Who goes by a later number answers to the earlier one no more.
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
# The number that this run was told to exceed, and whether its process goes on under another.
to_exceed = source.relation("to_exceed", Incarnation)
back = source.relation("back")

ready = registry.function("ready", Ready)
entry = registry.function("entry", Entry, Source, Incarnation, edges={
    Entry.NEVER: (Entry.CURRENT, Entry.OVER),
    Entry.CURRENT: (Entry.OVER,),
    Entry.OVER: (),
})
present = registry.relation("present", Source)

cache = sink.function("cache", Cache)
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
link = sink.function("link", Link, Life, Source, Incarnation, edges={
    Link.UNTOLD: (Link.TOLD,),
    Link.TOLD: (Link.WELCOMED,),
    Link.WELCOMED: (),
})
joined = sink.relation("joined", Life, Source)

register = Message("register", p, e, sender=source, receiver=registry)
goodbye = Message("goodbye", p, e, sender=source, receiver=registry, reliable=True)
recorded = Message("recorded", p, e, sender=registry, receiver=source)
# This number does not count, and never will. One above f may.
outdated = Message("outdated", p, e, f, sender=registry, receiver=source)
lookup = Message("lookup", d, h, p, sender=sink, receiver=registry)
located = Message("located", d, h, p, e, sender=registry, receiver=sink)
unlocated = Message("unlocated", d, h, p, sender=registry, receiver=sink)
# It reaches whatever run of the rank listens at the address now: it says which one it means.
introduce = Message("introduce", d, h, p, f, sender=sink, receiver=source)
welcome = Message("welcome", d, h, p, e, sender=source, receiver=sink)
refuse = Message("refuse", d, h, p, f, e, sender=source, receiver=sink)
# What the failure detectors go by: from some time on nothing is heard of this run.
suspected = Message("suspected", p, e, sender=source, receiver=registry, reliable=True)
missed = Message("missed", p, e, sender=source, receiver=sink, reliable=True)
registry_down = Message("registry_down", sender=registry, receiver=sink, reliable=True)
