"""Whole hand-overs on late devices in virtual time, and each guard of their copies, left out.

A guard is one line of the data path that waits for an event. Without it, the cluster shows what the
guard is for: see tests/pages/simulated.py for what a run checks.
"""

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lab.sim.fabric import COMPLETE, ONE_LIFE_A_PAGE, SOURCE_PAGES
from lab.sim.outcome import RunOutcome
from lab.sim.plan import Kind
from pdproto.pages import sink_pages
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from tests.e2e import defects

pytest.importorskip("torch")

from pdproto.pages.device_copies import DeviceCopies
from pdproto.pages.host_device import HostStream
from tests.pages.simulated import simulated
from tests.tiers import examples

SPOILT: Final = "a digest differs"
FAULTS: Final = (Kind.ABORT, Kind.LOSS, Kind.DUPLICATION, Kind.REORDERING, Kind.PAUSE)


class Guard(NamedTuple):
    """A defect that leaves a guard out, what a run without the guard shows, and by which seed. A
    seed changes with the timing: then take the first that shows it.
    """

    defect: Callable[[], None]
    where: Any
    name: str
    shows: str
    faults: tuple[Kind, ...] = ()
    seed: int = 0


GUARDS: Final = (
    Guard(defects.pass_not_awaited, HostStream, "wait", COMPLETE, seed=1),
    Guard(defects.use_not_awaited, sink_pages, "end_of_pass", COMPLETE, seed=1),
    Guard(defects.unpack_not_awaited, DeviceCopies, "unpack", COMPLETE),
    Guard(defects.pack_not_awaited, DeviceCopies, "pack", SPOILT),
    Guard(defects.pack_abandoned, SourcePages, "_end_pack", SOURCE_PAGES, (Kind.ABORT,)),
    Guard(defects.settled_at_once, SinkPages, "settle", ONE_LIFE_A_PAGE, (Kind.ABORT,), 8),
)


def shown(run: RunOutcome) -> str:
    """The property that a run violates; "" if none."""
    if run.violation is not None:
        return run.violation.name
    return SPOILT if run.counted["spoilt_chunks"] else ""


@settings(max_examples=examples(5, 10), deadline=None)
@given(seed=st.integers(0, 1 << 32), faults=st.sets(st.sampled_from(FAULTS)))
def test_every_byte_is_right_whatever_streams_do(seed: int, faults: set[Kind]) -> None:
    """Streams overtake each other and stall, also for longer than a hand-over waits."""
    run = simulated(seed, *sorted(faults))
    assert run.violation is None
    assert shown(run) == ""
    assert run.succeeded + run.failed == len(run.plan.requests)


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.defect.__name__)
def test_what_a_guard_is_for(guard: Guard, monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(simulated(guard.seed, *guard.faults)) == ""
    monkeypatch.setattr(guard.where, guard.name, vars(guard.where)[guard.name])  # to be undone
    guard.defect()
    assert shown(simulated(guard.seed, *guard.faults)) == guard.shows


def test_a_seed_decides_everything() -> None:
    runs = [simulated(3, Kind.ABORT) for _ in range(2)]
    assert runs[0] == runs[1]


def test_most_hand_overs_succeed() -> None:
    """Otherwise a run would show little. On every second device a stream stalls, now and then for
    longer than a hand-over waits.
    """
    runs = [simulated(seed) for seed in range(8)]
    assert sum(run.succeeded for run in runs) > 4 * sum(run.failed for run in runs)
