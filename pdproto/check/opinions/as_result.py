"""TLC's answer in the form of our own: a CheckResult, with a finding for each property."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from pdproto.check.opinions import tlc
from pdproto.check.opinions.opinion import Opinion, in_each_world
from pdproto.check.questions import DEADLOCK, questions
from pdproto.check.result import CheckResult, Finding, PropertyKind, Verdict
from pdproto.check.rigid import interpretations
from pdproto.check.words import claim_text
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import at_sizes
from pdproto.spec.language.properties import Fairness, LeadsTo
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.system import Configuration, System

NOT_ASKED: Final = f"TLC is not asked about runs in which {Fairness.CONSUMED}"


def tlc_result(
    system: System, configuration: Configuration, properties: Sequence[str] = (), *,
    workers: int = 1,
) -> CheckResult:
    """The counts and verdicts of TLC, without traces and rows. Transitions are in its own count.

    properties: the names of those in the result; all if empty. A `leads_to` that holds, and that is
    also claimed under `Fairness.CONSUMED`, is unknown. Raises NotInstalledError and FailedError.
    """
    told = in_each_world(system, configuration,
                         lambda ground: tlc.ask(ground, workers=workers))
    given = next(iter(interpretations(system, configuration.sizes, configuration)))
    ground = Ground(system, configuration.sizes, configuration.faults, given)
    sizes = {sort.__name__: size for sort, size in configuration.sizes.items()}
    return CheckResult(
        system=system.name, description=system.about, sizes=sizes, faults=configuration.faults,
        states=told.states, transitions=told.transitions, depth=told.depth, seconds=told.seconds,
        complete=True, stopped="",
        findings=tuple(found for found in _findings(ground, told)
                       if not properties or found.name in properties),
        rows_never_fired=(), rows_known=False, deadlocks=int(DEADLOCK in told.violated),
        row_places={row.name: row.place for _, row in system.rows()},
    )


def _findings(ground: Ground, told: Opinion) -> Iterator[Finding]:
    where = at_sizes(ground.sizes)
    violated = set(told.violated)

    def finding(name: str, kind: PropertyKind, claim: str) -> Finding:
        refuted = name in violated
        return Finding(
            name, kind, claim, Verdict.VIOLATED if refuted else Verdict.HOLDS,
            f"{'refuted' if refuted else 'exhaustive'} by TLC for {where}", places[name])

    places = {claim.name: claim.place for claim in ground.system.properties}
    for question in questions(ground):
        places[question.name] = question.place
        yield finding(question.name, question.kind, question.claim)
    places[DEADLOCK] = ground.system.place
    yield finding(DEADLOCK, PropertyKind.DEADLOCK,
                  "wherever nothing more can happen, the state is declared final")
    for claim in ground.system.properties:
        if isinstance(claim, LeadsTo):
            yield _asked(claim, finding(claim.name, PropertyKind.LEADS_TO, claim_text(claim)))
        elif isinstance(claim, Refines):
            yield finding(claim.name, PropertyKind.REFINES, claim_text(claim))


def _asked(claim: LeadsTo, found: Finding) -> Finding:
    """The finding; unknown if TLC was asked about a part of the claim only."""
    if found.verdict is Verdict.VIOLATED or Fairness.CONSUMED not in claim.under:
        return found
    return replace(found, verdict=Verdict.UNKNOWN, assurance="not decided", note=NOT_ASKED)
