"""Makes a failing run smaller: fewer requests, faults and ranks, with the same violation.

Every attempt is a run, so their number is limited. The result is not always the smallest such run.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Final, TypeVar

from lab.sim.outcome import RunOutcome, Violation
from lab.sim.plan import Plan

T = TypeVar("T")

ATTEMPTS: Final = 150
Run = Callable[[Plan], RunOutcome]


def shrunk(outcome: RunOutcome, run: Run, attempts: int = ATTEMPTS) -> RunOutcome:
    """The outcome of a smaller plan that breaks the same property.

    Raises ValueError for an outcome that breaks none.
    """
    if outcome.violation is None:
        raise ValueError(f"seed {outcome.plan.seed}: no property was violated")
    return _Shrinker(outcome, outcome.violation, run, attempts).shrink()


class _Shrinker:
    """best: the smallest outcome so far. left: attempts that are left."""

    def __init__(
        self, outcome: RunOutcome, violation: Violation, run: Run, attempts: int
    ) -> None:
        self.best = outcome
        self.left = attempts
        self._name: Final = violation.name
        self._run: Final = run

    def shrink(self) -> RunOutcome:
        self._stop_early()
        self._one_rank()
        for _ in range(2):  # a second time, because fewer faults may need fewer requests
            self._reduce(self.best.plan.requests,
                         lambda kept: replace(self.best.plan, requests=kept))
            self._reduce(self.best.plan.faults, lambda kept: replace(self.best.plan, faults=kept))
            self._one_rank()
        return self.best

    def _fails(self, plan: Plan) -> bool:
        """Run the plan. Returns whether it breaks the same property; then it becomes the best."""
        if self.left == 0:
            return False
        self.left -= 1
        outcome = self._run(plan)
        if outcome.violation is None or outcome.violation.name != self._name:
            return False
        self.best = outcome
        return True

    def _stop_early(self) -> None:
        """Leave out requests and faults that come after the violation."""
        plan, violation = self.best.plan, self.best.violation
        if violation is not None:
            self._fails(replace(
                plan,
                requests=tuple(r for r in plan.requests
                               if min(r.prefill_at, r.decode_at) <= violation.at),
                faults=tuple(fault for fault in plan.faults if fault.at <= violation.at)))

    def _one_rank(self) -> None:
        plan = self.best.plan
        if plan.shape.pp > 1:
            self._fails(replace(plan, shape=replace(plan.shape, pp=1)))

    def _reduce(self, items: tuple[T, ...], smaller: Callable[[tuple[T, ...]], Plan]) -> None:
        """Leave out as many items as possible: first by halves, at last one by one."""
        size = max(1, len(items) // 2)
        while items and self.left:
            start = 0
            while start < len(items):
                rest = items[:start] + items[start + size:]
                if self._fails(smaller(rest)):
                    items = rest
                else:
                    start += size
            if size == 1:
                break
            size //= 2
