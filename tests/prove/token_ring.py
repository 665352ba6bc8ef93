"""Termination detection by a token on a ring (EWD 840), whose invariant has a `for some`.

The token goes from the last node to the first. A node that wakes an earlier one is marked, and a
marked node spoils the token.
"""

from typing import Final

from pdproto.spec.language import (
    TRUE,
    Always,
    Call,
    Configuration,
    Machine,
    Rigid,
    Row,
    Sizes,
    Sort,
    State,
    System,
    Table,
    Tuples,
    all_of,
    any_of,
    auto,
    exists,
    forall,
    implies,
)


class Node(Sort, ordered=True):
    """A node on the ring."""


class Token(State):
    SPOILT = auto()
    GOOD = auto()


class Stage(State):
    BEFORE = auto()
    RUNNING = auto()


a, b, c = Node("a"), Node("b"), Node("c")


def neighbours(sizes: Sizes) -> Tuples:
    return {(i, i - 1) for i in range(1, sizes[Node])}


behind = Rigid("behind", a, b, given=neighbours)
first = Rigid("first", a, given=lambda _: {(0,)})
last = Rigid("last", a, given=lambda sizes: {(sizes[Node] - 1,)})

ring = Machine("ring", world=True)
stage = ring.function("stage", Stage)
busy = ring.relation("busy", Node)
marked = ring.relation("marked", Node)
token = ring.function("token", Token)
holder = ring.function("holder", Node)

IDLE: Final = ~busy(a)
SEEN: Final = exists(a, all_of(
    first(a), holder() == a, token() == Token.GOOD, ~marked(a), ~busy(a)))
RUNS: Final = stage() == Stage.RUNNING

ROWS: Final = (
    Row("begin_busy", on=Call("begin_busy", a), at=Stage.BEFORE, do=busy(a).to(True)),
    Row("begin_marked", on=Call("begin_marked", a), at=Stage.BEFORE, do=marked(a).to(True)),
    Row("give", on=Call("give", a), at=Stage.BEFORE, when=holder().unset, do=holder().to(a)),
    Row("start", on=Call("start"), at=Stage.BEFORE, to=Stage.RUNNING, when=holder().is_set),
    Row("send_round", choose=(a, b), at=Stage.RUNNING, when=all_of(
        first(a), last(b), holder() == a, (token() == Token.SPOILT) | marked(a)),
        do=[holder().to(b), token().to(Token.GOOD), marked(a).to(False)]),
    Row("pass_on", choose=(a, b), at=Stage.RUNNING, when=all_of(
        behind(a, b), holder() == a, ~marked(a), ~busy(a) | (token() == Token.SPOILT)),
        do=holder().to(b)),
    Row("spoil", choose=(a, b), at=Stage.RUNNING, when=all_of(
        behind(a, b), holder() == a, marked(a)),
        do=[holder().to(b), token().to(Token.SPOILT), marked(a).to(False)]),
    Row("wake_earlier", on=Call("wake_earlier", a, b), at=Stage.RUNNING,
        when=[busy(a), b.before(a)], do=busy(b).to(True)),
    Row("wake_later", on=Call("wake_later", a, b), at=Stage.RUNNING,
        when=[busy(a), a.before(b)], do=[busy(b).to(True), marked(a).to(True)]),
    Row("rest", on=Call("rest", a), at=Stage.RUNNING, when=busy(a), do=busy(a).to(False)),
)
TOLD: Final = Always("what_is_seen_is_so", implies(RUNS & SEEN, forall(a, IDLE)))
WHY: Final = Always("why_it_is_so", any_of(
    ~RUNS, token() == Token.SPOILT,
    forall(a, implies(holder().before(a), IDLE)),
    exists((a, b), all_of(marked(a), holder() == b, ~b.before(a)))))


def of(name: str, rows: tuple[Row, ...], *properties: Always) -> System:
    return System(
        name, "A token finds that all nodes rest.", (Table(ring, state=stage, rows=rows),),
        properties, axioms={
            "first": forall(a, implies(first(a), forall(b, ~b.before(a)))),
            "one_first": forall((a, b), implies(first(a) & first(b), a.same(b))),
            "last": forall(a, implies(last(a), forall(b, ~a.before(b)))),
            "behind": forall((a, b), implies(
                behind(a, b), b.before(a) & forall(c, ~(b.before(c) & c.before(a))))),
        }, final=TRUE, configurations={"default": Configuration({Node: 3})})


SYSTEM: Final = of("token-ring", ROWS, TOLD, WHY)
UNMARKED: Final = of("token-ring-unmarked", tuple(
    Row("wake_later", on=Call("wake_later", a, b), at=Stage.RUNNING, when=[busy(a), a.before(b)],
        do=busy(b).to(True)) if row.name == "wake_later" else row for row in ROWS), TOLD, WHY)
