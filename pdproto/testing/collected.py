"""Specs as tests: `pytest page.py` checks each system of the file, one test for each property.

A file is taken if it is named on the command line or fits the setting `pdproto_specs`, and imports
the language. Edits of a system are left out: they are defects, which properties should find.
"""

from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from pdproto.check.answers import with_answers
from pdproto.check.checking import CheckSettings, check
from pdproto.check.lint import ELEMENTS, small
from pdproto.check.load import LoadError, load_module
from pdproto.check.report.terminal import render
from pdproto.check.result import CheckResult, Finding, Verdict
from pdproto.check.rigid import TopologyError
from pdproto.ground.layout import TooLargeError
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.system import DEFAULT, System

WIDTH = 100


class ViolatedError(AssertionError):
    """A property that does not hold; the message is the whole report."""


class SpecFile(pytest.File):
    """A file with systems."""

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """One collector for each system that the file declares."""
        try:
            module = load_module(str(self.path))
        except (LoadError, SpecError) as error:
            raise self.CollectError(str(error)) from error
        for name, system in vars(module).items():
            if isinstance(system, System) and system.base is None and _is_here(system, self.path):
                yield CheckedSystem.from_parent(self, name=name, system=system)


class CheckedSystem(pytest.Collector):
    """A system, which is checked once: at its default sizes, or else at two of each sort."""

    def __init__(self, *, system: System, **rest: Any) -> None:
        super().__init__(**rest)
        self.system = system

    def collect(self) -> Iterator[pytest.Item | pytest.Collector]:
        """One test for each property, also for those that every system has."""
        system = self.system
        try:
            chosen = system.configurations.get(DEFAULT) or small(system, ELEMENTS)
            result = with_answers(
                system, chosen, CheckSettings(), check(system, chosen, CheckSettings()))
        except (SpecError, TooLargeError, TopologyError) as error:
            raise self.CollectError(f"{system.name}: {error}") from error
        for finding in result.findings:
            yield CheckedProperty.from_parent(
                self, name=finding.name, finding=finding, result=result)


class CheckedProperty(pytest.Item):
    """A property of a system."""

    def __init__(self, *, finding: Finding, result: CheckResult, **rest: Any) -> None:
        super().__init__(**rest)
        self.finding = finding
        self.result = result

    def runtest(self) -> None:
        """Fail with the counterexample if the property does not hold."""
        if self.finding.verdict is not Verdict.HOLDS:
            text = StringIO()
            render(self.result, Console(file=text, width=WIDTH))
            raise ViolatedError(text.getvalue())

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], *_: Any) -> str:
        """The report alone: lines of this module say nothing about a spec."""
        return str(excinfo.value)

    def reportinfo(self) -> tuple[Path, int, str]:
        """The place of the property."""
        place = self.finding.place
        return self.path, max(place.line - 1, 0), f"{self.result.system}: {self.finding.name}"


def _is_here(system: System, path: Path) -> bool:
    return Path(system.place.path).resolve() == path.resolve()
