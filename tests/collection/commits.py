"""Atomic commitment, with a coordinator and without one; broadcast; a handshake; an echo."""

from itertools import chain, combinations

from pdproto.spec.language import (
    ANY,
    TRUE,
    Always,
    Configuration,
    Formula,
    Int,
    LeadsTo,
    Machine,
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
    each,
    exists,
    forall,
    implies,
    size,
)
from tests.collection.model import Model

# ---- The handshake of a producer and a consumer

wires = Machine("wires")
produced, consumed = wires.function("produced", Int(0, 1)), wires.function("consumed", Int(0, 1))
HANDSHAKE = System("handshake", "A producer and a consumer alternate.", (Table(wires, rows=(
    Row("produce", when=produced() == consumed(), do=produced().to(1 - produced())),
    Row("consume", when=produced() != consumed(), do=consumed().to(1 - consumed())),
)),), (LeadsTo("is_consumed", produced() != consumed(), produced() == consumed()),),
    configurations={"default": Configuration({})})

# ---- Atomic commitment, by a simple broadcast (SB) and without blocking (NB)


class Member(Sort):
    """A participant."""


class Decision(State):
    UNDECIDED = auto()
    COMMIT = auto()
    ABORT = auto()


class Heard(State):
    WAITING = auto()
    YES = auto()
    NO = auto()


i, j, k = Member("i"), Member("j"), Member("k")


def commitment(*, forwarded: bool) -> System:
    """forwarded: participants tell each other what they heard, and then decide."""
    host = Machine("host", host=True)
    votes_yes = host.relation("votes_yes", Member, init=ANY)
    alive = host.relation("alive", Member, init=True)
    decided = host.function("decided", Decision, Member)
    voted, asked = host.relation("voted", Member), host.relation("asked", Member)
    heard, told = host.function("heard", Heard, Member), host.function("told", Decision, Member)
    decision, up = host.function("decision", Decision), host.relation("up", init=True)
    forward = host.function("forward", Decision, Member, Member)  # by the first, to the second
    open_, unset = decision() == Decision.UNDECIDED, Decision.UNDECIDED
    hears = all_of(up(), open_, forall(j, asked(j)), heard(i) == Heard.WAITING)
    waits = alive(i) & (decided(i) == unset)
    rows: tuple[Row, ...] = (
        Row("ask", choose=i, when=up() & ~asked(i), do=asked(i).to(True)),
        *(Row(f"hear_{vote.value}", choose=i, do=heard(i).to(vote),
              when=all_of(hears, voted(i), votes_yes(i) if vote is Heard.YES else ~votes_yes(i)))
          for vote in (Heard.YES, Heard.NO)),
        Row("detect", choose=i, when=all_of(hears, ~alive(i), ~voted(i)),
            do=decision().to(Decision.ABORT)),
        Row("commit", when=all_of(up(), open_, forall(j, heard(j) == Heard.YES)),
            do=decision().to(Decision.COMMIT)),
        Row("abort", when=all_of(up(), open_, forall(j, heard(j) != Heard.WAITING),
                                 exists(j, heard(j) == Heard.NO)),
            do=decision().to(Decision.ABORT)),
        Row("tell", choose=i, when=all_of(up(), decision() != unset, told(i) == unset),
            do=told(i).to(decision())),
        Row("vote", choose=i, when=all_of(alive(i), asked(i), ~voted(i)), do=voted(i).to(True)),
        Row("abort_alone", choose=i, when=all_of(waits, voted(i), ~votes_yes(i)),
            do=decided(i).to(Decision.ABORT)),
        Row("abort_unasked", choose=i, when=all_of(waits, ~up(), ~asked(i)),
            do=decided(i).to(Decision.ABORT)),
        Row("die", choose=i, when=alive(i), fair=False, do=alive(i).to(False)),
        Row("coordinator_dies", when=up(), fair=False, do=up().to(False)),
    )
    simple = (Row("decide", choose=i, when=waits & (told(i) != unset), do=decided(i).to(told(i))),)
    told_on = (
        Row("pass_on", choose=(i, j), when=all_of(
            i.differs(j), alive(i), forward(i, i) != unset, forward(i, j) == unset),
            do=forward(i, j).to(forward(i, i))),
        Row("take_over", choose=(i, j), when=all_of(
            i.differs(j), alive(i), forward(i, i) == unset, forward(j, i) != unset),
            do=forward(i, i).to(forward(j, i))),
        Row("take", choose=i, when=all_of(alive(i), forward(i, i) == unset, told(i) != unset),
            do=forward(i, i).to(told(i))),
        Row("decide", choose=i, do=decided(i).to(forward(i, i)),
            when=all_of(alive(i), forall(j, forward(i, j) != unset))),
        Row("give_up", choose=i, do=decided(i).to(Decision.ABORT), when=all_of(
            waits, ~up(), forall(j, implies(alive(j), told(j) == unset)),
            forall((j, k), implies(~alive(j) & alive(k), forward(j, k) == unset)))),
    )
    ends = any_of(decided(i) != unset, ~alive(i))
    return System(
        f"commitment-{'forwarded' if forwarded else 'simple'}", "All commit, or all abort.",
        (Table(host, rows=(*rows, *(told_on if forwarded else simple))),), (
            Always("agreement", ~all_of(
                decided(i) == Decision.COMMIT, decided(j) == Decision.ABORT)),
            Always("all_voted_yes", implies(decided(i) == Decision.COMMIT, votes_yes(j))),
            LeadsTo("all_decide", TRUE, ends)),
        final=TRUE, configurations={"default": Configuration({Member: 2 if forwarded else 3})})


