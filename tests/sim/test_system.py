"""Any system in virtual time: what is shipped keeps every promise, and a seed is a run."""

import os
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Final

import pytest

from pdproto.cli.systems import load
from pdproto.spec.bugs import registry as defects
from pdproto.spec.bugs.bug import Bug
from pdproto.testing.simulated import SimulatedSystem
from tests.tiers import examples

STORES: Final = frozenset({"entry"})  # as a server runs it
SYSTEMS: Final = (
    "registry", "dp-rank", "transfer", "transfer-restart", "agreement", "agreement-loss",
    "optimistic", "optimistic-group",
)
SAY_RUN: Final = """
from tests.sim.test_system import simulated, told
print(told(simulated("registry", "lossy"), 3))
"""


def simulated(name: str, configuration: str = "default") -> SimulatedSystem:
    system = load(name)
    return SimulatedSystem(system, system.configurations[configuration], Random, stores=STORES)


def told(of: SimulatedSystem, seed: int) -> str:
    """A run in words: how long it took, and every row that fired."""
    rows: list[str] = []
    run = of.run(seed, on_row=lambda at, row: rows.append(f"{at!r} {row}"))
    assert run.steps >= len(rows) > 0
    return " ".join([f"{run.steps} {run.seconds!r}", *rows])


@pytest.mark.parametrize("name", SYSTEMS)
def test_everything_that_is_promised_holds(name: str) -> None:
    of = simulated(name)
    runs = [of.run(seed) for seed in range(examples(12, 40))]
    assert [run.finding for run in runs] == [None] * len(runs)
    assert max(run.steps for run in runs) > 10


def test_one_seed_is_one_run() -> None:
    """The same rows at the same times: again, after others, and in another process."""
    of = simulated("registry", "lossy")
    first = told(of, 3)
    assert told(of, 4) != first
    assert told(of, 3) == first
    said = subprocess.run(
        [sys.executable, "-c", SAY_RUN], check=True, capture_output=True, text=True,
        cwd=Path(__file__).resolve().parents[2], env={**os.environ, "PYTHONHASHSEED": "4711"},
    ).stdout.strip()
    assert said == first


def bug_of(name: str) -> Bug:
    return next(bug for bug in defects.BUGS if bug.id == name)


def test_a_failure_is_cut_down() -> None:
    bug = bug_of("no-incarnation")
    of = SimulatedSystem(bug.system, bug.configuration, Random,
                         properties=frozenset({bug.violates}))
    run = of.first_violation(range(100))
    assert run is not None
    assert run.finding is not None
    assert run.finding.trace is not None
    shorter = of.cut_down(run)
    assert shorter.name == bug.violates
    assert shorter.trace is not None
    assert len(shorter.trace.steps) <= len(run.finding.trace.steps)
    assert of.run(run.seed).finding == run.finding
    sound = simulated("registry").run(0)
    with pytest.raises(ValueError, match="no property was violated"):
        of.cut_down(sound)
