"""Which parameters of a test wait for the night: `make test` runs a sample, `make test-all` all.

A sample is always the same one, so that a commit passes or fails by itself and not by the day.
"""

from collections.abc import Sequence
from random import Random

import pytest
from _pytest.mark import ParameterSet


def sampled(of: Sequence[ParameterSet], count: int, name: str) -> list[ParameterSet]:
    """All of them; those that are not among `count`, chosen by the name, are marked nightly."""
    chosen = Random(name).sample(range(len(of)), min(count, len(of)))  # noqa: S311 - no secret
    return [
        one if number in chosen else pytest.param(
            *one.values, id=one.id, marks=(*one.marks, pytest.mark.nightly))
        for number, one in enumerate(of)
    ]
