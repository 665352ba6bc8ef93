"""Answers of the checker, proofs, and what else takes long to make: all processes of one test run
share them.

The process that starts the run makes an empty folder, and removes it at the end; pytest-xdist's
workers find it in the environment. A test that counts what is explored asks the checker itself.
"""

import fcntl
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

from pdproto.check.cache import NO_CACHE, Cache
from proofs import shared_proofs

FOLDER: Final = "PYTEST_PDPROTO_ANSWERS"  # settings of pdproto itself begin with PDPROTO_


def answers() -> Cache:
    """The answers of this run."""
    folder = os.environ.get(FOLDER)
    return Cache(Path(folder)) if folder else NO_CACHE


def once(name: str, make: Callable[[], Any]) -> Any:
    """The value that the first process to ask has made, as JSON; the others wait for it.

    If `make` raises, the next process to ask makes it.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        return make()
    path = Path(folder, f"{name}.json")
    with path.with_suffix(".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not path.exists():
            path.write_text(json.dumps(make()), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


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
