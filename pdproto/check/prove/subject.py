"""What `pdproto prove` is asked about: a system, its lemmas and rankings, and all to be shown."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from pdproto.check.load import NO_NAMES, LoadError, load_module, suggestion
from pdproto.check.prove.assurance import in_words
from pdproto.check.prove.coverage import coverage
from pdproto.check.prove.obligations import (
    MONOTONE,
    Claim,
    Obligation,
    claims,
    obligations,
)
from pdproto.check.prove.ranking import proved_under, ranking_obligations, spared
from pdproto.spec.language.formula import Formula, atoms
from pdproto.spec.language.properties import Always, LeadsTo
from pdproto.spec.language.ranking import FaultFree, Monotone, Ranking
from pdproto.spec.language.symbols import Symbol
from pdproto.spec.language.system import System


@dataclass(frozen=True, slots=True)
class ProofSubject:
    """A system with its lemmas, and what is taken for granted of its rigid symbols.

    helping: lemmas that only its rankings rest on. fault_free: what is promised only of runs
    without some faults. lemmas_of: the system that it is an edit of, if the lemmas are that one's.
    broken: the names of those that do not hold of the edit (inherited.py).
    """

    system: System
    lemmas: tuple[Always, ...]
    assumed: Mapping[str, Formula]
    helping: tuple[Always, ...] = ()
    monotone: tuple[Monotone, ...] = ()
    rankings: tuple[Ranking, ...] = ()
    fault_free: FaultFree = field(default_factory=FaultFree)
    lemmas_of: str = ""
    broken: tuple[str, ...] = ()

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The safety properties, and the lemmas that they rest on."""
        return claims(self.system, self.lemmas)

    @property
    def every_claim(self) -> tuple[Claim, ...]:
        """With the lemmas that only rankings rest on."""
        return claims(self.system, (*self.lemmas, *self.helping))

    @property
    def fault_free_claims(self) -> tuple[Claim, ...]:
        """With those too that hold only without some faults."""
        return claims(self.spared, (*self.lemmas, *self.helping, *self.fault_free.lemmas))

    @property
    def spared(self) -> System:
        """The system without the faults that its fault-free runs lack."""
        return spared(self.system, self.fault_free.without)

    @property
    def every_ranking(self) -> tuple[Ranking, ...]:
        """With those of what is promised only without some faults."""
        return (*self.rankings, *self.fault_free.rankings)

    @property
    def proved_words(self) -> Mapping[str, str]:
        """By `leads_to` with a ranking: how it is proved, with all that this assumes."""
        promised = {claim.name: claim for claim in self.system.properties
                    if isinstance(claim, LeadsTo)}
        return {
            ranking.leads_to: in_words(
                self.system, where=proved_under(promised[ranking.leads_to]), without=without,
                assumed=ranking.assumed,
            )
            for rankings, without in (
                (self.rankings, ()), (self.fault_free.rankings, self.fault_free.without),
            )
            for ranking in rankings
        }

    def obligations(self, wanted: Sequence[str] = ()) -> tuple[Obligation, ...]:
        """All that is to be shown, or what is for the properties, lemmas and parts of these names.

        Raises LoadError for a name that is none of them.
        """
        every, calm, calm_claims = self.every_claim, self.spared, self.fault_free_claims
        parts = (
            *coverage(self.system, self.claims),
            *ranking_obligations(self.system, every, self.monotone, self.rankings),
            *ranking_obligations(calm, calm_claims, self.monotone, self.fault_free.rankings),
        )
        known = dict.fromkeys([*(c.name for c in calm_claims), *(o.claim.part_of for o in parts)])
        for name in wanted:
            if name not in known:
                raise LoadError(
                    f"{self.system.name} has no safety property {name!r}, and no ranking of that "
                    f"name{suggestion(name, known)}; it has: {', '.join(known)}"
                )
        ranked = {ranking.leads_to for ranking in self.every_ranking} & set(wanted)
        chosen = {*(wanted or known), *((MONOTONE,) if ranked else ())}
        found = [*obligations(self.system, self.claims, wanted=tuple(chosen))]
        for system, claimed, lemmas in (
            (self.system, every, self.helping), (calm, calm_claims, self.fault_free.lemmas),
        ):
            names = {lemma.name for lemma in lemmas} & chosen
            if names:
                found += obligations(system, claimed, wanted=tuple(names))
        return (*found, *(o for o in parts if o.claim.part_of in chosen))


