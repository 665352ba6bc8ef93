"""A property test that judges too few of its examples fails.

Examples that are drawn in vain (`assume`, a search without an end, a proof that is not found) pass.
A run ends with the number of random systems that the oracle has judged, each counted once.
"""

from collections.abc import Callable, Generator
from functools import wraps
from typing import Final, ParamSpec

import pytest

Given = ParamSpec("Given")
_counted = [0]
_seeds: set[int] = set()
SEEDS: Final = "seeds of the systems that the oracle has judged"


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


def judged_system(seed: int) -> None:
    """The oracle and the product have answered about the system of this seed."""
    _seeds.add(seed)


class Systems:
    """A pytest plugin that counts them; with pytest-xdist, over all processes."""

    def __init__(self) -> None:
        self._seeds: Final[set[int]] = set()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Generator[None, object, object]:
        _seeds.clear()
        try:
            return (yield)
        finally:
            if _seeds:
                item.user_properties.append((SEEDS, sorted(_seeds)))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.when == "call":
            for name, seeds in report.user_properties:
                if name == SEEDS and isinstance(seeds, list):
                    self._seeds.update(seeds)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if self._seeds:
            terminalreporter.line(f"random systems that the oracle has judged: "
                                  f"{len(self._seeds):,}")
