"""Verifies traces of shared machines: each line (shared.py), then an order (shared_orders.py)."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from pdproto.check.trace.shared import SharedReplay
from pdproto.check.trace.shared_orders import Orders, Recorder, Violation, book_of
from pdproto.check.trace.verdict import NO_ROW, Rejection, ReplayResult, why_unjudged
from pdproto.check.unjudged import unjudged
from pdproto.spec.language.properties import Always, OnRow
from pdproto.spec.language.system import System

UNDECIDED: Final = (
    "an order of the lines violates no property: too many orders of them are possible")


def verify_shared(system: System, paths: Sequence[Path], *, from_middle: bool) -> ReplayResult:
    """Replay such traces against the system. Raises OSError for a file that cannot be read.

    Properties are evaluated only if the traces are whole: lines that are missing may change all.
    """
    recorder = None if from_middle else Recorder(system, len(paths))
    replay = SharedReplay(system, paths, from_middle=from_middle, recorder=recorder)
    rejection = replay.run()
    missing, assumes = _gaps(replay), tuple(replay.absent())
    if recorder is not None and rejection is None and not missing and not assumes:
        orders = Orders(recorder.steps, book_of(recorder, [
            (one.table.machine, one.own, one.bounded) for one in replay.instances]))
        found = orders.run()
        violation = orders.violation(found)
        assumes = (UNDECIDED,) if found.undecided else ()
        if violation is not None:
            rejection, replay = _rejected(system, paths, violation)
    return ReplayResult(
        system, tuple(map(str, paths)), replay.lines, len(replay.instances), dict(replay.fired), 0,
        max((instance.fired for instance in replay.instances), default=0), dict(replay.assumed),
        replay.passed, () if rejection else missing, () if rejection else assumes, rejection,
        {} if rejection else {**_untold(system, recorder), **unjudged(system, why_unjudged)})


def _untold(system: System, recorder: Recorder | None) -> dict[str, str]:
    """The properties that are not evaluated, or not in each way in which they may be violated."""
    if recorder is None:
        return {claim.name: "the traces may begin in the middle" for claim in system.properties
                if isinstance(claim, Always | OnRow)}
    return {f"{name}, where it depends on {', '.join(untold)}": "no line tells each of its values"
            for name, untold in recorder.claims.left_out.items()}


def _gaps(replay: SharedReplay) -> tuple[str, ...]:
    empty = [f"{file.path} has no lines" for file in replay.files if not file.last]
    idle = (NO_ROW,) if replay.lines and not replay.fired else ()
    return (*empty, *idle, *(f"{file.path} does not tell everything" for file in replay.files
                      if not file.whole))


def _rejected(
    system: System, paths: Sequence[Path], violation: Violation
) -> tuple[Rejection | None, SharedReplay]:
    """Replay up to that line."""
    replay = SharedReplay(system, paths, from_middle=False,
                          wrong=(violation.file, violation.line, violation.why))
    rejection = replay.run()
    return rejection and replace(rejection, claim=violation.claim), replay
