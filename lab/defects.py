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
        """Whether the search came to its end or found the violation: not after Ctrl-C, nor at a
        limit.
        """
        return self.result.complete or self.violated is not None

    @property
    def is_interrupted(self) -> bool:
        """Whether Ctrl-C ended the search."""
        return self.result.stopped == INTERRUPTED and self.violated is None


@dataclass(frozen=True, slots=True)
class DefectTrials:
    """The decided trials, in order. undecided: the ids of the others."""

    decided: tuple[Trial, ...]
    undecided: tuple[str, ...]

    @property
    def exit_status(self) -> int:
        """0 if each defect was found, 1 if one was not, 3 if one is not decided."""
        if any(trial.violated is None for trial in self.decided):
            return 1
        return 3 if self.undecided else 0
