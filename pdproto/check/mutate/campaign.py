"""The mutants of systems that share tables, with their results."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pdproto.check.mutate.trials import Judged, MutantOutcome, Trials
from pdproto.check.result import PropertyKind, Verdict

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
    out, because they are mutated in the parts of the systems. stopped: why not every mutant was
    tried; empty if each was.
    """

    names: tuple[str, ...]
    trials: Trials
    judged: tuple[Judged, ...]
    rows_of_parts: int = 0
    stopped: str = ""

    @property
    def verdict(self) -> Verdict | None:
        """VIOLATED if a mutant survived, UNKNOWN if one was not decided or not tried. None if no
        mutant of these systems changes a run.
        """
        counts = self.counts
        if counts[MutantOutcome.SURVIVED]:
            return Verdict.VIOLATED
        if self.stopped or counts[MutantOutcome.UNDECIDED]:
            return Verdict.UNKNOWN
        return Verdict.HOLDS if self.tested else None

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
        """The share of mutants that were killed, from 0 to 1; None if there is none to kill, or
        not every one was tried.
        """
        if self.stopped:
            return None
        counts = self.counts
        killed = counts[MutantOutcome.KILLED]
        left = counts[MutantOutcome.SURVIVED] + counts[MutantOutcome.UNDECIDED]
        return killed / (killed + left) if killed + left else None


def verdict(campaigns: Iterable[Campaign]) -> Verdict:
    """The worst verdict of these; UNKNOWN if no mutant changes a run, so nothing was tested."""
    found = {campaign.verdict for campaign in campaigns} - {None}
    return next((one for one in (Verdict.VIOLATED, Verdict.UNKNOWN, Verdict.HOLDS) if one in found),
                Verdict.UNKNOWN)
