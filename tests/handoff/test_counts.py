"""Every system at every named size: what holds, how many states there are, what lint says."""

import pytest

from pdproto.check.load import BUILT_IN, load
from pdproto.cli.suite import DEEP, HANDOVER
from pdproto.spec.handoff.pinned import PINNED
from tests.handoff.exploring import counts, explored, failing, lint_errors

SPOKEN_OF = sorted(name for name, target in BUILT_IN.items() if ".handoff." in target)


@pytest.mark.parametrize(("system", "size"), [key for key in PINNED if key[1] != DEEP])
def test_everything_holds_at_the_pinned_counts(system: str, size: str) -> None:
    found = explored(system, size)
    assert found.complete
    assert failing(found) == []
    assert counts(found) == PINNED[system, size]


def test_every_size_is_pinned() -> None:
    """The deep ones by `pdproto check --deep`, which takes minutes."""
    assert set(PINNED) == {(name, size) for name in HANDOVER for size in load(name).configurations}


@pytest.mark.parametrize("system", SPOKEN_OF)
def test_lint_finds_no_error(system: str) -> None:
    """Nor in the variants that are wrong in what they do, but not in how they are written."""
    assert lint_errors(load(system)) == []
