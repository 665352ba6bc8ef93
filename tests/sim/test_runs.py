"""Simulated clusters of the nodes as they are: what goes wrong, and that nothing else does."""

import gc
import os
import subprocess
import sys
from pathlib import Path
from random import Random

import pytest

from lab.sim.cluster import Cluster, simulate
from lab.sim.outcome import RunOutcome
from lab.sim.plan import Kind, Shape, planned
from lab.sim.watch import Part, View
from pdproto.check.trace.verify import verify
from pdproto.cli.systems import load
from pdproto.node.handle import Handle
from tests.sim.runs import ran, traced, without

# Of all traces of the run below. It changes with the tables, the wire, the trace and the nodes:
# look at what has changed, and then take what the test says.
PINNED = "5dbaa8c3cf60f6d4cdc61bc87e13ccda79bbd70206c90dacba170f46b08a7f7b"
PINNED_FAULTS = (Kind.LOSS, Kind.CRASH, Kind.ABORT, Kind.HANG)
SAY_DIGEST = """
from lab.sim.plan import Kind
from tests.sim.runs import traced
faults = (Kind.LOSS, Kind.CRASH, Kind.ABORT, Kind.HANG)
print(traced(4, *faults, requests=30, pp=2)[1].digest())
"""


def test_nothing_goes_wrong() -> None:
    outcome = ran(0, pp=2)
    assert outcome.violation is None
    assert (outcome.succeeded, outcome.failed, outcome.lost) == (40, 0, 0)
    assert outcome.landed == 2 * sum(len(request.chunks) for request in outcome.plan.requests)
    assert outcome.counted["handoffs_succeeded"] == 3 * 40  # two sources and a sink


HAPPENED = {
    Kind.LOSS: lambda o: o.lost > 0,
    Kind.DUPLICATION: lambda o: o.batches > 0,
    Kind.REORDERING: lambda o: o.batches > 0,
    Kind.PARTITION: lambda o: o.lost > 0,
    Kind.CRASH: lambda o: o.failed > 0 and o.succeeded > 0,
    Kind.PAUSE: lambda o: o.succeeded > 0,
    Kind.JUMP: lambda o: o.succeeded > 0,
    Kind.SLOW: lambda o: o.succeeded > 0,
    Kind.HANG: lambda o: o.counted["fences_done"] > 0 and o.counted["refused_writes"] > 0,
    Kind.ERROR: lambda o: o.counted["transfer_failed_reqs"] > 0,
    Kind.DISK: lambda o: o.succeeded == 40,
    Kind.ABORT: lambda o: 0 < o.failed < 20,
}


@pytest.mark.parametrize("faults", [(), (Kind.ABORT,), (Kind.LOSS, Kind.HANG)])
def test_a_run_keeps_nothing_of_hand_overs_that_are_over(faults: tuple[Kind, ...]) -> None:
    """So it may be as long as anybody likes. The last ones are remembered until a sink's next
    sign of life, and cancelled clocks for a while.
    """
    gc.collect()
    gc.disable()
    try:
        others = {id(one): one for one in hand_overs()}  # held, so that no id is given away again
        cluster = Cluster(planned(3, Shape(requests=400, faults=faults), Random), Random)
        outcome = cluster.run()
        left = sum(id(one) not in others for one in hand_overs())
    finally:
        gc.enable()
    assert outcome.violation is None
    assert left < 20


@pytest.mark.parametrize("usual", [(700, 10, 10), (1_000_000, 10, 10), (0, 10, 10)])
def test_a_run_has_cycles_looked_for_seldom(usual: tuple[int, int, int]) -> None:
    """And as often as before when it has ended, or failed."""
    seen = set[tuple[int, int, int]]()
    plan = planned(0, Shape(requests=2), Random)

    def see(*_: object) -> None:
        seen.add(gc.get_threshold())

    def fail(*_: object) -> None:
        raise ZeroDivisionError

    before = gc.get_threshold()
    gc.set_threshold(*usual)
    try:
        simulate(plan, Random, recorder=see)
        after_its_end = gc.get_threshold()
        assert simulate(plan, Random, recorder=fail).violation is not None
        after_a_failure = gc.get_threshold()
    finally:
        gc.set_threshold(*before)
    assert (after_its_end, after_a_failure) == (usual, usual)
    assert seen == {(max(500_000, usual[0]) if usual[0] else 0, 10, 10)}


