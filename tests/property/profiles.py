"""How much the fuzzers do: as much as the profile of Hypothesis says (tests/conftest.py)."""

from collections.abc import Sequence
from random import Random
from typing import Final, TypeVar

from hypothesis import settings

from pdproto.testing.machine import RUN

T = TypeVar("T")

NIGHTLY: Final = settings.get_current_profile_name() == "nightly"


def runs(count: int, *, nightly: int | None = None) -> settings:
    """So many runs, always the same ones; nightly others, and more."""
    if NIGHTLY:
        return settings(RUN, max_examples=nightly or 20 * count, derandomize=False)
    return settings(RUN, max_examples=count, derandomize=True, database=None)


def some(of: Sequence[T], count: int, name: str) -> Sequence[T]:
    """A sample of so many at the most, always the same one by its name; nightly all."""
    if NIGHTLY or len(of) <= count:
        return of
    return Random(name).sample(of, count)  # noqa: S311 - no secret
