"""The result of a replay: how many lines conform, and the first line that no row explains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pdproto.check.result import Trace, Verdict
from pdproto.spec.language.system import System

NO_ROW: Final = "no line tells of a row, so no row was judged"
CONFORMS: Final = "conforms"  # the name of the one finding
STEPS_MAX: Final = 40  # events shown before the rejected line: more would tire a reader
NEAREST_MAX: Final = 6  # similar rows that are shown for a rejected line


@dataclass(frozen=True, slots=True)
class Nearest:
    """A row that the line may mean. failing: the conjuncts of its guard that do not hold."""

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
    """The first line that no row explains.

    nearest: similar rows. names: the meaning of p0 and other short names. trace: the last events.
    earlier: the number of events before them, which are left out. claim: the property that the line
    violates; empty if it is no row, or too late.
    """

    file: str
    number: int
    text: str
    why: str
    nearest: tuple[Nearest, ...] = ()
    names: Mapping[str, str] = field(default_factory=dict)
    trace: Trace | None = None
    earlier: int = 0
    claim: str = ""


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay.

    rows: how often each fired. states: different local states. longest: the most rows of one
    endpoint. assumed: messages whose sending no trace shows, by sender. passed: skipped lines.
    missing: lines that the given traces lack. assumes: what the answer assumes, and no
    line shows: processes without a trace, and failures of which only others tell. unjudged: the
    properties that may be violated without a line that shows it, and why.
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
    assumes: tuple[str, ...]
    rejection: Rejection | None
    unjudged: tuple[str, ...] = ()

    @property
    def is_explained(self) -> bool:
        """Whether the given traces are whole, and every line of them is explained."""
        return self.rejection is None and not self.missing

    @property
    def verdict(self) -> Verdict:
        """VIOLATED for a rejected line, UNKNOWN for an incomplete trace, else HOLDS."""
        if self.rejection is not None:
            return Verdict.VIOLATED
        return Verdict.UNKNOWN if self.missing or self.assumes else Verdict.HOLDS
