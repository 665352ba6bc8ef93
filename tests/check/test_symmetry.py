"""Symmetry reduction on systems whose orbits can be counted by hand."""

from itertools import combinations
from math import comb

import pytest

from pdproto.check.checking import CheckSettings, check
from pdproto.check.engine import Engine
from pdproto.check.explore import Reductions, explore, program
from pdproto.check.native import NativeEngine
from pdproto.check.portable import PortableEngine
from pdproto.check.symmetry import symmetry
from pdproto.cli.systems import load
from pdproto.ground.grounding import Ground
from pdproto.spec.examples import ring_election
from pdproto.spec.examples.ring_election import Node, upward
from pdproto.spec.examples.two_phase_commit import Participant
from pdproto.spec.language import (
    ANY,
    Configuration,
    Machine,
    Rigid,
    Row,
    Sort,
    System,
    Table,
    exists,
    forall,
)


class Left(Sort):
    """One side of a relation."""


class Right(Sort):
    """The other side."""


def states(system: System, sizes: dict[type[Sort], int], *, reduced: bool) -> int:
    found = explore(Ground(system, sizes), reductions=Reductions(symmetry=reduced), keep_going=True)
    assert found.complete
    return found.engine.states


@pytest.mark.parametrize("participants", [2, 3, 5])
def test_one_state_is_kept_for_each_multiset_of_local_states(participants: int) -> None:
    """Counted from the plain search: two states are one if each participant's share of the one
    (its vote, what it sent, what was heard of it) is some participant's share of the other.
    """
    system = load("two-phase-commit")
    ground = Ground(system, {Participant: participants})
    found = explore(ground, keep_going=True)
    multisets = set()
    for position in range(found.engine.states):
        values = ground.layout.decode(found.engine.state(found.engine.identity(position)))
        shares = [
            tuple(str(v) for (_, indices), v in values.items() if indices == (p,))
            for p in range(participants)
        ]
        rest = tuple(str(v) for (_, indices), v in values.items() if not indices)
        multisets.add((tuple(sorted(shares)), rest))
    orbits = states(system, {Participant: participants}, reduced=True)
    assert orbits == len(multisets)


def test_nine_participants_are_a_few_thousand_states() -> None:
    """2,232 multisets of local states stand for the 10,340,352 states of the plain search."""
    assert states(load("two-phase-commit"), {Participant: 9}, reduced=True) == 2_232


def marks() -> System:
    a, b = Left("a"), Right("b")
    machine = Machine("scribe", a)
    marked = machine.relation("marked", Right)
    row = Row("mark", choose=(b,), when=[~marked(a, b)], do=[marked(a, b).to(True)])
    return System("marks", "", (Table(machine, rows=(row,)),))


@pytest.mark.parametrize(("left", "right", "orbits"), [(2, 2, 7), (3, 3, 36), (3, 2, 13)])
def test_a_relation_between_two_sorts_by_all_renamings(left: int, right: int, orbits: int) -> None:
    """Matrices of bits up to row and column permutations (OEIS A028657)."""
    assert states(marks(), {Left: left, Right: right}, reduced=True) == orbits
    assert states(marks(), {Left: left, Right: right}, reduced=False) == 2 ** (left * right)


@pytest.mark.parametrize(("left", "right", "orbits"), [(2, 2, 4), (3, 3, 7), (3, 2, 6)])
def test_a_function_from_one_sort_into_another(left: int, right: int, orbits: int) -> None:
    """k of the left elements have a value: the partitions of k into at most `right` parts."""
    a, b = Left("a"), Right("b")
    machine = Machine("voter", a)
    vote = machine.function("vote", Right)
    row = Row("vote_for", choose=(b,), do=[vote(a).to(b)])
    system = System("votes", "", (Table(machine, rows=(row,)),))
    assert states(system, {Left: left, Right: right}, reduced=True) == orbits
    assert states(system, {Left: left, Right: right}, reduced=False) == (right + 1) ** left


@pytest.mark.parametrize(("size", "orbits"), [(2, 6), (3, 16), (4, 45)])
def test_a_function_from_a_sort_into_itself(size: int, orbits: int) -> None:
    """Partial functions of a set into itself, up to renaming (OEIS A126285)."""
    a, b = Left("a"), Left("b")
    machine = Machine("member", a)
    follows = machine.function("follows", Left)
    row = Row("follow", choose=(b,), do=[follows(a).to(b)])
    system = System("followers", "", (Table(machine, rows=(row,)),))
    assert states(system, {Left: size}, reduced=True) == orbits
    assert states(system, {Left: size}, reduced=False) == (size + 1) ** size


def pairs(size: int) -> list[tuple[int, ...]]:
    return list(combinations(range(size), 2))


class Pair(Sort, of=Left, sets=pairs):
    """Two elements of the left side."""


