"""Answers of the checker and proofs that all processes of one test run share.

The process that starts the run makes an empty folder, and removes it at the end; pytest-xdist's
workers find it in the environment. A test that counts what is explored asks the checker itself.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

import pytest

from pdproto.check.cache import NO_CACHE, Cache
from proofs import shared_proofs

FOLDER: Final = "PYTEST_PDPROTO_ANSWERS"  # settings of pdproto itself begin with PDPROTO_


def answers() -> Cache:
    """The answers of this run."""
    folder = os.environ.get(FOLDER)
    return Cache(Path(folder)) if folder else NO_CACHE


class SharedAnswers:
    """A pytest plugin for the process that starts the run."""

    def pytest_sessionstart(self) -> None:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="pdproto-answers-")
        _share_proofs()

    def pytest_sessionfinish(self) -> None:
        shutil.rmtree(os.environ.pop(FOLDER, ""), ignore_errors=True)


def _share_proofs() -> None:
    shared_proofs.folder = Path(os.environ[FOLDER]) / "proofs"


def register(config: pytest.Config) -> None:
    if hasattr(config, "workerinput"):
        _share_proofs()
    else:
        config.pluginmanager.register(SharedAnswers())
