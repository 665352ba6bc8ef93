"""A system that uses each word of the language, and breaks one property of each kind.

A node calls its next ones in a ring; each answers once. The order of turns, the topology, bulk
updates with a condition and without, messages with a list, rows that reject and rows that repeat
are all there.
"""

from typing import Final

from pdproto.spec.language import (
    ANY,
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
    ReplaceRow,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    Timer,
    Tuples,
    all_of,
    auto,
    each,
    edited,
    exists,
    forall,
    implies,
    lose,
)


class Node(Sort):
    """A member of the ring."""


class Turn(Sort, ordered=True):
    """Turns are taken in order."""


class Mood(State):
    CALM = auto()
    BUSY = auto()
    TIRED = auto()


def ring(sizes: Sizes) -> Tuples:
    return [(i, (i + 1) % sizes[Node]) for i in range(sizes[Node])]


n, m, other = Node("n"), Node("m"), Node("o")
t, u = Turn("t"), Turn("u")
node = Machine("node", n)
network = Machine("network", world=True)
mood = node.function("mood", Mood, edges={Mood.CALM: (Mood.BUSY,), Mood.BUSY: (Mood.CALM,)})
taken = node.relation("taken", Turn)
heard = node.relation("heard", Node)
guests = node.relation("guests", Node)
following = Rigid("following", n, m, given=ring)
call = Message("call", n, m, sender=node, receiver=node.at(m), carries=[guests])
answer = Message("answer", n, m, sender=node.at(m), receiver=node)

NODE: Final = Table(node, state=mood, rows=(
    Row("invite", on=Call("invite", m), when=[~guests(n, m), n.differs(m)],
        do=[guests(n, m).to(True)]),
    Row("begin", on=Call("begin"), at=Mood.CALM, to=Mood.BUSY, choose=(t,),
        when=[~taken(n, t), forall(u, implies(u.before(t), taken(n, u)))],
        do=[taken(n, t).to(True), heard(n, ANY).to(False)],
        send=[each(m, call(n, m), where=following(n, m))]),
    Row("reply", on=call(m, n), when=~heard(n, m), do=[heard(n, m).to(True)],
        send=[answer(m, n)]),
    Ignore(call(m, n), when=heard(n, m), why="it has been answered"),
    Row("end", on=answer(n, m), at=Mood.BUSY, to=Mood.CALM,
        do=[each(other, heard(n, other).to(False), where=guests(n, other) & other.differs(m))]),
    Row("tire", on=Timer("tired"), at=Mood.BUSY, to=Mood.TIRED, when=heard(n, n) | guests(n, n)),
    Row("give_up", on=Timer("slow"), at=Mood.BUSY, to=Mood.TIRED, choose=(m,),
        when=[guests(n, m), following(n, m)]),
    Row("nag", at=Mood.TIRED, choose=(m,), when=following(n, m), send=[call(n, m)]),
    Reject(answer(n, m), at=Mood.CALM, why="nobody has asked"),
    Ignore(answer(n, m), at=Mood.TIRED, why="too late"),
))

PROPERTIES: Final = (
    Always("one_at_a_time", implies(all_of(mood(n) == Mood.BUSY, mood(m) == Mood.BUSY), n.same(m))),
    Always("turns_in_order", implies(all_of(taken(n, t), u.before(t)), taken(n, u))),
    Sometimes("all_are_tired", forall(n, mood(n) == Mood.TIRED)),
    Sometimes("a_guest_of_its_own", guests(n, n)),
    OnRow("a_reply_is_the_first", "reply", ~heard(n, other)),
    OnRow("a_reply_has_a_call", "reply", call(m, n)),
    LeadsTo("the_busy_end", mood(n) == Mood.BUSY, mood(n) != Mood.BUSY,
            under=(Fairness.TIMERS, Fairness.DETECTORS, Fairness.NO_TIMERS, Fairness.CONSUMED)),
    LeadsTo("the_busy_calm_down", mood(n) == Mood.BUSY, mood(n) == Mood.CALM,
            under=(Fairness.NO_TIMERS,)),
    LeadsTo("a_call_is_heard", exists(m, call(m, n)), exists(m, heard(n, m))),
)

SYSTEM: Final = System(
    "every-word", "Each word of the language, and one broken property of each kind.",
    tables=(NODE,),
    properties=PROPERTIES,
    final=forall((n, t), taken(n, t)),
    faults={"lossy": (Table(network, rows=(lose(answer),)),)},
    axioms={"nobody follows itself": implies(following(n, m), n.differs(m))},
    configurations={"default": Configuration({Node: 2, Turn: 1}, faults=("lossy",)),
                    "calm": Configuration({Node: 2, Turn: 2})},
)


class Wait(State):
    BEFORE = auto()
    WAITING = auto()
    OVER = auto()


asker = Machine("asker")
server = Machine("server")
wait = asker.function("wait", Wait)
served = server.relation("served")
ping = Message("ping", sender=asker, receiver=server)
pong = Message("pong", sender=server, receiver=asker)

# A loss for ever would keep the asker waiting; a wait for a server that says nothing needs a clock.
PING: Final = System(
    "ping", "Waits that end because losses do, or because a clock does.",
    tables=(
        Table(asker, state=wait, rows=(
            Row("ask", on=Call("ask"), at=Wait.BEFORE, to=Wait.WAITING, send=[ping()]),
            Row("hear", on=pong(), at=Wait.WAITING, to=Wait.OVER),
            Ignore(pong(), at=(Wait.BEFORE, Wait.OVER), why="over"),
        )),
        Table(server, rows=(
            Row("serve", on=ping(), when=~served(), do=[served().to(True)]),
            Ignore(ping(), when=served(), why="known"),
            Row("tell", on=Timer("tell", detector=True), when=served(), send=[pong()]),
        )),
    ),
    properties=(
        LeadsTo("a_wait_ends", wait() == Wait.WAITING, wait() == Wait.OVER,
                under=(Fairness.TIMERS, Fairness.DETECTORS)),
    ),
    final=wait() != Wait.WAITING,
    faults={"lossy": (Table(network, rows=(lose(pong),)),)},
    configurations={"default": Configuration({}, faults=("lossy",))},
)

# The same with a safety net in the place of the detector.
PATIENT: Final = edited(
    PING, "ping-patient",
    ReplaceRow("tell", Row("tell", on=Timer("tell"), when=served(), send=[pong()])),
    about="The server tells by a clock that no assumption makes fire.",
)