def edges(*, coloured: bool) -> System:
    a, e = Left("a"), Pair("e")
    machine = Machine("graph")
    edge, colour = machine.relation("edge", Pair), machine.relation("colour", Left)
    ends = Rigid("ends", e, a, given=Pair.members)
    mark = Row("mark", choose=(a,), do=[colour(a).to(True)])
    rows = (Row("join", choose=(e,), when=exists(a, ends(e, a)), do=[edge(e).to(True)]),
            *((mark,) if coloured else ()))
    return System("graph", "", (Table(machine, rows=rows),))


@pytest.mark.parametrize(("size", "plain", "coloured"), [(2, 2, 6), (3, 4, 20), (4, 11, 90)])
def test_sets_of_elements_are_renamed_with_them(size: int, plain: int, coloured: int) -> None:
    """Graphs up to renaming (OEIS A000088), and with nodes of two colours (OEIS A000666)."""
    sizes = dict(Configuration({Left: size}).sizes)
    count = comb(size, 2)
    assert sizes == {Left: size, Pair: count}
    for system, orbits, bits in (
        (edges(coloured=False), plain, count), (edges(coloured=True), coloured, count + size),
    ):
        found = [check(system, Configuration({Left: size}, symmetry=symmetry),
                       CheckSettings(keep_going=True)).states for symmetry in (True, False)]
        assert found == [orbits, 2 ** bits]


def a_set_that_is_alone(size: int) -> list[tuple[int, ...]]:
    return [(0, 1)] if size > 1 else []


class Alone(Sort, of=Right, sets=a_set_that_is_alone):
    """The first two elements of the right side."""


def test_elements_that_the_sets_tell_apart_are_not_renamed() -> None:
    """Marks on two elements in the set and one that is not: 3 times 2 orbits."""
    b, s = Right("b"), Alone("s")
    machine = Machine("marker")
    marked, chosen = machine.relation("marked", Right), machine.relation("chosen", Alone)
    rows = (Row("mark", choose=(b,), do=[marked(b).to(True)]),
            Row("choose", choose=(s,), when=chosen(s), do=[chosen(s).to(True)]))
    found = check(System("marker", "", (Table(machine, rows=rows),)),
                  Configuration({Right: 3}, symmetry=True), CheckSettings(keep_going=True))
    assert found.states == 3 * 2


def test_a_step_to_a_renamed_state_is_a_step() -> None:
    """A token goes round for ever; up to renaming it lies still, which is no deadlock."""
    a, b = Left("a"), Left("b")
    machine = Machine("ring")
    at = machine.relation("at", Left)
    rows = (
        Row("begin", choose=(a,), when=forall(b, ~at(b)), do=[at(a).to(True)]),
        Row("hand_on", choose=(a, b), when=[at(a), a.differs(b)],
            do=[at(a).to(False), at(b).to(True)]),
    )
    ground = Ground(System("ring", "", (Table(machine, rows=rows),)), {Left: 3})
    form = program(ground, reductions=Reductions(symmetry=True))
    engines: list[Engine] = [PortableEngine(form), NativeEngine(form, workers=1)]
    for engine in engines:
        while engine.step(1_000):
            pass
        assert engine.states == 2  # no token, one token
        assert engine.stuck[0] == 0
        engine.close()


def test_sorts_too_large_for_all_renamings_are_left_alone() -> None:
    """7! renamings of one side are too many, so only the other side's columns are merged: each of
    the two elements owns 7 bits, and multisets of 2 of the 128 columns are counted.
    """
    assert states(marks(), {Left: 2, Right: 7}, reduced=True) == comb(128 + 1, 2)


def test_an_interpretation_that_tells_elements_apart_is_respected() -> None:
    """The ring's nodes are ordered, so nothing is merged."""
    system = load("ring-election")
    given = {ring_election.next: frozenset(upward({Node: 3}))}
    assert not symmetry(Ground(system, {Node: 3}, given=given))


def test_columns_wider_than_a_word_are_merged_by_renaming() -> None:
    """Each element owns 70 bits, set one after the other in bulk: two states an element."""
    a, b = Left("a"), Right("b")
    machine = Machine("scribe", a)
    marked = machine.relation("marked", Right)
    row = Row("mark_all", do=[marked(a, ANY).to(True)])
    system = System("bulk", "", (Table(machine, rows=(row,)),))
    assert repr(b) == "b"
    assert states(system, {Left: 3, Right: 70}, reduced=False) == 8
    assert states(system, {Left: 3, Right: 70}, reduced=True) == 4


def test_liveness_is_decided_without_symmetry() -> None:
    """The verdicts on `leads_to` are those of the plain graph, and the counts the reduced ones."""
    system = load("two-phase-commit")
    result = check(system, Configuration({Participant: 3}, symmetry=True), CheckSettings())
    assert result.states == 80
    (liveness,) = [f for f in result.findings if f.kind == "leads_to"]
    assert liveness.verdict == "holds"
