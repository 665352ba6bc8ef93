"""Protocols on which tools that find invariants are compared (DistAI, OSDI 2021; DuoAI, OSDI 2022;
IC3PO, NFM 2021), written from their descriptions. Each claims what the tools prove of it.
"""

from dataclasses import dataclass, replace
from itertools import permutations
from typing import Any, Final

from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Configuration,
    Formula,
    Machine,
    Rigid,
    Row,
    Sizes,
    Sort,
    State,
    System,
    Table,
    Tuples,
    all_of,
    auto,
    exists,
    forall,
    implies,
    majorities,
)


class Node(Sort):
    """A process."""


class Value(Sort):
    """A value."""


class Key(Sort):
    """A key of a store."""


class Quorum(Sort, of=Node, sets=majorities):
    """A majority."""


class Asked(Sort):
    """A request."""


class Answer(Sort):
    """A response."""


class Job(Sort):
    """A request of a server to its database."""


class Ticket(Sort, ordered=True):
    """A number that a thread draws."""


class Epoch(Sort, ordered=True):
    """A number of a lease."""


class Ranked(Sort, ordered=True):
    """A process on a ring. Its place in the order is its id."""


n, m, k, q, r = Node("n"), Node("m"), Node("k"), Quorum("q"), Quorum("r")
v, u, key, asked, answer, job = Value("v"), Value("u"), Key("y"), Asked("a"), Answer("p"), Job("j")
t, s, e, f = Ticket("t"), Ticket("s"), Epoch("e"), Epoch("f")
a, b, c, d = Ranked("a"), Ranked("b"), Ranked("c"), Ranked("d")
member = Rigid("member", q, n, given=Quorum.members)
MEET: Final = {"quorums_meet": forall((q, r), exists(n, member(q, n) & member(r, n)))}
SIZES: Final = {Node: 3, Value: 2, Key: 2, Asked: 2, Answer: 2, Job: 2, Ticket: 3, Epoch: 3,
                Ranked: 3}


def _protocol(
    name: str, machine: Machine[*tuple[Any, ...]], rows: tuple[Row, ...], *claims: Formula,
    init: Formula | None = None, axioms: dict[str, Formula] | None = None,
) -> System:
    """Sizes are those of the sorts in its text."""
    safe = tuple(Always(f"safe_{i}", claim) for i, claim in enumerate(claims, 1))
    made = System(name, f"The protocol {name}.", (Table(machine, rows=rows),), safe, final=TRUE,
                  axioms=axioms or {}, init=init)
    sizes = {sort: SIZES[sort] for sort in made.sorts if sort.of is None}
    return replace(made, configurations={"default": Configuration(sizes)}, like=made)


def _everything() -> Machine[*tuple[Any, ...]]:
    return Machine("all", world=True)


# ---- Locks

one = _everything()
held, free = one.relation("held", Node, Value), one.relation("free", Value, init=True)
LOCK_SERVERS: Final = _protocol("lock-servers", one, (
    Row("lock", choose=(n, v), when=free(v), do=[free(v).to(False), held(n, v).to(True)]),
    Row("unlock", choose=(n, v), when=held(n, v), do=[free(v).to(True), held(n, v).to(False)]),
), implies(held(n, v) & held(m, v), n.same(m)))

two = _everything()
asks, granted, holds, returns = (two.relation(name, Node) for name in (
    "asks", "granted", "holds", "returns"))
idle = two.relation("idle", init=True)
LOCK_BY_MESSAGES: Final = _protocol("lock-by-messages", two, (
    Row("ask", choose=n, do=asks(n).to(True)),
    Row("grant", choose=n, when=asks(n) & idle(), do=[
        asks(n).to(False), idle().to(False), granted(n).to(True)]),
    Row("enter", choose=n, when=granted(n), do=[granted(n).to(False), holds(n).to(True)]),
    Row("leave", choose=n, when=holds(n), do=[holds(n).to(False), returns(n).to(True)]),
    Row("take_back", choose=n, when=returns(n), do=[returns(n).to(False), idle().to(True)]),
), implies(holds(n) & holds(m), n.same(m)))

three = _everything()
has, sent = three.relation("has", Node, init=ANY), three.relation("sent", Node, Node)
DECENTRALIZED_LOCK: Final = _protocol("decentralized-lock", three, (
    Row("send", choose=(n, m), when=has(n), do=[has(n).to(False), sent(n, m).to(True)]),
    Row("receive", choose=(n, m), when=sent(n, m), do=[has(m).to(True), sent(n, m).to(False)]),
), implies(has(n) & has(m), n.same(m)), init=implies(has(n) & has(m), n.same(m)))

