"""Several registries share a store: each has a copy of one order of changes, and may be late.

Rule 1: The store orders. A registry applies every change after all that were ordered before it,
also those that came to itself, and answers its client after that.
Rule 2: A look-up is answered from the copy, without the store.
Rule 3: A registry puts a beat into the order now and then. When it reads its own beat, its copy
has everything that was ordered before that beat was sent. If no beat has come back for too long,
it answers no look-up, and the client asks another registry.
Rule 4: A registry that starts answers nothing before it has read all of the order.

Assumption: the store shows its order without gaps. The lease of an entry that has ended goes on
for longer than rule 3 lets a registry be late, so it ends after every late copy has been noticed.
The store measures no time: it does not matter if its own leases live on after an election.
"""

from collections.abc import Sequence
from typing import Final

from pdproto.spec.handoff.roles import Incarnation, Life
from pdproto.spec.language import (
    TRUE,
    Always,
    Call,
    Configuration,
    DropRow,
    Fairness,
    Formula,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    OnRow,
    Reject,
    ReplaceProperties,
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
    edited,
    forall,
    implies,
)
from pdproto.spec.language.symbols import Relation


class Replica(Sort, prefix="r"):
    """A registry that shares its store with others."""


class Beat(Sort, ordered=True, prefix="b"):
    """The first, second, ... beat of a registry."""


class View(State):
    """The state of a registry's copy."""

    JOINING = auto()  # it has not read all of the order
    CURRENT = auto()
    BEHIND = auto()  # no beat has come back for too long
    DEAD = auto()


class Listed(State):
    """The entry of one run of a rank, in the order and in a copy of it."""

    NEVER = auto()
    CURRENT = auto()
    OVER = auto()


class LookUp(State):
    """The state of a look-up at its client."""

    IDLE = auto()
    ASKING = auto()
    ANSWERED = auto()


copy, other = Replica("copy"), Replica("other")
beat = Beat("beat")
e = Incarnation("e")
h = Life("h")

store = Machine("store")
replica = Machine("replica", copy)
client = Machine("client", h)
world = Machine("world", world=True)

ordered = store.function("ordered", Listed, Incarnation, edges={
    Listed.NEVER: (Listed.CURRENT,), Listed.CURRENT: (Listed.OVER,), Listed.OVER: ()})
view = replica.function("view", View, edges={
    View.JOINING: (View.CURRENT, View.DEAD), View.CURRENT: (View.BEHIND, View.DEAD),
    View.BEHIND: (View.CURRENT, View.DEAD), View.DEAD: ()})
copied = replica.function("copied", Listed, Incarnation, edges={
    Listed.NEVER: (Listed.CURRENT, Listed.OVER), Listed.CURRENT: (Listed.OVER,), Listed.OVER: ()})
counted = replica.relation("counted", Beat)
asking = client.function("asking", LookUp, edges={
    LookUp.IDLE: (LookUp.ASKING,), LookUp.ASKING: (LookUp.ANSWERED,), LookUp.ANSWERED: ()})

recorded = Message("recorded", copy, e, sender=store, receiver=replica)
ended = Message("ended", copy, e, sender=store, receiver=replica)
# The beat comes back to the registry that sent it, after all that was ordered before it.
came_back = Message("came_back", copy, beat, sender=store, receiver=replica)
look_up = Message("look_up", h, copy, sender=client, receiver=replica)
answered = Message("answered", h, copy, sender=replica, receiver=client)
turned_away = Message("turned_away", h, copy, sender=replica, receiver=client)
# The lease of a run that has ended is over: no registry may answer with it any more.
lease_over = Message("lease_over", e, sender=world, receiver=client)

STORE: Final = Table(store, rows=(
    Row("order_registration", on=Call("register", e), when=ordered(e) == Listed.NEVER,
        do=[ordered(e).to(Listed.CURRENT)], send=[each(copy, recorded(copy, e))]),
    Row("order_end", on=Call("end", e), when=ordered(e) == Listed.CURRENT,
        do=[ordered(e).to(Listed.OVER)], send=[each(copy, ended(copy, e))]),
))

