"""The result of a replay: how many lines conform, and the first line that no row explains."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pdproto.check.questions import PEERS
from pdproto.check.result import Trace, Verdict
from pdproto.check.unjudged import ONE_RUN
from pdproto.spec.language.properties import Always, InRange, LeadsTo, OnRow, Property, Sometimes
from pdproto.spec.language.refines import Refines
from pdproto.spec.language.system import System

NO_ROW: Final = "no line tells of a row, so no row was judged"
CONFORMS: Final = "conforms"  # the name of the one finding
STEPS_MAX: Final = 40  # events shown before the rejected line: more would tire a reader
NEAREST_MAX: Final = 6  # similar rows that are shown for a rejected line
JUDGED: Final[tuple[type, ...]] = (Always, InRange, OnRow)
UNJUDGED: Final[Mapping[type, str]] = {
    Sometimes: ONE_RUN,
    LeadsTo: "a trace ends",
    Refines: "the steps are not compared with those of the abstract system",
}
OF_TABLES: Final = "it is about the tables: pdproto check judges it"


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
    line shows: processes without a trace, and failures of which only others tell. unjudged: of each
    property that may be violated without a line that shows it, the reason.
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
    unjudged: Mapping[str, str] = field(default_factory=dict)

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


def why_unjudged(name: str, claim: Property | None) -> str:
    """Why no replay judges the property, also one of a kind that UNJUDGED does not know; empty if
    it does. A line with a row that rejects is rejected.
    """
    if claim is None:
        return "" if name == PEERS else OF_TABLES
    kind = type(claim)
    return "" if kind in JUDGED else UNJUDGED.get(kind, f"no replay judges a {kind.__name__}")
