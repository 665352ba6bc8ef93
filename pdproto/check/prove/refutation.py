"""Refutations: for an obligation that fails, a small state and the step that breaks the claim.

The state may be unreachable. Bounded model checking can search for a run that violates the claim.
If there is one, the protocol has a defect; otherwise a lemma may be missing.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final

from pdproto.check.bmc import bounded
from pdproto.check.prove.confirming import stands
from pdproto.check.prove.induction import Counterexample, counterexample
from pdproto.check.prove.obligations import START, Claim, Obligation
from pdproto.check.result import Verdict
from pdproto.spec.language.symbols import Sizes
from pdproto.spec.language.system import DEFAULT, System

REFUTATIONS_MAX: Final = 3  # more would add little


@dataclass(frozen=True, slots=True)
class BoundedRuns:
    """The answer of bounded model checking. steps: the length of the longest runs examined, at
    these sizes of `default`.
    """

    steps: int
    sizes: Sizes
    violates: bool = False


@dataclass(frozen=True, slots=True)
class Refutation:
    """An obligation that fails. found: None if no state was found in which every claim holds.

    run: whether a short run violates the claim; None if there was no search.
    """

    obligation: Obligation
    found: Counterexample | None
    run: BoundedRuns | None = None

    @property
    def may_lack_a_lemma(self) -> bool:
        """Whether a lemma could exclude the state before the step."""
        if self.obligation.scope == START or self.obligation.claim.by:
            return False
        return self.run is None or not self.run.violates


def refutations(
    system: System, failed: Iterator[Obligation], timeout_s: float, steps: int | None
) -> Iterator[Refutation]:
    """Refute the first of the obligations, which fail. timeout_s: for one question.

    steps: the length of runs in which to search for a violation; None for no search.
    """
    for obligation in islice(failed, REFUTATIONS_MAX):
        found = counterexample(system, obligation, timeout_s)
        if found is None:
            continue
        if not stands(system, obligation, found):
            # The cut-off weakens formulas, so its state need not satisfy every claim.
            yield Refutation(obligation, None)
        else:
            yield Refutation(obligation, found, _run(system, obligation.claim, steps))


def _run(system: System, claim: Claim, steps: int | None) -> BoundedRuns | None:
    configuration = system.configurations.get(DEFAULT)
    if steps is None or configuration is None or claim.is_lemma or claim.part_of:
        return None
    result = bounded(system, configuration, steps, properties=(claim.name,))
    violates = any(f.name == claim.name and f.verdict is Verdict.VIOLATED for f in result.findings)
    return BoundedRuns(result.depth, configuration.sizes, violates)
