"""Claims about ordered channels that no proof can be about (places.py): engines are not asked."""

from collections.abc import Callable, Iterator, Sequence
from functools import wraps
from typing import Final, TypeAlias

from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Method, Obligation
from pdproto.check.prove.places import ProofRows
from pdproto.spec.language.formula import TRUE, And, Not
from pdproto.spec.language.system import System

Decide: TypeAlias = Callable[[System, Sequence[Obligation], float], Iterator[Judgement]]

ADVICE: Final = "bound the search with --bmc K, or explore sizes with `pdproto check`"


def refusal(places: ProofRows, obligation: Obligation) -> Judgement | None:
    """The verdict that the claim is of no form that a proof can have; None if it is of one."""
    # A ranking has been found provable as a whole (ranking_in_channels.py).
    claim = obligation.claim
    formula = TRUE if claim.method is Method.RANKING else claim.formula
    if claim.refines is not None:  # it reads the mapping before and after a row
        formula = And(tuple(part for one in claim.refines.formulas for part in (one, Not(one))))
    reason = places.obstacle(formula)
    return None if reason is None else Judgement(Status.REFUSED, f"{reason}; {ADVICE}")


def refusing(decide: Decide) -> Decide:
    """The engine's `decide`, which is not asked about claims that are refused."""

    @wraps(decide)
    def decided(
        system: System, obligations: Sequence[Obligation], timeout_s: float
    ) -> Iterator[Judgement]:
        places = ProofRows(system)
        refused = [refusal(places, one) for one in obligations]
        asked = [one for one, said in zip(obligations, refused, strict=True) if said is None]
        answers = decide(system, asked, timeout_s) if asked else iter(())
        for said in refused:
            yield next(answers) if said is None else said

    return decided
