"""Parts of results that a check would return, with as little said as a test needs."""

from collections.abc import Mapping

from pdproto.check.result import (
    Arrow,
    Change,
    CheckResult,
    Finding,
    TraceStep,
)
from pdproto.spec.language.place import Place

COMMIT = "spec/examples/two_phase_commit.py"


def step(
    row: str,
    lane: str,
    *,
    parameters: str = "",
    trigger: str = "",
    why: str = "",
    line: int = 40,
    path: str = COMMIT,
    fault: str = "",
    received: Arrow | None = None,
    sent: tuple[Arrow, ...] = (),
    lost: tuple[Arrow, ...] = (),
    changes: tuple[Change, ...] = (),
    holds: Mapping[str, bool] | None = None,
) -> TraceStep:
    return TraceStep(
        row=row,
        parameters=parameters,
        lane=lane,
        trigger=trigger,
        why=why,
        place=Place(path, line),
        fault=fault,
        received=received,
        sent=sent,
        lost=lost,
        changes=changes,
        holds=holds or {},
    )


def change(lane: str, variable: str, before: str, after: str) -> Change:
    return Change(lane, variable, before, after)


def result(
    *findings: Finding,
    system: str = "two-phase-commit",
    description: str = "Participants agree, through a manager, on commit or abort.",
    sizes: Mapping[str, int] | None = None,
    faults: tuple[str, ...] = (),
    states: int = 288,
    transitions: int = 1146,
    depth: int = 11,
    seconds: float = 0.021,
    complete: bool = True,
    stopped: str = "",
    rows_never_fired: tuple[str, ...] = (),
    deadlocks: int = 0,
    reductions: tuple[str, ...] = (),
    row_places: Mapping[str, Place] | None = None,
) -> CheckResult:
    return CheckResult(
        system=system,
        description=description,
        sizes={"Participant": 3} if sizes is None else sizes,
        faults=faults,
        states=states,
        transitions=transitions,
        depth=depth,
        seconds=seconds,
        complete=complete,
        stopped=stopped,
        findings=findings,
        rows_never_fired=rows_never_fired,
        deadlocks=deadlocks,
        reductions=reductions,
        row_places=row_places or {},
    )
