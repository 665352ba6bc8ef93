"""How much the fuzzers do: as much as the profile of Hypothesis says (tests/conftest.py)."""

from typing import Final

from hypothesis import settings

from pdproto.testing.machine import RUN

NIGHTLY: Final = settings.get_current_profile_name() == "nightly"


def runs(count: int, *, nightly: int | None = None) -> settings:
    """So many runs, always the same ones; nightly others, and more."""
    if NIGHTLY:
        return settings(RUN, max_examples=nightly or 20 * count, derandomize=False)
    return settings(RUN, max_examples=count, derandomize=True, database=None)
