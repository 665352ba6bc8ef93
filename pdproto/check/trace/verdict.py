"""What a replay of traces finds: how much of them conforms, and the line that no row explains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pdproto.check.result import Trace, Verdict
from pdproto.spec.language.system import System

CONFORMS: Final = "conforms"  # the name of the one finding
STEPS_MAX: Final = 40  # events that lead to the line; a reader's patience
NEAREST_MAX: Final = 6  # rows that are told, of those that might have been meant


@dataclass(frozen=True, slots=True)
class Nearest:
    """A row that might have been meant. failing: the conjuncts of its guard that do not hold."""

    row: str
    parameters: str
    failing: tuple[str, ...]

    def __str__(self) -> str:
        applied = f"{self.row}({self.parameters})"
        if not self.failing:
            return f"{applied} could fire here"
        return f"{applied} needs {'; '.join(self.failing)}"


@dataclass(frozen=True, slots=True)
class Rejection:
    """The first line that no row explains. names: what p0 and the others stand for. earlier: events
    that the trace leaves out, before those that it tells.
    """

    file: str
    number: int
    text: str
    why: str
    nearest: tuple[Nearest, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    trace: Trace | None = None
    earlier: int = 0


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay found. rows: how often each fired. states: local ones that were met. longest:
    rows that one endpoint fired. assumed: messages on trust, by sender. passed: lines that are not
    judged. missing: what shows that the traces do not tell everything.
    """

    system: System
    files: tuple[str, ...]
    lines: int
    endpoints: int
    rows: Mapping[str, int]
    states: int
    longest: int
    assumed: Mapping[str, int]
    passed: int
    missing: tuple[str, ...]
    rejection: Rejection | None

    @property
    def verdict(self) -> Verdict:
        if self.rejection is not None:
            return Verdict.VIOLATED
        return Verdict.UNKNOWN if self.missing else Verdict.HOLDS
