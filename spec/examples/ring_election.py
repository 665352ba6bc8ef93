"""Leader election in a ring: the nodes agree on the one with the highest id.

After Chang and Roberts, "An improved algorithm for decentralized extrema-finding in circular
configurations of processes" (Communications of the ACM 22(5), 1979).

Rule 1: A node gets messages from the node before it on the ring, and sends to the node after it.
Rule 2: A proposal travels on past lower nodes, and ends at a higher one.
Rule 3: A node whose own proposal comes back has won, and announces it once around the ring.

Any nodes may start, at any time, even all of them. The ring is reliable: every message arrives,
though perhaps late, more than once, and out of order.
"""

from typing import Final

from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    Reject,
    Rigid,
    Row,
    Sizes,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    Tuples,
    all_of,
    auto,
    each,
    exists,
    forall,
    implies,
)


class Node(Sort, ordered=True):
    """A process on the ring. Its place in the order is its id."""


class Role(State):
    ASLEEP = auto()
    CANDIDATE = auto()
    BEATEN = auto()
    FOLLOWER = auto()
    LEADER = auto()


def downward(sizes: Sizes) -> Tuples:
    """Each node sends to the one below it, the worst case: proposals travel the farthest."""
    size = sizes[Node]
    return {(node, (node - 1) % size) for node in range(size)}


def upward(sizes: Sizes) -> Tuples:
    """Each node sends to the one above it, the best case: all proposals but one end at once."""
    size = sizes[Node]
    return {(node, (node + 1) % size) for node in range(size)}


# n is the node itself, p the one before it, m the one after it, k the one that a message names.
k, m, n, p = Node("k"), Node("m"), Node("n"), Node("p")

next = Rigid("next", n, m, given=downward)  # noqa: A001 - the usual name for it

node = Machine("node", n)

role = node.function("role", Role, edges={
    Role.ASLEEP: (Role.CANDIDATE, Role.BEATEN),
    Role.CANDIDATE: (Role.BEATEN, Role.LEADER),
    Role.BEATEN: (Role.FOLLOWER,),
})
follows = node.relation("follows", Node)

propose = Message("propose", n, m, k, sender=node, receiver=node.at(m), reliable=True)
elected = Message("elected", n, m, k, sender=node, receiver=node.at(m), reliable=True)

NODE: Final = Table(node, state=role, rows=(
    Row("start", on=Call("start"), at=Role.ASLEEP, to=Role.CANDIDATE,
        send=[each(m, propose(n, m, n), where=next(n, m))]),
    Row("wake_up", on=propose(p, n, k), at=Role.ASLEEP, to=Role.CANDIDATE, when=k.before(n),
        send=[each(m, propose(n, m, n), where=next(n, m))],
        why="a lower node cannot win, so it proposes itself instead"),
    Row("pass_on", on=propose(p, n, k), at=(Role.ASLEEP, Role.CANDIDATE, Role.BEATEN),
        to=Role.BEATEN, when=n.before(k),
        send=[each(m, propose(n, m, k), where=next(n, m))]),
    Ignore(propose(p, n, k), at=(Role.CANDIDATE, Role.BEATEN), when=k.before(n),
           why="a lower node cannot win, and a higher one is on its way already"),
    Row("win", on=propose(p, n, n), at=Role.CANDIDATE, to=Role.LEADER,
        do=[follows(n, n).to(True)],
        send=[each(m, elected(n, m, n), where=next(n, m))]),
    Reject(propose(p, n, n), at=(Role.ASLEEP, Role.BEATEN),
           why="its own proposal comes back only past every node, and then no node is higher"),
    Ignore(propose(p, n, k), at=(Role.FOLLOWER, Role.LEADER), why="the election is over"),
    Row("follow", on=elected(p, n, k), at=Role.BEATEN, to=Role.FOLLOWER,
        do=[follows(n, k).to(True)],
        send=[each(m, elected(n, m, k), where=next(n, m))]),
    Ignore(elected(p, n, k), at=(Role.FOLLOWER, Role.LEADER),
           why=
           "this node knows the winner; at the leader the message has been all around the ring"),
    Reject(elected(p, n, k), at=(Role.ASLEEP, Role.CANDIDATE),
           why="before a node wins, its proposal has beaten every other node"),
))

PROPERTIES: Final = (
    Always("one_leader",
           implies(all_of(role(n) == Role.LEADER, role(m) == Role.LEADER), n.same(m)),
           why="two nodes never lead at once"),
    Always("the_leader_is_the_highest", implies(role(n) == Role.LEADER, ~n.before(m)),
           why="no node has a higher id than a leader"),
    Always("a_follower_has_a_leader", implies(follows(n, k), role(k) == Role.LEADER),
           why="the winner in every message is the leader"),
    Sometimes("a_node_leads", role(n) == Role.LEADER),
    Sometimes("a_node_follows", all_of(n.differs(k), follows(n, k))),
    LeadsTo("a_start_elects_a_leader_known_to_all", role(n) != Role.ASLEEP,
            exists(k, forall(m, follows(m, k))),
            why="one node that starts is enough, and each message need arrive only once",
            under=(Fairness.TIMERS, Fairness.CONSUMED)),
)

SYSTEM: Final = System(
    "ring-election",
    "Leader election in a ring: the nodes agree on the one with the highest id.",
    tables=(NODE,),
    properties=PROPERTIES,
    final=forall(n, role(n).among(Role.FOLLOWER, Role.LEADER)),
    configurations={
        "default": Configuration({Node: 4}),
        "best-case": Configuration({Node: 4}, given={next: upward}),
    },
)
