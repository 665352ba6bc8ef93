"""The tests that `make quick` leaves out because a case of them takes long, as it was measured.

    make test-all TEST_OPTIONS=--measure-durations

writes their names to tests/slow.txt; those that are listed are marked slow when pytest collects.
"""

from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

LIST: Final = Path(__file__).with_name("slow.txt")
OPTION: Final = "--measure-durations"
SLOW_S: Final = 0.2  # of a case, on average
# By these the quick tier sees every historical defect (tests/project/test_tiers.py), and a change
# of a table of each part.
KEPT: Final = (
    "tests/sim/test_system_defects.py::test_it_is_caught",
    "tests/handoff/test_counts.py::test_a_changed_part_is_noticed",
)


def function_of(nodeid: str) -> str:
    """The test, without its parameters."""
    return nodeid.split("[", maxsplit=1)[0]


class Durations:
    """A pytest plugin for the process that reports: it writes the list anew."""

    def __init__(self) -> None:
        self._seconds: Final[dict[str, dict[str, float]]] = defaultdict(lambda: defaultdict(float))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[function_of(report.nodeid)][report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        slow = (name for name, cases in self._seconds.items()
                if sum(cases.values()) / len(cases) >= SLOW_S and name not in KEPT)
        LIST.write_text("".join(f"{name}\n" for name in sorted(slow)), encoding="utf-8")


def register(config: pytest.Config) -> None:
    if config.getoption(OPTION) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Durations())


def mark(items: list[pytest.Item]) -> None:
    """Mark the tests that are listed as slow."""
    listed = frozenset(LIST.read_text(encoding="utf-8").splitlines())
    for item in items:
        if function_of(item.nodeid) in listed:
            item.add_marker(pytest.mark.slow)
