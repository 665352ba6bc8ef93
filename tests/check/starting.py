"""Dijkstra's termination detection (EWD 840): machines and colours start with any value."""

from pdproto.spec.language import (
    ANY,
    Always,
    Configuration,
    LeadsTo,
    Machine,
    Row,
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
from pdproto.spec.language.formula import Formula


class Node(Sort, ordered=True):
    """A machine on the ring."""


class Color(State):
    WHITE = auto()
    BLACK = auto()


n, m, k = Node("n"), Node("m"), Node("k")
ring = Machine("ring", host=True)
active = ring.relation("active", Node, init=ANY)
color = ring.function("color", Color, Node, init=ANY)
at = ring.function("at", Node, init=ANY)
token = ring.function("token", Color, init=Color.BLACK)


def first(node: Node) -> Formula:
    return forall(k, ~k.before(node))


TERMINATED = forall(m, ~active(m))
DETECTED = all_of(token() == Color.WHITE, exists(n, all_of(
    first(n), at() == n, color(n) == Color.WHITE, ~active(n))))
RING = Table(ring, rows=(
    Row("initiate", choose=(n, m), do=[
        at().to(m), token().to(Color.WHITE), color(n).to(Color.WHITE)], when=all_of(
            first(n), at() == n, forall(k, ~m.before(k)),
            any_of(token() == Color.BLACK, color(n) == Color.BLACK))),
    Row("pass_token", choose=(n, m), do=[
        at().to(m), color(n).to(Color.WHITE),
        token().to(if_then_else(color(n) == Color.BLACK, Color.BLACK, token()))], when=all_of(
            at() == n, m.before(n), forall(k, ~all_of(m.before(k), k.before(n))),
            any_of(~active(n), color(n) == Color.BLACK, token() == Color.BLACK))),
    Row("send", choose=(n, m), when=active(n) & n.differs(m), fair=False, do=[
        active(m).to(True),
        color(n).to(if_then_else(n.before(m), Color.BLACK, color(n)))]),
    Row("stop", choose=n, when=active(n), fair=False, do=active(n).to(False)),
))
SYSTEM = System("ewd840", "Termination on a ring.", (RING,), (
    Always("detected_is_terminated", implies(DETECTED, TERMINATED)),
    Always("never_detected", ~DETECTED),
    LeadsTo("is_detected", TERMINATED, DETECTED),
    LeadsTo("always_terminates", at().is_set, TERMINATED),
), final=TERMINATED, init=at().is_set, configurations={"default": Configuration({Node: 3})})
