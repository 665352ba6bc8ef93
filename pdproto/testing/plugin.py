"""The pytest plugin: `conformance` as a fixture, and what the machines came by at the end of a run.

Every test run of whoever has installed pdproto loads this, so it imports nothing that is slow.
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
    """`pdproto.testing.conformance`, as it is: hand it what makes an adapter."""
    from pdproto.testing.kit import conformance  # noqa: PLC0415 - only who asks for it

    return conformance


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Which rows the machines of this process have never let fire."""
    machines = sys.modules.get("pdproto.testing.machine")
    reports = [] if machines is None else machines.REPORTS
    wanting = [report for report in reports if report.never]
    if wanting:
        terminalreporter.section("pdproto: rows that never fired")
        for report in wanting:
            terminalreporter.line(str(report))
