"""A value is chosen when a quorum has voted for it: a system that needs `for some` under `for all`.

Any two quorums meet, which is an axiom. The siblings below have axioms that cannot hold.
"""

from typing import Any, Final

from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Formula,
    LeadsTo,
    Machine,
    Message,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    Sort,
    System,
    Table,
    Tuples,
    exists,
    forall,
    implies,
)
from pdproto.spec.language.ranking import Help, Ranking


class Node(Sort):
    """A process that votes once."""


class Quorum(Sort):
    """A set of nodes that is large enough."""


class Value(Sort):
    """A value that the nodes may choose."""


class Step(Sort, ordered=True):
    """Only axioms use it."""


n, m, q, r = Node("n"), Node("m"), Quorum("q"), Quorum("r")
v, u, s, t = Value("v"), Value("u"), Step("s"), Step("t")


def pairs(sizes: Sizes) -> Tuples:
    """Quorum i is every node but node i: of three nodes, any two."""
    return {(i, k) for i in range(sizes[Quorum]) for k in range(sizes[Node]) if i != k}


member = Rigid("member", q, n, given=pairs)
node, counter = Machine("node", n), Machine("counter")
chosen = counter.relation("chosen", Value)
done = counter.relation("done")
vote = Message("vote", n, v, sender=node, receiver=counter)

NODE: Final = Table(node, rows=(
    Row("cast", on=Call("cast", v), when=forall(u, ~vote(n, u)), send=[vote(n, v)]),
))
COUNTER: Final = Table(counter, rows=(
    Row("choose", choose=(q, v), when=[forall(n, implies(member(q, n), vote(n, v))), ~chosen(v)],
        do=[chosen(v).to(True)]),
    Row("finish", on=Call("finish"), when=[exists(v, chosen(v)), ~done()], do=[done().to(True)]),
))
MEET: Final = forall((q, r), exists(n, member(q, n) & member(r, n)))


def voting(name: str, **axioms: Formula) -> System:
    """The system with these axioms."""
    return System(
        name, "A value is chosen when a quorum has voted for it.",
        tables=(NODE, COUNTER),
        properties=(
            Always("one_is_chosen", implies(chosen(v) & chosen(u), v.same(u))),
            Sometimes("chosen_at_all", chosen(v)),
            LeadsTo("what_all_want_is_chosen", forall(n, vote(n, v)), chosen(v)),
        ),
        final=exists(v, chosen(v)) | forall(n, exists(v, vote(n, v))),
        axioms=axioms,
        configurations={"default": Configuration({Node: 3, Quorum: 3, Value: 2})},
    )


LEMMAS: Final = (
    Always("one_vote_each", implies(vote(n, v) & vote(n, u), v.same(u))),
    Always("a_quorum_chose", implies(
        chosen(v), exists(q, forall(n, implies(member(q, n), vote(n, v)))))),
)
SYSTEM: Final = voting("majority-vote", quorums_meet=MEET)
ASSUMED_OF_STEPS: Final[dict[str, Formula]] = {"none_is_last": forall(s, exists(t, s.before(t)))}
# No quorum has a member, so that no two of them meet. `idle` has no part in it.
CONTRADICTORY: Final = voting(
    "contradictory", idle=forall(q, q.same(q)), quorums_meet=MEET, no_members=~member(q, n))
# The same contradiction inside one axiom.
IN_ONE: Final = voting("in-one", both=MEET & forall((q, n), ~member(q, n)))
# Only infinitely many elements satisfy it, of which no run has any.
ENDLESS: Final = voting("endless", quorums_meet=MEET, **ASSUMED_OF_STEPS)

HELPERS: Final[tuple[Any, ...]] = (Help("choose"),)
RANKED: Final = Ranking(
    "what_all_want_is_chosen", helpers=HELPERS, assumed={"nobody": forall(n, ~n.same(n))})
