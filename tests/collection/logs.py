"""Logs and queues of one's own: sequences as values."""

from collections.abc import Iterator
from functools import partial
from itertools import combinations, product

from pdproto.spec.language import (
    TRUE,
    Always,
    Configuration,
    Formula,
    Int,
    Machine,
    Rigid,
    Row,
    Seq,
    Sort,
    System,
    Table,
    all_of,
    any_of,
    count,
    each,
    if_then_else,
    implies,
    majorities,
    size,
)
from pdproto.spec.language.terms import Term
from tests.collection.model import Model, reached

# ---- Raft's replication of logs


class Server(Sort):
    """A server with a log."""


class Quorum(Sort, of=Server, sets=majorities):
    """A majority."""


MOST = 2  # entries of a log, and terms
s, v, q = Server("s"), Server("v"), Quorum("q")
member = Rigid("member", q, s, given=Quorum.members)
raft = Machine("raft", host=True)
term = raft.function("term", Int(0, MOST), Server)
leads = raft.relation("leads", Server)
log = raft.function("log", Seq(Int(1, MOST), most=MOST), Server)
committed = raft.function("committed", Int(0, MOST), Server)


def last_term(of: Server) -> Term:
    last: Term = log(of).last
    return if_then_else(log(of).empty, 0, last)


def up_to_date(one: Server, two: Server) -> Formula:
    """The first server may be elected with the vote of the second one."""
    return any_of(last_term(one) > last_term(two), all_of(
        last_term(one) == last_term(two), log(one).length >= log(two).length))


def agrees(one: Server, two: Server, length: int) -> Formula:
    """Both have so many entries, and they are equal."""
    return all_of(log(one).length >= length, log(two).length >= length, *(
        log(one).at(k) == log(two).at(k) for k in range(length)))


def follows(one: Server, two: Server) -> Formula:
    """The second server takes what the first one sends, as its leader."""
    return all_of(leads(one), one.differs(two), term(two) <= term(one))


JOINS = [term(v).to(term(s)), leads(v).to(False)]
RAFT = System("raft", "A leader replicates its log.", (Table(raft, rows=(
    Row("elect", choose=(s, q), when=[
        term(s) < MOST, member(q, s), count(v, all_of(
            member(q, v), term(v) <= term(s), up_to_date(s, v))) == count(v, member(q, v))],
        do=[each(v, term(v).to(term(s) + 1), where=member(q, v)),
            each(v, leads(v).to(False), where=member(q, v)), leads(s).to(True)]),
    Row("write", choose=s, when=leads(s) & ~log(s).full, do=log(s).append(term(s))),
    Row("copy", choose=(s, v), do=[log(v).append(log(s).at(log(v).length)), *JOINS], when=[
        follows(s, v), log(v).length < log(s).length, any_of(*(
            all_of(log(v).length == k, agrees(s, v, k)) for k in range(MOST)))]),
    Row("cut", choose=(s, v), do=[log(v).keep(log(v).length - 1), *JOINS], when=[
        follows(s, v), any_of(*(all_of(
            log(s).length > k, log(v).length > k, log(s).at(k) != log(v).at(k))
            for k in range(MOST)))]),
    *(Row(f"commit_{k}", choose=s, do=committed(s).to(k), when=[
        leads(s), committed(s) < k, log(s).length >= k, log(s).at(k - 1) == term(s),
        count(v, agrees(s, v, k)) * 2 > size(Server)]) for k in range(1, MOST + 1)),
    *(Row(f"learn_{k}", choose=(s, v), do=committed(v).to(k), when=[
        follows(s, v), term(v) == term(s), committed(v) < k, committed(s) >= k, agrees(s, v, k)])
      for k in range(1, MOST + 1)),
)),), (
    Always("one_leader_of_a_term", implies(
        all_of(leads(s), leads(v), term(s) == term(v)), s.same(v))),
    Always("logs_match", all_of(*(implies(
        all_of(log(s).length > k, log(v).length > k, log(s).at(k) == log(v).at(k)),
        agrees(s, v, k)) for k in range(MOST)))),
    Always("committed_entries_agree", all_of(*(implies(
        all_of(committed(s) >= k, committed(v) >= k), agrees(s, v, k))
        for k in range(1, MOST + 1)))),
), final=TRUE, configurations={"default": Configuration({Server: 3})})