ALIVE: Final = (View.JOINING, View.CURRENT, View.BEHIND)

REPLICA: Final = Table(replica, state=view, rows=(
    Row("copy_registration", on=recorded(copy, e), at=ALIVE, when=copied(copy, e) == Listed.NEVER,
        do=[copied(copy, e).to(Listed.CURRENT)]),
    Ignore(recorded(copy, e), at=ALIVE, when=copied(copy, e) != Listed.NEVER,
           why="it was read before"),
    Row("copy_end", on=ended(copy, e), at=ALIVE, when=copied(copy, e) != Listed.OVER,
        do=[copied(copy, e).to(Listed.OVER)]),
    Ignore(ended(copy, e), at=ALIVE, when=copied(copy, e) == Listed.OVER, why="it was read before"),
    Row("be_current", on=came_back(copy, beat), at=(View.JOINING, View.BEHIND), to=View.CURRENT,
        when=~counted(copy, beat), do=[counted(copy, beat).to(True)],
        why="the copy has all that was ordered before this beat"),
    Row("stay_current", on=came_back(copy, beat), at=View.CURRENT, when=~counted(copy, beat),
        do=[counted(copy, beat).to(True)]),
    Ignore(came_back(copy, beat), at=ALIVE, when=counted(copy, beat), why="a beat counts once"),
    Row("fall_behind", on=Timer("store_silent"), at=View.CURRENT, to=View.BEHIND,
        why="others may have ended a registration, and this copy would not know"),
    Row("answer", on=look_up(h, copy), at=View.CURRENT, send=[answered(h, copy)],
        why="it says what the copy lists"),
    Row("turn_away", on=look_up(h, copy), at=(View.JOINING, View.BEHIND),
        send=[turned_away(h, copy)], why="the client asks another registry, or this one again"),
    Ignore(recorded(copy, e), at=View.DEAD, name="ignore_recorded_dead", why="no process reads it"),
    Ignore(ended(copy, e), at=View.DEAD, name="ignore_ended_dead", why="no process reads it"),
    Ignore(came_back(copy, beat), at=View.DEAD, name="ignore_beat_dead", why="no process reads it"),
    Ignore(look_up(h, copy), at=View.DEAD, name="ignore_look_up_dead", why="no process reads it"),
))

CLIENT: Final = Table(client, state=asking, rows=(
    Row("ask", on=Call("look_up"), at=LookUp.IDLE, to=LookUp.ASKING, choose=(copy,),
        send=[look_up(h, copy)], fair=True, why="every look-up is made some time"),
    Row("ask_another", on=Timer("no_answer"), at=LookUp.ASKING, choose=(copy,),
        send=[look_up(h, copy)], why="a registry that is dead or behind answers nothing of use"),
    Row("be_answered", on=answered(h, copy), at=LookUp.ASKING, to=LookUp.ANSWERED),
    Ignore(answered(h, copy), at=LookUp.ANSWERED, why="the client has an answer"),
    Reject(answered(h, copy), at=LookUp.IDLE, why="it has not asked"),
    Ignore(turned_away(h, copy), why="the timer asks again"),
    Ignore(lease_over(e), why="the client sees no lease"),
))


def all_copied(known: Relation[Replica, Beat]) -> Sequence[Formula]:
    """The end of a run is in each current copy, and in each that a beat on its way makes current.

    known: of the beats that are no longer on their way.
    """
    return (
        ordered(e) == Listed.OVER, ~lease_over(e),
        forall(copy, implies(view(copy) == View.CURRENT, copied(copy, e) == Listed.OVER)),
        forall((copy, beat), implies(all_of(came_back(copy, beat), ~known(copy, beat)),
                                     copied(copy, e) == Listed.OVER)))


