"""How the property tests draw: the same every time, so that what passed here passes there.

`HYPOTHESIS_PROFILE=all` draws the same and more, for `make test-all`; `HYPOTHESIS_PROFILE=nightly`
draws anew, and most. Deadlines are off: machines are noisy.
"""

import gc
import logging
import os
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from pdproto.check.user_cache import MUTANTS, RESULTS
from tests import durations, judging, night, shared_answers, skips, tiers, tonight

LEVEL = logging.getLogger("pdproto").level
COMMON = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

settings.register_profile(tiers.DAY, COMMON, derandomize=True, max_examples=25)
settings.register_profile("all", COMMON, derandomize=True, max_examples=100)
settings.register_profile("nightly", COMMON, max_examples=1_000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", tiers.DAY))


def pytest_addoption(parser: pytest.Parser) -> None:
    skips.pytest_addoption(parser)
    parser.addoption(durations.OPTION, action="store_true", help="write tests/slow.txt anew")


def pytest_report_header() -> str:
    """The night whose seeds are drawn, also without one: a log of CI names it."""
    return tonight.header()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection() -> Generator[None, object, object]:
    """Modules of the tests, and all tests, live until the end: no garbage is looked for among them,
    while they are made or later.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    durations.mark(items)
    night.mark(items)
    config.stash[tiers.COLLECTED] = tuple(items)


def pytest_configure(config: pytest.Config) -> None:
    skips.register(config)
    config.pluginmanager.register(judging.Systems())
    durations.register(config)
    shared_answers.register(config)


@pytest.fixture(autouse=True, scope="session")
def nothing_is_remembered(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """What this machine's user has proved before changes no answer of a test."""
    folder = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(autouse=True)
def no_answer_is_recalled(nothing_is_remembered: Path) -> None:
    """Each test starts without the results that a command of another test has kept."""
    for kind in (RESULTS, MUTANTS):
        shutil.rmtree(nothing_is_remembered / "pdproto" / kind, ignore_errors=True)


@pytest.fixture(autouse=True)
def nothing_is_hushed() -> Iterator[None]:
    """A command that keeps its log quiet does so for the whole process. No test hears less by one
    that ran in another test, or in a fixture of its module.
    """
    logging.getLogger("pdproto").setLevel(LEVEL)
    yield
    logging.getLogger("pdproto").setLevel(LEVEL)
