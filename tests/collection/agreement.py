"""Termination, commitment, votes, and tokens on rings."""

from pdproto.spec.examples import two_phase_commit
from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Configuration,
    Int,
    LeadsTo,
    Machine,
    Message,
    Numbers,
    OnRow,
    Rigid,
    Row,
    Sort,
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    count,
    exists,
    forall,
    implies,
    majorities,
)
from pdproto.spec.language.formula import Formula
from tests.check import starting
from tests.collection.model import Model

# ---- Transactions commit


class Manager(Sort):
    """A resource manager."""


class Phase(State):
    WORKING = auto()
    PREPARED = auto()
    COMMITTED = auto()
    ABORTED = auto()


m, n = Manager("m"), Manager("n")
managers = Machine("managers", host=True)
phase = managers.function("phase", Phase, Manager)
COMMIT = System("transaction-commit", "All commit, or all abort.", (Table(managers, rows=(
    Row("prepare", choose=m, when=phase(m) == Phase.WORKING, do=phase(m).to(Phase.PREPARED)),
    Row("commit", choose=m, do=phase(m).to(Phase.COMMITTED), when=all_of(
        phase(m) == Phase.PREPARED,
        forall(n, phase(n).among(Phase.PREPARED, Phase.COMMITTED)))),
    Row("abort", choose=m, do=phase(m).to(Phase.ABORTED), when=all_of(
        phase(m).among(Phase.WORKING, Phase.PREPARED),
        forall(n, phase(n) != Phase.COMMITTED))),
)),), (Always("consistent", ~((phase(m) == Phase.COMMITTED) & (phase(n) == Phase.ABORTED))),),
    final=TRUE, configurations={"default": Configuration({Manager: 3})})

# ---- The vote of a majority


class Index(Sort, ordered=True):
    """A place in the sequence of votes."""


class Vote(Sort):
    """A vote."""


i, j, v = Index("i"), Index("j"), Vote("v")
poll = Machine("poll")
votes = poll.function("votes", Vote, Index, init=ANY)
candidate = poll.function("candidate", Vote, init=ANY)
seen = poll.relation("seen", Index)
lead = poll.function("lead", Int(0, 5))
following = all_of(votes(i) == v, ~seen(i), forall(j, implies(j.before(i), seen(j))))
MAJORITY = System("majority", "One pass finds the only candidate.", (Table(poll, rows=(
    Row("take", choose=(i, v), when=following & (lead() == 0),
        do=[seen(i).to(True), candidate().to(v), lead().to(1)]),
    Row("agree", choose=(i, v), when=all_of(following, lead() > 0, candidate() == v),
        do=[seen(i).to(True), lead().to(lead() + 1)]),
    Row("disagree", choose=(i, v), when=all_of(following, lead() > 0, candidate() != v),
        do=[seen(i).to(True), lead().to(lead() - 1)]),
)),), (Always("only_candidate", implies(
    forall(i, votes(i).unset | seen(i)) & (
        count(i, votes(i) == v) * 2 > count(i, votes(i).is_set)), candidate() == v)),),
    final=forall(i, votes(i).unset | seen(i)),
    init=candidate().is_set & forall((i, j), implies(
        i.before(j) & votes(j).is_set, votes(i).is_set)),
    configurations={"default": Configuration({Index: 5, Vote: 3})})

# ---- Dijkstra's ring that stabilizes


class Counter(Sort, ordered=True):
    """A machine of the ring."""


x, y, z = Counter("x"), Counter("y"), Counter("z")
ring = Machine("ring", host=True)
number = ring.function("number", Int(0, 5), Counter, init=ANY)


def follows(one: Counter, two: Counter) -> Formula:
    """The second machine comes directly before the first one."""
    return two.before(one) & forall(z, ~(two.before(z) & z.before(one)))


def first(one: Counter) -> Formula:
    return forall(z, ~z.before(one))


def last(one: Counter) -> Formula:
    return forall(z, ~one.before(z))


may_move = any_of(
    first(x) & exists(y, last(y) & (number(x) == number(y))),
    exists(y, follows(x, y) & (number(x) != number(y))))
RING = System("stabilizing-ring", "From any state, one machine at a time may move.", (
    Table(ring, rows=(
        Row("first_moves", choose=(x, y), when=all_of(first(x), last(y), number(x) == number(y)),
            do=number(x).to((number(x) + 1) % 6)),
        Row("other_moves", choose=(x, y), when=follows(x, y) & (number(x) != number(y)),
            do=number(x).to(number(y))),
    )),), (Always("some_machine_moves", exists(x, may_move)),
           LeadsTo("stabilizes", TRUE, count(x, may_move) == 1)),
    configurations={"default": Configuration({Counter: 6})})