NETWORK: Final = Table(world, rows=(
    Row("bring_back", choose=(copy, beat),
        when=[forall(e, implies(ordered(e) == Listed.CURRENT, copied(copy, e) == Listed.CURRENT)),
              forall(e, implies(ordered(e) == Listed.OVER, copied(copy, e) == Listed.OVER)),
              ~came_back(copy, beat)],
        do=[came_back(copy, beat).to(True)],
        why="the store shows the order without gaps"),
    Row("end_lease", choose=(e,),
        when=all_copied(counted), do=[lease_over(e).to(True)],
        why="a lease is longer than a beat may take"),
))

CRASH: Final = Table(world, rows=(
    Row("crash", choose=(copy,),
        when=[view(copy) != View.DEAD, forall(other, implies(other.differs(copy),
                                                          view(other) != View.DEAD))],
        do=[view(copy).to(View.DEAD)], fair=False, why="one registry dies, and another is left"),
))

ALL_CURRENT: Final = forall(copy, view(copy) == View.CURRENT)

NO_LATE_ANSWER: Final = OnRow(
    "nothing_is_answered_after_its_lease", "answer",
    implies(lease_over(e), copied(copy, e) != Listed.CURRENT),
    why="rule 3: a copy that is late answers nothing before the lease of an entry is over")
PROPERTIES: Final = (
    NO_LATE_ANSWER,
    Always("a_copy_is_of_the_order",
           implies(copied(copy, e) == Listed.CURRENT, ordered(e) != Listed.NEVER),
           why="rule 1: no registry lists a run by itself"),
    Always("an_end_is_of_the_order",
           implies(copied(copy, e) == Listed.OVER, ordered(e) == Listed.OVER),
           why="a registry that is late strikes out nothing by itself"),
    LeadsTo("a_change_reaches_every_copy",
            all_of(ordered(e) == Listed.OVER, view(copy) != View.DEAD),
            any_of(copied(copy, e) == Listed.OVER, view(copy) == View.DEAD),
            under=(Fairness.TIMERS, Fairness.NO_TIMERS)),
    LeadsTo("L2_a_look_up_is_answered_at_once", all_of(asking(h) == LookUp.ASKING, ALL_CURRENT),
            any_of(asking(h) == LookUp.ANSWERED, ~ALL_CURRENT), under=(Fairness.NO_TIMERS,),
            why="no clock runs where the first registry can answer"),
    Sometimes("a_late_copy_lists_an_ended_run",
              all_of(view(copy) == View.CURRENT, copied(copy, e) == Listed.CURRENT,
                     ordered(e) == Listed.OVER)),
    Sometimes("a_registry_is_behind", view(copy) == View.BEHIND),
    Sometimes("a_registry_that_is_behind_says_so",
              all_of(turned_away(h, copy), view(copy) == View.BEHIND)),
    Sometimes("a_lease_is_over", lease_over(e)),
    Sometimes("a_look_up_is_answered", asking(h) == LookUp.ANSWERED),
)

SYSTEM: Final = System(
    "registry-replica",
    "Several registries share a store that may be late: each answers from its own copy.",
    tables=(STORE, REPLICA, CLIENT, NETWORK),
    properties=PROPERTIES,
    final=TRUE,
    faults={"crash": (CRASH,)},
    configurations={
        "default": Configuration({Replica: 2, Incarnation: 1, Beat: 2, Life: 1},
                                 faults=("crash",), symmetry=True),
        "restart": Configuration({Replica: 1, Incarnation: 2, Beat: 2, Life: 1}),
    },
)

# A store that goes on without a pause: each registry that lives is current some time.
NO_TIMEOUTS: Final[System] = edited(
    SYSTEM, "registry-replica-no-timeouts", DropRow("fall_behind"),
    ReplaceProperties((
        NO_LATE_ANSWER,
        LeadsTo("L1_a_look_up_is_answered", asking(h) == LookUp.ASKING,
                asking(h) == LookUp.ANSWERED, under=(Fairness.TIMERS,),
                why="the client asks one registry after the other"),
    )),
    about="Several registries share a store that makes no pause.",
    configurations={"default": SYSTEM.configurations["default"]},
)
