"""`<>[]` and `[]<>`, as claims and as premises, and claims about steps, in words that there are."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, combinations, product
from random import Random
from typing import Any, Literal

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.explore import NATIVE, PORTABLE
from pdproto.check.result import Verdict
from pdproto.spec.language import (
    ANY,
    TRUE,
    Configuration,
    Drains,
    Formula,
    Int,
    LeadsTo,
    Machine,
    Refines,
    Row,
    System,
    Table,
    count,
    each,
    forall,
    if_then_else,
)
from tests.check import starting
from tests.collection import agreement, machines, puzzles

ALONE = {"default": Configuration({})}
watch = Machine("watch", world=True)
told = watch.relation("told")


def watching(when: Formula, fair: Literal["weak", "strong"] = "weak") -> Table:
    """A row that has to fire where a fair run is for ever, or again and again, in such a state."""
    return Table(watch, rows=(Row("tell", when=when & ~told(), fair=fair, do=told().to(True)),))


def watched(system: System, table: Table, claim: LeadsTo) -> System:
    return replace(system, tables=(*system.tables, table), properties=(claim,), like=system)


def holds(system: System, settings: CheckSettings | None = None) -> bool:
    name = system.properties[0].name
    found = check(system, system.configurations["default"], settings or CheckSettings(
        keep_going=True))
    verdict = next(one.verdict for one in found.findings if one.name == name)
    assert verdict in {Verdict.HOLDS, Verdict.VIOLATED}
    return verdict is Verdict.HOLDS


# ---- Each formula on random graphs, and a plain search

PLACES = 5
walk = Machine("walk")
at = walk.function("at", Int(0, PLACES - 1))
Edge = tuple[int, int]


class Walk:
    """A random graph: rows with edges and a fairness, and three sets of places."""

    def __init__(self, seed: int) -> None:
        rng = Random(seed)  # noqa: S311 - a graph that can be drawn again
        self.rows: list[tuple[Literal["weak", "strong", False], frozenset[Edge]]] = [
            (rng.choice(("weak", "strong", False)), frozenset(
                (source, rng.choice([p for p in range(PLACES) if p != source]))
                for source in rng.sample(range(PLACES), rng.randint(1, 3))))
            for _ in range(4)]
        self.a, self.b, self.c = (
            frozenset(rng.sample(range(PLACES), size)) for size in (rng.randint(1, 4), 2, 1))
        self.edges = frozenset(chain.from_iterable(edges for _, edges in self.rows))

    @property
    def system(self) -> System:
        return System("walk", "It goes from place to place.", (Table(walk, rows=tuple(
            Row(f"row_{number}", fair=fair, when=within({one for one, _ in edges}),
                do=at().to(after(dict(edges)))) for number, (fair, edges) in enumerate(self.rows)
        )),), final=TRUE, configurations=ALONE)

    def reached(self, starts: set[int], inside: frozenset[int]) -> set[int]:
        seen = starts & inside
        while more := {t for s, t in self.edges if s in seen and t in inside} - seen:
            seen |= more
        return seen

    def ends(self, inside: frozenset[int]) -> Iterator[frozenset[int]]:
        """Each set of places in which a fair run can be again and again, and in no other place."""
        for size in range(1, len(inside) + 1):
            for some in map(frozenset, combinations(sorted(inside), size)):
                whole = all(self.reached({one}, some) == some for one in some)
                if whole and all(self.is_met(*row, some) for row in self.rows):
                    yield some

    @staticmethod
    def is_met(fair: str | bool, edges: frozenset[Edge], some: frozenset[int]) -> bool:
        enabled = {source for source, _ in edges} & some
        fires = any({*edge} <= some for edge in edges)
        return fires or not fair or (enabled < some if fair == "weak" else not enabled)

    def postponed(self) -> Iterator[frozenset[int]]:
        """The ends of the fair runs that are at a place of `b` once, and then at none of `c`."""
        rest = frozenset(range(PLACES)) - self.c
        owing = self.reached(set(self.b) & self.reached({0}, frozenset(range(PLACES))), rest)
        return (some for some in self.ends(rest) if some & owing)


def within(places: set[int] | frozenset[int]) -> Formula:
    return at().among(*sorted(places))


def after(edges: dict[int, int]) -> Any:
    value: Any = at()
    for source, target in edges.items():
        value = if_then_else(at() == source, target, value)
    return value


EVERYWHERE = frozenset(range(PLACES))
SETTINGS = [CheckSettings(engine=engine, keep_going=True) for engine in (NATIVE, PORTABLE)]


@pytest.mark.parametrize("seed", range(40))
def test_the_words_say_what_the_formulas_say(seed: int) -> None:
    """`<>[]A`, `[]<>A`, and each of them as a premise of `B ~> C`."""
    drawn = Walk(seed)
    a, b, c = map(within, (drawn.a, drawn.b, drawn.c))
    reached = drawn.reached({0}, EVERYWHERE)
    ends = [some for some in drawn.ends(EVERYWHERE) if some & reached]
    owing = list(drawn.postponed())
    for formula, table, claim, right in (
        ("<>[]A", watching(a), Drains("settles", told()), all(some <= drawn.a for some in ends)),
        ("[]<>A", watching(a), Drains("returns", a), all(some & drawn.a for some in ends)),
        ("[]<>A => (B ~> C)", watching(~a), LeadsTo("comes", b, c | told()),
         not any(some & drawn.a for some in owing)),
        ("<>[]A => (B ~> C)", watching(~a, "strong"), LeadsTo("comes", b, c | told()),
         not any(some <= drawn.a for some in owing)),
    ):
        for settings in SETTINGS:
            assert holds(watched(drawn.system, table, claim), settings) == right, formula


# ---- Published claims about runs

n = starting.n
TERMINATES = Drains("terminates", starting.TERMINATED)


def quiet(*, stops: Literal["weak", False]) -> System:
    """From some moment on nobody sends: the row is a fault, and faults happen finitely often."""
    row = {row.name: row for row in starting.RING.rows}
    table = replace(starting.RING, rows=(
        row["initiate"], row["pass_token"], replace(row["stop"], fair=stops)))
    return replace(starting.SYSTEM, tables=(table,), properties=(TERMINATES,), faults={
        "sends": (replace(starting.RING, rows=(row["send"],)),)}, like=starting.SYSTEM)


@pytest.mark.parametrize(("system", "right"), [
    pytest.param(watched(agreement.RING, watching(count(agreement.x, agreement.may_move) == 1),
                         Drains("stays_stable", told())), True, id="EWD426 Stab"),
    pytest.param(watched(machines.DISRUPTOR, watching(
        forall(machines.r, machines.read(machines.r) == machines.published())),
        Drains("all_is_read", told())), True, id="Disruptor Liveliness"),
    pytest.param(watched(starting.SYSTEM, Table(watch, rows=(
        Row("tell", choose=n, when=starting.active(n) & ~told(), do=told().to(True)),)),
        LeadsTo("is_seen", TRUE, starting.DETECTED | told())), False, id="EWD840 FalseLiveness"),
    pytest.param(quiet(stops=False), False, id="EWD840 AllNodesTerminateIfNoMessages"),
    pytest.param(quiet(stops="weak"), True, id="EWD840 AllNodesTerminateIfNoMessages, WF(Next)"),
    pytest.param(replace(starting.SYSTEM, properties=(TERMINATES,), like=starting.SYSTEM), False,
                 id="EWD840 without the premise"),
])
def test_a_published_claim_about_runs(system: System, right: bool) -> None:
    assert holds(system) == right


# ---- Published claims about steps

once, less, odd, kept, painted = (
    Machine(name) for name in ("once", "less", "odd", "kept", "painted"))
decision = once.function("decision", agreement.Value)
ONCE = System("once", "One value is decided.", (Table(once, rows=(
    Row("decide", choose=agreement.w, when=decision().unset, do=decision().to(agreement.w)),)),))
black, white = (less.function(colour, Int(0, puzzles.BEANS), init=ANY)
                for colour in ("black", "white"))
LESS = System("less", "Each step takes beans away.", (Table(less, rows=tuple(
    Row(f"change_{number}", do=[black().to(black() + more), white().to(white() + others)], when=[
        black() + more >= 0, black() + more <= puzzles.BEANS, white() + others >= 0,
        white() + others <= puzzles.BEANS])
    for number, (more, others) in enumerate(product(range(-2, 3), repeat=2)) if more + others < 0
)),))
is_odd = odd.relation("is_odd", init=ANY)
SAME = System("same", "It stays.", (Table(odd),))
holding = kept.relation("holding", init=ANY)
KEPT = System("kept", "What holds once holds for ever.", (Table(kept, rows=(
    Row("begin", do=holding().to(True)),)),))
paint = painted.function("paint", starting.Color, starting.Node, init=ANY)
PAINTED = System("painted", "No color changes.", (Table(painted),))


@pytest.mark.parametrize(("system", "claim", "right"), [
    pytest.param(agreement.LEADERLESS, Refines("decides_once", ONCE, each(
        agreement.w, decision().to(agreement.w), where=agreement.decision() == agreement.w)),
        True, id="SimplifiedFastPaxos PaxosConsistency"),
    pytest.param(puzzles.COFFEE, Refines("decreases", LESS, (
        black().to(puzzles.black()), white().to(puzzles.white()))), True,
        id="CoffeeCan MonotonicDecrease"),
    pytest.param(puzzles.COFFEE, Refines("stays_odd", SAME, is_odd().to(puzzles.white() % 2 == 1)),
                 True, id="CoffeeCan LoopInvariant"),
    pytest.param(puzzles.COFFEE, Refines("stays_odd", SAME, is_odd().to(puzzles.black() % 2 == 1)),
                 False, id="CoffeeCan, of the other colour"),
    pytest.param(starting.SYSTEM, Refines("keeps_color", PAINTED, paint(n).to(starting.color(n))),
                 False, id="EWD840 NeverChangeColor"),
    pytest.param(starting.SYSTEM, Refines("stays_over", KEPT, holding().to(starting.TERMINATED)),
                 True, id="EWD840, terminated for ever"),
])
def test_a_published_claim_about_steps(system: System, claim: Refines, right: bool) -> None:
    assert holds(replace(system, properties=(claim,), like=system)) == right
