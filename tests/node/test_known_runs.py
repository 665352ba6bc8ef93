"""The runs of a hand-over's sources, as the table of decode counts them."""

import pytest

from pdproto.node.decode.known_runs import KnownIncarnations
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import INCARNATIONS_MAX


def test_a_hand_over_asks_for_memory_when_every_source_has_been_heard_of() -> None:
    runs = KnownIncarnations(("p0", "p1", "p2"))
    assert not runs.greet("p1", 5)
    runs.expect("p0")
    runs.expect("p2")
    assert not runs.place()
    assert not runs.greet("p2", 7)
    assert runs.greet("p0", 6)


def test_a_hand_over_whose_sources_are_known_asks_at_once() -> None:
    runs = KnownIncarnations(("p0",))
    assert not runs.greet("p0", 5)
    assert runs.place()


def test_a_source_that_is_heard_of_before_the_pages_come_is_known() -> None:
    runs = KnownIncarnations(("p0",))
    runs.expect("p0")
    assert not runs.greet("p0", 5)
    assert runs.place()


def test_only_the_run_that_was_heard_of_first_counts() -> None:
    runs = KnownIncarnations(("p0", "p1"))
    runs.greet("p0", 5)
    runs.greet("p1", 6)
    assert runs.counts("p0", 5)
    assert not runs.counts("p0", 6)
    assert not runs.counts("p0", 7)
    assert runs.counts("p0", 5)
    assert runs.counts("p1", 6)


def test_an_unknown_run_is_not_counted_and_does_not_become_known() -> None:
    runs = KnownIncarnations(("p0",))
    runs.expect("p0")
    assert not runs.counts("p0", 4)
    runs.place()
    assert runs.greet("p0", 5)
    assert not runs.counts("p0", 4)
    assert runs.counts("p0", 5)


def test_pages_that_come_again_ask_for_no_memory() -> None:
    runs = KnownIncarnations(("p0",))
    runs.greet("p0", 5)
    assert runs.place()
    assert not runs.place()


def test_a_hand_over_bounds_the_runs_of_a_source() -> None:
    runs = KnownIncarnations(("p0",))
    for run in range(INCARNATIONS_MAX):
        runs.counts("p0", run)
    with pytest.raises(RemoteProtocolError, match="p0 has been started more than 8 times"):
        runs.counts("p0", INCARNATIONS_MAX)
    assert not runs.counts("p0", 0)
