"""The pytest plugin: specs as tests, `conformance` as a fixture, and the rows that never fired.

Wherever pdproto is installed, every run of pytest loads this module. So it imports nothing slow.
"""

import sys
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from pdproto.testing.adapter import Adapter
    from pdproto.testing.kit import Conformed


SPECS: Final = "pdproto_specs"
LANGUAGE: Final = b"pdproto.spec"


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the setting with the files that are specs."""
    parser.addini(SPECS, "files with systems of pdproto to check (patterns)", type="args")


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Take a spec that is named on the command line or by the setting; see collected.py."""
    named = parent.session.isinitpath(file_path) and file_path.suffix == ".py"
    fits = any(file_path.match(pattern) for pattern in parent.config.getini(SPECS))
    if not (named or fits) or _holds_tests(file_path, parent.config):
        return None
    if LANGUAGE not in file_path.read_bytes():
        return None
    from pdproto.testing.collected import SpecFile  # noqa: PLC0415 - slow, and few runs need it

    return SpecFile.from_parent(parent, path=file_path)


def _holds_tests(path: Path, config: pytest.Config) -> bool:
    return any(fnmatch(path.name, pattern) or path.match(pattern)
               for pattern in (*config.getini("python_files"), "conftest.py"))


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
