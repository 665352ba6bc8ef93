"""Checks that every trigger has at most one answer. If two rows can fire, the choice is undefined.

Rows compete if they have the same trigger, with the same arguments, at the same instance, in the
protocol itself or in the same fault layer (a fault is a choice of the environment). The caller's
choices are part of the trigger: rows that choose an element for the same variable compete only if
they choose the same element. A row never competes with itself.

Rows without a trigger compete if their order matters: they write different values to a cell, or one
makes the other's guard false. Then a runtime must pick one, and the spec does not say which. This
is a warning, because the explorer tries both orders.
"""

from collections.abc import Iterator
from itertools import combinations

from pdproto.check.lint.remark import Remark, Severity
from pdproto.check.lint.solver import after
from pdproto.check.lint.subject import LintSubject
from pdproto.check.words import trigger_text
from pdproto.ground.grounding import GroundRow


def determinism(subject: LintSubject) -> Iterator[Remark]:
    """The pairs of rows that can both fire, each pair once."""
    found: set[tuple[str, str]] = set()
    for event, numbers in subject.rows_by_event.items():
        for one, two in combinations(numbers, 2):
            first, second = subject.ground.rows[one], subject.ground.rows[two]
            names = (first.row.name, second.row.name)
            if names in found or not _compete(first, second):
                continue
            solution = _both(subject, one, two)
            if solution is None:
                continue
            if event.kind:
                found.add(names)
                yield _overlap(subject, first, second, solution)
            elif _order_matters(subject, one, two):
                found.add(names)
                problem = f"{names[0]} and {names[1]} can both fire, and their order matters"
                witness = _witness(subject, first, second, solution)
                yield Remark("determinism", Severity.WARNING, problem, second.row.place, witness)


def _compete(first: GroundRow, second: GroundRow) -> bool:
    """Whether only the guards can exclude one of the rows."""
    if first.row is second.row or first.layer != second.layer:
        return False
    shared = set(first.row.choose) & set(second.row.choose)
    return all(first.environment[v] == second.environment[v] for v in shared)


def _both(subject: LintSubject, one: int, two: int) -> dict[int, int] | None:
    """A state in which both rows can fire; None if there is none.

    With lemmas the question is that of `pdproto prove`: a faulty peer may send any message, so a
    lemma must exclude the state even if the trigger has not been sent.
    """
    solution = subject.solve(subject.receivable, subject.guards[one] + subject.guards[two])
    if solution is None or not subject.lemmas:
        return solution
    holds = subject.cells.holds
    conditions = (*holds(subject.conditions[one]), *holds(subject.conditions[two]))
    return subject.in_known_states(subject.receivable, conditions)


def _witness(
    subject: LintSubject, first: GroundRow, second: GroundRow, solution: dict[int, int]
) -> tuple[str, ...]:
    """The rows at their parameters, the cells of a state, and the topology."""
    cells = subject.witness(solution, subject.receivable)
    named = tuple(f"{row}" for row in (first, second) if row.environment)
    return (*named, *cells, *subject.topology)


def _overlap(
    subject: LintSubject, first: GroundRow, second: GroundRow, solution: dict[int, int]
) -> Remark:
    trigger = trigger_text(second.row.on).removeprefix("on ")
    problem = f"{first.row.name} and {second.row.name} can both answer {trigger}"
    # Two rows that ignore it, or two that reject it, differ only in their reasons.
    same = first.row.kind == second.row.kind != "row"
    severity = Severity.WARNING if same else Severity.ERROR
    witness = _witness(subject, first, second, solution)
    return Remark("determinism", severity, problem, second.row.place, witness)


def _order_matters(subject: LintSubject, one: int, two: int) -> bool:
    rows = subject.ground.rows
    writes = subject.written(rows[one]), subject.written(rows[two])
    if any(writes[0][cell] != writes[1][cell] for cell in writes[0].keys() & writes[1].keys()):
        return True
    both = subject.guards[one] + subject.guards[two]
    return any(
        subject.solve(
            subject.receivable, (*both, after(subject.cells.fails(guard), written))
        ) is not None
        for guard, written in (
            (rows[two].action.guard, writes[0]),
            (rows[one].action.guard, writes[1]),
        )
    )