four = _everything()


def newer(node: Node, number: Epoch) -> Formula:
    """The number comes after the one that the node knows, if it knows one."""
    return epoch(node).unset | epoch(node).before(number)


epoch, owns = four.function("epoch", Epoch, Node), four.relation("owns", Node, init=ANY)
given, locked = four.relation("given", Epoch, Node), four.relation("locked", Epoch, Node)
DISTRIBUTED_LOCK: Final = _protocol("distributed-lock", four, (
    Row("pass_on", choose=(n, m, e), when=[owns(n), newer(n, e)],
        do=[owns(n).to(False), given(e, m).to(True)]),
    Row("accept", choose=(n, e), when=[given(e, n), newer(n, e)],
        do=[owns(n).to(True), epoch(n).to(e), locked(e, n).to(True)]),
), implies(locked(e, n) & locked(e, m), n.same(m)), init=implies(owns(n) & owns(m), n.same(m)))


class Place(State):
    OUTSIDE = auto()
    WAITS = auto()
    INSIDE = auto()


five = _everything()
after = Rigid("after", t, s, given=lambda sizes: {(i, i + 1) for i in range(sizes[Ticket] - 1)})
place, drawn = five.function("place", Place, Node), five.function("drawn", Ticket, Node)
due, fresh = five.function("due", Ticket, init=ANY), five.function("fresh", Ticket, init=ANY)
TICKET_LOCK: Final = _protocol("ticket-lock", five, (
    Row("draw", choose=(n, t, s), when=[
        place(n) == Place.OUTSIDE, fresh() == t, after(t, s)],
        do=[place(n).to(Place.WAITS), drawn(n).to(t), fresh().to(s)]),
    Row("enter", choose=(n, t), when=[place(n) == Place.WAITS, drawn(n) == t, due() == t],
        do=place(n).to(Place.INSIDE)),
    Row("leave", choose=(n, t, s), when=[place(n) == Place.INSIDE, due() == t, after(t, s)],
        do=[place(n).to(Place.OUTSIDE), due().to(s), drawn(n).clear()]),
), implies((place(n) == Place.INSIDE) & (place(m) == Place.INSIDE), n.same(m)),
    init=exists(t, all_of(fresh() == t, due() == t, forall(s, ~s.before(t)))),
    axioms={"after": forall((t, s), implies(after(t, s), t.before(s)))})

six = _everything()
wants, allows = six.relation("wants", Node, Node), six.relation("allows", Node, Node)
inside = six.relation("inside", Node)
RICART_AGRAWALA: Final = _protocol("ricart-agrawala", six, (
    Row("request", choose=(n, m), when=n.differs(m) & ~wants(n, m), do=wants(n, m).to(True)),
    Row("reply", choose=(n, m), when=[
        n.differs(m), wants(n, m), ~inside(m), ~allows(n, m), ~allows(m, n)],
        do=[wants(n, m).to(False), allows(n, m).to(True)]),
    Row("enter", choose=n, when=forall(m, n.same(m) | allows(n, m)), do=inside(n).to(True)),
    Row("leave", choose=n, when=inside(n), do=[inside(n).to(False), allows(n, ANY).to(False)]),
), implies(inside(n) & inside(m), n.same(m)))

# ---- Stores

seven = _everything()
table, moves = (seven.relation(name, Node, Key, Value) for name in ("table", "moves"))
owner = seven.relation("owner", Node, Key, init=ANY)
SHARDED_STORE: Final = _protocol("sharded-store", seven, (
    Row("put", choose=(n, key, v), when=owner(n, key), do=[
        table(n, key, ANY).to(False), table(n, key, v).to(True)]),
    Row("give_away", choose=(n, m, key, v), when=table(n, key, v), do=[
        table(n, key, v).to(False), owner(n, key).to(False), moves(m, key, v).to(True)]),
    Row("take", choose=(n, key, v), when=moves(n, key, v), do=[
        moves(n, key, v).to(False), table(n, key, v).to(True), owner(n, key).to(True)]),
), implies(table(n, key, v) & table(m, key, u), n.same(m)),
    implies(table(n, key, v) & table(n, key, u), v.same(u)),
    init=implies(owner(n, key) & owner(m, key), n.same(m)))

NO_LOST_KEYS: Final = _protocol(
    "no-lost-keys", seven, SHARDED_STORE.tables[0].rows,
    exists((n, v), owner(n, key) | moves(n, key, v)), init=exists(n, owner(n, key)))

# ---- Requests

