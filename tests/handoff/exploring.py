"""Shared calls of the explorer and of lint for the tests of the hand-over."""

from functools import cache
from typing import Final

from pdproto.check.checking import CheckSettings, check
from pdproto.check.counts import counts as counts  # noqa: PLC0414 - of this module too
from pdproto.check.lint import Severity, lint, small
from pdproto.check.result import CheckResult, Finding, Verdict
from pdproto.cli.systems import expected, load
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.language import Configuration, Fairness, System
from tests.shared_answers import answers

EXPECTED: Final = expected()


@cache
def explored(system: str, size: str = "default") -> CheckResult:
    """A built-in system at a named size, to its end, once: several tests look at the same run."""
    known = load(system)
    return answers().check(known, known.configurations[size], CheckSettings(keep_going=True))


def judged(
    system: System, name: str, configuration: Configuration, *fairness: Fairness
) -> Finding:
    """The result of a check of one property alone."""
    settings = CheckSettings(properties=(name,), fairness=fairness)
    (found,) = (f for f in check(system, configuration, settings).findings if f.name == name)
    return found


def failing(found: CheckResult) -> list[str]:
    return [finding.name for finding in found.findings if finding.verdict is not Verdict.HOLDS]


def lint_errors(system: System) -> list[str]:
    remarks = lint(system, small(system))
    return [remark.message for remark in remarks if remark.severity is Severity.ERROR]


def name_of(value: object) -> str | None:
    """The name of a test's parameter."""
    match value:
        case System():
            return value.name
        case Bug():
            return value.id
        case str():
            return value
    return None
