"""Defects and their trials: an edited system, and whether the explorer finds it violated."""

from dataclasses import dataclass
from typing import Protocol

from pdproto.check.explore import INTERRUPTED
from pdproto.check.result import CheckResult, Finding, Verdict
from pdproto.spec.language.system import Configuration, System


class Defect(Protocol):
    """One defect, as `spec/bugs/bug.py` declares it."""

    @property
    def id(self) -> str:
        """Its name, such as "B22"."""

    @property
    def source(self) -> str:
        """Where it was reported."""

    @property
    def symptom(self) -> str:
        """The effect for users, in one sentence."""

    @property
    def note(self) -> str:
        """A further explanation, or ""."""

    @property
    def system(self) -> System:
        """The edited system."""

    @property
    def configuration(self) -> Configuration:
        """The sizes and faults at which the defect shows."""

    @property
    def violates(self) -> str:
        """The property that must be found violated."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The check of one system with a defect."""

    defect: Defect
    result: CheckResult

    @property
    def violated(self) -> Finding | None:
        """The finding that the defect's property is violated; None if it is not."""
        return next((f for f in self.result.findings if f.verdict is Verdict.VIOLATED), None)

    @property
    def is_decided(self) -> bool:
        """Whether the search ended by itself or found the violation; False after Ctrl-C."""
        return self.result.stopped != INTERRUPTED or self.violated is not None


@dataclass(frozen=True, slots=True)
class DefectTrials:
    """The decided trials, in order. interrupted: Ctrl-C came before the last one."""

    decided: tuple[Trial, ...]
    interrupted: bool

    @property
    def exit_status(self) -> int:
        """0 if each defect was found, 1 if one was not, 3 after Ctrl-C."""
        if any(trial.violated is None for trial in self.decided):
            return 1
        return 3 if self.interrupted else 0
