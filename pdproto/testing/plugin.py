"""The pytest plugin: `conformance` as a fixture, and a report of rows that never fired.

Wherever pdproto is installed, every run of pytest loads this module. So it imports nothing slow.
"""

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pdproto.testing.adapter import Adapter
    from pdproto.testing.kit import Conformed


@pytest.fixture
def pdproto_conformance() -> "Callable[[Callable[[], Adapter]], Conformed]":
    """The function `pdproto.testing.conformance`: pass it a function that makes an adapter."""
    from pdproto.testing.kit import conformance  # noqa: PLC0415 - slow, and few tests need it

    return conformance


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the rows that never fired in any fuzzer of this process."""
    machines = sys.modules.get("pdproto.testing.machine")
    reports = [] if machines is None else machines.REPORTS
    wanting = [report for report in reports if report.never]
    if wanting:
        terminalreporter.section("pdproto: rows that never fired")
        for report in wanting:
            terminalreporter.line(str(report))
