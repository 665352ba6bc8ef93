"""Whether a row answers every message and completion, as one more finding of a check.

Exploration cannot find a missing row: an event without a row changes no state. So the check asks
lint's rule first, about every state of each machine at the same sizes (lint/totality.py). A state
in which it finds no row need not be reachable. So then, and where there are too many to look at,
the states that are reached are judged: whether the trigger is there in one, and no row can fire. A
message may wait in a system with `final=TRUE`: it says of every state that it is right if nothing
more happens.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Final, TypeAlias

from pdproto.check.checking import CheckSettings, check
from pdproto.check.lint import Remark, Severity, subjects
from pdproto.check.lint.bounds import require_small
from pdproto.check.lint.remark import arranged
from pdproto.check.lint.totality import totality
from pdproto.check.prove.coverage import Answers, is_owed, triggers
from pdproto.check.result import CheckResult, Finding, PropertyKind, Verdict
from pdproto.check.words import trigger_name, trigger_text
from pdproto.ground.layout import TooLargeError, at_sizes
from pdproto.spec.language.formula import TRUE, implies
from pdproto.spec.language.properties import Always
from pdproto.spec.language.system import Configuration, System

ANSWERED: Final = "every_message_is_answered"
CLAIM: Final = "a row, an Ignore or a Reject for each message and completion in each state"
LINT: Final = "no state was reached in which a trigger is there without a row"
MAY_WAIT: Final = "a message may wait in any state, as final=TRUE says"
WAITS: Final = "`pdproto lint` finds states without a row"

Ask: TypeAlias = Callable[[System, Configuration, CheckSettings], CheckResult]


def with_answers(
    system: System, configuration: Configuration, settings: CheckSettings, result: CheckResult,
    ask: Ask = check,
) -> CheckResult:
    """The result with one more finding. It is violated if a state is reached in which a message or
    a completion has come and no row answers it, unless it may wait there.

    ask: explores the system, if lint finds a state without a row, or cannot look at all states.
    """
    local = _local(system, configuration)
    if local is None:
        local = _reached(system, configuration, settings, ask)
    return replace(result, findings=(*result.findings, local))


def _local(system: System, configuration: Configuration) -> Finding | None:
    """By lint, at the same sizes: every state of each machine has a row, or a message may wait in
    it. None if lint finds a state without a row, or cannot look at all.
    """
    found = Finding(ANSWERED, PropertyKind.ANSWERS, CLAIM, Verdict.HOLDS,
                    f"every state of each machine for {at_sizes(configuration.sizes)}",
                    system.place)
    holes = _holes(system, configuration)
    if not holes:
        return found if holes is not None else None
    if system.final == TRUE:
        return replace(found, claim=MAY_WAIT, assurance=MAY_WAIT, note=WAITS)
    return None


def _holes(system: System, configuration: Configuration) -> list[Remark] | None:
    """The states without a row; None if there are too many to look at."""
    try:
        require_small(system, configuration.sizes)
        found, complete = subjects(system, configuration)
    except TooLargeError:
        return None
    holes = [remark for remark in arranged(remark for one in found for remark in totality(one))
             if remark.severity is Severity.ERROR]
    return holes if holes or complete else None


def _reached(
    system: System, configuration: Configuration, settings: CheckSettings, ask: Ask
) -> Finding:
    """By exploring: whether a state is reached in which a trigger is there without a row."""
    claims = {claim.name: (answers, claim) for answers, claim in _claims(system)}
    explored = ask(
        replace(system, properties=tuple(claim for _, claim in claims.values()), like=system),
        configuration, replace(settings, properties=(*claims,), keep_going=False))
    violated = [found for found in explored.findings if found.verdict is Verdict.VIOLATED]
    findings = violated or [found for found in explored.findings
                            if found.verdict is Verdict.UNKNOWN] or list(explored.findings)
    worst = findings[0]
    told = replace(worst, name=ANSWERED, kind=PropertyKind.ANSWERS, claim=CLAIM)
    match worst.verdict:
        case Verdict.VIOLATED:
            answers, _ = claims[worst.name]
            where = f" (where {worst.instance})" if worst.instance else ""
            event = trigger_text(answers.on).removeprefix("on ")
            return replace(told, claim=f"{answers.table.machine} has no row for {event}{where}",
                           note="add a row, Ignore it or Reject it")
        case Verdict.HOLDS:
            return replace(told, place=system.place, instance="", note=LINT)
        case _:
            return replace(told, place=system.place)


def _claims(system: System) -> Iterator[tuple[Answers, Always]]:
    """For each trigger that comes in any state, the claim that a row answers it where it is."""
    for answers in triggers(system):
        if is_owed(system, answers):
            name = f"{answers.table.machine} on {' '.join(trigger_name(answers.on))}"
            place = answers.rows[0][1].place if answers.rows else answers.table.place
            yield answers, Always(f"{ANSWERED}: {name}",
                                  implies(answers.arrived, answers.some), place=place)

