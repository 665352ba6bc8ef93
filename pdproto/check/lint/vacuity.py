"""Finds rows that never fire, premises that never hold, and witnesses that cannot exist.

The rules use the values of subject.py. So a remark is true at these sizes, in every interpretation
of the rigid symbols; other cases are left to the explorer.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import islice

from pdproto.check.lint.bounds import INTERPRETATIONS_MAX
from pdproto.check.lint.remark import Remark, Severity
from pdproto.check.lint.subject import LintSubject
from pdproto.check.rigid import interpretations, smallest_first
from pdproto.check.words import formula_text
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import TooLargeError
from pdproto.ground.starts import why_no_start
from pdproto.spec.language.formula import Formula, Not, Or, normal
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.properties import Always, LeadsTo, OnRow, Property, Sometimes
from pdproto.spec.language.system import Configuration, System


def no_start(system: System, chosen: Configuration) -> Iterator[Remark]:
    """An `init=` that no state satisfies, at each size that the system declares, or at `chosen`."""
    if system.init is None:
        return
    for at in smallest_first(system) or [chosen]:
        with suppress(SpecError, TooLargeError):  # there are no interpretations, or too many
            worlds = islice(interpretations(system, at.sizes, at), INTERPRETATIONS_MAX)
            found = [why_no_start(Ground(system, at.sizes, (), given)) for given in worlds]
            if all(found) and len(found) < INTERPRETATIONS_MAX:
                yield Remark("init", Severity.ERROR, found[0].removeprefix("init: "), system.place)


def rows_that_never_fire(subjects: Sequence[LintSubject]) -> Iterator[Remark]:
    """The rows that can never fire, without `reject` rows, which are not meant to fire."""
    fired = {row.row.name for subject in subjects for _, row in subject.live_rows}
    for _, row in subjects[0].system.rows():
        if row.name not in fired and row.kind != "reject":
            yield Remark("never-fires", Severity.WARNING, f"{row.name} can never fire", row.place)


def vacuous_properties(subjects: Sequence[LintSubject]) -> Iterator[Remark]:
    """The properties that hold vacuously, and those that can never hold."""
    for claim in subjects[0].system.properties:
        problem = _problem(claim, subjects)
        if problem:
            message = f"{claim.name}: {problem}"
            yield Remark("vacuous", Severity.WARNING, message, claim.place)


def _problem(claim: Property, subjects: Sequence[LintSubject]) -> str | None:
    def never(formula: Formula) -> bool:
        return not any(_can_hold(formula, subject) for subject in subjects)

    match claim:
        case Always(claim=Or((Not(premise), _))) if never(premise):
            return f"its premise never holds: {formula_text(premise)}"
        case Sometimes(claim=formula) if never(formula):
            return f"it can never be seen: {formula_text(formula)}"
        case LeadsTo():
            return _empty_promise(claim, never)
        case OnRow(row=name):
            fired = any(row.row.name == name for s in subjects for _, row in s.live_rows)
            return None if fired else f"{name} can never fire"
        case _:
            return None


def _empty_promise(claim: LeadsTo, never: Callable[[Formula], bool]) -> str | None:
    if never(claim.premise):
        return f"its premise never holds: {formula_text(claim.premise)}"
    if never(claim.goal):
        return f"its goal can never hold: {formula_text(claim.goal)}"
    return None


def _can_hold(formula: Formula, subject: LintSubject) -> bool:
    wanted = normal(formula)
    return any(
        subject.possible(subject.ground.patterns(wanted, environment))
        for environment in subject.ground.instances(formula)
    )
