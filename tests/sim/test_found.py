"""Mistakes of the nodes that the simulator has found, each made again: it is found again.

They were in what nodes remember and when they act, beside the tables: so no search of the tables
could have met them.
"""

from collections.abc import Callable
from random import Random

import pytest

from lab.sim.cluster import simulate
from lab.sim.fabric import WRITE
from lab.sim.outcome import DRAINED, STEADY, RunOutcome
from lab.sim.plan import Fault, Kind, Plan, PlannedRequest, Shape
from pdproto.node.data_path import Fenced
from pdproto.node.decode import incarnations as known
from pdproto.node.decode.fences import Fences
from pdproto.node.peer import Peer
from pdproto.node.prefill.sinks import Sinks
from pdproto.runtime.role import IncarnationsRole
from pdproto.spec.bugs import incarnations
from tests.sim.runs import ran


def found_only_with(
    monkeypatch: pytest.MonkeyPatch, owner: type, name: str, mistake: object,
    run: Callable[[], RunOutcome],
) -> str:
    """What the run violates with the mistake; without it nothing."""
    assert run().violation is None
    monkeypatch.setattr(owner, name, mistake)
    violation = run().violation
    assert violation is not None
    return violation.name


def test_a_fence_that_comes_up_when_all_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """The source had answered meanwhile, and the loop's turn failed."""
    end = Fences.end

    def of_a_known_life(fences: Fences, report: Fenced) -> None:
        if report.life not in fences._endpoints.lives:
            raise KeyError(report.source)
        end(fences, report)

    broken = found_only_with(monkeypatch, Fences, "end", of_a_known_life,
                             lambda: ran(0, Kind.ERROR, Kind.ABORT, fence_s=5.0))
    assert broken == STEADY


def test_a_life_that_its_sink_is_done_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its sink had failed and fenced, and its abort was lost: the source kept the life for ever."""
    def forgetful_of_none(sinks: Sinks, peer: Peer, floor: int) -> None:
        sinks._remembered.raise_floor(peer.name, peer.owner, floor, lambda *_: None)

    broken = found_only_with(
        monkeypatch, Sinks, "_raise_floor", forgetful_of_none,
        lambda: ran(21, Kind.LOSS, Kind.PARTITION, Kind.CRASH, requests=60, pp=2))
    assert broken == DRAINED


def with_table(monkeypatch: pytest.MonkeyPatch, bug: str, run: Callable[[], RunOutcome]) -> str:
    """What the run violates if its decode nodes know runs by the table of this defect."""
    assert run().violation is None
    table = next(bug_.system.tables[0] for bug_ in incarnations.BUGS if bug_.id == bug)
    monkeypatch.setattr(known, "INCARNATIONS_ROLE", IncarnationsRole(table))
    violation = run().violation
    assert violation is not None
    return violation.name


def restarted_once(*faults: Fault) -> RunOutcome:
    """A source restarts while it writes for a request that decode aborts later."""
    shape = Shape(prefill=1, decode=1, requests=1, latency_s=0.01, forward_s=0.001, write_s=100.0,
                  fence_s=5.0)
    request = PlannedRequest(0, "p0", "d0", 0.0, 0.0, (1,), allocation_s=0.0, generates_s=0.0,
                             aborted=("decode", 3.0))
    return simulate(Plan(0, shape, (request,), faults), Random)


CRASH = Fault(1, Kind.CRASH, 0.2, 0.3, "p0")


def test_a_source_that_restarts_before_it_has_spoken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knew of the process before it, and its successor's DRAINED ended the lease while a
    write of the dead one was still under way.
    """
    broken = with_table(monkeypatch, "I1",
                        lambda: restarted_once(Fault(0, Kind.LOSS, 0.002, 0.1), CRASH))
    assert broken == WRITE


def test_an_answer_of_a_source_that_has_restarted(monkeypatch: pytest.MonkeyPatch) -> None:
    """It counted for the process before it, whose write was still under way."""
    assert with_table(monkeypatch, "I2", lambda: restarted_once(CRASH)) == WRITE