# ---- Commitment by counting votes, with a detector of failures


class Process(Sort):
    """A process."""


class At(State):
    NO = auto()
    YES = auto()
    SENT = auto()
    ABORT = auto()
    COMMIT = auto()
    FAILED = auto()


p, q = Process("p"), Process("q")


def counted_votes(processes: int) -> System:
    """Each process counts the votes that it has received."""
    many = Int(0, processes)
    host = Machine("host", host=True)
    at = host.function("at", At, Process, init=ANY)
    suspects = host.relation("suspects", Process, init=ANY)
    sent = {vote: host.function(f"sent_{vote.value}", many) for vote in (At.YES, At.NO)}
    failed = {vote: host.function(f"failed_{vote.value}", many) for vote in (At.YES, At.NO)}
    got = {vote: host.function(f"got_{vote.value}", many, Process) for vote in (At.YES, At.NO)}
    rows = [
        Row("fail", choose=p, fair=False, do=at(p).to(At.FAILED),
            when=at(p).among(At.SENT, At.ABORT, At.COMMIT)),
        Row("suspect", choose=p, when=suspects(p) & at(p).among(At.YES, At.NO),
            do=at(p).to(At.ABORT)),
        Row("abort", choose=p, when=(at(p) == At.SENT) & (got[At.NO](p) > 0),
            do=at(p).to(At.ABORT)),
        Row("commit", choose=p, do=at(p).to(At.COMMIT), when=all_of(
            at(p) == At.SENT, got[At.NO](p) == 0, got[At.YES](p) >= size(Process)))]
    for vote in (At.YES, At.NO):
        name = vote.value
        rows += [
            Row(f"fail_{name}", choose=p, when=at(p) == vote, fair=False,
                do=[at(p).to(At.FAILED), failed[vote]().to(failed[vote]() + 1)]),
            Row(f"send_{name}", choose=p, when=(at(p) == vote) & ~suspects(p),
                do=[at(p).to(At.SENT), sent[vote]().to(sent[vote]() + 1)]),
            Row(f"receive_{name}", choose=p, do=got[vote](p).to(got[vote](p) + 1),
                when=(at(p) == At.SENT) & (got[vote](p) < sent[vote]() + failed[vote]()))]
    return System(
        "counted-votes", "All commit, or none.", (Table(host, rows=tuple(rows)),),
        (Always("agreement", ~((at(p) == At.COMMIT) & (at(q) == At.ABORT))),),
        init=at(p).among(At.YES, At.NO), final=TRUE,
        configurations={"default": Configuration({Process: processes})})


