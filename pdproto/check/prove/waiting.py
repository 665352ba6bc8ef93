"""A claim that waits, in a proof by ranking: from its premise to its goal."""

from collections.abc import Sequence

from pdproto.check.prove.obligations import MARK
from pdproto.check.prove.rewriting import apart, before_row, marked, renamed
from pdproto.spec.language.formula import (
    Forall,
    Formula,
    Not,
    Same,
    all_of,
    any_of,
    forall,
    free_variables,
    implies,
)
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.properties import LeadsTo
from pdproto.spec.language.ranking import Ranking, Witness
from pdproto.spec.language.sorts import Sort


def waiting(
    ranking: Ranking, claim: LeadsTo, table: Table, row: Row, mark: str, same: Sequence[Sort] = ()
) -> tuple[Formula, ...]:
    """The formulas: before and after the row the claim waits. mark: on its variables. same: those
    that are parameters of the row.
    """
    pending, goal = (apart(part, mark) for part in (pends(ranking, claim), claim.goal))
    return (pending, Not(goal), Not(before_row(goal, table, row)),
            *(Same(marked(v, mark), v) for v in same))


def pends(ranking: Ranking, claim: LeadsTo) -> Formula:
    """The formula that holds from the premise until the goal."""
    return claim.premise if ranking.pending is None else ranking.pending


def opened(ranking: Ranking, claim: LeadsTo) -> tuple[tuple[Sort, ...], Formula]:
    """The variables of a pending claim, and the goal.

    The variables are the free ones, and those of the goal's outermost `forall`s, which are removed.
    """
    variables = list(free_variables(all_of(pends(ranking, claim), claim.goal)))
    goal = claim.goal
    while isinstance(goal, Forall) and goal.variable not in variables:
        variables.append(goal.variable)
        goal = goal.body
    return tuple(variables), goal


def first_of(witness: Witness, pinned: Sequence[Sort]) -> Formula:
    """The formula: the witness is the first element that satisfies the claim, or none does.

    pinned: variables of earlier witnesses, which are fixed.
    """
    chosen = tuple(v for v in free_variables(witness.claim) if v not in pinned)
    variable = witness.variable
    back = {marked(v, MARK): v for v in pinned}
    elsewhere = renamed(apart(witness.claim, MARK), back)
    nowhere = forall(tuple(marked(v, MARK) for v in chosen), Not(elsewhere))
    if not variable.ordered:
        return any_of(nowhere, witness.claim)
    earlier = marked(variable, MARK)
    others = {marked(v, MARK): v for v in free_variables(witness.claim) if v != variable}
    before = renamed(apart(witness.claim, MARK), others)
    none_before = forall(earlier, implies(earlier.before(variable), Not(before)))
    return any_of(nowhere, all_of(witness.claim, none_before))
