"""A failing run, cut down to what it needs.

What cannot fire without what was left out is left out too. A run that is brought to rest is cut
before it is: what follows from fairness follows again.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

from pdproto.ground.grounding import GroundRow
from pdproto.spec.language.properties import Fairness
from pdproto.testing.cluster import Cluster, DivergenceError
from pdproto.testing.property_checker import PropertyChecker, ViolationError

Failure: TypeAlias = DivergenceError | ViolationError

TRIALS_MAX: Final = 400  # runs; a few seconds


def shrunk(
    error: Failure, cluster: Cluster, checker: PropertyChecker, fairness: Fairness
) -> ViolationError:
    """The failure again, after as few steps as were found to suffice. The cluster is used up."""
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
            failure = replayed(without, cluster, checker, fairness)
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


def replayed(
    rows: Sequence[GroundRow], cluster: Cluster, checker: PropertyChecker, fairness: Fairness
) -> ViolationError | None:
    """Let the rows fire that can, in this order, and bring the run to rest. What goes wrong."""
    cluster.begin()
    try:
        for row in rows:
            cluster.hear_all()
            if cluster.can(row):
                cluster.fire(row)
                checker.look(cluster)
        checker.settle(cluster, fairness, cluster.fire)
    except (DivergenceError, ViolationError) as error:
        return _as_violation(error, cluster, checker)
    return None


def _as_violation(error: Failure, cluster: Cluster, checker: PropertyChecker) -> ViolationError:
    if isinstance(error, ViolationError):
        return error
    return ViolationError(checker.diverged(cluster.moves, str(error)))