# ---- Termination with messages


class Node(Sort, ordered=True):
    """A node."""


class Color(State):
    WHITE = auto()
    BLACK = auto()


a, b, c = Node("a"), Node("b"), Node("c")


def begins(node: Node) -> Formula:
    return forall(c, ~c.before(node))


def _ewd998(nodes: int, most: int) -> System:
    """most: of the messages that a node has sent, and of those that wait for it."""
    far = most * (nodes - 1) * nodes
    net = Machine("net", host=True)
    active = net.relation("active", Node, init=ANY)
    color = net.function("color", Color, Node, init=ANY)
    counter = net.function("counter", Int(-most * (nodes - 1), most), Node, init=0)
    pending = net.function("pending", Int(0, most), Node)
    at = net.function("at", Node, init=ANY)
    total = net.function("total", Int(-far, far), init=0)
    token = net.function("token", Color, init=Color.BLACK)
    detected = exists(a, all_of(
        begins(a), at() == a, color(a) == Color.WHITE, ~active(a), token() == Color.WHITE,
        pending(a) == 0, total() + counter(a) == 0))
    return System("ewd998", "Termination on a ring with messages.", (Table(net, rows=(
        Row("initiate", choose=(a, b), when=all_of(
            begins(a), at() == a, forall(c, ~b.before(c)), any_of(
                token() == Color.BLACK, color(a) == Color.BLACK, total() + counter(a) > 0)), do=[
                    at().to(b), total().to(0), token().to(Color.WHITE),
                    color(a).to(Color.WHITE)]),
        *(Row(f"pass_{shade.value}", choose=(a, b), when=all_of(
            at() == a, b.before(a), forall(c, ~(b.before(c) & c.before(a))), ~active(a),
            color(a) == shade), do=[
                at().to(b), total().to(total() + counter(a)), color(a).to(Color.WHITE),
                *([token().to(Color.BLACK)] if shade is Color.BLACK else [])]) for shade in Color),
        # The bounds are those under which TLC counts, too.
        Row("send", choose=(a, b), fair=False, when=all_of(
            active(a), a.differs(b), counter(a) < most, pending(b) < most), do=[
            counter(a).to(counter(a) + 1), pending(b).to(pending(b) + 1)]),
        Row("receive", choose=a, when=pending(a) > 0, do=[
            pending(a).to(pending(a) - 1), counter(a).to(counter(a) - 1), active(a).to(True),
            color(a).to(Color.BLACK)]),
        Row("stop", choose=a, fair=False, when=active(a), do=active(a).to(False)),
    )),), (Always("detected_is_terminated", implies(
        detected, forall(b, ~active(b) & (pending(b) == 0)))),), final=TRUE, init=at().is_set,
        configurations={"default": Configuration({Node: nodes})})


# ---- Paxos, with numbers as ballots


class Acceptor(Sort):
    """A process that votes."""


class Ballot(Numbers, values=Int(0, 1)):
    """A ballot."""


class Value(Sort):
    """What is chosen."""


class Quorum(Sort, of=Acceptor, sets=majorities):
    """Enough acceptors to choose a value."""


k, o, q, r = Acceptor("k"), Acceptor("o"), Quorum("q"), Quorum("r")
d, e, f = Ballot("d"), Ballot("e"), Ballot("f")
u, w = Value("u"), Value("w")
member = Rigid("member", q, k, given=Quorum.members)
leader, acceptor = Machine("leader", d, host=True), Machine("acceptor", k)
joined = acceptor.function("joined", Int(-1, 1))
latest = acceptor.function("latest", Int(-1, 1))
voted = acceptor.function("voted", Value)
prepare = Message("prepare", d, sender=leader, receiver=acceptor)
promise = Message("promise", k, d, sender=acceptor, receiver=leader)
report = Message("report", k, d, e, w, sender=acceptor, receiver=leader)
accept = Message("accept", d, w, sender=leader, receiver=acceptor)
vote = Message("vote", k, d, w, sender=acceptor, receiver=leader)


def chosen(quorum: Quorum, ballot: Ballot, value: Value) -> Formula:
    return forall(k, implies(member(quorum, k), vote(k, ballot, value)))


