"""Suggests lemmas automatically: clauses that hold in small instances and are inductive.

It tries every clause of up to three literals over one variable of each sort; if these do not
suffice, over two. First the clauses are tested on the reachable states of a small instance, then
the remaining ones on a larger instance. Of the clauses that hold in both, the greatest inductive
set is kept (Houdini: Flanagan and Leino, FME 2001): a clause that fails at the start, or that some
row breaks although all others hold, is dropped, until no clause is dropped. Proofs with these
clauses are valid for all sizes, because the instances only give guesses. Then clauses that the
properties do not need are left out. In the end the prover itself is asked about what is left: it
decides what is told.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, islice, permutations, product
from math import prod
from typing import Final, TypeAlias

import numpy as np

from pdproto.check.interpret import Cell, Interpreter, Store
from pdproto.check.prove.axioms import require_possible
from pdproto.check.prove.clauses import TooManyClausesError
from pdproto.check.prove.coverage import coverage
from pdproto.check.prove.judging import judged
from pdproto.check.prove.obligations import Claim, Method, claims, obligations
from pdproto.check.prove.places import ProofRows
from pdproto.check.prove.proving import CUTOFF, ProofSettings
from pdproto.check.prove.rewriting import renamed
from pdproto.check.prove.sieve import inductive_of, needed_of, sieves_of
from pdproto.check.prove.subject import ProofSubject
from pdproto.check.prove.verdicts import Verdicts
from pdproto.check.rigid import has_interpretation, interpretations, smallest_first
from pdproto.spec.language.formula import (
    Atom,
    Before,
    Formula,
    Not,
    Or,
    Same,
    Value,
    free_variables,
)
from pdproto.spec.language.properties import Always
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Rigid
from pdproto.spec.language.system import Configuration, System

Bits: TypeAlias = np.ndarray[tuple[int, int], np.dtype[np.uint8]]  # [literal, view / 8]
Clause: TypeAlias = tuple[int, ...]  # numbers of literals, ascending

VARIABLES_MAX: Final = 2  # of each sort
STATES_MAX: Final = 3_000  # of an instance, breadth first
WORDS: Final = ("Always", "all_of", "any_of", "exists", "forall", "implies")
LITERALS_LIMIT: Final = 160  # because all clauses of three literals are tried
LOOKS_MAX: Final = 2_000_000  # literals at all choices of elements of an instance
VIEWS_MAX: Final = 1_000_000  # of an instance, each with a byte for each literal
OBLIGATIONS_MAX: Final = 500_000  # of the clauses that hold in both instances: about 1 KB each


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
    variables = dict.fromkeys(v for one in formulas for v in free_variables(one))
    claims_ = [f'    Always("{one.name}", {one.claim!r}),' for one in lemmas(formulas)]
    words = sorted({word for line in claims_ for word in WORDS if f"{word}(" in line})
    lines = [f"from pdproto.spec.language import {', '.join(words)}"]
    lines += [f'{v!r} = {type(v).__name__}("{v!r}")' for v in variables]
    return "\n".join([*lines, "LEMMAS = (", *claims_, ")\n"])


def suggest(system: System, settings: ProofSettings) -> Suggestion:
    """Search for lemmas that prove the system's safety properties, and one answer to each trigger.

    settings: with which the prover is asked in the end. Raises ValueError if there is none, or too
    many literals to try all clauses, and SpecError if the axioms contradict each other.
    """
    units = (*ProofSubject(system, (), {}).units,)
    if not units:
        raise ValueError("there is no safety property, for which a lemma could help")
    require_possible(system, (CUTOFF,), settings.timeout_s)
    found = Suggestion((), False, 0, 0, (), units)
    for variables in range(1, VARIABLES_MAX + 1):
        if not found.proved:
            try:
                found = _suggestion(system, variables, settings)
            except TooManyClausesError as limit:
                sorts = "one variable" if variables == 1 else f"{variables} variables"
                return replace(found, stopped=f"{sorts} of each sort: {limit}")
    return found


def lemmas(formulas: Sequence[Formula]) -> tuple[Always, ...]:
    """The clauses as lemmas, with the names that `pasteable` gives them."""
    return tuple(Always(f"lemma_{n}", formula) for n, formula in enumerate(formulas, 1))


def _as_proved(system: System, found: Suggestion, settings: ProofSettings) -> Suggestion:
    """The suggestion as the prover judges it: each clause that is told is proved by it."""
    alone = ProofSubject(system, lemmas(found.lemmas), {})
    if found.proved and not _unproved(judged(alone, settings)):
        return found
    kept = found.inductive
    while True:
        verdicts = judged(ProofSubject(system, lemmas(kept), {}), settings)
        left = tuple(formula for lemma, formula in zip(lemmas(kept), kept, strict=True)
                     if lemma.name in verdicts.proved)
        if left == kept:
            unproved = _unproved(verdicts)
            return replace(found, lemmas=() if unproved else kept, proved=not unproved,
                           inductive=kept, unproved=unproved)
        kept = left


def _unproved(verdicts: Verdicts) -> tuple[str, ...]:
    return tuple(name for name in verdicts.chosen if name not in verdicts.proved)


def _suggestion(system: System, variables: int, settings: ProofSettings) -> Suggestion:
    """The search among clauses over so many variables of each sort.

    Raises TooManyClausesError if it would take too much memory.
    """
    pool = {sort: tuple(sort(f"{sort.prefix}{i}_") for i in range(variables))
            for sort in system.sorts}
    literals = tuple(_literals(system, pool))
    if len(literals) > LITERALS_LIMIT:
        raise ValueError(f"{len(literals)} literals; {LITERALS_LIMIT} is the limit")
    instances = _instances(system, variables)
    small = _clauses(_views(system, instances[0], pool, literals), literals, pool)
    large = _views(system, instances[1], pool, literals)
    true = [c for c in small if not np.bitwise_and.reduce(large[list(c)]).any()]
    places = ProofRows(system)
    if (owed := len(true) * sum(1 for _ in places.rows())) > OBLIGATIONS_MAX:
        raise TooManyClausesError(f"{len(true):,} clauses hold in small instances, which makes "
                                  f"{owed:,} obligations; {OBLIGATIONS_MAX:,} is the limit")
    own = tuple(replace(claim, method=Method.INDUCTION, by=()) if claim.by else claim
                for claim in claims(system))
    guesses = tuple(
        Claim(f"guess_{n}", _clause(c, literals), Method.INDUCTION, system.place, is_lemma=True)
        for n, c in enumerate(true)
    )
    every = tuple(claim for claim in (*own, *guesses)
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
    found = Suggestion(chosen, not unproved, len(literals), len(true), inductive, unproved)
    return _as_proved(system, found, settings)


def _instances(system: System, variables: int) -> tuple[Configuration, Configuration]:
    """An instance with that many elements of each sort, and a larger one.

    If the rigid symbols have no interpretation of such sizes, the system's own configurations are
    used. Raises TopologyError if there is none at all.
    """
    plain = [Configuration(system.sized(dict.fromkeys(system.sorts, variables + more)))
             for more in (0, 1)]
    found = [c for c in (*plain, *smallest_first(system)) if has_interpretation(system, c)]
    if not found:
        list(interpretations(system, plain[0].sizes, plain[0]))  # raises, with the reason
    return found[0], found[min(1, len(found) - 1)]


def _literals(
    system: System, pool: Mapping[type[Sort], tuple[Sort, ...]]
) -> Iterator[Formula]:
    for symbol in (*system.variables, *system.rigids):
        for arguments in product(*(pool[sort] for sort in symbol.sorts)):
            truths = (True,) if symbol.is_boolean else symbol.values
            for value in truths:
                atom = Atom(symbol, arguments, value)
                yield from (atom, Not(atom))
    for sort, variables in pool.items():
        for one, two in combinations(variables, 2):
            yield from (Same(one, two), Not(Same(one, two)))
            if sort.ordered:
                yield from (Before(one, two), Before(two, one))


def _views(
    system: System,
    configuration: Configuration,
    pool: Mapping[type[Sort], tuple[Sort, ...]],
    literals: Sequence[Formula],
) -> Bits:
    """For each literal, the views (states with elements for the variables) in which it is false.

    The first VIEWS_MAX alone. Raises TooManyClausesError for more than LOOKS_MAX looks at a state.
    """
    variables = tuple(v for group in pool.values() for v in group)
    seen: set[bytes] = set()
    sizes = configuration.sizes
    looked = len(literals) * prod(sizes[type(v)] for v in variables)
    if looked > LOOKS_MAX:
        raise TooManyClausesError(f"{looked:,} literals of a small instance; {LOOKS_MAX:,} is the "
                                  f"limit")
    for given in interpretations(system, sizes, configuration):
        oracle = Interpreter(system, sizes, (), given)
        looks = [[_look(oracle, f, environment) for f in literals]
                 for environment in oracle.environments(variables)]
        for store in _reached(oracle):
            state = dict(store)
            for look in looks[:VIEWS_MAX - len(seen)]:
                seen.add(bytes(
                    ((state.get(cell, start) if cell else start) == value) != positive
                    for cell, start, value, positive in look
                ))
    table = np.frombuffer(b"".join(sorted(seen)), np.uint8).reshape(len(seen), len(literals))
    return np.packbits(table.T, axis=1)


def _look(
    oracle: Interpreter, literal: Formula, environment: Mapping[Sort, int]
) -> tuple[Cell | None, Value, Value, bool]:
    """A cell, its initial value, and the value at which the literal holds, or does not."""
    positive = not isinstance(literal, Not)
    basic = literal.part if isinstance(literal, Not) else literal
    if isinstance(basic, Atom) and not isinstance(basic.symbol, Rigid):
        cell = (basic.symbol, tuple(environment[v] for v in basic.arguments))
        return cell, basic.symbol.values[0], basic.value, positive
    return None, oracle.holds(basic, {}, environment), True, positive


def _reached(oracle: Interpreter) -> list[Store]:
    order = [*islice(oracle.initial(), STATES_MAX)]
    seen = set(order)
    for store in order:
        for _, after in oracle.steps(store):
            if after not in seen and len(order) < STATES_MAX:
                seen.add(after)
                order.append(after)
    return order


def _clauses(
    false: Bits, literals: Sequence[Formula], pool: Mapping[type[Sort], tuple[Sort, ...]]
) -> list[Clause]:
    """The clauses that hold in every view, without those of which a part does, up to renaming."""
    swaps = _swaps(literals, pool)
    units = {n for n in range(len(literals)) if not false[n].any()}
    others = [n for n in range(len(literals)) if n not in units]
    pairs = {(i, j) for i, j in combinations(others, 2) if not (false[i] & false[j]).any()}
    found: list[Clause] = [(n,) for n in sorted(units)] + sorted(pairs)
    for i, j in combinations(others, 2):
        if (i, j) in pairs:
            continue
        rest = [k for k in others if k > j and (i, k) not in pairs and (j, k) not in pairs]
        if rest:
            open_ones = (false[rest] & (false[i] & false[j])).any(axis=1)
            found += [(i, j, k) for k, open_one in zip(rest, open_ones, strict=True)
                      if not open_one]
    return [
        clause for clause in found
        if not _trivial(clause, literals)
        and all(clause <= tuple(sorted(swap[n] for n in clause)) for swap in swaps)
    ]


def _trivial(clause: Clause, literals: Sequence[Formula]) -> bool:
    """Whether a clause says nothing of its own.

    It is always true (an atom or its negation, or a cell differs from one of two values), or it is
    about equal variables only, and so a shorter clause with one of them.
    """
    chosen = [literals[n] for n in clause]
    denied = [f.part for f in chosen if isinstance(f, Not)]
    cells = [(a.symbol, a.arguments) for a in denied if isinstance(a, Atom)]
    return (any(f in denied or (isinstance(f, Not) and isinstance(f.part, Same)) for f in chosen)
            or len(set(cells)) < len(cells))


def _swaps(
    literals: Sequence[Formula], pool: Mapping[type[Sort], tuple[Sort, ...]]
) -> list[list[int]]:
    """For each permutation of variables of one sort, the new number of each literal."""
    numbers = {_normal(f): n for n, f in enumerate(literals)}
    swaps = []
    for choice in product(*(permutations(group) for group in pool.values())):
        names: dict[Sort, Sort] = {}
        for group, order in zip(pool.values(), choice, strict=True):
            names |= dict(zip(group, order, strict=True))
        swaps.append([numbers[_normal(renamed(f, names))] for f in literals])
    return swaps


def _normal(formula: Formula) -> Formula:
    match formula:
        case Not(part):
            return Not(_normal(part))
        case Same(left, right) if right.name < left.name:
            return Same(right, left)
        case _:
            return formula


def _clause(clause: Clause, literals: Sequence[Formula]) -> Formula:
    chosen = tuple(literals[n] for n in clause)
    return chosen[0] if len(chosen) == 1 else Or(chosen)
