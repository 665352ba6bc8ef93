"""The mission's defects, each an edit of the tables that the ends run, are caught and replayed.

M1: B02. M2: B04. M3: B05. M4: B01. M5: B03. The explorer finds all of the catalogue; these are the
five that the project began with, and B10, B22, B23, which the same abort can bring.
"""

from typing import Final

import pytest

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.testing.machine import Fuzzer
from pdproto.testing.property_checker import ViolationError
from tests.property.profiles import runs
from tests.tiers import sampled

MISSION: Final = ("B02", "B02-info", "B04", "B05", "B01", "B03", "B10", "B22", "B23")
BY_DAY: Final = 1
RUNS: Final = 1_500  # far more than any of these has needed


def fuzzer_for(bug: Bug) -> Fuzzer:
    return Fuzzer(bug.system, bug.configuration, properties=frozenset({bug.violates}))


def caught(bug: Bug) -> ViolationError:
    with pytest.raises(ViolationError) as raised:
        fuzzer_for(bug).run(runs(RUNS))
    return raised.value


@pytest.mark.parametrize("bug", sampled(
    [pytest.param(bug, id=bug.system.name) for bug in BUGS if bug.id in MISSION],
    BY_DAY, "defects of the mission"))
def test_a_defect_is_caught_and_replayed(bug: Bug) -> None:
    error = caught(bug)
    assert error.finding.name == bug.violates
    assert error.finding.trace is not None
    again = fuzzer_for(bug)
    with pytest.raises(ViolationError) as replayed:
        again.replay(error.blob)
    assert replayed.value.finding.trace == error.finding.trace
    assert again.count < 5, "a replay is one run, and Hypothesis looks at it twice"