# ---- What a process has received grows by any set of messages


def subsets(number: int) -> tuple[tuple[int, ...], ...]:
    """Every set of elements."""
    return tuple(chain.from_iterable(
        combinations(range(number), most) for most in range(number + 1)))


class Senders(Sort, of=Process, sets=subsets):
    """A set of processes."""


s, t = Senders("s"), Senders("t")
within = Rigid("within", s, p, given=Senders.members)


class Voice(State):
    SILENT = auto()
    ASKED = auto()
    SENT = auto()
    ACCEPTED = auto()


def broadcast(processes: int, faulty: int) -> System:
    """Processes echo a message; any one of these many is believed if enough others echo it, too."""
    host = Machine("host", host=True)
    voice = host.function("voice", Voice, Process, init=ANY)
    correct = host.relation("correct", Process, init=ANY)
    sent, got = host.relation("sent", Process), host.relation("got", Process, Process)
    arrives = within(s, q) & (sent(q) | ~correct(q))
    heard = count(q, got(p, q) | arrives)
    receive = each(q, got(p, q).to(got(p, q) | arrives))
    early = voice(p).among(Voice.SILENT, Voice.ASKED)
    few, most = processes - 2 * faulty, processes - faulty
    return System("echoed-broadcast", "All accept a message, or none.", (Table(host, rows=(
        Row("asked", choose=(p, s), when=correct(p) & (voice(p) == Voice.ASKED),
            do=[receive, voice(p).to(Voice.SENT), sent(p).to(True)]),
        Row("echo", choose=(p, s), when=all_of(correct(p), early, heard >= few, heard < most),
            do=[receive, voice(p).to(Voice.SENT), sent(p).to(True)]),
        Row("accept_and_echo", choose=(p, s), when=all_of(correct(p), early, heard >= most),
            do=[receive, voice(p).to(Voice.ACCEPTED), sent(p).to(True)]),
        Row("accept", choose=(p, s), when=all_of(
            correct(p), voice(p) == Voice.SENT, heard >= most),
            do=[receive, voice(p).to(Voice.ACCEPTED)]),
    )),), (Always("few_echo", implies(sent(p), correct(p))),), final=TRUE,
        init=all_of(voice(p).among(Voice.SILENT, Voice.ASKED), count(q, correct(q)) == most),
        configurations={"default": Configuration({Process: processes})})


def voted_by_messages(processes: int) -> System:
    """What a process has received grows in each step, and its detector may change its mind."""
    host = Machine("host", host=True)
    at = host.function("at", At, Process, init=ANY)
    suspects = host.relation("suspects", Process, init=ANY)
    sent = {vote: host.relation(f"sent_{vote.value}", Process) for vote in (At.YES, At.NO)}
    got = {vote: host.relation(f"got_{vote.value}", Process, Process) for vote in (At.YES, At.NO)}
    arrives = {vote: got[vote](p, q) | (within(one, q) & sent[vote](q))
               for vote, one in ((At.YES, s), (At.NO, t))}
    receive = [each(q, got[vote](p, q).to(arrives[vote])) for vote in (At.YES, At.NO)]

    def step(name: str, when: Formula, to: At, *, doubts: bool, vote: At | None = None) -> Row:
        return Row(f"{name}_{'doubting' if doubts else 'sure'}", choose=(p, s, t), when=when,
                   do=[*receive, suspects(p).to(doubts), at(p).to(to),
                       *([] if vote is None else [sent[vote](p).to(True)])])

    rows = [
        row for doubts in (False, True) for row in (
            step("yes", at(p) == At.YES, At.SENT, doubts=doubts, vote=At.YES),
            step("no", at(p) == At.NO, At.SENT, doubts=doubts, vote=At.NO),
            step("fail", at(p) != At.FAILED, At.FAILED, doubts=doubts),
            step("abort", all_of(at(p) == At.SENT, TRUE if doubts else exists(q, got[At.NO](p, q))),
                 At.ABORT, doubts=doubts),
            Row(f"receive_{'doubting' if doubts else 'sure'}", choose=(p, s, t),
                do=[*receive, suspects(p).to(doubts)]))]
    rows.append(step("commit", all_of(at(p) == At.SENT, forall(q, arrives[At.YES])), At.COMMIT,
                     doubts=False))
    return System("voted-by-messages", "All commit, or none.", (Table(host, rows=tuple(rows)),),
                  (Always("all_voted_yes", implies(at(p) == At.COMMIT, ~sent[At.NO](q))),),
                  init=at(p).among(At.YES, At.NO), final=TRUE,
                  configurations={"default": Configuration({Process: processes})})


