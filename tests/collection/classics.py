"""Models of books, and the lock with auxiliary variables that refines Peterson's."""

from dataclasses import replace

from pdproto.spec.examples.voting import (
    CONSENSUS,
    QUORUMS_MEET,
    Acceptor,
    Ballot,
    Value,
    chosen,
    member,
)
from pdproto.spec.examples.voting import Quorum as Majority
from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Configuration,
    Formula,
    Int,
    LeadsTo,
    Machine,
    Refines,
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
    exists,
    forall,
    if_then_else,
    implies,
)
from tests.collection.model import Model
from tests.collection.published import PETERSON, At, One, at, turn, wants

ALONE = {"default": Configuration({})}

# ---- The alternating bit, and what it is for


class Datum(Sort):
    """A datum."""


d = Datum("d")
link = Machine("link")
sent, received = link.function("sent", Datum, init=ANY), link.function("received", Datum, init=ANY)
s_bit, s_ack, r_bit = (link.function(name, Int(0, 1), init=ANY)
                       for name in ("s_bit", "s_ack", "r_bit"))
SENT = all_of(s_ack() == s_bit(), r_bit() == s_bit(), sent().is_set, received().is_set)
DELIVERY = System("delivery", "Each datum is received before the next one is sent.", (
    Table(link, rows=(
        Row("send", choose=d, when=s_ack() == s_bit(), do=[
            sent().to(d), s_bit().to(1 - s_bit())]),
        Row("receive", when=r_bit() != s_bit(), do=[
            r_bit().to(s_bit()), received().to(sent())]),
        Row("acknowledge", when=r_bit() != s_ack(), do=s_ack().to(r_bit())),
    )),), (LeadsTo("is_received", all_of(sent() == d, s_bit() != s_ack()), received() == d),),
    init=SENT, configurations={"default": Configuration({Datum: 2})})

wire = Machine("wire")
now, last = wire.function("now", Int(0, 1), init=ANY), wire.function("last", Int(0, 1), init=ANY)
bit, acked, got = (wire.function(name, Int(0, 1), init=ANY) for name in ("bit", "acked", "got"))
data = wire.function("data", Seq(Int(0, 3), most=2))  # twice the bit, and the datum
acks = wire.function("acks", Seq(Int(0, 1), most=2))
LOSSES = tuple(
    Row(f"lose_{queue.name}_{index}_of_{length}", fair=False, when=queue().length == length,
        do=queue().keep(1) if index == length - 1 else queue().tail())
    for queue in (data, acks) for length in (1, 2) for index in range(length))
