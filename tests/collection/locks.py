"""Mutual exclusion, resources, clocks and wires."""

from collections.abc import Iterator
from functools import partial
from itertools import combinations

from pdproto.spec.language import (
    ANY,
    FALSE,
    TRUE,
    Always,
    Call,
    Configuration,
    Formula,
    Int,
    LeadsTo,
    Machine,
    Message,
    Numbers,
    Rigid,
    Row,
    Seq,
    Sort,
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    count,
    each,
    exists,
    forall,
    implies,
)
from tests.collection.model import Model, reached

ALONE = {"default": Configuration({})}

# ---- The clock and the wire of Lamport's book

clock = Machine("clock")
hour = clock.function("hour", Int(1, 12), init=ANY)
HOURS = System("hour-clock", "A clock.", (Table(clock, rows=(
    Row("tick", do=hour().to(hour() % 12 + 1)),)),), (
        LeadsTo("twelve", TRUE, hour() == 12),), configurations=ALONE)


class Data(Sort):
    """A datum."""


x = Data("x")
wire = Machine("wire")
value = wire.function("value", Data, init=ANY)
ready, taken = wire.relation("ready", init=ANY), wire.relation("taken", init=ANY)
even = any_of(ready() & taken(), ~ready() & ~taken())
WIRE = System("asynchronous-interface", "A sender and a receiver take turns.", (Table(wire, rows=(
    Row("send", choose=x, when=even, do=[value().to(x), ready().to(~ready())]),
    Row("receive", when=~even, do=taken().to(~taken())),
)),), init=all_of(even, value().is_set), configurations={"default": Configuration({Data: 3})})

# ---- Peterson


class Place(State):
    AWAY = auto()
    ASKS = auto()
    WAITS = auto()
    INSIDE = auto()


class Process(Sort):
    """One of two."""


p, q = Process("p"), Process("q")
both = Machine("both", host=True)
place = both.function("place", Place, Process)
turn = both.function("turn", Process, init=ANY)
PETERSON = System("peterson", "Peterson's lock for two.", (Table(both, rows=(
    Row("ask", choose=p, when=place(p) == Place.AWAY, do=place(p).to(Place.ASKS)),
    Row("yield", choose=(p, q), when=all_of(p.differs(q), place(p) == Place.ASKS),
        do=[place(p).to(Place.WAITS), turn().to(q)]),
    Row("enter", choose=(p, q), do=place(p).to(Place.INSIDE), when=all_of(
        p.differs(q), place(p) == Place.WAITS, any_of(turn() == p, place(q) == Place.AWAY))),
    Row("leave", choose=p, when=place(p) == Place.INSIDE, do=place(p).to(Place.AWAY)),
)),), (Always("mutual_exclusion", ~((place(p) == Place.INSIDE) & (place(q) == Place.INSIDE))
              | p.same(q)),
       LeadsTo("enters", place(p) == Place.ASKS, place(p) == Place.INSIDE)),
    init=turn().is_set, configurations={"default": Configuration({Process: 2})})


def _peterson(state: tuple[int, int, int]) -> Iterator[tuple[int, int, int]]:
    *places, turns = state
    for me, other in ((0, 1), (1, 0)):
        after, whose = list(places), turns
        if places[me] == 1:
            whose = other
        if places[me] == 2 and turns != me and places[other] != 0:
            continue
        after[me] = (places[me] + 1) % 4
        yield after[0], after[1], whose


# ---- Philosophers


class Seat(Sort):
    """A philosopher, and the fork on the left."""


s, t = Seat("s"), Seat("t")
right = Rigid("right", s, t, given=lambda sizes: {
    (i, (i + 1) % sizes[Seat]) for i in range(sizes[Seat])})
table = Machine("table", host=True)
left_fork, right_fork = table.relation("left_fork", Seat), table.relation("right_fork", Seat)
DINNER = System("philosophers", "Each takes the left fork first.", (Table(table, rows=(
    Row("take_left", choose=s, do=left_fork(s).to(True), when=all_of(
        ~left_fork(s), ~right_fork(s), forall(t, implies(right(t, s), ~right_fork(t))))),
    Row("take_right", choose=(s, t), do=right_fork(s).to(True), when=all_of(
        left_fork(s), ~right_fork(s), right(s, t), ~left_fork(t))),
    Row("put_back", choose=s, when=left_fork(s) & right_fork(s),
        do=[left_fork(s).to(False), right_fork(s).to(False)]),
)),), (Always("one_holds_a_fork", implies(right(s, t), ~(right_fork(s) & left_fork(t)))),),
    configurations={"default": Configuration({Seat: 4})})


