"""The conformance kit: a plain engine passes, and each of its historical defects is caught.

Those of pages were seen to pass in a kit that does not compare pools.
"""

import os
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import pytest

from pdproto.spec.handoff.poll import KVPoll
from pdproto.testing import Adapter, NonConformanceError, Said, Side, conformance
from tests.property.ours import Ours
from tests.property.plain import Plain
from tests.property.profiles import runs
from tests.tiers import examples


@pytest.mark.parametrize("engine", [Plain, Ours])
def test_an_engine_conforms(engine: Callable[[], Adapter]) -> None:
    """One written by hand, and the endpoints that our servers run."""
    count = examples(40, 150)
    conformed = conformance(engine, runs(count))
    assert conformed.runs >= count
    assert conformed.calls > 7 * count


USER: Final = """
from pdproto.testing.machine import Fuzzer, RUN
from pdproto.cli.systems import load
from pdproto.testing import conformance
from hypothesis import settings

def test_theirs(pdproto_conformance):
    assert pdproto_conformance is conformance
    system = load("lock-server")
    Fuzzer(system, system.configurations["default"]).run(settings(RUN, max_examples=1))
"""


def test_the_plugin(tmp_path: Path) -> None:
    """Whoever has installed pdproto asks for `pdproto_conformance`, and is told what never ran."""
    (tmp_path / "test_theirs.py").write_text(USER)
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pdproto.testing.plugin", str(tmp_path)],
        env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}, cwd=tmp_path,
        capture_output=True, text=True, check=False,
    )
    assert run.returncode == 0, run.stdout
    assert "pdproto: rows that never fired" in run.stdout
    assert "lock-server: " in run.stdout


@pytest.mark.parametrize(("defect", "complaint"), [
    ("B22", "do not allow exactly these messages"),  # memory is free as soon as ABORT is sent
    ("B54", "do not allow exactly these messages"),  # DRAINED while a write is under way
    ("B10", "do not allow exactly these messages"),  # an aborted request turns to Success
    ("B31", "do not allow exactly these messages"),  # a failure that nobody hears of
    ("B46", r"holds 1 pages of decode, and the tables have them free"),  # a failure keeps its pages
    ("B62", r"holds 0 pages of prefill, and the tables have them held"),  # freed under a write
])
def test_a_historical_defect_is_caught(defect: str, complaint: str) -> None:
    with pytest.raises(NonConformanceError, match=complaint) as raised:
        conformance(partial(Plain, (defect,)), runs(600))
    error = raised.value
    assert error.finding.trace is not None
    assert "One run of the tables up to there:" in str(error)
    assert error.calls[-1] in str(error)


class Boastful(Plain):
    """Its decode side answers Success as soon as its pages are published."""

    def poll(self, side: Side, room: int) -> KVPoll:
        answer = super().poll(side, room)
        early = side is Side.DECODE and answer is KVPoll.WAITING_FOR_INPUT
        return KVPoll.SUCCESS if early else answer


def test_a_poll_that_says_too_much_is_caught() -> None:
    with pytest.raises(NonConformanceError) as raised:
        conformance(Boastful, runs(100))
    assert "SUCCESS, and the tables allow WAITING_FOR_INPUT" in raised.value.what


class Crowded(Plain):
    """Its decode side gives every room the same page."""

    def pages(self, side: Side, room: int) -> list[int]:
        pages = super().pages(side, room)
        return [0] * len(pages) if side is Side.DECODE else pages


class Closed(Plain):
    """Its decode side keeps the pages of a room that has been closed."""

    def close(self, room: int) -> list[Said]:
        return [said for said in self.said() if said.room == room]


@pytest.mark.parametrize(("engine", "complaint"), [
    (Crowded, "page 0 of decode is held by room 0 and by room 1"),
    (Closed, "holds 1 pages of decode, and the tables have them free"),
])
def test_a_pool_that_differs_is_caught(engine: Callable[[], Adapter], complaint: str) -> None:
    with pytest.raises(NonConformanceError, match=complaint):
        conformance(engine, runs(600))