eight = _everything()
fits = Rigid("fits", asked, answer)
request = eight.relation("request", Node, Asked)
response, received = (eight.relation(name, Node, Answer) for name in ("response", "received"))
RIGHT: Final = implies(received(n, answer), exists(asked, request(n, asked) & fits(asked, answer)))
ASK: Final = Row("ask", choose=(n, asked), do=request(n, asked).to(True))
RECEIVE: Final = Row("receive", choose=(n, answer), when=response(n, answer),
                     do=received(n, answer).to(True))
CLIENT_SERVER: Final = _protocol("client-server", eight, (
    ASK, Row("respond", choose=(n, asked, answer), when=request(n, asked) & fits(asked, answer),
             do=response(n, answer).to(True)), RECEIVE), RIGHT)

works, done = eight.relation("works", Job, Asked), eight.relation("done", Job, Answer)
of = eight.relation("of", Job, Node)
CLIENT_SERVER_DATABASE: Final = _protocol("client-server-database", eight, (
    ASK, Row("forward", choose=(n, asked, job), when=[request(n, asked), forall(m, ~of(job, m))],
             do=[of(job, n).to(True), works(job, asked).to(True)]),
    Row("work", choose=(job, asked, answer), when=works(job, asked) & fits(asked, answer),
        do=done(job, answer).to(True)),
    Row("respond", choose=(job, n, answer), when=done(job, answer) & of(job, n),
        do=response(n, answer).to(True)), RECEIVE), RIGHT)

nine = _everything()
within = Rigid("within", n)
packet, trusted = nine.relation("packet", Node, Node), nine.relation("trusted", Node)
FIREWALL: Final = _protocol("firewall", nine, (
    Row("go_out", choose=(n, m), when=within(n) & ~within(m), do=[
        packet(n, m).to(True), trusted(m).to(True)]),
    Row("come_in", choose=(n, m), when=~within(n) & within(m) & trusted(n),
        do=packet(n, m).to(True)),
), implies(packet(n, m) & ~within(n) & within(m), exists(k, within(k) & packet(k, n))))

# ---- Agreement

ten = _everything()
voted, vote = ten.relation("voted", Node), ten.relation("vote", Node, Value)
chosen = ten.relation("chosen", Value)
TOY_CONSENSUS: Final = _protocol("toy-consensus", ten, (
    Row("cast", choose=(n, v), when=~voted(n), do=[voted(n).to(True), vote(n, v).to(True)]),
    Row("choose", choose=(q, v), when=forall(n, implies(member(q, n), vote(n, v))),
        do=chosen(v).to(True)),
), implies(chosen(v) & chosen(u), v.same(u)), axioms=MEET)

eleven = _everything()
call, ballot, votes = (eleven.relation(name, Node, Node) for name in ("call", "ballot", "votes"))
spent, leads = eleven.relation("spent", Node), eleven.relation("leads", Node)
decided = eleven.relation("decided", Node, Value)
ELECTION: Final = (
    Row("call", choose=(n, m), do=call(n, m).to(True)),
    Row("vote", choose=(n, m), when=call(n, m) & ~spent(m), do=[
        call(n, m).to(False), spent(m).to(True), ballot(m, n).to(True)]),
    Row("collect", choose=(n, m), when=ballot(m, n), do=votes(n, m).to(True)),
    Row("lead", choose=(n, q), when=forall(m, implies(member(q, m), votes(n, m))),
        do=leads(n).to(True)))
CONSENSUS_WITHOUT_DECISION: Final = _protocol(
    "consensus-without-decision", eleven, ELECTION, implies(leads(n) & leads(m), n.same(m)),
    axioms=MEET)
CONSENSUS: Final = _protocol("consensus", eleven, (
    *ELECTION, Row("decide", choose=(n, v), when=[leads(n), forall(u, ~decided(n, u))],
                   do=decided(n, v).to(True))),
    implies(decided(n, v) & decided(m, u), n.same(m)),
    implies(decided(n, v) & decided(n, u), v.same(u)), axioms=MEET)

twelve = _everything()


def _apart(sizes: Sizes) -> Tuples:
    """Going down from the first node, one meets the second before the third."""
    size = sizes[Ranked]
    return {(x, y, z) for x, y, z in permutations(range(size), 3)
            if (x - y) % size < (x - z) % size}


between = Rigid("between", a, b, c, given=_apart)
next_to = Rigid("next_to", a, b, given=lambda sizes: {
    (x, (x - 1) % sizes[Ranked]) for x in range(sizes[Ranked])})
