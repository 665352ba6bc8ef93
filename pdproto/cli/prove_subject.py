"""What `pdproto prove` is asked about: a system, its lemmas and rankings, and all to be shown."""

import importlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from pdproto.check.load import load
from pdproto.check.prove.coverage import coverage
from pdproto.check.prove.obligations import Claim, Obligation, claims, obligations
from pdproto.check.prove.ranking import RATCHETS, ranking_obligations
from pdproto.cli.options import UsageError
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.properties import Always
from pdproto.spec.language.ranking import Ranking, Ratchet
from pdproto.spec.language.system import System

# By built-in name: the module with its LEMMAS, and perhaps what is ASSUMED of its rigid symbols.
LEMMAS: Final[Mapping[str, str]] = {
    "two-phase-commit": "pdproto.spec.lemmas.two_phase_commit_lemmas",
    "lock-server": "pdproto.spec.lemmas.lock_server_lemmas",
    "registry": "pdproto.spec.lemmas.registry_lemmas",
    "dp-rank": "pdproto.spec.lemmas.dp_rank_lemmas",
    "transfer": "pdproto.spec.lemmas.transfer_lemmas",
    "transfer-lossy": "pdproto.spec.lemmas.transfer_lemmas",
    "transfer-in-place": "pdproto.spec.lemmas.direct_lemmas",
    "agreement": "pdproto.spec.lemmas.agreement_lemmas",
    "agreement-lost": "pdproto.spec.lemmas.agreement_lemmas",
    "agreement-once": "pdproto.spec.lemmas.agreement_lemmas",
    "optimistic": "pdproto.spec.lemmas.optimistic_lemmas",
    "optimistic-lossy": "pdproto.spec.lemmas.optimistic_lemmas",
}
# By built-in name: the module with the RANKINGS of its leads_to, their RATCHETS, and the LEMMAS
# that nothing else rests on.
RANKINGS: Final[Mapping[str, str]] = {
    "transfer": "pdproto.spec.lemmas.transfer_ranking",
    "agreement": "pdproto.spec.lemmas.agreement_ranking",
}


@dataclass(frozen=True, slots=True)
class Subject:
    """A system with its lemmas, and what is taken for granted of its rigid symbols.

    helping: lemmas that only its rankings rest on.
    """

    system: System
    lemmas: tuple[Always, ...]
    assumed: Mapping[str, Formula]
    helping: tuple[Always, ...] = ()
    ratchets: tuple[Ratchet, ...] = ()
    rankings: tuple[Ranking, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The safety properties, and the lemmas that they rest on."""
        return claims(self.system, self.lemmas)

    @property
    def every_claim(self) -> tuple[Claim, ...]:
        """With the lemmas that only rankings rest on."""
        return claims(self.system, (*self.lemmas, *self.helping))

    def obligations(self, wanted: Sequence[str] = ()) -> tuple[Obligation, ...]:
        """All that is to be shown, or what is for the properties, lemmas and parts of these names.

        Raises UsageError for a name that is none of them.
        """
        every, helping = self.every_claim, {lemma.name for lemma in self.helping}
        parts = (
            *coverage(self.system, self.claims),
            *ranking_obligations(self.system, every, self.ratchets, self.rankings),
        )
        known = dict.fromkeys([*(c.name for c in every), *(o.claim.part_of for o in parts)])
        for name in wanted:
            if name not in known:
                raise UsageError(
                    f"{self.system.name} has no safety property {name!r}, and no ranking of that "
                    f"name; it has: {', '.join(known)}"
                )
        ranked = {ranking.leads_to for ranking in self.rankings} & set(wanted)
        chosen = {*(wanted or known), *((RATCHETS,) if ranked else ())}
        found = [*obligations(self.system, self.claims, wanted=tuple(chosen))]
        if helping & chosen:
            found += obligations(self.system, every, wanted=tuple(helping & chosen))
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
