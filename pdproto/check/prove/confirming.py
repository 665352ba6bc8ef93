"""Tests counterexamples of weakened formulas against the original formulas.

If the cut-off has to weaken a formula, its model may violate the original formula, so the
obligation is REFUSED. But the model is a state at small sizes, so the oracle can evaluate it: if
every claim and the facts hold there, it is a real counterexample.

To make the state small takes a question for each pair of elements, so this is tried for small
questions only. For the others the second engine decides sooner.
"""

from dataclasses import replace
from typing import Final

from pdproto.check.interpret import Interpreter
from pdproto.check.prove.clauses import TooManyClausesError
from pdproto.check.prove.in_channels import refusal
from pdproto.check.prove.induction import Counterexample, counterexample
from pdproto.check.prove.judgement import Judgement, Status
from pdproto.check.prove.obligations import Obligation
from pdproto.check.prove.places import ProofRows
from pdproto.check.prove.proving import EngineAnswer, Proof
from pdproto.spec.language.formula import And, free_variables
from pdproto.spec.language.system import System

CONFIRMED_MAX: Final = 100_000  # clauses of a question whose model is tested


def confirmed(system: System, proof: Proof, timeout_s: float) -> Proof:
    """The proof, with REFUSED changed to FAILED wherever there is a real counterexample."""
    places = ProofRows(system)
    return replace(proof, outcomes=tuple(
        outcome if refusal(places, outcome.obligation) else _confirmed(system, outcome, timeout_s)
        for outcome in proof.outcomes
    ))


def _confirmed(system: System, outcome: EngineAnswer, timeout_s: float) -> EngineAnswer:
    if outcome.judgement.status is not Status.REFUSED:
        return outcome
    try:
        found = counterexample(system, outcome.obligation, timeout_s, CONFIRMED_MAX)
    except TooManyClausesError:
        return outcome
    if found is None or not stands(system, outcome.obligation, found):
        return outcome
    return replace(outcome, judgement=Judgement(Status.FAILED))


def stands(system: System, obligation: Obligation, found: Counterexample) -> bool:
    """Whether all assumptions and facts hold in the state of the counterexample."""
    oracle = Interpreter(system, found.sizes, given=found.given)
    assumed = (*system.axioms.values(), *(claim.formula for claim in obligation.sequent.assumed))
    for formula in assumed:
        for environment in oracle.environments(free_variables(formula)):
            if not oracle.holds(formula, found.values, environment):
                return False
    facts = And(obligation.sequent.facts)
    others = tuple(v for v in free_variables(facts) if v not in found.environment)
    return any(
        oracle.holds(facts, found.values, {**found.environment, **environment})
        for environment in oracle.environments(others)
    )
