"""The subject of `pdproto prove`: a system, its lemmas and rankings, and all obligations."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pdproto.check.load import NO_NAMES, LoadError, load_module
from pdproto.check.prove.assumptions import in_words
from pdproto.check.prove.counting import WithoutCounts
from pdproto.check.prove.coverage import coverage
from pdproto.check.prove.fair_rows import proved_under
from pdproto.check.prove.names import check_names, check_rows, strange
from pdproto.check.prove.obligations import Claim, Obligation, claims, obligations
from pdproto.check.prove.ranking import ranking_obligations, spared
from pdproto.spec.language.defined import defined
from pdproto.spec.language.formula import Formula
from pdproto.spec.language.kinds import shown, suggestion
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.properties import (
    Always,
    InRange,
    LeadsTo,
    Sometimes,
    in_range_name,
)
from pdproto.spec.language.ranking import FaultFree, Monotone, Ranking
from pdproto.spec.language.system import System, reads


@dataclass(frozen=True)
class ProofSubject:
    """A system with its lemmas, and formulas that are assumed about its rigid symbols.

    assumed: these formulas, by name. helping: lemmas that only its rankings use. fault_free: the
    rankings and lemmas for runs without some faults. lemmas_of: the base of an edit, if the lemmas
    are those of the base. broken: the names of lemmas that do not hold for the edit (inherited.py).
    without: the fault layers that are left out of the system. lemmas_in: the file or module whose
    LEMMAS they are, or would be. Beside each lemma stands the claim that it reads no sequence past
    its end, if it reads one, as beside each property of the system.
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
    without: tuple[str, ...] = ()
    lemmas_in: str = ""

    def __post_init__(self) -> None:
        calm = replace(self.fault_free, lemmas=_with_reads(self.fault_free.lemmas))
        for name, value in (("lemmas", _with_reads(self.lemmas)),
                            ("helping", _with_reads(self.helping)), ("fault_free", calm)):
            object.__setattr__(self, name, value)

    def meant(self, name: str) -> tuple[str, ...]:
        """The claim or lemma with this name, and the claim that it reads nothing past an end, if
        there is one.
        """
        reads = {lemma.name for lemma in (*self.lemmas, *self.helping, *self.fault_free.lemmas)
                 if isinstance(lemma, InRange)} & {in_range_name(name)}
        return (*self.system.meant([name]), *reads)

    def under(self, layers: Sequence[str]) -> "ProofSubject":
        """The subject under these layers of faults alone, with the same lemmas and rankings."""
        system = self.system
        kept = {name: tables for name, tables in system.faults.items() if name in layers}
        explored = {
            name: replace(configuration, faults=tuple(f for f in configuration.faults if f in kept))
            for name, configuration in system.configurations.items()
        }
        left_out = tuple(name for name in system.faults if name not in kept)
        spared_too = tuple(name for name in self.fault_free.without if name in kept)
        return replace(
            self, system=replace(system, faults=kept, configurations=explored, like=system),
            fault_free=replace(self.fault_free, without=spared_too), without=left_out,
        )  # fmt: skip

    def without_counts(self) -> "ProofSubject":
        """The subject with formulas about elements in the place of counts (counting.py)."""
        counting = WithoutCounts(self.system)
        lemmas, helping, calm = (tuple(map(counting.lemma, every)) for every in (
            self.lemmas, self.helping, self.fault_free.lemmas))
        system = counting.rewritten()
        if system is self.system:
            return self
        return replace(self, system=system, lemmas=lemmas, helping=helping,
                       fault_free=replace(self.fault_free, lemmas=calm))

    @property
    def claims(self) -> tuple[Claim, ...]:
        """The safety properties, and their lemmas."""
        return claims(self.system, self.lemmas)

    @property
    def every_claim(self) -> tuple[Claim, ...]:
        """`claims`, and the lemmas that only rankings use."""
        return claims(self.system, (*self.lemmas, *self.helping))

    @property
    def fault_free_claims(self) -> tuple[Claim, ...]:
        """`every_claim`, and the lemmas that hold only without some faults."""
        return claims(self.spared, (*self.lemmas, *self.helping, *self.fault_free.lemmas))

    @property
    def spared(self) -> System:
        """The system without the fault layers that `fault_free` leaves out."""
        return spared(self.system, self.fault_free.without)

    @property
    def every_ranking(self) -> tuple[Ranking, ...]:
        """All rankings, also those that hold only without some faults."""
        return (*self.rankings, *self.fault_free.rankings)

    def proved_words(self, name: str) -> str:
        """The text of the proof of a property, derived claim or lemma, with all that it assumes."""
        rested = {*self.closure([name])}
        lemmas = [claim.name for claim in self.fault_free_claims
                  if claim.is_lemma and claim.name in rested]
        ranking = next((one for one in self.every_ranking if one.leads_to == name), None)
        if ranking is None:
            spared = {one.name for one in self.fault_free_claims} - {
                one.name for one in self.every_claim}
            return in_words(self.system, lemmas=lemmas, without=(
                *self.without, *(self.fault_free.without if name in spared else ())))
        (claim,) = (one for one in self.system.properties
                    if isinstance(one, LeadsTo) and one.name == name)
        without = self.fault_free.without if ranking in self.fault_free.rankings else ()
        return in_words(self.system, lemmas=lemmas, where=proved_under(claim),
                        without=(*self.without, *without), assumed=ranking.assumed)

    @cached_property
    def units(self) -> Mapping[str, tuple[Obligation, ...]]:
        """All obligations, by the claim or the group that they are a part of (verdicts.py).

        Raises SpecError for a claim with the name of a group.
        """
        every, calm, calm_claims = self.every_claim, self.spared, self.fault_free_claims
        found = [*obligations(self.system, self.claims)]
        for system, claimed, lemmas in (
            (self.system, every, self.helping), (calm, calm_claims, self.fault_free.lemmas),
        ):
            names = [lemma.name for lemma in lemmas]
            found += obligations(system, claimed, wanted=names) if names else ()
        found += coverage(self.system, self.claims)
        found += ranking_obligations(self.system, every, self.monotone, self.rankings)
        found += ranking_obligations(calm, calm_claims, self.monotone, self.fault_free.rankings)
        units: dict[str, list[Obligation]] = {claim.name: [] for claim in calm_claims}
        named = frozenset(units)
        for obligation in found:
            if obligation.claim.part_of in named:
                raise SpecError(obligation.claim.place, f"{obligation.claim.part_of!r} is a group "
                                f"of obligations: give the claim of this name another one")
            units.setdefault(obligation.unit, []).append(obligation)
        return {name: tuple(own) for name, own in units.items()}

    def closure(self, names: Iterable[str]) -> tuple[str, ...]:
        """These units, and all on which they rest, directly or not."""
        found = dict.fromkeys(names)
        waiting = [*found]
        while waiting:
            # Obligations share their assumptions, so most of them name the same units.
            name = waiting.pop()
            rested = {tuple(o.rests_on) for o in self.units.get(name, ())}
            rested |= {(one,) for one in self.meant(name)}
            fresh = dict.fromkeys(name for each in rested for name in each if name not in found)
            found |= fresh
            waiting += fresh
        return tuple(found)

    def obligations(self, wanted: Sequence[str] = ()) -> tuple[Obligation, ...]:
        """All obligations; or those of the properties, lemmas and groups with these names, and of
        everything on which these rest.

        Raises LoadError for an unknown name.
        """
        for name in wanted:
            other = next((p for p in self.system.properties if p.name == name), None)
            if name not in self.units and isinstance(other, Sometimes):
                raise LoadError(f"{name} is a `sometimes`, which no proof shows: `pdproto check` "
                                f"looks for a state")
            if name not in self.units:
                raise LoadError(
                    f"{self.system.name} has no safety property {name!r}, and no ranking of that "
                    f"name{suggestion(name, self.units)}; it has: {', '.join(self.units)}"
                )
        chosen = {*(self.closure(wanted) if wanted else self.units)}
        return tuple(o for name, own in self.units.items() if name in chosen for o in own)


