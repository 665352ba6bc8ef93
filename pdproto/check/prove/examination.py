"""Is a proof about anything? Which rows can fire at all, and which lemmas it rests on.

Claims that contradict each other prove everything. So every row must be possible in some state in
which all claims hold, but for those that are there in order never to fire.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from pdproto.check.prove.cutoff import ground
from pdproto.check.prove.obligations import Claim, Method, Obligation, Sequent, rows
from pdproto.check.prove.sat import Answer, Solver
from pdproto.spec.language.formula import FALSE, TRUE, normal
from pdproto.spec.language.system import System


def impossible_rows(
    system: System, every: Sequence[Claim], timeout_s: float
) -> Iterator[str]:
    """The rows, other than rejecting ones, that can fire in no state in which all claims hold."""
    assumed = tuple(claim for claim in every if claim.inductive)
    for table, row, layer in rows(system):
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

    They are of one row, and assume the same: grounding costs most, and they share it. Raises
    AssertionError for one that is not proved.
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
    """Claims that are enough to meet the selected obligation; None if all are not."""
    names = {number: name for name, number in switches.items()}
    if solver.ask([selector, *names]) is not Answer.UNSATISFIABLE:
        return None
    return frozenset(names[number] for number in solver.core() if number in names)


def idle_lemmas(
    system: System, every: Sequence[Claim], found: Sequence[Obligation], timeout_s: float
) -> tuple[str, ...]:
    """The lemmas that no other claim's proof rests on, as these proofs happen to be.

    Every claim but the lemma itself is proved without it. A lemma that is not named may yet be
    spared by another proof; whoever wants to know asks for the obligations `without` it.
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
    """The obligations of all other claims, which may not assume this one."""
    return tuple(
        replace(obligation, sequent=replace(obligation.sequent, assumed=tuple(
            claim for claim in obligation.sequent.assumed if claim.name != name
        )))
        for obligation in found if obligation.claim.name != name
    )
