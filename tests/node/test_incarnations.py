"""The incarnations of a hand-over's sources, as the table of decode counts them."""

import pytest

from pdproto.node.decode.incarnations import KnownIncarnations
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import INCARNATIONS_MAX


def test_a_hand_over_asks_for_memory_when_every_source_has_been_heard_of() -> None:
    known = KnownIncarnations(("p0", "p1", "p2"))
    assert not known.greet("p1", 5)
    known.expect("p0")
    known.expect("p2")
    assert not known.place()
    assert not known.greet("p2", 7)
    assert known.greet("p0", 6)


def test_a_hand_over_whose_sources_are_known_asks_at_once() -> None:
    known = KnownIncarnations(("p0",))
    assert not known.greet("p0", 5)
    assert known.place()


def test_a_source_that_is_heard_of_before_the_pages_come_is_known() -> None:
    known = KnownIncarnations(("p0",))
    known.expect("p0")
    assert not known.greet("p0", 5)
    assert known.place()


def test_only_the_incarnation_that_was_heard_of_first_counts() -> None:
    known = KnownIncarnations(("p0", "p1"))
    known.greet("p0", 5)
    known.greet("p1", 6)
    assert known.counts("p0", 5)
    assert not known.counts("p0", 6)
    assert not known.counts("p0", 7)
    assert known.counts("p0", 5)
    assert known.counts("p1", 6)


def test_an_unknown_incarnation_is_not_counted_and_does_not_become_known() -> None:
    known = KnownIncarnations(("p0",))
    known.expect("p0")
    assert not known.counts("p0", 4)
    known.place()
    assert known.greet("p0", 5)
    assert not known.counts("p0", 4)
    assert known.counts("p0", 5)


def test_pages_that_come_again_ask_for_no_memory() -> None:
    known = KnownIncarnations(("p0",))
    known.greet("p0", 5)
    assert known.place()
    assert not known.place()


def test_a_hand_over_bounds_the_incarnations_of_a_source() -> None:
    known = KnownIncarnations(("p0",))
    for incarnation in range(INCARNATIONS_MAX):
        known.counts("p0", incarnation)
    with pytest.raises(RemoteProtocolError, match="p0 has been started more than 8 times"):
        known.counts("p0", INCARNATIONS_MAX)
    assert not known.counts("p0", 0)