PAXOS = System("paxos-in-numbers", "Acceptors choose one value at most.", (
    Table(leader, rows=(
        Row("prepare", send=prepare(d)),
        Row("propose", choose=(q, w), send=accept(d, w), when=all_of(
            forall(u, ~accept(d, u)),
            forall(k, implies(member(q, k), promise(k, d) | exists((e, u), report(k, d, e, u)))),
            forall((k, e, u), implies(member(q, k) & report(k, d, e, u), exists((o, f), all_of(
                member(q, o), report(o, d, f, w), f >= e)))))),
    )),
    Table(acceptor, rows=(
        Row("promise", on=prepare(d), when=(d > joined(k)) & (latest(k) == -1),
            do=joined(k).to(d), send=promise(k, d)),
        Row("report", on=prepare(d), choose=w, do=joined(k).to(d),
            when=all_of(d > joined(k), latest(k) >= 0, voted(k) == w),
            send=report(k, d, Ballot(latest(k)), w)),
        Row("vote", on=accept(d, w), when=d >= joined(k), send=vote(k, d, w),
            do=[joined(k).to(d), latest(k).to(d), voted(k).to(w)]),
    )),
), (Always("agreement", implies(chosen(q, d, u) & chosen(r, e, w), u.same(w))),), final=TRUE,
    axioms={"quorums_meet": forall((q, r), exists(k, member(q, k) & member(r, k)))},
    configurations={"default": Configuration({Acceptor: 3, Value: 2})})

# ---- Paxos without leaders, whose acceptors decide


class Round(Numbers, values=Int(0, 2)):
    """A ballot."""


g = Round("g")
hall = Machine("hall", host=True)
called = hall.relation("called", Round)
passed = hall.relation("passed", Acceptor, Round)  # promised, without a vote
told_round = hall.function("told_round", Int(0, 2), Acceptor, Round)  # promised, with the latest
told_value = hall.function("told_value", Value, Acceptor, Round)  # vote
asked, cast = hall.relation("asked", Round, Value), hall.relation("cast", Acceptor, Round, Value)
newest, last_round = (hall.function(name, Int(0, 2), Acceptor) for name in ("newest", "last_round"))
last_value = hall.function("last_value", Value, Acceptor)
decision = hall.function("decision", Value)
all_promised = forall(k, implies(member(q, k), passed(k, g) | told_value(k, g).is_set))
LEADERLESS = System("leaderless", "Acceptors promise, vote and decide.", (Table(hall, rows=(
    Row("call", choose=g, when=(g > 0) & ~called(g), do=called(g).to(True)),
    Row("promise", choose=(k, g), when=all_of(called(g), newest(k) < g, last_value(k).unset),
        do=[newest(k).to(g), passed(k, g).to(True)]),
    Row("show", choose=(k, g, w), when=all_of(called(g), newest(k) < g, last_value(k) == w),
        do=[newest(k).to(g), told_round(k, g).to(last_round(k)),
            told_value(k, g).to(w)]),
    Row("ask", choose=(g, q, w), do=asked(g, w).to(True), when=all_of(
        forall(u, ~asked(g, u)), all_promised, any_of(
            forall(k, implies(member(q, k), told_value(k, g).unset)),
            exists(k, all_of(member(q, k), told_value(k, g) == w, forall(o, implies(
                member(q, o) & told_value(o, g).is_set,
                told_round(o, g) <= told_round(k, g)))))))),
    Row("cast", choose=(k, g, w), when=asked(g, w) & (newest(k) <= g), do=[
        newest(k).to(g), last_round(k).to(g), last_value(k).to(w), cast(k, g, w).to(True)]),
    Row("decide", choose=(g, q, w), do=decision().to(w), when=all_of(
        decision() != w, forall(k, implies(member(q, k), exists(u, cast(k, g, u)))),
        exists(k, member(q, k) & cast(k, g, w)))),
)),), (Always("decided_was_asked", implies(decision() == w, exists(g, asked(g, w)))),
       OnRow("once", "decide", decision().unset)), final=TRUE,
    configurations={"default": Configuration({Acceptor: 4, Value: 3}, symmetry=True)})

MODELS = (
    Model("SimplifiedFastPaxos, its Paxos", LEADERLESS, 1_207, "published",
          no_tlc="the export tells no symmetry"),
    Model("Paxos", PAXOS, 3_921, "published"),
    Model("TCommit", COMMIT, 34, "published"),
    Model("TwoPhase", two_phase_commit.SYSTEM, 288, "published"),
    Model("Majority", MAJORITY, 2_733, "published"),
    Model("EWD426", RING, 6 ** 6, "published"),
    Model("EWD840", starting.SYSTEM, 302, "published",
          frozenset({"never_detected", "always_terminates"})),
    Model("EWD998, 2 nodes", _ewd998(2, 3), 6_876, "TLC"),
    Model("EWD998, 3 nodes", _ewd998(3, 2), 254_374, "TLC"),
    Model("EWD998, 3 nodes, published bounds", _ewd998(3, 3), 1_520_618, "TLC"),
)
