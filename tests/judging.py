"""A property test that judges too few of its examples fails.

Examples that are drawn in vain (`assume`, a search without an end, a proof that is not found) pass.
"""

from collections.abc import Callable
from functools import wraps
from typing import ParamSpec

Given = ParamSpec("Given")
_counted = [0]


def judged() -> None:
    """This example has come to what the test asserts."""
    _counted[0] += 1


def judges(least: int) -> Callable[[Callable[Given, None]], Callable[Given, None]]:
    """The decorator, above `given`, of a test that calls `judged` at least so many times."""

    def counted(test: Callable[Given, None]) -> Callable[Given, None]:
        @wraps(test)
        def run(*args: Given.args, **kwargs: Given.kwargs) -> None:
            before = _counted[0]
            test(*args, **kwargs)
            found = _counted[0] - before
            assert found >= least, f"{found} examples were judged, of {least} at least"

        return run

    return counted