def with_proofs(
    system: System, home: ModuleType, lemmas: str | None = None, own: tuple[str, str] = ("", ""),
    known: Mapping[str, str] = NO_NAMES,
) -> ProofSubject:
    """The system with its own lemmas and rankings, or with those of another module.

    home: the module that the system stands in. own: the modules of its lemmas and of its rankings;
    without them they are LEMMAS and RANKINGS in `home`, if they are about the system. An edited
    system that has none takes the lemmas of the system that it is an edit of. known: the modules of
    lemmas, by the names of systems. lemmas: a module's name, or a path to a file, in place of all
    these. Raises LoadError for a module without LEMMAS, or with lemmas of something else than the
    system.
    """
    of_lemmas, of_rankings = own
    base = ""
    if lemmas is not None:
        proofs = ranked = _held(_other(lemmas, home), f"--lemmas {lemmas}")
    elif of_lemmas:
        proofs = _held(load_module(of_lemmas), of_lemmas)
        ranked = _held(load_module(of_rankings), of_rankings) if of_rankings else {}
    else:
        proofs = ranked = _own(system, home)
        if not proofs:
            base, proofs = _of_base(system, known)
            ranked = {}
    assumed = proofs.get("ASSUMED", {})
    one = ProofSubject(
        replace(system, axioms={**system.axioms, **assumed}, like=system),
        tuple(proofs.get("LEMMAS", ())),
        assumed,
        () if proofs is ranked else tuple(ranked.get("LEMMAS", ())),
        ranked.get("MONOTONE", ()),
        ranked.get("RANKINGS", ()),
        ranked.get("FAULT_FREE", FaultFree()),
        base,
    )
    for lemma in one.lemmas:
        for symbol in _strange(one.system, lemma):
            raise LoadError(_not_of(system, lemma, symbol))
    return one


def _other(name: str, home: ModuleType) -> ModuleType:
    """The module of that name or path; the system's own module where it is that one."""
    file = getattr(home, "__file__", None)
    if name.endswith(".py") and file is not None and Path(name).resolve() == Path(file).resolve():
        return home  # loaded once more, it would declare other symbols under the same names
    try:
        return load_module(name)
    except LoadError as error:
        raise LoadError(f"--lemmas {name}: {error}") from error


def _held(module: ModuleType, told: str) -> Mapping[str, Any]:
    """What a module with LEMMAS holds. Raises LoadError for another one."""
    held = vars(module)
    if not _are_lemmas(held.get("LEMMAS")):
        raise LoadError(f"{told}: want LEMMAS, a tuple of Always")
    return held


def _own(system: System, home: ModuleType) -> Mapping[str, Any]:
    """What the system's own module holds, if it has LEMMAS and they are about the system."""
    held = vars(home)
    lemmas = held.get("LEMMAS", ())
    if not lemmas or not _are_lemmas(lemmas) or any(_strange(system, one) for one in lemmas):
        return {}
    return held


def _of_base(system: System, known: Mapping[str, str]) -> tuple[str, Mapping[str, Any]]:
    """The nearest system that this one is an edit of and that has lemmas, with those that apply."""
    base = system.base
    while base is not None:
        held = vars(load_module(known[base.name])) if base.name in known else _beside(base)
        lemmas = held.get("LEMMAS", ())
        if lemmas and _are_lemmas(lemmas):
            apply = tuple(lemma for lemma in lemmas if not _strange(system, lemma))
            return base.name, {**held, "LEMMAS": apply}
        base = base.base
    return "", {}


def _beside(system: System) -> Mapping[str, Any]:
    """What the module holds that the system stands in, if it has LEMMAS about the system."""
    for module in tuple(sys.modules.values()):
        held = getattr(module, "__dict__", {})
        if "LEMMAS" in held and any(value is system for value in held.values()):
            return _own(system, module)
    return {}


def _are_lemmas(found: object) -> bool:
    return isinstance(found, tuple | list) and all(isinstance(one, Always) for one in found)


def _strange(system: System, lemma: Always) -> list[Symbol]:
    """What the lemma speaks of that the system does not have."""
    known = {*system.variables, *system.rigids}
    return [atom.symbol for atom, _ in atoms(lemma.claim) if atom.symbol not in known]


def _not_of(system: System, lemma: Always, symbol: Symbol) -> str:
    told = f"lemma {lemma.name!r} ({lemma.place}) speaks of {symbol}"
    if any(other.name == symbol.name for other in (*system.variables, *system.rigids)):
        return (f"{told}, which is not {system.name}'s {symbol} but another of that name: the "
                f"spec has been imported twice, by two names; import it by one")
    return f"{told}, which {system.name} does not have"
