"""Examines proofs: the rows that can never fire, and the lemmas that a proof uses.

Contradictory claims would prove everything. So every row must be enabled in some state in which all
claims hold, except for rows that are meant never to fire.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeAlias

from pdproto.check.prove import quantified
from pdproto.check.prove.clauses import TooManyClausesError
from pdproto.check.prove.cutoff import EXACT_MAX, WEAKENED_MAX, ground
from pdproto.check.prove.obligations import Claim, Method, Obligation, Sequent
from pdproto.check.prove.places import ProofRows
from pdproto.check.prove.proving import CUTOFF, QUANTIFIED
from pdproto.check.prove.sat import Answer, Solver
from pdproto.spec.language.formula import FALSE, TRUE, normal
from pdproto.spec.language.system import System

# For each obligation, names of claims that suffice for an engine to prove it; None if it does not.
Cores: TypeAlias = Callable[
    [System, Sequence[Obligation], float], Iterator[frozenset[str] | None]]


def impossible_rows(
    system: System, every: Sequence[Claim], timeout_s: float
) -> Iterator[str]:
    """The rows, without rejecting ones, that can fire in no state in which all claims hold."""
    assumed = tuple(claim for claim in every if claim.holds_always)
    for table, _, row, layer in ProofRows(system).rows():
        if row.kind == "reject":
            continue
        anything = Claim(row.name, FALSE, Method.ON_ROW, row.place)
        sequent = Sequent(assumed, (normal(table.guard(row)), TRUE), table.parameters(row))
        fires = Obligation(anything, sequent, table, row, layer)
        grounded = ground(system, [fires], weakened=True)
        solver = Solver(grounded.clauses.dimacs, timeout_s=timeout_s)
        if solver.ask(grounded.selectors) is not Answer.SATISFIABLE:
            yield row.name


def rested_on(
    system: System, obligations: Sequence[Obligation], timeout_s: float,
    engines: Sequence[str] = (CUTOFF,),
) -> Iterator[frozenset[str]]:
    """For each obligation, names of claims that suffice for the first of the engines to prove it.

    The obligations must have the same row and the same assumptions, because they share the
    grounding, which takes most of the time. Raises AssertionError for one that is not proved.
    """
    found: dict[int, frozenset[str]] = {}
    for engine in engines:
        left = [one for one in obligations if id(one) not in found]
        for obligation, names in zip(left, _CORES[engine](system, left, timeout_s), strict=True):
            if names is not None:
                found[id(obligation)] = names
    for obligation in obligations:
        if id(obligation) not in found:
            raise AssertionError(f"{obligation.name} is not proved")
        yield found[id(obligation)]


def _cores_of_cutoff(
    system: System, obligations: Sequence[Obligation], timeout_s: float
) -> Iterator[frozenset[str] | None]:
    """For each obligation, names of claims that suffice to meet it; None if the cut-off does not
    prove it.
    """
    try:
        grounded = ground(system, obligations, weakened=False, switched=True, most=EXACT_MAX)
    except TooManyClausesError:
        yield from (None for _ in obligations)
        return
    solver = Solver(grounded.clauses.dimacs, timeout_s=timeout_s)
    for obligation, selector in zip(obligations, grounded.selectors, strict=True):
        names = _suffice(solver, selector, grounded.switches)
        yield _core_by_itself(system, obligation, timeout_s) if names is None else names


def _core_by_itself(
    system: System, obligation: Obligation, timeout_s: float
) -> frozenset[str] | None:
    """The same of one obligation, also with the assumed claims that have an `exists`."""
    try:
        grounded = ground(system, [obligation], weakened=True, switched=True, most=WEAKENED_MAX)
    except TooManyClausesError:
        return None
    solver = Solver(grounded.clauses.dimacs, timeout_s=timeout_s)
    return _suffice(solver, grounded.selectors[0], grounded.switches)


def _suffice(
    solver: Solver, selector: int, switches: Mapping[str, int]
) -> frozenset[str] | None:
    """Claims that suffice for the selected obligation; None if all claims together do not."""
    names = {number: name for name, number in switches.items()}
    if solver.ask([selector, *names]) is not Answer.UNSATISFIABLE:
        return None
    return frozenset(names[number] for number in solver.core() if number in names)


_CORES: Final[Mapping[str, Cores]] = {CUTOFF: _cores_of_cutoff, QUANTIFIED: quantified.cores}


def idle_lemmas(
    system: System, every: Sequence[Claim], found: Sequence[Obligation], timeout_s: float,
    engines: Sequence[str] = (CUTOFF,),
) -> tuple[str, ...]:
    """The lemmas that these proofs, by the first engine that has one, use for no other claim.

    All other claims are proved without such a lemma. Other proofs might do without more lemmas; to
    find out, prove the obligations `without` one.
    """
    used: set[str] = set()
    groups: dict[tuple[str, int], list[Obligation]] = {}
    for obligation in found:
        if obligation.sequent.assumed:
            key = obligation.scope, id(obligation.sequent.assumed)
            groups.setdefault(key, []).append(obligation)
    for group in groups.values():
        rested = rested_on(system, group, timeout_s, engines)
        for obligation, names in zip(group, rested, strict=True):
            used |= names - {obligation.claim.name}
    return tuple(claim.name for claim in every if claim.is_lemma and claim.name not in used)


def without(found: Sequence[Obligation], name: str) -> tuple[Obligation, ...]:
    """The obligations of all other claims, without assuming this one."""
    return tuple(
        replace(obligation, sequent=replace(obligation.sequent, assumed=tuple(
            claim for claim in obligation.sequent.assumed if claim.name != name
        )))
        for obligation in found if obligation.claim.name != name
    )