def _with_reads(lemmas: Iterable[Always]) -> tuple[Always, ...]:
    own = tuple(lemma for lemma in lemmas if not isinstance(lemma, InRange))
    return (*own, *(one for lemma in own
                    for one in reads(lemma.name, [defined(lemma.claim)], lemma.place)))


def with_proofs(
    system: System, home: ModuleType, lemmas: str | None = None, own: tuple[str, str] = ("", ""),
    known: Mapping[str, str] = NO_NAMES,
) -> ProofSubject:
    """The system with its own lemmas and rankings, or with those of another module.

    home: the module of the system. own: the modules of its lemmas and of its rankings; if empty,
    LEMMAS and RANKINGS of `home` are used if they are about the system. An edited system without
    lemmas uses those of its base. known: the modules of lemmas, by the names of systems. lemmas: a
    module's name, or a path to a file, instead of all these. Raises LoadError for a module without
    LEMMAS, or with lemmas that are not about the system.
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
    for held in (proofs, ranked):
        _require_kinds(held)
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
        lemmas_in=lemmas or of_lemmas or getattr(home, "__file__", None) or home.__name__,
    )
    every = (*one.lemmas, *one.helping, *one.fault_free.lemmas)
    check_names(one.system, every, one.monotone, one.every_ranking)
    if not of_lemmas:
        check_rows(one.every_ranking, (*_bases(system), *_systems(home)))
    return one


def _bases(system: System) -> Iterator[System]:
    """The system, and those of which it is an edit."""
    yield system
    if system.base is not None:
        yield from _bases(system.base)


def _systems(home: ModuleType) -> list[System]:
    """The systems of a module."""
    return [one for one in vars(home).values() if isinstance(one, System)]


def _other(name: str, home: ModuleType) -> ModuleType:
    """The module of that name or path; `home` itself if it is that module."""
    file = getattr(home, "__file__", None)
    if name.endswith(".py") and file is not None and Path(name).resolve() == Path(file).resolve():
        return home  # loaded once more, it would declare other symbols under the same names
    try:
        return load_module(name)
    except LoadError as error:
        raise LoadError(f"--lemmas {name}: {error}") from error


def _held(module: ModuleType, told: str) -> Mapping[str, Any]:
    """The names of a module with LEMMAS. Raises LoadError for a module without."""
    held = vars(module)
    if not _are_lemmas(held.get("LEMMAS")):
        raise LoadError(f"{told}: it needs LEMMAS, a tuple of Always")
    return held


def _own(system: System, home: ModuleType) -> Mapping[str, Any]:
    """The names of the system's own module, if it has LEMMAS about the system, or only RANKINGS of
    its properties or ASSUMED about its rigid symbols; else empty.
    """
    held = vars(home)
    _require_kinds(held)
    lemmas, rankings = held.get("LEMMAS", ()), held.get("RANKINGS", ())
    if not lemmas:
        names = {claim.name for claim in system.properties if isinstance(claim, LeadsTo)}
        _require_ranked(home, rankings)
        assumed = held.get("ASSUMED", {}).values()
        own = rankings or (assumed and not any(strange(system, one) for one in assumed))
        return held if own and names.issuperset(one.leads_to for one in rankings) else {}
    if any(strange(system, one.claim) for one in lemmas):
        # They may be about another system of the module.
        check_names(system, [one for one in lemmas if all(
            strange(other, one.claim) for other in (system, *_systems(home)))], (), ())
        return {}
    return held


def _require_ranked(home: ModuleType, rankings: Sequence[Ranking]) -> None:
    """Raise SpecError for a ranking that names no `leads_to` of any system of the module."""
    known = {claim.name for one in _systems(home) for claim in one.properties
             if isinstance(claim, LeadsTo)}
    for ranking in rankings:
        if ranking.leads_to not in known:
            raise SpecError(ranking.place, f"there is no leads_to {ranking.leads_to!r}"
                                           f"{suggestion(ranking.leads_to, known)}")


_TUPLES: Final = {"LEMMAS": Always, "RANKINGS": Ranking, "MONOTONE": Monotone}


def _require_kinds(held: Mapping[str, Any]) -> None:
    """Raise LoadError for a name of a proof that is something else than a proof has there.

    held: the names of a module.
    """
    of = held.get("__name__", "the module")
    for name, kind in _TUPLES.items():
        found = held.get(name, ())
        if not (isinstance(found, tuple | list) and all(isinstance(one, kind) for one in found)):
            raise LoadError(f"{name} of {of} is {shown(found)}: want a tuple of {kind.__name__}, "
                            f"as in {name} = ({kind.__name__}(...),)")
    calm, assumed = held.get("FAULT_FREE", FaultFree()), held.get("ASSUMED", {})
    if not isinstance(calm, FaultFree):
        raise LoadError(f"FAULT_FREE of {of} is {shown(calm)}: want FaultFree(...)")
    if not (isinstance(assumed, Mapping) and all(
            isinstance(name, str) and isinstance(one, Formula) for name, one in assumed.items())):
        raise LoadError(f"ASSUMED of {of} is {shown(assumed)}: want formulas by name, as in "
                        f"ASSUMED = {{'one_leader': forall(...)}}")


def _of_base(system: System, known: Mapping[str, str]) -> tuple[str, Mapping[str, Any]]:
    """The nearest base with lemmas: its name, and its module's names with the lemmas that apply."""
    base = system.base
    while base is not None:
        held = vars(load_module(known[base.name])) if base.name in known else _beside(base)
        lemmas = held.get("LEMMAS", ())
        if lemmas and _are_lemmas(lemmas):
            apply = tuple(lemma for lemma in lemmas if not strange(system, lemma.claim))
            return base.name, {**held, "LEMMAS": apply}
        base = base.base
    return "", {}


def _beside(system: System) -> Mapping[str, Any]:
    """The names of the loaded module of the system, if it has LEMMAS about it; else empty."""
    for module in tuple(sys.modules.values()):
        held = getattr(module, "__dict__", {})
        if "LEMMAS" in held and any(value is system for value in held.values()):
            return _own(system, module)
    return {}


def _are_lemmas(found: object) -> bool:
    return isinstance(found, tuple | list) and all(isinstance(one, Always) for one in found)
