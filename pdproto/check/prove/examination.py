"""Examines proofs: the rows that can never fire, and the lemmas that a proof uses.

Contradictory claims would prove everything. So every row must be enabled in some state in which all
claims hold, except for rows that are meant never to fire.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pdproto.check.prove.cutoff import ground
from pdproto.check.prove.obligations import Claim, Method, Obligation, Sequent
from pdproto.check.prove.places import ProofRows
from pdproto.check.prove.sat import Answer, Solver
from pdproto.spec.language.formula import FALSE, TRUE, normal
from pdproto.spec.language.system import System


def impossible_rows(
    system: System, every: Sequence[Claim], timeout_s: float
) -> Iterator[str]:
    """The rows, without rejecting ones, that can fire in no state in which all claims hold."""
    assumed = tuple(claim for claim in every if claim.inductive)
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
    system: System, obligations: Sequence[Obligation], timeout_s: float
) -> Iterator[frozenset[str]]:
    """For each obligation that the cut-off has proved, names of claims that suffice to meet it.

    The obligations must have the same row and the same assumptions, because they share the
    grounding, which takes most of the time. Raises AssertionError for one that is not proved.
    """
    grounded = ground(system, obligations, weakened=False, switched=True)
    solver = Solver(grounded.clauses.dimacs, timeout_s=timeout_s)
    for obligation, selector in zip(obligations, grounded.selectors, strict=True):
        names = _suffice(solver, selector, grounded.switches)
        if names is None:
            alone = ground(system, [obligation], weakened=True, switched=True)
            again = Solver(alone.clauses.dimacs, timeout_s=timeout_s)
            names = _suffice(again, alone.selectors[0], alone.switches)
        if names is None:
            raise AssertionError(f"{obligation.name} is not proved")
        yield names


def _suffice(
    solver: Solver, selector: int, switches: Mapping[str, int]
) -> frozenset[str] | None:
    """Claims that suffice for the selected obligation; None if all claims together do not."""
    names = {number: name for name, number in switches.items()}
    if solver.ask([selector, *names]) is not Answer.UNSATISFIABLE:
        return None
    return frozenset(names[number] for number in solver.core() if number in names)


def idle_lemmas(
    system: System, every: Sequence[Claim], found: Sequence[Obligation], timeout_s: float
) -> tuple[str, ...]:
    """The lemmas that these proofs use for no other claim.

    All other claims are proved without such a lemma. Other proofs might do without more lemmas; to
    find out, prove the obligations `without` one.
    """
    used: set[str] = set()
    groups: dict[tuple[str, int], list[Obligation]] = {}
    for obligation in found:
        if obligation.row is not None:
            key = obligation.scope, id(obligation.sequent.assumed)
            groups.setdefault(key, []).append(obligation)
    for group in groups.values():
        for obligation, names in zip(group, rested_on(system, group, timeout_s), strict=True):
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