def hand_overs() -> list[object]:
    """What this process knows of hand-overs, other tests' included, by type: `isinstance` would
    make objects of other libraries speak.
    """
    return [one for one in gc.get_objects() if issubclass(type(one), (View, Part, Handle))]


@pytest.mark.parametrize("kind", list(Kind))
def test_every_fault_alone(kind: Kind) -> None:
    """Whatever goes wrong, nothing is violated and everything is given back."""
    outcomes = [ran(seed, kind) for seed in range(4)]
    assert [outcome.violation for outcome in outcomes] == [None] * 4
    assert any(HAPPENED[kind](outcome) for outcome in outcomes)


@pytest.mark.parametrize("seed", range(12))
def test_all_faults_together(seed: int) -> None:
    outcome = ran(seed, *Kind, pp=1 + seed % 2, buffers=4 + seed)
    assert outcome.violation is None
    assert outcome.steps > 250


def test_one_seed_is_one_run() -> None:
    """The same traces byte by byte: now, in another process, and as they were written down."""
    first, second = (traced(4, *PINNED_FAULTS, requests=30, pp=2) for _ in range(2))
    assert first[0].violation is None
    assert first[1].bytes_of == second[1].bytes_of
    assert len(first[1].bytes_of) > 6, "no process has died"
    told = subprocess.run(
        [sys.executable, "-c", SAY_DIGEST], check=True, capture_output=True, text=True,
        cwd=Path(__file__).resolve().parents[2], env={**os.environ, "PYTHONHASHSEED": "4711"},
    ).stdout.strip()
    assert told == first[1].digest() == PINNED


def test_another_seed_is_another_run() -> None:
    assert traced(0, requests=10)[1].digest() != traced(1, requests=10)[1].digest()


@pytest.mark.parametrize("seed", [0, 8])
def test_traces_conform(seed: int, tmp_path: Path) -> None:
    """What a simulated cluster does is what the tables allow, as real ones are judged. Processes
    stand still, and none that goes on is taken for dead.
    """
    faults = (Kind.CRASH, Kind.LOSS, Kind.ABORT, Kind.HANG, Kind.PAUSE, Kind.REORDERING)
    outcome, traces = traced(seed, *faults, requests=40, pp=2)
    assert outcome.violation is None
    files = []
    for process, data in traces.bytes_of.items():
        if data:
            files.append(tmp_path / f"{process}.jsonl")
            files[-1].write_bytes(data)
    verified = verify(load("transfer"), files)
    assert verified.is_explained
    assert all("has died" in told for told in verified.assumes)
    assert not any("which goes on" in told for told in verified.assumes)
    wanted = {0: {"give_up_source", "abort_again", "fence_silent"}, 8: {"give_up_sink"}}
    assert wanted[seed] <= verified.rows.keys()


def test_a_full_disk_ends_traces_and_nothing_else() -> None:
    whole, with_disk = traced(0, requests=40)
    full, with_full_disk = traced(0, Kind.DISK, requests=40)
    assert full.violation is None
    assert full.succeeded == whole.succeeded == 40
    sizes = {process: len(data) for process, data in with_disk.bytes_of.items()}
    cut = {process: len(data) for process, data in with_full_disk.bytes_of.items()}
    assert sizes.keys() == cut.keys()
    assert sum(cut.values()) < sum(sizes.values())


def test_a_removed_request_changes_nothing_for_the_rest() -> None:
    """So that a failing run can be made small."""
    def outcome_of(requests: int) -> RunOutcome:
        plan = planned(3, Shape(requests=requests), Random)
        return simulate(plan, Random)

    ten, five = outcome_of(10), outcome_of(5)
    assert ten.plan.requests[:5] == five.plan.requests
    less = without(ten, 0, 4, 7)
    assert (less.violation, less.succeeded) == (None, 7)


def test_a_shape_that_fits_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="decode 0: want at least 1"):
        Shape(decode=0)
    with pytest.raises(ValueError, match="would never find room"):
        Shape(pp=4, buffers=3)
