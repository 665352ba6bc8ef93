"""What `pdproto prove` is asked about: a system, its lemmas and rankings, and all to be shown."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pdproto.check.load import load
from pdproto.check.prove.coverage import coverage
from pdproto.check.prove.obligations import (
    RATCHETS,
    Claim,
    Obligation,
    claims,
    obligations,
)
from pdproto.check.prove.ranking import ranking_obligations, spared
from pdproto.cli.options import UsageError
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.properties import Always
from pdproto.spec.language.ranking import Ranking, Ratchet, Undisturbed
from pdproto.spec.language.system import System

# By built-in name: the module with its LEMMAS, and perhaps what is ASSUMED of its rigid symbols.
LEMMAS: Final[Mapping[str, str]] = {
    "two-phase-commit": "pdproto.spec.lemmas.two_phase_commit_lemmas",
    "lock-server": "pdproto.spec.lemmas.lock_server_lemmas",
    "registry": "pdproto.spec.lemmas.registry_lemmas",
    "dp-rank": "pdproto.spec.lemmas.dp_rank_lemmas",
    **dict.fromkeys(
        ("transfer", "transfer-lossy", "transfer-calm", "transfer-patient", "transfer-prompt",
         "transfer-restart", "transfer-landed", "transfer-drained", "transfer-two-sinks",
         "transfer-two-lives"),
        "pdproto.spec.lemmas.transfer_lemmas"),
    "transfer-in-place": "pdproto.spec.lemmas.direct_lemmas",
    "transfer-direct": "pdproto.spec.lemmas.page_fence_lemmas",
    **dict.fromkeys(
        ("agreement", "agreement-lost", "agreement-once"), "pdproto.spec.lemmas.agreement_lemmas"),
    **dict.fromkeys(("optimistic", "optimistic-crash"), "pdproto.spec.lemmas.optimistic_lemmas"),
    **dict.fromkeys(
        ("optimistic-lossy", "optimistic-patient", "optimistic-one-attempt",
         "optimistic-one-sided"),
        "pdproto.spec.lemmas.optimistic_safe_lemmas"),
    **dict.fromkeys(("whole", "whole-pair"), "pdproto.spec.lemmas.whole_lemmas"),
    "complete-bootstrap": "pdproto.spec.lemmas.complete_bootstrap_lemmas",
    "complete-routing": "pdproto.spec.lemmas.complete_routing_lemmas",
    **dict.fromkeys(
        ("complete-attempts", "complete-contended"),
        "pdproto.spec.lemmas.complete_attempts_lemmas"),
    **dict.fromkeys(("complete", "complete-restart"), "pdproto.spec.lemmas.complete_lemmas"),
}
# By built-in name: the module with the RANKINGS of its leads_to, their RATCHETS, the LEMMAS that
# nothing else rests on, and perhaps what it promises only UNDISTURBED.
RANKINGS: Final[Mapping[str, str]] = {
    "registry": "pdproto.spec.lemmas.registry_ranking",
    "dp-rank": "pdproto.spec.lemmas.dp_rank_ranking",
    "transfer": "pdproto.spec.lemmas.transfer_ranking",
    "agreement": "pdproto.spec.lemmas.agreement_ranking",
    "optimistic": "pdproto.spec.lemmas.optimistic_ranking",
    "optimistic-lossy": "pdproto.spec.lemmas.optimistic_lossy_ranking",
    "optimistic-patient": "pdproto.spec.lemmas.optimistic_patient_ranking",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A system with its lemmas, and what is taken for granted of its rigid symbols.

    helping: lemmas that only its rankings rest on. undisturbed: what is promised only of runs
    without some faults.
    """

    system: System
    lemmas: tuple[Always, ...]
    assumed: Mapping[str, Formula]
    helping: tuple[Always, ...] = ()
    ratchets: tuple[Ratchet, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    undisturbed: Undisturbed = field(default_factory=Undisturbed)

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The safety properties, and the lemmas that they rest on."""
        return claims(self.system, self.lemmas)

    @property
    def every_claim(self) -> tuple[Claim, ...]:
        """With the lemmas that only rankings rest on."""
        return claims(self.system, (*self.lemmas, *self.helping))

    @property
    def undisturbed_claims(self) -> tuple[Claim, ...]:
        """With those too that hold only without some faults."""
        return claims(self.calm, (*self.lemmas, *self.helping, *self.undisturbed.lemmas))

    @property
    def calm(self) -> System:
        """The system without the faults that its undisturbed runs lack."""
        return spared(self.system, self.undisturbed.without)

    @property
    def every_ranking(self) -> tuple[Ranking, ...]:
        """With those of what is promised only without some faults."""
        return (*self.rankings, *self.undisturbed.rankings)

    def obligations(self, wanted: Sequence[str] = ()) -> tuple[Obligation, ...]:
        """All that is to be shown, or what is for the properties, lemmas and parts of these names.

        Raises UsageError for a name that is none of them.
        """
        every, calm, calm_claims = self.every_claim, self.calm, self.undisturbed_claims
        parts = (
            *coverage(self.system, self.claims),
            *ranking_obligations(self.system, every, self.ratchets, self.rankings),
            *ranking_obligations(calm, calm_claims, self.ratchets, self.undisturbed.rankings),
        )
        known = dict.fromkeys([*(c.name for c in calm_claims), *(o.claim.part_of for o in parts)])
        for name in wanted:
            if name not in known:
                raise UsageError(
                    f"{self.system.name} has no safety property {name!r}, and no ranking of that "
                    f"name; it has: {', '.join(known)}"
                )
        ranked = {ranking.leads_to for ranking in self.every_ranking} & set(wanted)
        chosen = {*(wanted or known), *((RATCHETS,) if ranked else ())}
        found = [*obligations(self.system, self.claims, wanted=tuple(chosen))]
        for system, claimed, lemmas in (
            (self.system, every, self.helping), (calm, calm_claims, self.undisturbed.lemmas),
        ):
            names = {lemma.name for lemma in lemmas} & chosen
            if names:
                found += obligations(system, claimed, wanted=tuple(names))
        return (*found, *(o for o in parts if o.claim.part_of in chosen))


def subject(name: str, module: str | None = None) -> Subject:
    """The system of that name, with its own lemmas and rankings or those of another module."""
    system = load(name)
    proofs = _held(module or LEMMAS.get(name))
    ranked = proofs if module else _held(RANKINGS.get(name))
    assumed = proofs.get("ASSUMED", {})
    return Subject(
        replace(system, axioms={**system.axioms, **assumed}, like=system),
        proofs.get("LEMMAS", ()),
        assumed,
        () if module else ranked.get("LEMMAS", ()),
        ranked.get("RATCHETS", ()),
        ranked.get("RANKINGS", ()),
        ranked.get("UNDISTURBED", Undisturbed()),
    )


def _held(module: str | None) -> Mapping[str, Any]:
    """What a module with LEMMAS holds. Raises UsageError for another one."""
    if module is None:
        return {}
    try:
        held = vars(importlib.import_module(module))
    except ModuleNotFoundError as error:
        raise UsageError(f"--lemmas {module}: {error}") from error
    lemmas = held.get("LEMMAS")
    if not isinstance(lemmas, tuple) or not all(isinstance(lemma, Always) for lemma in lemmas):
        raise UsageError(f"--lemmas {module}: want LEMMAS, a tuple of Always")
    return held
