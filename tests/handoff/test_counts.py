"""Every system at every named size: everything holds, at the expected counts."""

import pytest

from pdproto.check.suite import DEEP
from pdproto.spec.catalogue import EXPECTED
from tests.handoff.exploring import counts, explored, failing


@pytest.mark.parametrize(("system", "size"), [key for key in EXPECTED if key[1] != DEEP])
def test_everything_holds_at_the_expected_counts(system: str, size: str) -> None:
    found = explored(system, size)
    assert found.complete
    assert failing(found) == []
    assert counts(found) == EXPECTED[system, size]
