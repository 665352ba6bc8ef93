"""Proofs of random systems, against the oracle: what is proved holds, and what fails can fail."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pdproto.check.prove.induction import counterexample
from pdproto.check.prove.judgement import Status
from pdproto.check.prove.judging import judged
from pdproto.check.prove.obligations import START
from pdproto.check.prove.proving import ProofSettings, prove
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.suggest import lemmas, suggest
from pdproto.check.prove.verdicts import Verdicts
from pdproto.spec.language import Always, Configuration, Message, SpecError, System
from pdproto.spec.language.elements import ElementFunction
from tests.judging import judged_system
from tests.oracle.answers import answer
from tests.oracle.interpreter import Interpreter, State
from tests.oracle.search import TooManyError, free, starts
from tests.oracle.systems import draw

STATES_MAX = 300
SIZES = 1, 2
SETTINGS = ProofSettings(timeout_s=1.0)


@dataclass(frozen=True)
class Compared:
    """Of one system: the differences, and the numbers of the verdicts that were compared."""

    differences: tuple[str, ...] = ()
    proved: int = 0
    failed: int = 0


def compared(seed: int) -> Compared:
    """Prove the system of the seed, and ask the oracle at each size that is not too large."""
    system, configuration = draw(seed)
    try:
        one = ProofSubject(system, (), {}).without_counts()
        found = Verdicts(one, prove(one.system, one.obligations(), SETTINGS))
    except SpecError:  # axioms that contradict each other, or a claim or count that no proof takes
        return Compared()
    sizes = [dict(configuration.sizes), *(dict.fromkeys(configuration.sizes, n) for n in SIZES)]
    differences: list[str] = []
    proved: set[str] = set()
    for chosen in sizes:
        try:
            expected = answer(system, Configuration(chosen, tuple(system.faults)), STATES_MAX)
        except TooManyError:
            continue
        known = found.proved & expected.verdicts.keys()
        proved |= known
        at = {sort.__name__: size for sort, size in chosen.items()}
        differences += [f"{name} is proved, and violated at {at}" for name in known
                        if expected.verdicts[name].violated]
    told = list(steps(found, system))
    if proved or told:
        judged_system(seed)
    return Compared((*differences, *(one for one in told if one)), len(proved), len(told))


def as_lemmas(seed: int) -> tuple[tuple[str, ...], int]:
    """The differences between the proofs of the system's claims where each `always` is one of its
    properties, and where it is a lemma beside it; and how many obligations are decided in both.
    """
    system, _ = draw(seed)
    lemmas = tuple(claim for claim in system.properties if type(claim) is Always)
    others = tuple(claim for claim in system.properties if claim not in lemmas)
    told: list[dict[tuple[str, str], Status]] = []
    for one in (ProofSubject(system, (), {}),
                ProofSubject(replace(system, properties=others, like=system), lemmas, {})):
        try:
            counted = one.without_counts()
            proof = prove(counted.system, counted.obligations(), SETTINGS)
        except SpecError:
            told.append({})
        else:
            told.append({(o.name, o.layer): proof.status(o) for o in proof.obligations})
    first, second = told
    both = [one for one in first.keys() & second.keys()
            if {first[one], second[one]} <= {Status.PROVED, Status.FAILED}]
    return (*(f"{name} is not asked" for name, _ in sorted(first.keys() ^ second.keys())),
            *(f"{one[0]}: {first[one]}, and as a lemma {second[one]}"
              for one in both if first[one] != second[one])), len(both)


def suggested(seed: int) -> tuple[tuple[str, ...], int]:
    """The differences between what is suggested for the system of the seed and what a proof with
    these lemmas says; and how many clauses are suggested.
    """
    drawn, _ = draw(seed)
    try:
        system = ProofSubject(drawn, (), {}).without_counts().system
        found = suggest(system, SETTINGS)
    except (SpecError, ValueError):  # as in `compared`, or no safety property
        return (), 0
    if not found.tried:  # too many literals
        return (), 0
    clauses = lemmas(found.lemmas if found.proved else found.inductive)
    proof = judged(ProofSubject(system, clauses, {}), replace(SETTINGS, timeout_s=4.0))
    told = {claim.name for claim in clauses}
    unproved = {name for name in proof.chosen if name not in proof.proved}
    return (*(f"{name} is suggested, and not proved" for name in sorted(unproved & told)),
            *(f"{name} is told otherwise than it is proved"
              for name in sorted(unproved - told ^ {*found.unproved}))), len(clauses)


def steps(found: Verdicts, system: System) -> Iterator[str]:
    """For each obligation of an `always` that fails, the difference, or "" if the oracle agrees.

    None of a system with channels, of which a proof knows single places, nor with counts.
    """
    if found.one.system is not system or any(
            isinstance(s, Message) and s.fifo is not None for s in system.variables):
        return
    for obligation in found.proof.obligations:
        claim = next((p for p in system.properties
                      if isinstance(p, Always) and p.name == obligation.claim.name), None)
        if claim is None or found.status(obligation) is not Status.FAILED:
            continue
        shown = counterexample(system, obligation, SETTINGS.timeout_s)
        if shown is None:
            continue
        reader = Interpreter(system, shown.sizes, tuple(system.faults), shown.given)

        def holds(state: State, reader: Interpreter = reader, claim: Always = claim) -> bool:
            return all(reader.holds(claim.claim, dict(state), env)
                       for env in reader.choices(free(claim.claim)))

        before = frozenset(cells_of(reader, shown.values))
        if obligation.scope == START:
            agreed = any(not holds(state) for state in starts(reader, STATES_MAX))
        elif obligation.row is None:  # it does not follow from the other claims
            agreed = not holds(before)
        else:
            agreed = holds(before) and any(
                step.row.name == obligation.row.name and not holds(after)
                for step, after in reader.successors(before))
        yield "" if agreed else f"{obligation.name}: the oracle sees nothing that breaks it"


def cells_of(reader: Interpreter, values: Mapping[Any, Any]) -> Iterator[tuple[Any, Any]]:
    """The cells of a state as the oracle has them, without those that are as at the start."""
    for (symbol, at), value in values.items():
        if value == symbol.values[0]:
            continue
        if isinstance(symbol, ElementFunction):  # in a proof, the relation that is its graph
            yield (symbol, at[:-1]), at[-1]
        elif isinstance(symbol, Message):
            yield (symbol, at), reader.receivers(symbol, at)
        else:
            yield (symbol, at), value
