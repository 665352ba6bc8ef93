"""Every system at every named size: everything holds, at the expected counts."""

from typing import Final

import pytest

from pdproto.spec.catalogue import EXPECTED
from pdproto.spec.language.system import DEEP
from tests.handoff.exploring import counts, explored, failing

# Each of these systems is explored at other sizes too; CI's `make run` explores these as well.
LARGE: Final = {
    ("agreement", "two-slots"),
    ("binding", "default"),
    ("dp-rank", "crash"), ("dp-rank", "two-rooms"), ("dp-rank-no-timers", "two-rooms"),
    ("optimistic", "running-slots"), ("optimistic", "slots"),
    ("optimistic-at-once", "running-slots"),
    ("registry", "alarm"), ("registry", "clocks"), ("registry", "disconnect-restart"),
    ("registry", "disconnect-two"), ("registry", "lossy"), ("registry", "restart"),
    ("transfer", "chunks"), ("transfer", "sinks"), ("transfer", "sources"),
    ("transfer", "no-fence"), ("transfer", "pairs"), ("transfer", "restart"),
    ("transfer-direct", "sources"), ("transfer-in-place", "sources"),
    ("transfer-loss", "chunks"), ("transfer-no-timers", "sinks"), ("transfer-no-timers", "sources"),
}


def test_every_system_is_counted_before_the_night() -> None:
    sizes = {key for key in EXPECTED if key[1] != DEEP}
    assert {system for system, _ in sizes - LARGE} == {system for system, _ in sizes}


@pytest.mark.parametrize(("system", "size"), [
    pytest.param(*key, marks=pytest.mark.nightly if key in LARGE else ())
    for key in EXPECTED if key[1] != DEEP])
def test_everything_holds_at_the_expected_counts(system: str, size: str) -> None:
    found = explored(system, size)
    assert found.complete
    assert failing(found) == []
    assert counts(found) == EXPECTED[system, size]
