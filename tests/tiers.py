"""Which parameters of a test wait for the night: `make test` runs a sample, `make test-all` all.

A sample is always the same one, so that a commit passes or fails by itself and not by the day.
Whole tests that wait for the night are listed in tests/night.py.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

import pytest
from _pytest.mark import ParameterSet
from hypothesis import settings

DAY: Final = "ci"  # the profile of Hypothesis (tests/conftest.py)
# All tests that this process has collected, before -m chooses among them.
COLLECTED: Final = pytest.StashKey[tuple[pytest.Item, ...]]()


def examples(day: int, night: int) -> int:
    """How many examples a property test draws: fewer in `make test` than in any other tier."""
    return day if settings.get_current_profile_name() == DAY else night


def sampled(of: Sequence[ParameterSet], count: int, name: str) -> list[ParameterSet]:
    """All of them; those that are not among `count`, chosen by the name, are marked nightly."""
    chosen = Random(name).sample(range(len(of)), min(count, len(of)))  # noqa: S311 - no secret
    return [
        one if number in chosen else pytest.param(
            *one.values, id=one.id, marks=(*one.marks, pytest.mark.nightly))
        for number, one in enumerate(of)
    ]