pending, leader = twelve.relation("pending", Ranked, Ranked), twelve.relation("leader", Ranked)
RING: Final = _protocol("ring", twelve, (
    Row("start", choose=(a, b), when=next_to(a, b), do=pending(a, b).to(True)),
    Row("pass_on", choose=(a, b, c), when=[
        pending(a, b), next_to(b, c), b.differs(c), b.before(a)],
        do=[pending(a, b).to(False), pending(a, c).to(True)]),
    Row("drop", choose=(a, b), when=pending(a, b) & a.before(b), do=pending(a, b).to(False)),
    Row("win", choose=a, when=pending(a, a), do=leader(a).to(True)),
), implies(leader(a) & leader(b), a.same(b)), axioms={
    "acyclic": forall((a, b, c), implies(between(a, b, c), ~between(a, c, b))),
    "transitive": forall((a, b, c, d), implies(
        between(a, b, c) & between(a, c, d), between(a, b, d))),
    "rotated": forall((a, b, c), implies(between(a, b, c), between(b, c, a))),
    "total": forall((a, b, c), implies(
        all_of(a.differs(b), b.differs(c), a.differs(c)), between(a, b, c) | between(a, c, b))),
    "apart": forall((a, b, c), implies(
        between(a, b, c), all_of(a.differs(b), b.differs(c), a.differs(c)))),
    "next": forall((a, b, c), implies(next_to(a, b), ~between(a, c, b))),
    "neighbours": forall((a, b), implies(
        a.differs(b), next_to(a, b) | exists(c, between(a, c, b)))),
    "no_self": forall((a, b), implies(next_to(a, a), a.same(b))),
})



@dataclass(frozen=True, slots=True)
class Benchmark:
    """A protocol, and what `--suggest` makes of it.

    clauses: how many guesses hold in the small instances; all further questions are about these.
    seconds: of processor time that it took once, or that the proof of `lemmas` took; it decides the
    tier of the test, which asks for none. lacks: why its lemmas are not found. lemmas: those that
    prove it, if they are not found.
    """

    system: System
    clauses: int = 0
    seconds: float = 0.0
    lacks: str = ""
    lemmas: tuple[Always, ...] = ()


BENCHMARKS: Final = (
    Benchmark(LOCK_SERVERS, 1, 0.1), Benchmark(LOCK_BY_MESSAGES, 12, 0.2),
    Benchmark(TICKET_LOCK, 36, 0.5), Benchmark(RICART_AGRAWALA, 10, 0.7),
    Benchmark(NO_LOST_KEYS, 1, 0.8), Benchmark(FIREWALL, 17, 0.8),
    Benchmark(DECENTRALIZED_LOCK, 44, 7.3), Benchmark(SHARDED_STORE, 20, 1.6),
    Benchmark(CLIENT_SERVER, 26, 2.6), Benchmark(TOY_CONSENSUS, 29, 4.0), Benchmark(RING, 116, 9.6),
    Benchmark(CONSENSUS_WITHOUT_DECISION, 187, 28.0), Benchmark(CONSENSUS, 277, 46.3),
    Benchmark(CLIENT_SERVER_DATABASE, lacks="right guesses with an `exists` are dropped, since "
              "the question about one, with the others, has too many clauses", lemmas=(
        Always("one_owner", implies(of(job, n) & of(job, m), n.same(m))),
        Always("an_owner_asked", implies(of(job, n) & works(job, asked), request(n, asked))),
        Always("work_has_an_owner", implies(works(job, asked), exists(n, of(job, n)))),
        Always("done_by_work", implies(done(job, answer), exists(
            asked, works(job, asked) & fits(asked, answer)))),
        Always("right_answers", implies(response(n, answer), exists(
            asked, request(n, asked) & fits(asked, answer)))))),
    Benchmark(DISTRIBUTED_LOCK, seconds=12.3, lacks="clauses of four literals, of which one "
              "compares the value of a function with an element, so it has an `exists`", lemmas=(
        Always("one_owner", implies(owns(n) & owns(m), n.same(m))),
        Always("the_owner_has_the_latest", implies(owns(n) & (epoch(m) == e), ~newer(n, e))),
        Always("beside_an_owner_all_are_old", implies(owns(n) & given(e, m), ~newer(m, e))),
        Always("the_owner_knows_all", implies(owns(n) & given(e, m), ~newer(n, e))),
        Always("one_is_given", implies(given(e, n) & given(e, m), n.same(m))),
        Always("the_last_one_is_given", implies(
            all_of(given(e, n), given(f, m), e.before(f)), ~newer(n, e))),
        Always("what_is_newer_is_the_latest", implies(given(e, n) & newer(n, e), newer(m, e))),
        Always("what_is_locked_is_old", implies(locked(e, n), ~newer(n, e))))),
)
