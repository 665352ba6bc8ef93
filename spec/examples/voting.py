"""Consensus, and voting in ballots: two abstract systems that Paxos refines.

After Lamport's TLA+ specifications Consensus and Voting. Paxos (paxos.py) says how acceptors learn
what they need by messages; voting says only what they may do; consensus says what it is for.
"""

from typing import Final

from pdproto.spec.language import (
    Always,
    Configuration,
    Machine,
    Refines,
    Rigid,
    Row,
    Sometimes,
    Sort,
    System,
    Table,
    all_of,
    any_of,
    each,
    exists,
    forall,
    implies,
    majorities,
)


class Acceptor(Sort):
    """A process that votes."""


class Quorum(Sort, of=Acceptor, sets=majorities):
    """A set of acceptors that is large enough to choose a value."""


class Ballot(Sort, ordered=True):
    """An attempt to have a value chosen: its number, and the proposer that it belongs to."""


class Value(Sort):
    """A value that may be chosen."""


a, e = Acceptor("a"), Acceptor("e")
q, r = Quorum("q"), Quorum("r")
b, c, d = Ballot("b"), Ballot("c"), Ballot("d")
u, v = Value("u"), Value("v")

member = Rigid("member", q, a, given=Quorum.members)
QUORUMS_MEET: Final = {
    "quorums_meet": forall((q, r), exists(a, all_of(member(q, a), member(r, a))))}

choice = Machine("choice", host=True)
chosen = choice.relation("chosen", Value)

CONSENSUS: Final = System(
    "consensus", "At most one value is chosen, once and for ever.",
    tables=(Table(choice, rows=(
        Row("choose", choose=v, when=forall(u, ~chosen(u)), do=chosen(v).to(True)),
    )),),
    properties=(
        Always("one_value", implies(all_of(chosen(u), chosen(v)), u.same(v))),
        Sometimes("a_value_is_chosen", chosen(v)),
    ),
    final=exists(v, chosen(v)),
    configurations={"default": Configuration({Value: 2})},
)

ballots = Machine("ballots", host=True)
voted = ballots.relation("voted", Acceptor, Ballot, Value)
out = ballots.relation("out", Acceptor, Ballot)  # the acceptor votes no more in this ballot

# No ballot before b chooses another value than v: of each quorum, an acceptor has left it unvoted.
SAFE: Final = forall((q, c, u), implies(
    all_of(c.before(b), u.differs(v)),
    exists(e, all_of(member(q, e), out(e, c), ~voted(e, c, u)))))

VOTING: Final = System(
    "voting", "Acceptors vote in ballots, each of which can choose one value, and no other.",
    tables=(Table(ballots, rows=(
        Row("join", choose=(a, b), do=each(d, out(a, d).to(True), where=d.before(b))),
        Row("vote", choose=(a, b, v),
            when=[~out(a, b), forall((e, u), implies(voted(e, b, u), u.same(v))), SAFE],
            do=[voted(a, b, v).to(True), each(d, out(a, d).to(True), where=d.before(b))]),
    )),),
    properties=(
        Refines("consensus", CONSENSUS, chosen(v).to(
            exists((q, b), forall(a, implies(member(q, a), voted(a, b, v))))),
            why="a value is chosen when a quorum has voted for it in one ballot"),
        Sometimes("two_values_have_votes", all_of(voted(a, b, u), voted(e, c, v), u.differs(v))),
    ),
    final=forall((a, b), any_of(out(a, b), forall(c, ~b.before(c)))),
    axioms=QUORUMS_MEET,
    configurations={"default": Configuration({Acceptor: 3, Ballot: 2, Value: 2})},
)