BIT = System("alternating-bit-lists", "Queues that lose messages.", (Table(wire, rows=(
    *(Row(f"send_{datum}", fair=False, when=[acked() == bit(), ~data().full], do=[
        now().to(datum), bit().to(1 - bit()), data().append(2 * (1 - bit()) + datum)])
      for datum in (0, 1)),
    Row("send_again", when=[acked() != bit(), ~data().full],
        do=data().append(2 * bit() + now())),
    Row("receive", fair="strong", when=~data().empty, do=[
        got().to(data().head // 2), last().to(data().head % 2), data().tail()]),
    Row("acknowledge", when=~acks().full, do=acks().append(got())),
    Row("take_acknowledgement", fair="strong", when=~acks().empty,
        do=[acked().to(acks().head), acks().tail()]),
    *LOSSES,
)),), (*(LeadsTo(f"receives_{datum}", all_of(now() == datum, bit() != acked()), last() == datum)
         for datum in (0, 1)),),
    init=all_of(acked() == bit(), got() == bit()), configurations=ALONE)

# ---- A memory


class Processor(Sort):
    """A processor."""


class Address(Sort):
    """An address."""


class Word(Sort):
    """A value of a cell."""


class Control(State):
    READY = auto()
    BUSY = auto()
    DONE = auto()


p, a, w = Processor("p"), Address("a"), Word("w")
first = Rigid("first", p, given=lambda _: {(0,)})
memory = Machine("memory", host=True)
cell = memory.function("cell", Word, Address, init=ANY)
control = memory.function("control", Control, Processor)
address = memory.function("address", Address, Processor)
word = memory.function("word", Word, Processor)
by = memory.function("by", Processor, init=ANY)  # the last one at the interface, and its datum
asked, told = memory.function("asked", Address), memory.function("told", Word)
MEMORY = System("internal-memory", "Processors read and write.", (Table(memory, rows=(
    Row("ask_to_read", choose=(p, a), when=control(p) == Control.READY, do=[
        control(p).to(Control.BUSY), address(p).to(a), word(p).clear(),
        by().to(p), asked().to(a), told().clear()]),
    Row("ask_to_write", choose=(p, a, w), when=control(p) == Control.READY, do=[
        control(p).to(Control.BUSY), address(p).to(a), word(p).to(w),
        by().to(p), asked().to(a), told().to(w)]),
    Row("read", choose=(p, a), do=[
        control(p).to(Control.DONE), word(p).to(cell(a)), address(p).clear()],
        when=all_of(control(p) == Control.BUSY, address(p) == a, word(p).unset)),
    Row("write", choose=(p, a, w), do=[
        control(p).to(Control.DONE), cell(a).to(w), address(p).clear(), word(p).clear()],
        when=all_of(control(p) == Control.BUSY, address(p) == a, word(p) == w)),
    Row("answer", choose=p, when=control(p) == Control.DONE, do=[
        control(p).to(Control.READY), by().to(p), asked().clear(), told().to(word(p))]),
)),), (Always("cells_have_values", cell(a).is_set),
       LeadsTo("is_answered", control(p) == Control.BUSY, control(p) == Control.READY)),
    init=all_of(forall(a, cell(a).is_set), exists(p, first(p) & (by() == p))),
    configurations={"default": Configuration({Processor: 2, Address: 3, Word: 2})})

# ---- The highest of some numbers

search = Machine("search")
length = search.function("length", Int(0, 3), init=ANY)
number = tuple(search.function(f"number_{k}", Int(0, 4), init=ANY) for k in range(3))
highest, index = search.function("highest", Int(-1, 4)), search.function("index", Int(0, 3))
done = search.relation("done")
HIGHEST = System("find-highest", "One pass finds the highest number.", (Table(search, rows=(
    *(Row(f"look_at_{k}", when=(index() == k) & (length() > k), do=[
        index().to(k + 1),
        highest().to(if_then_else(highest() >= one(), highest(), one()))])
      for k, one in enumerate(number)),
    Row("end", when=(index() == length()) & ~done(), do=done().to(True)),
)),), (Always("highest", all_of(*(
    implies(done() & (length() > k), one() <= highest()) for k, one in enumerate(number)))),
       LeadsTo("ends", TRUE, done())), final=done(),
    init=all_of(*(implies(length() <= k, one() == 0) for k, one in enumerate(number))),
    configurations=ALONE)

# ---- A leader of a ring: the least initiator


class Node(Sort, ordered=True):
    """A node, with its number."""


class Status(State):
    CANDIDATE = auto()
    LOST = auto()
    WON = auto()


n, m, o = Node("n"), Node("m"), Node("o")
to = Rigid("to", n, m, given=lambda sizes: {(i, (i + 1) % sizes[Node]) for i in range(sizes[Node])})
ring = Machine("ring", host=True)
initiates, began = ring.relation("initiates", Node, init=ANY), ring.relation("began", Node)
status = ring.function("status", Status, Node, init=ANY)
waits = ring.relation("waits", Node, Node)  # at the first, the number of the second
takes = all_of(to(n, m), n.differs(m), began(n), waits(n, o))
PASSES = [waits(n, o).to(False), waits(m, o).to(True)]
LEADER = System("chang-roberts", "The least initiator wins.", (Table(ring, rows=(
    Row("begin", choose=(n, m), when=to(n, m) & ~began(n), do=[
        began(n).to(True), waits(m, n).to(any_of(initiates(n), waits(m, n)))]),
    Row("pass_on", choose=(n, m, o), when=takes & (status(n) == Status.LOST), do=PASSES),
    Row("lose", choose=(n, m, o), do=[*PASSES, status(n).to(Status.LOST)],
        when=takes & (status(n) != Status.LOST) & o.before(n)),
    Row("drop", choose=(n, o), do=waits(n, o).to(False), when=all_of(
        began(n), waits(n, o), status(n) != Status.LOST, n.before(o))),
    Row("win", choose=n, do=[waits(n, n).to(False), status(n).to(Status.WON)], when=all_of(
        began(n), waits(n, n), status(n) != Status.LOST)),
)),), (
    Always("the_least_wins", implies(status(n) == Status.WON, initiates(n) & forall(m, implies(
        n.differs(m), (status(m) == Status.LOST) & implies(initiates(m), n.before(m)))))),
    LeadsTo("one_wins", exists(n, status(n) == Status.CANDIDATE),
            exists(n, status(n) == Status.WON))),
    final=TRUE, init=forall(n, any_of(
        initiates(n) & (status(n) == Status.CANDIDATE),
        ~initiates(n) & (status(n) == Status.LOST))),
    configurations={"default": Configuration({Node: 3})})

# ---- Philosophers with clean and dirty forks


class Doing(State):
    LOOPS = auto()
    EATS = auto()
    THINKS = auto()


class Seat(Sort):
    """A philosopher, and the fork on the left."""


s, t = Seat("s"), Seat("t")
right = Rigid("right", s, t, given=lambda sizes: {
    (i, (i + 1) % sizes[Seat]) for i in range(sizes[Seat])})
second = Rigid("second", s, given=lambda _: {(1,)})
meal = Machine("meal", host=True)
doing = meal.function("doing", Doing, Seat)
hungry = meal.relation("hungry", Seat, init=True)
own = meal.relation("own", Seat, init=ANY)  # the philosopher has the fork on the left
clean = meal.relation("clean", Seat)
loops, left_dirty, right_dirty = doing(s) == Doing.LOOPS, own(s) & ~clean(s), ~own(t) & ~clean(t)
after = doing(s).to(if_then_else(hungry(s), Doing.LOOPS, Doing.THINKS))
MEAL = System("clean-forks", "A dirty fork is cleaned and handed over.", (Table(meal, rows=(
    Row("hand_left", choose=s, when=loops & left_dirty,
        do=[own(s).to(False), clean(s).to(True), after]),
    Row("hand_right", choose=(s, t), when=all_of(right(s, t), loops, ~left_dirty, right_dirty),
        do=[own(t).to(True), clean(t).to(True), after]),
    Row("sit_down", choose=(s, t), do=doing(s).to(Doing.EATS), when=all_of(
        right(s, t), loops, hungry(s), own(s), ~own(t), clean(s), clean(t))),
    Row("stop", choose=(s, t), do=doing(s).to(Doing.THINKS), when=all_of(
        right(s, t), loops, ~hungry(s), ~left_dirty, ~right_dirty)),
    Row("think", choose=s, when=doing(s) == Doing.THINKS,
        do=[hungry(s).to(True), doing(s).to(Doing.LOOPS)]),
    Row("eat", choose=(s, t), when=right(s, t) & s.differs(t) & (doing(s) == Doing.EATS), do=[
        hungry(s).to(False), clean(s).to(False), clean(t).to(False), doing(s).to(Doing.LOOPS)]),
)),), (Always("neighbours_eat_in_turn", implies(
    all_of(right(s, t), s.differs(t)), ~((doing(s) == Doing.EATS) & (doing(t) == Doing.EATS)))),
       LeadsTo("nobody_starves", TRUE, ~hungry(s))),
    init=forall(s, any_of(second(s) & ~own(s), ~second(s) & own(s))),
    configurations={"default": Configuration({Seat: 5})})

# ---- A lock that does two steps more after it was taken, as Peterson's does before


class Stage(State):
    AWAY = auto()
    ASKS = auto()
    INSIDE = auto()
    LEAVES = auto()


class More(State):
    NONE = auto()
    TWO = auto()
    ONE = auto()


x, y = One("x"), One("y")
lock = Machine("lock", host=True)
stage, more = lock.function("stage", Stage, One), lock.function("more", More, One)
free, turn_of_second = lock.relation("free", init=True), lock.relation("turn_of_second")
quiet = forall(y, more(y) == More.NONE)
STEPS = System("lock-steps", "A lock for two, with two steps after it was taken.", (
    Table(lock, rows=(
        Row("ask", choose=x, when=quiet & (stage(x) == Stage.AWAY), do=stage(x).to(Stage.ASKS)),
        Row("enter", choose=x, when=all_of(quiet, stage(x) == Stage.ASKS, free()),
            do=[stage(x).to(Stage.INSIDE), free().to(False), more(x).to(More.TWO)]),
        Row("note", choose=x, when=more(x) == More.TWO, do=[
            more(x).to(More.ONE), turn_of_second().to(forall(y, ~y.before(x)))]),
        Row("end", choose=x, when=more(x) == More.ONE, do=more(x).to(More.NONE)),
        Row("leave", choose=x, when=quiet & (stage(x) == Stage.INSIDE),
            do=stage(x).to(Stage.LEAVES)),
        Row("unlock", choose=x, when=quiet & (stage(x) == Stage.LEAVES),
            do=[stage(x).to(Stage.AWAY), free().to(True)]),
    )),), (Refines("peterson", PETERSON, mapping=(
        at(x).to(if_then_else(
            stage(x) == Stage.AWAY, At.A0, if_then_else(
                stage(x) == Stage.ASKS, At.A1, if_then_else(
                    stage(x) == Stage.LEAVES, At.A4, if_then_else(
                        more(x) == More.TWO, At.A2, if_then_else(
                            more(x) == More.ONE, At.A3, At.INSIDE)))))),
        wants(x).to(stage(x).among(Stage.INSIDE, Stage.LEAVES)),
        turn().to(turn_of_second()))),),
    configurations={"default": Configuration({One: 2})})

# ---- Votes of acceptors in ballots

e, f = Acceptor("e"), Acceptor("f")
b, c, g = Ballot("b"), Ballot("c"), Ballot("g")
v, u, q = Value("v"), Value("u"), Majority("q")
election = Machine("election", host=True)
votes = election.relation("votes", Acceptor, Ballot, Value)
joined = election.function("joined", Ballot, Acceptor)
no_vote = forall(u, ~votes(f, g, u))
shown = exists(q, all_of(
    forall(f, implies(member(q, f), (joined(f) == b) | joined(f).after(b))),
    any_of(
        forall((f, g), implies(member(q, f) & g.before(b), no_vote)),
        exists(c, all_of(
            c.before(b), exists(f, member(q, f) & votes(f, c, v)),
            forall((f, g), implies(all_of(member(q, f), c.before(g), g.before(b)), no_vote)))))))
VOTES = System("votes", "Acceptors vote in ballots.", (Table(election, rows=(
    Row("join", choose=(e, b), when=joined(e).unset | joined(e).before(b), do=joined(e).to(b)),
    Row("vote", choose=(e, b, v), do=[joined(e).to(b), votes(e, b, v).to(True)], when=all_of(
        ~joined(e).after(b), forall(u, ~votes(e, b, u)),
        forall((f, u), implies(votes(f, b, u), u.same(v))), shown)),
)),), (Refines("consensus", CONSENSUS, mapping=(
    chosen(v).to(exists((q, b), forall(f, implies(member(q, f), votes(f, b, v))))),)),),
    final=TRUE, axioms=QUORUMS_MEET,
    configurations={"default": Configuration({Acceptor: 3, Ballot: 3, Value: 2})})

UP_TO_NAMES = replace(VOTES, like=VOTES, configurations={"default": Configuration(
    {Acceptor: 3, Ballot: 2, Value: 2}, symmetry=True)})


def safe(ballot: Ballot, deep: int) -> Formula:
    """No other value than `v` is or will be chosen below the ballot, which has so many below it."""
    first = forall(g, ~g.before(ballot))
    if deep == 0:
        return first
    lower, some = Ballot(f"c{deep}"), Majority(f"q{deep}")
    between = all_of(member(some, f), g.before(ballot))
    return any_of(first, exists(some, all_of(
        forall(f, implies(member(some, f), (joined(f) == ballot) | joined(f).after(ballot))),
        any_of(forall((f, g), implies(between, no_vote)), exists(lower, all_of(
            lower.before(ballot), safe(lower, deep - 1),
            forall((f, u), implies(member(some, f) & votes(f, lower, u), u.same(v))),
            forall((f, g), implies(between & lower.before(g), no_vote))))))))


PROVED = replace(VOTES, like=VOTES, tables=(Table(election, rows=(
    VOTES.tables[0].rows[0], replace(VOTES.tables[0].rows[1], when=all_of(
        ~joined(e).after(b), forall(u, ~votes(e, b, u)),
        forall((f, u), implies(votes(f, b, u), u.same(v))), safe(b, 2))))),))

MODELS = (
    Model("ABCorrectness", DELIVERY, 20, "published"),
    Model("AlternatingBit", BIT, 240, "published"),
    Model("InternalMemory", MEMORY, 4_408, "published"),
    Model("FindHighest", HIGHEST, 742, "published"),
    Model("ChangRoberts", LEADER, 137, "published"),
    Model("DiningPhilosophers, clean and dirty forks", MEAL, 67, "published"),
    Model("LockHS, which refines Peterson", STEPS, 28, "published"),
    Model("Voting, which refines Consensus", VOTES, 6_752, "published"),
    Model("Voting, up to names", UP_TO_NAMES, 77, "published",
          no_tlc="the export tells no symmetry"),
    Model("VoteProof", PROVED, 6_962, "published"),
)
