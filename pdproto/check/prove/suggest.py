"""Suggests lemmas automatically: clauses that hold in small instances and are inductive.

It tries every clause of up to three literals over one variable of each sort; if these do not
suffice, those of other shapes (guesses.py). The clauses are tested on the reachable states of two
small instances. Of those that hold in both, the greatest inductive set is kept (Houdini: Flanagan
and Leino, FME 2001): a clause that fails at the start, or that some row breaks although all others
hold, is dropped, until no clause is dropped. Proofs with these clauses are valid for all sizes,
because the instances only give guesses. Then clauses that the properties do not need are left out.
In the end the prover itself is asked about what is left: it decides what is told.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from pdproto.check.prove.axioms import require_possible
from pdproto.check.prove.clauses import TooManyClausesError
from pdproto.check.prove.coverage import coverage
from pdproto.check.prove.guesses import guesses, shapes
from pdproto.check.prove.judging import judged
from pdproto.check.prove.obligations import Claim, Method, claims, obligations
from pdproto.check.prove.places import ProofRows
from pdproto.check.prove.proving import CUTOFF, ProofSettings
from pdproto.check.prove.sieve import inductive_of, needed_of, sieves_of
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.verdicts import Verdicts
from pdproto.spec.language.formula import Formula, bound_variables, free_variables
from pdproto.spec.language.properties import Always
from pdproto.spec.language.system import System

WORDS: Final = ("Always", "all_of", "any_of", "exists", "forall", "implies")
OBLIGATIONS_MAX: Final = 500_000  # of the clauses that hold in both instances: about 1 KB each
LEAST_S: Final = 2.0  # for one question, when lemmas are left out
LEAST_ASKED: Final = 20  # times that the prover is asked then


@dataclass(frozen=True, slots=True)
class Suggestion:
    """The result of the search. lemmas: clauses that suffice, if the properties are proved.

    tried: the number of literals. true: the number of clauses that hold in both instances.
    inductive: the clauses that are inductive together. unproved: the properties that are not
    inductive with them. stopped: what was not searched, and why; "" if all was.
    """

    lemmas: tuple[Formula, ...]
    proved: bool
    tried: int
    true: int
    inductive: tuple[Formula, ...]
    unproved: tuple[str, ...]
    stopped: str = ""

    @property
    def kept(self) -> int:
        """The number of inductive clauses."""
        return len(self.inductive)


def pasteable(formulas: Sequence[Formula]) -> str:
    """Lemmas as source lines for a spec: an import of the language's words that they use, and the
    declared names of symbols, values and sorts.
    """
    if not formulas:
        return ""
    variables = dict.fromkeys(v for one in formulas for v in (
        *free_variables(one), *bound_variables(one)))
    claims_ = [f'    Always("{one.name}", {one.claim!r}),' for one in lemmas(formulas)]
    words = sorted({word for line in claims_ for word in WORDS if f"{word}(" in line})
    lines = [f"from pdproto.spec.language import {', '.join(words)}"]
    lines += [f'{v!r} = {type(v).__name__}("{v!r}")' for v in variables]
    return "\n".join([*lines, "LEMMAS = (", *claims_, ")\n"])


def suggest(system: System, settings: ProofSettings) -> Suggestion:
    """Search for lemmas that prove the system's safety properties, and one answer to each trigger.

    settings: with which the prover is asked in the end. Raises ValueError if there is no such
    property, and SpecError if the axioms contradict each other.
    """
    units = (*ProofSubject(system, (), {}).units,)
    if not units:
        raise ValueError("there is no safety property, for which a lemma could help")
    require_possible(system, (CUTOFF,), settings.timeout_s)
    found = Suggestion((), False, 0, 0, (), units)
    true: dict[Formula, None] = {}  # the clauses of all shapes so far
    stopped = ""
    for shape in shapes(system):
        try:
            more = guesses(system, shape)
            wider = true | dict.fromkeys(more.formulas)
            found = _suggestion(system, more.tried, tuple(wider), settings)
            true = wider
        except TooManyClausesError as limit:
            stopped = stopped or f"{shape.told}: {limit}"
        if found.proved:
            return found
    return replace(found, stopped=stopped)


def lemmas(formulas: Sequence[Formula]) -> tuple[Always, ...]:
    """The clauses as lemmas, with the names that `pasteable` gives them."""
    return tuple(Always(f"lemma_{n}", formula) for n, formula in enumerate(formulas, 1))


def _undecided(
    inductive: tuple[Formula, ...], dropped: Sequence[Formula]
) -> tuple[Formula, ...]:
    """What the prover is asked about: also witnesses by sets, which a sieve may not decide.

    With these, the other witnesses are left out: Z3 would look for their elements again and again.
    """
    by_sets = tuple(one for one in dropped if len(bound_variables(one)) > 1)
    return (*(one for one in inductive if not bound_variables(one)), *by_sets
            ) if by_sets else inductive


def _as_proved(system: System, found: Suggestion, settings: ProofSettings) -> Suggestion:
    """The suggestion as the prover judges it: each clause that is told is proved by it."""
    if found.proved and not _unproved(_judged(system, found.lemmas, settings)):
        return found
    kept = found.inductive
    while True:
        verdicts = _judged(system, kept, settings)
        left = tuple(formula for lemma, formula in zip(lemmas(kept), kept, strict=True)
                     if lemma.name in verdicts.proved)
        if left == kept:
            unproved = _unproved(verdicts)
            return replace(found, lemmas=() if unproved else _least(system, kept, settings),
                           proved=not unproved, inductive=kept, unproved=unproved)
        kept = left


def _least(
    system: System, kept: tuple[Formula, ...], settings: ProofSettings
) -> tuple[Formula, ...]:
    """Of lemmas that suffice fewer: halves of them are left out, then smaller parts, as long as
    the prover may be asked.
    """
    hasty = replace(settings, timeout_s=min(settings.timeout_s, LEAST_S))
    part, asked = len(kept), 0
    while part := part // 2:
        for start in range(len(kept) - part, -1, -part):
            asked += 1
            if asked > LEAST_ASKED:
                return kept
            rest = kept[:start] + kept[start + part:]
            verdicts = _judged(system, rest, hasty)
            if not _unproved(verdicts) and len(verdicts.proved) == len(rest) + len(verdicts.chosen):
                kept = rest
    return kept


def _judged(system: System, some: Sequence[Formula], settings: ProofSettings) -> Verdicts:
    return judged(ProofSubject(system, lemmas(some), {}), settings)


def _unproved(verdicts: Verdicts) -> tuple[str, ...]:
    return tuple(name for name in verdicts.chosen if name not in verdicts.proved)


def _suggestion(
    system: System, tried: int, true: Sequence[Formula], settings: ProofSettings
) -> Suggestion:
    """What these clauses prove. Raises TooManyClausesError if it would take too much memory."""
    places = ProofRows(system)
    if (owed := len(true) * sum(1 for _ in places.rows())) > OBLIGATIONS_MAX:
        raise TooManyClausesError(f"{len(true):,} clauses hold in small instances, which makes "
                                  f"{owed:,} obligations; {OBLIGATIONS_MAX:,} is the limit")
    own = tuple(replace(claim, method=Method.INDUCTION, by=()) if claim.by else claim
                for claim in claims(system))
    guessed = tuple(
        Claim(f"guess_{n}", formula, Method.INDUCTION, system.place, is_lemma=True)
        for n, formula in enumerate(true))
    every = tuple(claim for claim in (*own, *guessed)
                  if places.obstacle(claim.formula) is None)
    answers = tuple(coverage(system, every))
    sieves = sieves_of(system, (*obligations(system, every), *answers), settings.timeout_s)
    own = (*own, *dict.fromkeys(obligation.claim for obligation in answers))
    every = (*every, *own[-len(answers):]) if answers else every
    kept = inductive_of(every, sieves)
    names = {claim.name for claim in kept}
    unproved = tuple(claim.name for claim in own if claim.name not in names)
    needed = frozenset() if unproved else needed_of(kept, sieves)
    chosen = tuple(c.formula for c in kept if c.is_lemma and c.name in needed)
    inductive = tuple(claim.formula for claim in kept if claim.is_lemma)
    if unproved:
        inductive = _undecided(inductive, [
            claim.formula for claim in guessed if claim.name not in names])
    found = Suggestion(chosen, not unproved, tried, len(true), inductive, unproved)
    return _as_proved(system, found, settings)


