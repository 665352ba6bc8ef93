"""The mutants of systems that share tables, with their results."""

from collections import Counter
from dataclasses import dataclass
from typing import Final

from pdproto.check.mutate.trials import Judged, MutantOutcome, Trials
from pdproto.check.result import PropertyKind

WAYS: Final = {
    "safety": (PropertyKind.ALWAYS, PropertyKind.REFINES),
    "deadlock": (PropertyKind.DEADLOCK,),
    "witness": (PropertyKind.SOMETIMES,),
    "liveness": (PropertyKind.LEADS_TO,),
}
UNNOTICEABLE: Final = (MutantOutcome.EQUIVALENT, MutantOutcome.REFUSED)


@dataclass(frozen=True, slots=True)
class Campaign:
    """The results for some systems.

    names: by which the systems are loaded. judged: by number. rows_of_parts: how many rows are left
    out, because they are mutated in the parts of the systems.
    """

    names: tuple[str, ...]
    trials: Trials
    judged: tuple[Judged, ...]
    rows_of_parts: int = 0

    @property
    def counts(self) -> Counter[MutantOutcome]:
        """The number of mutants with each outcome."""
        return Counter(judged.outcome for judged in self.judged)

    @property
    def tested(self) -> int:
        """The number of mutants that change a run, which something should notice."""
        return sum(judged.outcome not in UNNOTICEABLE for judged in self.judged)

    def killed(self, way: str) -> int:
        """The number of mutants killed by a property of that kind. way: a key of WAYS."""
        return sum(
            judged.outcome is MutantOutcome.KILLED and judged.kill is not None
            and judged.kill.kind in WAYS[way]
            for judged in self.judged
        )

    @property
    def score(self) -> float | None:
        """The share of mutants that were killed, from 0 to 1; None if there is none to kill."""
        counts = self.counts
        killed = counts[MutantOutcome.KILLED]
        left = counts[MutantOutcome.SURVIVED] + counts[MutantOutcome.UNDECIDED]
        return killed / (killed + left) if killed + left else None
