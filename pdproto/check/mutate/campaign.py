"""The mutants of systems that share tables, and what became of those that were tried."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from pdproto.check.mutate.trials import Judged, MutantOutcome, Trials
from pdproto.check.result import PropertyKind

WAYS: Final = {
    "safety": (PropertyKind.ALWAYS,),
    "deadlock": (PropertyKind.DEADLOCK,),
    "witness": (PropertyKind.SOMETIMES,),
    "liveness": (PropertyKind.LEADS_TO,),
}


@dataclass(frozen=True, slots=True)
class Campaign:
    """names: of the systems, by which they are loaded. judged: by the numbers of the mutants."""

    names: tuple[str, ...]
    trials: Trials
    judged: tuple[Judged, ...]

    @property
    def counts(self) -> Counter[MutantOutcome]:
        return Counter(judged.outcome for judged in self.judged)

    def killed(self, way: str) -> int:
        """How many were killed by a property of that kind."""
        return sum(
            judged.outcome is MutantOutcome.KILLED and judged.kill is not None
            and judged.kill.kind in WAYS[way]
            for judged in self.judged
        )

    @property
    def score(self) -> float | None:
        """The share of the mutants that were killed; None where there was nothing to kill."""
        counts = self.counts
        killed = counts[MutantOutcome.KILLED]
        left = counts[MutantOutcome.SURVIVED] + counts[MutantOutcome.UNDECIDED]
        return killed / (killed + left) if killed + left else None
