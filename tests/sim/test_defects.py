"""Historical defects in the tables that nodes run: the simulator sees each, and says by which seed.

Beside each the same run without the defect, in which nothing is violated. What is not here shows in
no run of well-behaved callers (B50), shows only with an engine that cannot fence
(abort-in-quarantine) or where requests wait for memory for minutes (queue-timed), or is not a
defect of what nodes run (see defects.py).
"""

from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from lab.sim.cluster import simulate
from lab.sim.defects import base_of, roles_of, runnable
from lab.sim.outcome import DRAINED, ENDS, PEERS, STEADY
from lab.sim.plan import Fault, Kind, Shape, planned
from pdproto.spec.handoff import transfer
from tests.sim.runs import ran

WRITE = "S1_writes_stay_in_own_memory"
SOURCE_PAGES = "S8_source_pages_are_held"
EARLY = {"requests": 40, "rate": 100, "skew_s": 0.3, "allocation_s": 0.05, "write_s": 0.04,
         "forward_s": 0.01, "buffers": 64, "pages": 400, "slots": 64}


@dataclass(frozen=True, slots=True)
class Case:
    """A run in which a defect shows. violates: what the simulator calls it."""

    violates: str
    faults: tuple[Kind, ...] = (Kind.ABORT, Kind.HANG)
    seed: int = 0
    shape: dict[str, Any] = field(
        default_factory=lambda: {"requests": 30, "buffers": 4, "writes": 2})


def _pair(violates: str, *faults: Kind) -> Case:
    return Case(violates, faults or (Kind.ABORT, Kind.HANG),
                shape={"requests": 30, "buffers": 4, "writes": 2, "pp": 2})


def _early(violates: str) -> Case:
    """Requests that come late on one side, and are aborted meanwhile."""
    return Case(violates, (Kind.ABORT,), shape=EARLY)


CASES = {
    "B05": Case(WRITE),
    "B05-worker": Case("S11_a_failed_source_posts_no_write"),
    "B22": _pair(WRITE),
    "R1": Case(WRITE),
    "R2": Case(WRITE),
    "B27": Case(WRITE),
    "B41": Case(WRITE),
    "B54": Case("S10_drained_means_quiescent"),
    "R19": Case("S10_drained_means_quiescent", (Kind.ABORT,), 2),
    "B23": Case(DRAINED, (Kind.ABORT,), 2),
    "B46": Case(ENDS),
    "B36": Case(SOURCE_PAGES),
    "B43": Case(SOURCE_PAGES),
    "B62": Case(SOURCE_PAGES),
    "B49": Case(ENDS, (Kind.CRASH,)),
    "B09": Case("sending_edges", (Kind.ABORT,), 2),
    "B10": _pair("sending_edges", Kind.ABORT, Kind.LOSS),
    "R25": _pair(STEADY, Kind.ABORT, Kind.LOSS),
    "B31": _early(ENDS),
    "B51": _early(ENDS),
    "B52": _early(ENDS),
    "R4": _early(ENDS),
    "R3": _pair(DRAINED, Kind.ABORT, Kind.LOSS),
    "R22": _pair(ENDS, Kind.LOSS),
    "B38": Case(ENDS, (Kind.CRASH,), 3),
    "silence-as-abort": Case(PEERS, (), shape={**EARLY, "skew_s": 12.0}),
    "B64": _pair(ENDS),
    "R12": Case(ENDS),
}
# Nodes do not decide by the table who is gone (`implied` in node/endpoints.py), so fence-untold
# and the two of silence change no run. fenced-and-forgotten has no clocks: its base leaves requests
# open, too.
# R5 needs a lost answer, and its system has no clock that repeats: tests/node/test_single_turns.py.
# The pages of copy-runs-on are freed by the runtime: tests/pages/test_device_copies.py.
ELSEWHERE = {"B23-cleared", "B23-fan-out", "B28", "B50", "B54-skipped", "R5", "abort-in-quarantine",
             "copy-runs-on", "queue-timed", "queue-timed-by-decode", "met-by-any",
             "queue-timeout-unmet", "fence-untold", "silence-as-death",
             "silence-of-a-sink-as-death", "fenced-and-forgotten"}
BUGS = {bug.id: bug for bug in runnable()}


def test_every_runnable_defect_is_here() -> None:
    assert CASES.keys() | ELSEWHERE == BUGS.keys()


@pytest.mark.parametrize("name", CASES)
def test_it_is_caught(name: str) -> None:
    case, bug = CASES[name], BUGS[name]
    found = ran(case.seed, *case.faults, roles=roles_of(bug.system), **case.shape)
    assert found.violation is not None
    assert found.violation.name == case.violates
    base = roles_of(base_of(bug.system))
    sound = ran(case.seed, *case.faults, roles=base, **case.shape)
    assert sound.violation is None


def test_b28_nobody_notices_a_dead_source() -> None:
    """Nothing else may go wrong in a protocol without clocks, so the crash comes after the rest."""
    plan = planned(0, Shape(requests=20, rate=2000, write_s=0.2, buffers=64, pages=400, slots=64),
                   Random)
    crash = Fault(0, Kind.CRASH, plan.ends + 0.05, plan.ends + 4.0, "p0")
    plan = replace(plan, faults=(crash,))
    found = simulate(plan, Random, roles=roles_of(BUGS["B28"].system))
    assert found.violation is not None
    assert found.violation.name == ENDS
    assert simulate(plan, Random, roles=roles_of(transfer.NO_TIMERS)).violation is None


def test_the_simulator_runs_the_shipped_tables() -> None:
    assert ran(0, Kind.ABORT, Kind.HANG, roles=roles_of(transfer.SYSTEM)).violation is None
