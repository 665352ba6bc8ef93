"""States, variables and messages for finding the data-parallel rank; dp_rank.py has the tables."""

from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import (
    Machine,
    Message,
    Rigid,
    Sizes,
    Sort,
    State,
    Tuples,
    auto,
    exists,
    forall,
)


class Group(Sort, prefix="k"):
    """A data-parallel rank of the prefill server, with all the ranks that work for it."""


class Routing(State):
    UNROUTED = auto()
    ROUTED = auto()


class Runs(State):
    """A prefill rank's view of a room."""

    ABSENT = auto()
    WAITING = auto()  # the room runs here, and waits for decode
    MET = auto()
    FAILED = auto()
    DISOWNED = auto()  # the room failed on another rank, and decode will ask here
    GONE = auto()  # the process that ran the room has died


class Mode(State):
    """The settings of the ranks so far."""

    OPEN = auto()
    RULE = auto()  # rooms keep to the rule, and are not published
    PUBLISHED = auto()


class Entry(State):
    """The registry's entry for a room on a rank."""

    NEVER = auto()
    KNOWN = auto()
    OVER = auto()


class Question(State):
    """Whether decode waits for an answer about a room."""

    NONE = auto()
    PENDING = auto()
    CLOSED = auto()


class Phase(State):
    """Decode's view of a room."""

    IDLE = auto()
    PENDING = auto()  # the rank is not known
    RESOLVED = auto()
    MET = auto()
    FAILED = auto()


x, y = Group("x"), Group("y")
h = Life("h")

alone = forall(y, y.same(x))
several = exists(y, y.differs(x))

router = Machine("router", h)
rank = Machine("rank", x)
sender = Machine("sender", x, h)
registry = Machine("registry")
receiver = Machine("receiver", h)
network = Machine("network", world=True)


def remainder(sizes: Sizes) -> Tuples:
    """Room modulo ranks."""
    return {(life, life % sizes[Group]) for life in range(sizes[Life])}


modulo = Rigid("modulo", h, x, given=remainder)
publishes = Rigid("publishes", x, visible_to=(rank, sender))

routing = router.function("routing", Routing)

enrolled = rank.relation("enrolled")
# the registry has refused this rank, because earlier ranks have another setting
mismatched = rank.relation("mismatched")

runs = sender.function("runs", Runs, edges={
    Runs.ABSENT: (Runs.WAITING, Runs.FAILED, Runs.DISOWNED),
    Runs.WAITING: (Runs.MET, Runs.FAILED, Runs.GONE),
    Runs.MET: (),
    Runs.FAILED: (),
    Runs.DISOWNED: (),
    Runs.GONE: (),
})
conflict = sender.relation("conflict")
was_asked = sender.relation("was_asked")
posted = sender.relation("posted")
refused = sender.relation("refused")

mode = registry.function("mode", Mode, edges={
    Mode.OPEN: (Mode.RULE, Mode.PUBLISHED),
    Mode.RULE: (),
    Mode.PUBLISHED: (),
})
heard = registry.relation("heard", Group)
settled = registry.relation("settled")
entry = registry.function("entry", Entry, Life, Group, edges={
    Entry.NEVER: (Entry.KNOWN, Entry.OVER),
    Entry.KNOWN: (Entry.OVER,),
    Entry.OVER: (),
})
question = registry.function("question", Question, Life, edges={
    Question.NONE: (Question.PENDING, Question.CLOSED),
    Question.PENDING: (Question.CLOSED,),
    Question.CLOSED: (),
})

phase = receiver.function("phase", Phase, edges={
    Phase.IDLE: (Phase.PENDING, Phase.RESOLVED, Phase.FAILED),
    Phase.PENDING: (Phase.RESOLVED, Phase.FAILED),
    Phase.RESOLVED: (Phase.MET, Phase.FAILED),
    Phase.MET: (),
    Phase.FAILED: (),
})
target = receiver.relation("target", Group)
queried = receiver.relation("queried")
unlisted = receiver.relation("unlisted", Group)

# The two halves of a request; the named forms carry the rank that the request names.
prompt = Message("prompt", h, x, sender=router, receiver=sender)
prompt_named = Message("prompt_named", h, x, y, sender=router, receiver=sender)
wanted = Message("wanted", h, sender=router, receiver=receiver)
wanted_named = Message("wanted_named", h, y, sender=router, receiver=receiver)
enroll_rule = Message("enroll_rule", x, sender=rank, receiver=registry, reliable=True)
enroll_published = Message("enroll_published", x, sender=rank, receiver=registry, reliable=True)
differs = Message("differs", x, sender=registry, receiver=rank, reliable=True)
serves = Message("serves", sender=registry, receiver=router, reliable=True)
keeps_rule = Message("keeps_rule", sender=registry, receiver=receiver, reliable=True)
keeps_list = Message("keeps_list", sender=registry, receiver=receiver, reliable=True)
publish = Message("publish", h, x, sender=sender, receiver=registry, reliable=True)
retire = Message("retire", h, x, sender=sender, receiver=registry, reliable=True)
query = Message("query", h, sender=receiver, receiver=registry, reliable=True)
withdraw = Message("withdraw", h, sender=receiver, receiver=registry, reliable=True)
answer = Message("answer", h, x, sender=registry, receiver=receiver, reliable=True)
gone = Message("gone", h, sender=registry, receiver=receiver, reliable=True)
# The run of this rank that has listed the room is over: the registry strikes both out.
run_over = Message("run_over", h, x, sender=sender, receiver=registry, reliable=True)
# The registry does not name this rank to the request: it drains, or is not registered now.
left_out = Message("left_out", h, x, sender=registry, receiver=receiver, reliable=True)
disown = Message("disown", x, h, y, sender=sender, receiver=sender.at(y, h), reliable=True)
meet = Message("meet", h, x, sender=receiver, receiver=sender, reliable=True)
met = Message("met", x, h, sender=sender, receiver=receiver, reliable=True)
refuse = Message("refuse", x, h, sender=sender, receiver=receiver, reliable=True)
