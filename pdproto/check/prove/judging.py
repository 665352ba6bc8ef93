"""Proves a subject, with all engines that it needs, and judges its claims."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from pdproto.check.prove.axioms import doubts
from pdproto.check.prove.confirming import confirmed
from pdproto.check.prove.independent import independent
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.proving import QUANTIFIED, Proof, ProofSettings, decided_by, prove
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.verdicts import Verdicts


def judged(
    one: ProofSubject, settings: ProofSettings, wanted: Sequence[str] = (), *,
    helped: bool = True, part: Callable[[Obligation], bool] | None = None,
) -> Verdicts:
    """The verdicts on the subject.

    wanted: as of `ProofSubject.obligations`. helped: Z3 with quantifiers decides the obligations
    that other engines leave open. part: which obligations are asked, if not all of them.
    """
    def decided(asked: Sequence[Obligation]) -> Proof:
        proof = prove(one.system, asked, settings)
        if not proof.interrupted:
            proof = confirmed(one.system, proof, settings.timeout_s)
        return decided_by(QUANTIFIED, one.system, proof, settings) if helped else proof

    asked = [o for o in one.obligations(wanted) if part is None or part(o)]
    doubted = doubts(one.system, one.every_ranking, settings.engines, settings.timeout_s)
    found = Verdicts(one, replace(decided(asked), doubts=doubted), wanted)
    return independent(found, decided) if part is None else found