def _dinner(state: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    for i, forks in enumerate(state):
        after, before = state[(i + 1) % 4], state[i - 1]
        if (forks == 0 and before != 2) or (forks == 1 and after == 0) or forks == 2:
            yield *state[:i], (forks + 1) % 3, *state[i + 1:]


# ---- Readers and writers, with one fair queue


class Actor(Sort):
    """A process that reads and writes."""


class Queue(Sort, ordered=True):
    """A place in the queue."""


a, b = Actor("a"), Actor("b")
actors, world = Machine("actors"), Machine("world", world=True)
wants_read, wants_write = (
    actors.relation("wants_read", Actor), actors.relation("wants_write", Actor))
reader, writer = world.relation("reader", Actor), world.relation("writer", Actor)
read = Message("read", a, sender=actors, receiver=world, fifo=Queue)
write = Message("write", a, sender=actors, receiver=world, fifo=Queue)
READERS = System("readers-writers", "Readers and writers.", (
    Table(actors, rows=(
        Row("try_read", choose=a, when=~wants_read(a), do=wants_read(a).to(True), send=read(a)),
        Row("try_write", choose=a, when=~wants_write(a), do=wants_write(a).to(True),
            send=write(a)))),
    Table(world, rows=(
        Row("read", on=read(a), when=forall(b, ~writer(b)),
            do=[reader(a).to(True), wants_read(a).to(False)]),
        Row("write", on=write(a), when=forall(b, ~writer(b) & ~reader(b)),
            do=[writer(a).to(True), wants_write(a).to(False)]),
        Row("stop_reading", choose=a, when=reader(a), do=reader(a).to(False)),
        Row("stop_writing", choose=a, when=writer(a) & ~reader(a), do=writer(a).to(False)))),
), (Always("exclusive", ~(reader(a) & writer(b))),
    LeadsTo("reads", TRUE, reader(a)), LeadsTo("writes", TRUE, writer(a))),
    configurations={"default": Configuration({Actor: 2, Queue: 4})})

# ---- The same with three actors, and the queue as two lists


class Kind(State):
    READ = auto()
    WRITE = auto()


class Spot(Numbers, values=Int(0, 5)):
    """A place in the lists."""


i = Spot("i")
desk = Machine("desk")
who = desk.function("who", Seq(Actor, most=6))
kind = desk.function("kind", Seq(Kind, most=6))
reads, writes = desk.relation("reads", Actor), desk.relation("writes", Actor)
nobody_writes = forall(b, ~writes(b))
TAKEN = [who().tail(), kind().tail()]


def _waits(for_what: Kind) -> Formula:
    return exists(i, (i < who().length) & (who().at(i) == a) & (kind().at(i) == for_what))


def _is_first(for_what: Kind) -> Formula:
    return all_of(~who().empty, who().head == a, kind().head == for_what)


DESK = System("readers-writers-three", "Readers and writers.", (Table(desk, rows=(
    *(Row(f"try_{one.value}", choose=a, when=~_waits(one), do=[who().append(a), kind().append(one)])
      for one in Kind),
    Row("read", choose=a, when=_is_first(Kind.READ) & nobody_writes,
        do=[*TAKEN, reads(a).to(True)]),
    Row("write", choose=a, when=_is_first(Kind.WRITE) & nobody_writes & forall(b, ~reads(b)),
        do=[*TAKEN, writes(a).to(True)]),
    Row("stop_reading", choose=a, when=reads(a), do=reads(a).to(False)),
    Row("stop_writing", choose=a, when=writes(a) & ~reads(a), do=writes(a).to(False)),
)),), (Always("exclusive", ~(reads(a) & writes(b))),
       Always("one_writer", count(a, writes(a)) <= 1),
       *(LeadsTo(f"{done.name}_at_last", TRUE, done(a)) for done in (reads, writes))),
    configurations={"default": Configuration({Actor: 3})})

# ---- Clients that ask for sets of resources


class Client(Sort):
    """A client."""


class Resource(Sort):
    """A resource."""


class Several(Sort, of=Resource, sets=lambda size: [
        one for few in range(1, size + 1) for one in combinations(range(size), few)]):
    """A set of resources that is not empty."""


c, d, r, many = Client("c"), Client("d"), Resource("r"), Several("many")
has = Rigid("has", many, r, given=Several.members)
allocator = Machine("allocator", host=True)
wanted, held = (
    allocator.relation("wanted", Client, Resource), allocator.relation("held", Client, Resource))
ALLOCATOR = System("allocator", "It lends sets of resources.", (Table(allocator, rows=(
    Row("request", on=Call("request", c, many), when=forall(r, ~wanted(c, r) & ~held(c, r)),
        do=each(r, wanted(c, r).to(True), where=has(many, r))),
    Row("allocate", choose=(c, many), fair="strong", do=[
        each(r, held(c, r).to(True), where=has(many, r)),
        each(r, wanted(c, r).to(False), where=has(many, r))],
        when=forall(r, implies(has(many, r), wanted(c, r) & forall(d, ~held(d, r))))),
    Row("give_back", on=Call("give_back", c, many),
        when=forall(r, implies(has(many, r), held(c, r))),
        do=each(r, held(c, r).to(False), where=has(many, r))),
    Row("give_all_back", choose=c, when=exists(r, held(c, r)), do=held(c, ANY).to(False)),
)),), (Always("one_holds_it", implies(held(c, r) & held(d, r), c.same(d))),
       LeadsTo("clients_obtain", wanted(c, r), held(c, r)),
       LeadsTo("often_satisfied", TRUE, forall(r, ~wanted(c, r)))),
    final=TRUE, configurations={"default": Configuration({Client: 3, Resource: 2})})

# ---- Snapshot isolation


class Key(Sort):
    """A key."""


class Value(Sort):
    """A value."""


class Transaction(Sort):
    """A transaction."""


k, v, one, two = Key("k"), Value("v"), Transaction("one"), Transaction("two")
store = Machine("store", host=True)
holds, sees = (
    store.relation("holds", Key, Value), store.relation("sees", Transaction, Key, Value))
is_open = store.relation("is_open", Transaction)
wrote, missed = (
    store.relation("wrote", Transaction, Key), store.relation("missed", Transaction, Key))
ENDS = [is_open(one).to(False), sees(one, ANY, ANY).to(False), wrote(one, ANY).to(False),
        missed(one, ANY).to(False)]
STORE = System("key-value-store", "Transactions see a snapshot.", (Table(store, rows=(
    Row("open", on=Call("open", one), when=~is_open(one), do=[
        is_open(one).to(True), each((k, v), sees(one, k, v).to(holds(k, v)))]),
    Row("write", on=Call("write", one, k, v), when=is_open(one) & ~sees(one, k, v), do=[
        sees(one, k, ANY).to(False), sees(one, k, v).to(True), wrote(one, k).to(True)]),
    Row("remove", on=Call("remove", one, k), when=is_open(one) & exists(v, sees(one, k, v)),
        do=[sees(one, k, ANY).to(False), wrote(one, k).to(True)]),
    Row("roll_back", on=Call("roll_back", one), when=is_open(one), do=ENDS),
    Row("close", on=Call("close", one),
        when=is_open(one) & forall(k, ~(missed(one, k) & wrote(one, k))), do=[
            each((k, v), holds(k, v).to(sees(one, k, v)), where=wrote(one, k)),
            each((two, k), missed(two, k).to(True), where=all_of(
                is_open(two), two.differs(one), wrote(one, k))),
            is_open(one).to(False), sees(one, ANY, ANY).to(False), wrote(one, ANY).to(False),
            each(k, missed(one, k).to(FALSE))]),
)),), (Always("cleaned", implies(~is_open(one), ~sees(one, k, v) & ~wrote(one, k)
                                 & ~missed(one, k))),
       Always("no_lost_update", implies(
           all_of(is_open(one), holds(k, v), ~sees(one, k, v), ~wrote(one, k)), missed(one, k)))),
    final=TRUE, configurations={"default": Configuration({Key: 2, Value: 2, Transaction: 2})})

Seen = tuple[bool, tuple[int, ...], tuple[bool, ...], tuple[bool, ...]]  # of a transaction
KEYS, VALUES, NOTHING = 2, 2, -1
CLOSED: Seen = False, (NOTHING,) * KEYS, (False,) * KEYS, (False,) * KEYS


def _store(state: tuple[tuple[int, ...], tuple[Seen, Seen]]) -> Iterator[
        tuple[tuple[int, ...], tuple[Seen, Seen]]]:
    kept, every = state
    for me, (is_open, sees, wrote, missed) in enumerate(every):
        def with_me(mine: Seen, other: Seen = every[1 - me], me: int = me) -> tuple[Seen, Seen]:
            return (mine, other) if me == 0 else (other, mine)

        if not is_open:
            yield kept, with_me((True, kept, wrote, missed))
            continue
        yield kept, with_me(CLOSED)
        for k in range(KEYS):
            for v in (*range(VALUES), NOTHING):
                if sees[k] != v:
                    yield kept, with_me((True, (*sees[:k], v, *sees[k + 1:]),
                                         (*wrote[:k], True, *wrote[k + 1:]), missed))
        if not any(one and two for one, two in zip(wrote, missed, strict=True)):
            mine, (open_, view, written, late) = CLOSED, every[1 - me]
            late = tuple(was or (open_ and one) for was, one in zip(late, wrote, strict=True))
            after = tuple(new if one else old
                          for old, new, one in zip(kept, sees, wrote, strict=True))
            yield after, with_me(mine, (open_, view, written, late))


MODELS = (
    Model("KeyValueStore", STORE, 28_305, "a plain search", search=partial(
        reached, [((NOTHING,) * KEYS, (CLOSED, CLOSED))], _store)),
    Model("HourClock", HOURS, 12, "published"),
    Model("AsynchInterface", WIRE, 3 * 2 * 2, "each combination of values"),
    Model("Peterson", PETERSON, 20, "a plain search",
          search=partial(reached, [(0, 0, 0), (0, 0, 1)], _peterson)),
    Model("DiningPhilosophers", DINNER, 34, "a plain search", frozenset({"deadlock"}),
          search=partial(reached, [(0,) * 4], _dinner)),
    Model("ReadersWriters, 2 actors", READERS, 390, "TLC"),
    Model("ReadersWriters", DESK, 21_527, "published"),
    Model("SimpleAllocator", ALLOCATOR, 400, "published"),
)
