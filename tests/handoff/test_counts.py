"""Every system at every named size: everything holds, at the expected counts."""

from typing import Final

import pytest

from pdproto.check import counts as counts_of
from pdproto.check.result import CheckResult
from pdproto.cli.systems import load, recorded
from pdproto.spec.catalogue import HANDOFF
from pdproto.spec.language.system import DEEP
from tests.handoff.exploring import EXPECTED, counts, explored, failing

# By night, because `make run` explores them as well.
LARGE: Final = {key for key, found in EXPECTED.items() if found.states > 30_000}
SIZES: Final = [key for key in EXPECTED if key[0] in HANDOFF and key[1] != DEEP]


# A small size of each part that a node or the registry runs; of the transfer the one of `pdproto
# check transfer`, where a message more is seen.
PARTS: Final = (
    ("transfer", "default"), ("registry", "alarm-lossy"), ("registry-replica", "restart"),
    ("dp-rank", "default"), ("binding-ordered", "default"), ("binding-named", "default"),
    ("agreement", "two-slots"), ("incarnations", "default"), ("drain", "default"),
    ("sink-group", "default"), ("decode-scheduler", "two-lives"),
)


@pytest.mark.parametrize(("system", "size"), PARTS)
def test_a_changed_part_is_noticed(system: str, size: str) -> None:
    """Before each commit: seconds of exploring, so that nobody changes a table unawares."""
    same_counts(system, size)


def same_counts(system: str, size: str) -> CheckResult:
    """What is found there, if it has the counts that are recorded."""
    found = explored(system, size)
    assert found.complete
    assert counts(found) == EXPECTED[system, size], (
        f"the tables of {system} have changed: `pdproto check {system} --configuration {size} "
        f"--record spec/counts.json`, and look at the diff")
    return found


@pytest.mark.parametrize("system", sorted({system for system, _ in EXPECTED}))
def test_each_count_is_of_the_present_tables(system: str) -> None:
    """Also of a deep run, which takes minutes. A count without an identity is one that was not made
    again since its tables changed: there may be such counts of deep runs alone.
    """
    stale = [name for name in counts_of.unconfirmed(recorded(), load(system))
             if name != DEEP or recorded()[system, name].tables is not None]
    assert stale == [], (
        f"the tables of {system} have changed since: `pdproto check {system} --configuration NAME "
        f"--record spec/counts.json`, or \"tables\": null where a deep run takes too long")


@pytest.mark.parametrize(("system", "size"), [
    pytest.param(*key, marks=pytest.mark.nightly if key in LARGE else ())
    for key in SIZES])
def test_everything_holds_at_the_expected_counts(system: str, size: str) -> None:
    assert failing(same_counts(system, size)) == []
