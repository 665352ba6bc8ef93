"""Single-decree Paxos: acceptors choose one value, although any of them may stay silent.

After Lamport, "Paxos Made Simple" (ACM SIGACT News 32(4), 2001).

Rule 1: An acceptor that has promised a ballot takes no part in earlier ones.
Rule 2: A promise reports the latest vote of the acceptor.
Rule 3: A proposer waits for the promises of a quorum, and proposes the value of the latest vote
that they report. It is free to propose any value only if they report none.

Every ballot has a proposer of its own. A value is chosen when a quorum has voted for it in one
ballot. Any two quorums have an acceptor in common, which is an axiom. Messages may
come late, twice or never, and nobody waits for all acceptors.
"""

from typing import Final

from pdproto.spec.examples.voting import (
    QUORUMS_MEET,
    VOTING,
    Acceptor,
    Ballot,
    Value,
    a,
    b,
    c,
    d,
    member,
    out,
    q,
    u,
    v,
    voted,
)
from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    Refines,
    Row,
    Sometimes,
    System,
    Table,
    all_of,
    any_of,
    each,
    exists,
    forall,
    implies,
)

proposer = Machine("proposer", b)
acceptor = Machine("acceptor", a)
learner = Machine("learner")

proposal = proposer.function("proposal", Value)
# The ballot of the latest promise, and the ballots before it, in which the acceptor takes no part.
promised = acceptor.function("promised", Ballot)
left = acceptor.relation("left", Ballot)
# The ballot and the value of the acceptor's latest vote.
latest = acceptor.function("latest", Ballot)
value = acceptor.function("value", Value)
learned = learner.relation("learned", Ballot, Value)

prepare = Message("prepare", b, sender=proposer, receiver=acceptor)
promise = Message("promise", a, b, sender=acceptor, receiver=proposer)
# The same from an acceptor that has voted: its latest vote was for v, in ballot c.
report = Message("report", a, b, c, v, sender=acceptor, receiver=proposer)
accept = Message("accept", b, v, sender=proposer, receiver=acceptor)
vote = Message("vote", a, b, v, sender=acceptor, receiver=learner)

is_new = all_of(promised(a) != b, ~left(a, b))
joined = (promised(a).to(b), each(d, left(a, d).to(True), where=d.before(b)))

PROPOSER: Final = Table(proposer, rows=(
    Row("prepare", on=Call("prepare"), send=[prepare(b)]),
    Row("propose", on=Call("propose", v), choose=(q,), fair=True,
        when=[proposal(b).unset, forall(a, implies(member(q, a), promise(a, b)))],
        do=[proposal(b).to(v)], send=[accept(b, v)],
        why="no acceptor of the quorum has voted, so no earlier ballot can choose a value"),
    Row("adopt", choose=(q, c, v),
        when=[proposal(b).unset,
              exists(a, all_of(member(q, a), report(a, b, c, v))),
              forall(a, implies(member(q, a), any_of(
                  promise(a, b), exists((d, u), all_of(report(a, b, d, u), ~c.before(d))))))],
        do=[proposal(b).to(v)], send=[accept(b, v)],
        why="an earlier ballot may have chosen this value, and no other"),
))

ACCEPTOR: Final = Table(acceptor, rows=(
    Row("promise", on=prepare(b), when=[is_new, any_of(latest(a).unset, value(a).unset)],
        do=joined, send=[promise(a, b)]),
    Row("report", on=prepare(b), choose=(c, v),
        when=[is_new, latest(a) == c, value(a) == v],
        do=joined, send=[report(a, b, c, v)]),
    Ignore(prepare(b), when=any_of(promised(a) == b, left(a, b)),
           why="the acceptor has promised this ballot or a later one"),
    Row("vote", on=accept(b, v), when=~left(a, b),
        do=[*joined, latest(a).to(b), value(a).to(v)], send=[vote(a, b, v)]),
    Ignore(accept(b, v), when=left(a, b), why="the acceptor has promised a later ballot"),
))

LEARNER: Final = Table(learner, rows=(
    Row("learn", choose=(q, b, v),
        when=[forall(a, implies(member(q, a), vote(a, b, v))), ~learned(b, v)],
        do=[learned(b, v).to(True)]),
))

PROPERTIES: Final = (
    Refines("voting", VOTING, (voted(a, b, v).to(vote(a, b, v)), out(a, b).to(left(a, b))),
            why="an acceptor votes only as the abstract system lets it"),
    Always("agreement", implies(all_of(learned(b, v), learned(c, u)), u.same(v)),
           why="one value is chosen at most, and for ever"),
    Always("validity", implies(learned(b, v), accept(b, v)),
           why="a chosen value has been proposed"),
    Sometimes("a_value_is_learned", learned(b, v)),
    Sometimes("two_values_are_proposed", all_of(accept(b, u), accept(c, v), u.differs(v))),
    LeadsTo("the_last_ballot_decides",
            all_of(prepare(b), forall(c, ~b.before(c))), exists((c, v), learned(c, v)),
            why="a ballot decides unless a later one disturbs it"),
)

SYSTEM: Final = System(
    "paxos",
    "Single-decree Paxos: acceptors choose one value, although any of them may stay silent.",
    tables=(PROPOSER, ACCEPTOR, LEARNER),
    properties=PROPERTIES,
    final=exists((b, v), learned(b, v)),
    axioms=QUORUMS_MEET,
    configurations={
        "default": Configuration({Acceptor: 3, Ballot: 2, Value: 2}),
    },
)
