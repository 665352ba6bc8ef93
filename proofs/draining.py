"""The rankings of a built-in system, also of systems that differ from it by an edit."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pdproto.check.checking import CheckSettings, check
from pdproto.check.findings import VACUOUS
from pdproto.check.prove import obligations
from pdproto.check.prove.confirming import confirmed
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Obligation, claims
from pdproto.check.prove.proving import QUANTIFIED, Proof, ProofSettings, decided_by, prove
from pdproto.check.prove.ranking import ranking_obligations, spared
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.result import Verdict
from pdproto.cli.systems import subject
from pdproto.spec.language import DropRow, OnRow, ReplaceProperties, ReplaceRow, edited
from pdproto.spec.language.ranking import Ranking
from pdproto.spec.language.system import DEFAULT, System
from proofs import shared_proofs

LIMIT_S: Final = 60.0
HELPED: Final = ": helped"  # the rows that can fire in a pending state


def without(system: System, row: str) -> System:
    """The system without a row, and without the properties about that row alone."""
    kept = tuple(claim for claim in system.properties
                 if not isinstance(claim, OnRow) or claim.row != row)
    return edited(system, f"without-{row}", ReplaceProperties(kept), DropRow(row))


def unfair(system: System, row: str) -> System:
    """The system with a row of the protocol that need not fire."""
    (one,) = (each for _, each in system.rows() if each.name == row)
    return edited(system, f"unfair-{row}", ReplaceRow(row, replace(one, fair=False)))


def found(
    one: ProofSubject, system: System, rankings: Sequence[Ranking], *, helped_only: bool = False
) -> list[Obligation]:
    """The obligations of the rankings, with the lemmas and monotone of the subject."""
    named = {ranking.leads_to for ranking in one.fault_free.rankings}
    lemmas, calm = (*one.lemmas, *one.helping), spared(system, one.fault_free.without)
    every_one = (
        *ranking_obligations(system, claims(system, lemmas), one.monotone,
                             [r for r in rankings if r.leads_to not in named]),
        *ranking_obligations(calm, claims(calm, (*lemmas, *one.fault_free.lemmas)), one.monotone,
                             [r for r in rankings if r.leads_to in named]),
    )
    return [o for o in every_one if o.claim.name.endswith(HELPED) or not helped_only]


def proof(system: System, asked: Sequence[Obligation]) -> Proof:
    """The proof by the cut-off. A refuted obligation has failed if its counterexample is real."""
    return confirmed(system, prove(system, asked, _settings()), LIMIT_S)


def _settings() -> ProofSettings:
    return ProofSettings(timeout_s=LIMIT_S, workers=2, cache_folder=shared_proofs.folder)


def unhelped(name: str, system: System, *rankings: Ranking) -> dict[str, Status]:
    """The properties, of those rankings (none: all), that pend in some state where no row helps."""
    one = subject(name)
    pending = found(one, system, rankings or one.every_ranking, helped_only=True)
    shown = proof(system, pending)
    return {o.claim.part_of: shown.status(o) for o in pending
            if shown.status(o) is not Status.PROVED}


def without_helper(ranking: Ranking, row: str) -> Ranking:
    """The ranking without the helpers of that row."""
    return replace(ranking, helpers=tuple(h for h in ranking.helpers if h.row != row))


def drains(name: str, *promises: str, helped: bool = False) -> None:
    """Those ranked `leads_to` (none: all) are proved for all sizes, and so is every lemma that
    rankings alone need.

    The safety claims that they also use have a proof of their own. helped: Z3 with quantifiers
    decides the obligations that the cut-off leaves open.
    """
    one = subject(name)
    helping = [lemma.name for lemma in (*one.helping, *one.fault_free.lemmas)]
    parts = promises or [ranking.leads_to for ranking in one.every_ranking]
    asked = [o for name in (*helping, obligations.MONOTONE, *parts)
             for o in one.units.get(name, ())]
    shown = prove(one.system, asked, _settings())
    if helped:
        shown = decided_by(QUANTIFIED, one.system, shown, _settings())
    assert [o.name for o in shown.obligations if shown.status(o) is not Status.PROVED] == []


def pends(name: str, *promises: str) -> None:
    """No property holds by vacuity: without helpers each pends in some state.

    Only helpers need the elements that a ranking names. Such an element exists in each state, so
    the question has the same answer without them, and fewer elements.
    """
    one = subject(name)
    bare = [replace(ranking, helpers=(), witnesses=(), using=()) for ranking in one.every_ranking
            if ranking.leads_to in promises or not promises]
    assert unhelped(name, one.system, *bare) == {
        ranking.leads_to: Status.FAILED for ranking in bare
    }


def pends_where_explored(name: str, *promises: str) -> None:
    """No property holds by vacuity: each pends in a state that is reached at the default sizes."""
    one = subject(name)
    ranked = {ranking.leads_to for ranking in one.every_ranking}
    settings = CheckSettings(properties=tuple(ranked & {*promises} if promises else ranked))
    result = check(one.system, one.system.configurations[DEFAULT], settings)
    pending = {found.name for found in result.findings if VACUOUS not in found.note}
    assert settings.properties
    assert {*settings.properties} <= pending


def waits_where_explored(broken: System, leads_to: str) -> None:
    """The property of the defective system pends for ever in a fair run at the default sizes."""
    settings = CheckSettings(properties=(leads_to,))
    (finding,) = check(broken, broken.configurations[DEFAULT], settings).findings
    assert finding.verdict is Verdict.VIOLATED


def ranking(name: str, leads_to: str) -> Ranking:
    """The ranking of one property."""
    (found_one,) = (r for r in subject(name).every_ranking if r.leads_to == leads_to)
    return found_one