# ---- An echo finds a tree


class Node(Sort):
    """A node of a graph in which all are neighbours."""


class Step(State):
    BEGINS = auto()
    RECEIVES = auto()
    ENDS = auto()
    DONE = auto()


a, b = Node("a"), Node("b")
root = Rigid("root", a, given=lambda _: {(0,)})


def echo(nodes: int) -> System:
    """With so many nodes, of which the first one begins."""
    host = Machine("host", host=True)
    step = host.function("step", Step, Node)
    parent = host.function("parent", Node, Node)
    asks, answers = (host.relation(name, Node, Node) for name in ("asks", "answers"))  # to, from
    child = host.relation("child", Node, Node)
    got = host.function("got", Int(0, nodes - 1), Node)
    waits = all_of(step(a) == Step.RECEIVES, got(a) < nodes - 1)
    first = ~root(a) & (got(a) == 0)
    c = Node("c")
    return System("echo", "A node asks all, and each asks on.", (Table(host, rows=(
        Row("begin", choose=a, when=(step(a) == Step.BEGINS) & root(a), do=[
            step(a).to(Step.RECEIVES), each(b, asks(b, a).to(True), where=b.differs(a))]),
        Row("wait", choose=a, when=(step(a) == Step.BEGINS) & ~root(a),
            do=step(a).to(Step.RECEIVES)),
        Row("be_asked_first", choose=(a, b), when=all_of(waits, first, asks(a, b)), do=[
            each(c, asks(c, a).to(True), where=c.differs(a) & c.differs(b)), asks(a, b).to(False),
            got(a).to(got(a) + 1), parent(a).to(b)]),
        Row("be_asked", choose=(a, b), when=all_of(waits, ~first, asks(a, b)),
            do=[asks(a, b).to(False), got(a).to(got(a) + 1)]),
        Row("be_answered", choose=(a, b), when=all_of(waits, ~first, answers(a, b)),
            do=[answers(a, b).to(False), got(a).to(got(a) + 1), child(a, b).to(True)]),
        Row("finish", choose=a, do=step(a).to(Step.ENDS),
            when=(step(a) == Step.RECEIVES) & (got(a) == nodes - 1)),
        Row("answer", choose=(a, b), when=all_of(step(a) == Step.ENDS, ~root(a), parent(a) == b),
            do=[step(a).to(Step.DONE), answers(b, a).to(True)]),
        Row("end", choose=a, when=(step(a) == Step.ENDS) & root(a), do=step(a).to(Step.DONE)),
    )),), (Always("a_child_has_its_parent", implies(child(a, b), parent(b) == a)),
           Always("the_root_has_none", implies(root(a), parent(a).unset)),
           LeadsTo("all_end", TRUE, forall(a, step(a) == Step.DONE))),
        final=forall(a, step(a) == Step.DONE), configurations={"default": Configuration({
            Node: nodes})})


MODELS = (
    Model("TwoPhase, a handshake", HANDSHAKE, 4, "published"),
    Model("ACP_SB", commitment(forwarded=False), 54_944, "published", frozenset({"all_decide"})),
    Model("ACP_NB", commitment(forwarded=True), 4_284, "published"),
    Model("nbacg_guer01", counted_votes(3), 24_922, "published"),
    Model("nbacc_ray97", voted_by_messages(2), 3_016, "published"),
    Model("bcastByz", broadcast(4, 1), 14_424, "published"),
    Model("Echo", echo(3), 75, "published"),
)
