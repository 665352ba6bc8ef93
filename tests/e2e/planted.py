"""A defect of its own in every process of an end-to-end test.

    PLANTED_DEFECT=B22 python -m pytest -p tests.e2e.planted tests/e2e/test_m3_abort.py
    python -m tests.e2e.planted B22 handoff --requests 20

The first puts the defect into the nodes of the test's own process, and into the processes that the
test starts. The second is `pdproto` with the defect in all its processes: Python runs this module
again at the start of each process that they start. A test that hands over between processes of a
drill keeps the right tables itself: it holds their traces to them.
"""

import os
import sys
from functools import cache
from typing import Final

import pytest

VARIABLE: Final = "PLANTED_DEFECT"
DEFECT: Final = os.environ.get(VARIABLE)
OF_A_DRILL: Final = {"drill", "numbers"}


@cache
def put_in_once(name: str) -> None:
    """Tables are changed in place, so the second time there is nothing to change."""
    from tests.e2e.defects import put_in  # noqa: PLC0415 - reads every system

    put_in(name)


def plant() -> None:
    """Put the defect in, if there is one: for the processes that a test starts by itself."""
    if DEFECT is not None:
        put_in_once(DEFECT)


def command() -> tuple[str, ...]:
    """The words that start `pdproto`, with the defect if there is one."""
    module = ("pdproto.cli.main",) if DEFECT is None else ("tests.e2e.planted", DEFECT)
    return (sys.executable, "-m", *module)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """As a plugin of pytest."""
    if not OF_A_DRILL & set(getattr(item, "fixturenames", ())):
        plant()


if __name__ in ("__main__", "__mp_main__"):
    put_in_once(sys.argv[1])

if __name__ == "__main__":
    from pdproto.cli.main import main

    sys.exit(main(sys.argv[2:]))
