"""The questions about every proof: it is whole, no claim is vacuous, and it notices a defect."""

from collections.abc import Sequence
from dataclasses import replace

from pdproto.check.checking import CheckSettings, check
from pdproto.check.prove.examination import idle_lemmas, impossible_rows
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.obligations import Obligation, claims, obligations
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED, Proof, ProofSettings, decided_by, prove
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.result import CheckResult, Verdict
from pdproto.cli.systems import subject
from pdproto.spec.bugs.catalogue import BUGS
from pdproto.spec.language.properties import Always
from pdproto.spec.language.system import DEFAULT, System
from proofs import shared_proofs

LIMIT_S = 60.0
CORES_S = 600.0  # Z3 names the claims that it needs, which may take longer than a proof


def all_of(name: str) -> tuple[ProofSubject, tuple[Obligation, ...]]:
    one = subject(name)
    return one, obligations(one.system, one.claims)


def unproved(proof: Proof) -> list[str]:
    """The parts without a proof, in words."""
    return [f"{o.name}: {proof.status(o)}" for o in proof.obligations
            if proof.status(o) is not Status.PROVED]


def is_proved(name: str, *, engines: Sequence[str] = (CUTOFF,)) -> None:
    """Every property, derived promise and lemma holds for all sizes."""
    one, found = all_of(name)
    settings = ProofSettings(engines=engines, timeout_s=LIMIT_S, workers=2,
                             cache_folder=shared_proofs.folder)
    assert unproved(prove(one.system, found, settings)) == []


def is_wholly_proved(name: str, *, helped: bool = False) -> None:
    """The same by the cut-off, that every trigger has one answer, and all that has a ranking.

    helped: Z3 with quantifiers decides the obligations that the cut-off leaves open.
    """
    one = subject(name)
    settings = ProofSettings(timeout_s=LIMIT_S, workers=2, cache_folder=shared_proofs.folder)
    proof = prove(one.system, one.obligations(), settings)
    if helped:
        proof = decided_by(QUANTIFIED, one.system, proof, settings)
    assert unproved(proof) == []


def is_about_something(name: str, but: Sequence[str] = ()) -> None:
    """Every row can fire in some state in which all claims hold, except these, which cannot."""
    one = subject(name)
    assert list(impossible_rows(one.system, one.claims, LIMIT_S)) == list(but)


def is_about_what_is_explored(name: str) -> None:
    """In states that are reached, at the sizes of `default`, every row fires and all lemmas hold.

    For systems whose claims have too many instances for `is_about_something`.
    """
    result = explored(name, subject(name).system)
    assert {finding.verdict for finding in result.findings} == {Verdict.HOLDS}
    assert result.rows_never_fired == ()


def is_refuted_where_explored(name: str, broken: System) -> None:
    """A property or lemma fails in a state that the defective system reaches, at small sizes."""
    findings = explored(name, broken).findings
    assert {f.name for f in findings if f.verdict is Verdict.VIOLATED} - {"deadlock"}


def explored(name: str, system: System) -> CheckResult:
    """The check of `system`, at its default sizes, of its properties and of the named one's lemmas.
    """
    lemmas = subject(name).lemmas
    claimed = replace(system, properties=(*system.properties, *lemmas), like=system)
    result = check(claimed, claimed.configurations[DEFAULT], CheckSettings())
    assert {lemma.name for lemma in lemmas} <= {finding.name for finding in result.findings}
    return result


def has_no_idle_lemma(
    name: str, *, engines: Sequence[str] = (CUTOFF,), ranked: Sequence[str] = ()
) -> None:
    """Each lemma is used by the proof of another claim, except these, which rankings use. engines:
    the first that has a proof counts.
    """
    one, found = all_of(name)
    limit_s = LIMIT_S if engines == (CUTOFF,) else CORES_S
    assert idle_lemmas(one.system, one.claims, found, limit_s, engines) == tuple(ranked)


def has_no_idle_lemma_among(name: str, lemmas: Sequence[Always]) -> None:
    """Each of these is used by the proof of another claim, or of an answer."""
    one = subject(name)
    idle = idle_lemmas(one.system, one.claims, one.obligations(), LIMIT_S)
    assert not {lemma.name for lemma in lemmas} & set(idle)


def defect(number: str) -> System:
    """A defective system of the catalogue."""
    return next(bug.system for bug in BUGS if bug.id == number)


def is_refuted(name: str, broken: System, at: str, engine: str = CUTOFF) -> None:
    """With the same lemmas the defective system is not proved, and the changed row is to blame."""
    one = subject(name)
    system = replace(broken, axioms={**broken.axioms, **one.assumed})
    found = [o for o in obligations(system, claims(system, one.lemmas)) if o.scope == at]
    proof = prove(system, found, ProofSettings((engine,), timeout_s=LIMIT_S, workers=1))
    assert any(proof.status(o) in (Status.FAILED, Status.REFUSED) for o in proof.obligations)
