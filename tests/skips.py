"""Why a test may be skipped: the whole list, and what says so when another reason turns up.

`pytest --only-named-skips` (used by .ci/run) fails if a test is skipped for a reason that is not in
`NAMED`. Elsewhere a missing tool skips its tests as usual: `-rs` prints the reasons.
"""

from collections.abc import Iterator
from typing import Final

import pytest

NO_GPU: Final = "no CUDA device here"
INTERPRETED: Final = "tier interpreter: Triton's interpreter stands in where there is no GPU"
SGLANG: Final = "tier sglang: `make test-sglang` installs SGLang (2.3 GB) and runs this"
VLLM: Final = "tier vllm: `make test-vllm` installs vLLM (3.3 GB) and runs this"
SPARK: Final = "tier spark: `make test-spark` installs PySpark (700 MB) and runs this"
NO_MOUNT: Final = "no mounts here: a test fills a /dev/shm of its own, in a namespace of its own"
NO_ETCD: Final = "no etcd here: .ci/run installs it (Debian: etcd-server)"
NO_PROMETHEUS: Final = "no prometheus or no etcd here (Debian: prometheus, etcd-server)"
NO_CGROUP: Final = "no cgroup of version 1 is to be had here, to freeze a process or slow it down"
NO_LINK_LOCAL: Final = "no link-local IPv6 address here"

# Not NO_ETCD: .ci/run installs etcd. Not NO_PROMETHEUS: only a nightly test needs it.
NAMED: Final = frozenset({NO_GPU, INTERPRETED, SGLANG, VLLM, SPARK, NO_MOUNT, NO_CGROUP,
                          NO_LINK_LOCAL})

OPTION: Final = "--only-named-skips"


class OnlyNamedSkips:
    """A pytest plugin that fails the run when a skipped test's reason is not in `NAMED`.

    It works in the process that reports: with pytest-xdist that is the controller.
    """

    def __init__(self) -> None:
        self.unnamed: Final[dict[str, str]] = {}  # test, or module that was not collected: reason

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.skipped and not hasattr(report, "wasxfail"):
            self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.skipped:
            self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        # pytest's own form of a skip is (path, line, reason).
        told = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        reason = told.removeprefix("Skipped: ")
        if reason not in NAMED:
            self.unnamed[report.nodeid] = reason

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self.unnamed and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if not self.unnamed:
            return
        terminalreporter.section(f"skipped, and {OPTION} was given", red=True, bold=True)
        for line in _lines(self.unnamed):
            terminalreporter.line(line)


def _lines(unnamed: dict[str, str]) -> Iterator[str]:
    for test, reason in unnamed.items():
        yield f"{test}: {reason}"
    yield (f"{len(unnamed)} skipped for a reason that tests/skips.py does not name: "
           "install what is missing")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        OPTION, action="store_true",
        help="fail if a test is skipped for a reason that tests/skips.py does not name",
    )  # fmt: skip


def register(config: pytest.Config) -> None:
    if config.getoption(OPTION) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(OnlyNamedSkips())