Node = tuple[int, bool, tuple[int, ...], int]  # term, leads, log, committed
SERVERS = 3


def _raft(state: tuple[Node, ...]) -> Iterator[tuple[Node, ...]]:
    for i, (term, leads, log, known) in enumerate(state):
        yield from _elected(state, i)
        if leads and len(log) < MOST:
            yield _with(state, {i: (term, leads, (*log, term), known)})
        for k in range(known + 1, len(log) + 1) if leads else ():
            alike = sum(node[2][:k] == log[:k] for node in state)
            if log[k - 1] == term and alike * 2 > SERVERS:
                yield _with(state, {i: (term, leads, log, k)})
        for j, node in enumerate(state):
            if leads and i != j and node[0] <= term:
                for after in _followed(state[i], node):
                    yield _with(state, {j: after})


def _with(state: tuple[Node, ...], changed: dict[int, Node]) -> tuple[Node, ...]:
    return tuple(changed.get(i, node) for i, node in enumerate(state))


def _elected(state: tuple[Node, ...], i: int) -> Iterator[tuple[Node, ...]]:
    term, _, log, _ = state[i]
    for quorum in combinations(range(SERVERS), SERVERS // 2 + 1):
        votes = (state[j][0] <= term and (log[-1:], len(log)) >= (
            state[j][2][-1:], len(state[j][2])) for j in quorum)
        if i in quorum and term < MOST and all(votes):
            yield _with(state, {j: (term + 1, j == i, *state[j][2:]) for j in quorum})


def _followed(leader: Node, node: Node) -> Iterator[Node]:
    """A follower copies an entry, cuts its log, or learns of what is committed."""
    term, _, log, committed = leader
    other, led, entries, known = node
    if len(entries) < len(log) and log[:len(entries)] == entries:
        yield term, False, log[:len(entries) + 1], known
    if any(one != two for one, two in zip(log, entries, strict=False)):
        yield term, False, entries[:-1], known
    for k in range(known + 1, committed + 1):
        if other == term and entries[:k] == log[:k]:
            yield other, led, entries, k


# ---- A bounded buffer between producers and consumers: a queue of one's own


class Item(Sort):
    """Something that is produced."""


i = Item("i")
buffer = Machine("buffer")
queue = buffer.function("queue", Seq(Item, most=3))
BUFFER = System("buffer", "A queue of three places.", (Table(buffer, rows=(
    Row("put", choose=i, when=~queue().full, do=queue().append(i)),
    Row("get", when=~queue().empty, do=queue().tail()),
)),), configurations={"default": Configuration({Item: 2})})

# ---- Sorting by exchanges of neighbours

places = Machine("places")
values = places.function("values", Seq(Int(1, 3), most=3))
SORTING = System("sorting", "Neighbours in the wrong order change places.", (Table(places, rows=(
    *(Row(f"read_{n}", when=~values().full, do=values().append(n)) for n in (1, 2, 3)),
    *(Row(f"swap_{k}", when=values().full & (values().at(k) > values().at(k + 1)),
          do=[values().at(k).to(values().at(k + 1)), values().at(k + 1).to(values().at(k))])
      for k in (0, 1)),
)),), (Always("full_after_swaps", values().length <= 3),),
    final=values().full & (values().at(0) <= values().at(1)) & (values().at(1) <= values().at(2)),
    configurations={"default": Configuration({})})

MODELS = (
    Model("Raft's replication of logs", RAFT, 2_953, "a plain search",
          search=partial(reached, [((0, False, (), 0),) * SERVERS], _raft)),
    Model("a bounded buffer", BUFFER, sum(2 ** n for n in range(4)), "each content of the queue"),
    Model("sorting by exchanges", SORTING, sum(len([*product((1, 2, 3), repeat=n)])
                                               for n in range(4)), "each sequence of 3 values"),
)
