"""TLC's answers about a drawn system against the oracle's."""

from collections.abc import Iterator
from dataclasses import replace

from pdproto.check.opinions.as_result import tlc_result
from pdproto.check.opinions.opinion import FailedError
from pdproto.check.questions import DEADLOCK
from pdproto.check.result import Verdict
from pdproto.spec.language import Configuration, Fairness, LeadsTo, SpecError, System
from tests.oracle.answers import Answer

NAME = "tlc"


def differences(system: System, configuration: Configuration, expected: Answer) -> Iterator[str]:
    """Every difference between TLC on the exported module and the oracle.

    TLC counts transitions in its own way, names no element, and is not asked about `CONSUMED`.
    """
    try:
        told = tlc_result(system, replace(configuration, symmetry=False, dead_bits=False))
    except (SpecError, FailedError) as error:
        yield f"{NAME}: {type(error).__name__}: {error}"
        return
    counts = {"states": (told.states, expected.states), "depth": (told.depth, expected.depth)}
    yield from (f"{NAME}: {name}: {count}, and not {right}"
                for name, (count, right) in counts.items() if count != right)
    live = {claim.name for claim in system.properties if isinstance(claim, LeadsTo)}
    findings = {one.name: one.verdict for one in told.findings}
    if findings.keys() != {*expected.verdicts, *live}:
        yield f"{NAME}: properties: {sorted(findings)}"
        return
    violated = {name for name, verdict in expected.verdicts.items() if verdict.violated} | {
        name for name in live if expected.broken[name] - {Fairness.CONSUMED}}
    yield from (f"{NAME}: {name}: {verdict}, and violated is {name in violated}"
                for name, verdict in findings.items()
                if verdict is not Verdict.UNKNOWN and (
                    verdict is Verdict.VIOLATED) != (name in violated))
    assert DEADLOCK in findings
