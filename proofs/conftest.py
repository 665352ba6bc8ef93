"""The collector of proofs: each question of a claim that a file declares is a test."""

from collections.abc import Sequence

import pytest

from proofs.claim import Liveness, Safety


def pytest_pycollect_makeitem(
    collector: pytest.Module, name: str, obj: object
) -> Sequence[pytest.Item] | None:
    """A test for each question of a claim; everything else is collected as usual."""
    if not isinstance(obj, Safety | Liveness):
        return None
    items = []
    for question in obj.questions():
        item = pytest.Function.from_parent(
            collector, name=f"{name}[{question.name}]", callobj=question.ask)
        if question.slow:
            item.add_marker(pytest.mark.slow)
        if question.nightly:
            item.add_marker(pytest.mark.nightly)
        items.append(item)
    return items
