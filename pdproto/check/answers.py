"""Whether a row answers every message and completion, as one more finding of a check.

Exploration cannot find a missing row: an event without a row changes no state. So the check also
runs lint's rule, at lint's small sizes (lint/totality.py).
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pdproto.check.lint import Remark, Severity, small, subjects
from pdproto.check.lint.remark import arranged
from pdproto.check.lint.totality import totality
from pdproto.check.result import CheckResult, Finding, PropertyKind, Verdict
from pdproto.ground.layout import TooLargeError
from pdproto.spec.language.properties import Always
from pdproto.spec.language.system import System

ANSWERED: Final = "every_message_is_answered"
CLAIM: Final = "a row, an Ignore or a Reject for each message and completion in each state"


def with_answers(
    system: System, result: CheckResult, lemmas: Sequence[Always] = ()
) -> CheckResult:
    """The result with one more finding. It is violated if lint finds an event without a row.

    lemmas: claims that hold in every state. A state in which one fails is unreachable, so an event
    needs no row there.
    """
    return replace(result, findings=(*result.findings, _finding(system, lemmas)))


def is_answered(result: CheckResult) -> bool:
    """Whether no finding of `with_answers` is violated."""
    return all(found.name != ANSWERED or found.verdict is not Verdict.VIOLATED
               for found in result.findings)


def _finding(system: System, lemmas: Sequence[Always]) -> Finding:
    found = Finding(
        ANSWERED, PropertyKind.ANSWERS, CLAIM, Verdict.HOLDS, "", system.place)
    try:
        chosen = small(system)
        holes = _holes(system, lemmas)
    except TooLargeError as error:
        return replace(found, verdict=Verdict.UNKNOWN, assurance=str(error))
    sizes = " ".join(f"{sort.__name__}={size}" for sort, size in chosen.sizes.items())
    found = replace(found, assurance=f"every state of each machine for {sizes}")
    if not holes:
        return found
    return replace(
        found, verdict=Verdict.VIOLATED, claim="; ".join(hole.problem for hole in holes),
        place=holes[0].place, note="add a row, Ignore it or Reject it")


def _holes(system: System, lemmas: Sequence[Always]) -> list[Remark]:
    found, _ = subjects(system, small(system), lemmas)
    return [remark for remark in arranged(remark for one in found for remark in totality(one))
            if remark.severity is Severity.ERROR]
