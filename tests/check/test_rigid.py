"""Interpretations of rigid symbols: given ones are held to the axioms, free ones enumerated."""

from typing import Any

import pytest

from pdproto.check.rigid import interpretations
from pdproto.ground.layout import TooLargeError
from pdproto.spec.language import (
    Configuration,
    Formula,
    Machine,
    Rigid,
    Row,
    Sort,
    SpecError,
    State,
    System,
    Table,
    auto,
    exists,
    implies,
)


class Source(Sort):
    """Where it comes from."""


class Sink(Sort):
    """Where it goes."""


class Mark(State):
    CLEAN = auto()
    SEEN = auto()


s, t, u = Source("s"), Sink("t"), Sink("u")


def system(feeds: Rigid[Any, Any], **axioms: Formula) -> System:
    source = Machine("source", s)
    mark = source.function("mark", Mark)
    rows = (Row("go", at=Mark.CLEAN, to=Mark.SEEN, when=[exists(t, feeds(s, t))]),)
    return System("feeding", "", (Table(source, state=mark, rows=rows),), axioms=axioms)


def found(system: System, sources: int, sinks: int) -> list[frozenset[tuple[int, ...]]]:
    configuration = Configuration({Source: sources, Sink: sinks})
    return [
        next(iter(given.values()))
        for given in interpretations(system, configuration.sizes, configuration)
    ]


def test_topologies_that_differ_in_names_only_count_once() -> None:
    """Of the 16 relations between 2 and 2 there are 7 up to renaming: by edges 1, 1, 3, 1, 1."""
    sizes = sorted(len(tuples) for tuples in found(system(Rigid("feeds", s, t)), 2, 2))
    assert sizes == [0, 1, 2, 2, 2, 3, 4]


def test_axioms_choose() -> None:
    """A source feeds at most one sink: none, one, two to one sink, two to two sinks."""
    feeds = Rigid("feeds", s, t)
    one_sink = implies(feeds(s, t) & feeds(s, u), t.same(u))
    sizes = sorted(len(tuples) for tuples in found(system(feeds, one_sink=one_sink), 2, 2))
    assert sizes == [0, 1, 2, 2]


def test_a_given_interpretation_is_taken() -> None:
    feeds = Rigid("feeds", s, t, given=lambda sizes: {(i, 0) for i in range(sizes[Source])})
    assert found(system(feeds), 3, 2) == [frozenset({(0, 0), (1, 0), (2, 0)})]


def test_a_given_interpretation_is_held_to_the_axioms() -> None:
    feeds = Rigid("feeds", s, t, given=lambda _: {(0, 0), (0, 1)})
    one_sink = implies(feeds(s, t) & feeds(s, u), t.same(u))
    with pytest.raises(SpecError, match=r"no interpretation of .*feeds.* satisfies the axioms"):
        found(system(feeds, one_sink=one_sink), 1, 2)


def test_elements_that_do_not_exist_are_named() -> None:
    feeds = Rigid("feeds", s, t, given=lambda _: {(0, 5)})
    with pytest.raises(SpecError, match=r"feeds\(Source, Sink\) is given \(0, 5\)"):
        found(system(feeds), 1, 2)


def test_too_many_interpretations_are_refused_with_advice() -> None:
    with pytest.raises(TooLargeError, match="give one with given="):
        found(system(Rigid("feeds", s, t)), 5, 5)
