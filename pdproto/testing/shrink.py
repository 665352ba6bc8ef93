"""Shortens a failing run: it leaves rows out as long as the run still fails.

A row that cannot fire without a row that was left out is left out too. The fair rows at the end of
a run are not kept: `settle` lets them fire again.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from pdproto.ground.grounding import GroundRow
from pdproto.spec.language.properties import Fairness
from pdproto.testing.cluster import Cluster, DivergenceError
from pdproto.testing.property_checker import PropertyChecker, ViolationError

Failure: TypeAlias = DivergenceError | ViolationError

TRIALS_MAX: Final = 400  # shorter runs to try, in a few seconds


def shrink(
    error: Failure, cluster: Cluster, checker: PropertyChecker, fairness: Fairness
) -> ViolationError:
    """The same failure after fewer steps, the fewest that were found.

    The cluster is in some other state afterwards.
    """
    rows: list[GroundRow] = [move.row for move in cluster.moves]
    if isinstance(error, DivergenceError) and cluster.attempted is not None:
        rows.append(cluster.attempted)
    best = _as_violation(error, cluster, checker)
    trials = 0
    width = max(1, len(rows) // 2)
    while width and trials < TRIALS_MAX:
        start, smaller = 0, False
        while start < len(rows) and trials < TRIALS_MAX:
            trials += 1
            without = rows[:start] + rows[start + width:]
            failure = replay_rows(without, cluster, checker, fairness)
            if failure is not None and failure.finding.name == best.finding.name and (
                    len(_fired(failure)) < len(_fired(best))):
                rows, best, smaller = without, failure, True
            else:
                start += width
        if not smaller:
            width //= 2
    return best


def _fired(failure: ViolationError) -> Sequence[object]:
    trace = failure.finding.trace
    return () if trace is None else trace.steps


def replay_rows(
    rows: Sequence[GroundRow], cluster: Cluster, checker: PropertyChecker, fairness: Fairness
) -> ViolationError | None:
    """Fire those of the rows that can, in this order, and settle the run. Returns the failure."""
    cluster.begin()
    try:
        checker.check_state(cluster)
        for row in rows:
            cluster.hear_all()
            if cluster.can(row):
                cluster.fire(row)
                checker.check_state(cluster)
        checker.settle(cluster, fairness, cluster.fire)
    except (DivergenceError, ViolationError) as error:
        return _as_violation(error, cluster, checker)
    return None


def _as_violation(error: Failure, cluster: Cluster, checker: PropertyChecker) -> ViolationError:
    if isinstance(error, ViolationError):
        return error
    return ViolationError(checker.diverged(cluster.moves, str(error)))
