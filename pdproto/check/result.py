"""The result of a check as plain values: everything that a report shows, already as text.

Renderers (report/) import this module and nothing else of the checker. So they can draw traces from
any source: explorations, replayed traces of real runs, and simulated clusters.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from pdproto.spec.language.place import Place
from pdproto.spec.language.properties import Fairness


class Verdict(StrEnum):
    """Whether a property holds; unknown if a limit was reached first."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNKNOWN = "unknown"  # a limit was reached first


class PropertyKind(StrEnum):
    """The kind of a property."""

    ALWAYS = "always"
    SOMETIMES = "sometimes"
    LEADS_TO = "leads_to"
    REFINES = "refines"  # each step is one of an abstract system, or a stutter
    EDGES = "edges"  # a variable moves along its declared edges only
    DEADLOCK = "deadlock"
    ANSWERS = "answers"  # every message has a row
    INDUCTIVE = "inductive"  # a claim of a proof; a counterexample is one step


@dataclass(frozen=True, slots=True)
class Lane:
    """One instance of a machine: a vertical line of the sequence picture."""

    name: str  # "manager p0"
    machine: str  # "manager"


@dataclass(frozen=True, slots=True)
class Change:
    """One variable of one lane, with its values before and after a step."""

    lane: str
    variable: str  # "rm[p0]"
    before: str  # "working"; relations read "true" / "false"
    after: str


@dataclass(frozen=True, slots=True)
class Arrow:
    """A message instance, from the lane that sent it to the lanes it is addressed to."""

    message: str  # "prepared(p0)"
    sender: str
    receivers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TraceStep:
    """One row that fired."""

    row: str  # "prepare"
    parameters: str  # "p0" or "s0, h1"; empty if the row has none
    lane: str
    trigger: str  # "on prepared(p0)", "call prepare", "timer waiting", "" for an eager step
    why: str  # the row's own reason, or empty
    place: Place
    fault: str  # the fault layer, or empty
    received: Arrow | None
    sent: tuple[Arrow, ...]
    lost: tuple[Arrow, ...]  # messages that this step takes off the network
    changes: tuple[Change, ...]
    holds: Mapping[str, bool]  # each `always` property: does it hold after this step?


@dataclass(frozen=True, slots=True)
class Blocked:
    """A fair row that cannot fire in the last state, and the conditions of its guard that fail."""

    row: str
    parameters: str
    lane: str
    failing: tuple[str, ...]  # "tm is init (it is aborted)"


@dataclass(frozen=True, slots=True)
class Trace:
    """A run from an initial state.

    loop: if not None, `steps[loop:]` repeats for ever. blocked: if the run ends because no row can
    fire, why each fair row is disabled.
    """

    lanes: tuple[Lane, ...]
    start: tuple[Change, ...]  # initial values of state variables; `before` is empty
    steps: tuple[TraceStep, ...]
    loop: int | None = None
    blocked: tuple[Blocked, ...] = ()
    start_holds: Mapping[str, bool] = field(default_factory=dict)  # as Step.holds, at the start
    supposed: bool = False  # it starts in a supposed state, which need not be reachable


@dataclass(frozen=True, slots=True)
class Finding:
    """The verdict on one property."""

    name: str
    kind: PropertyKind
    claim: str  # the property in words or as its formula
    verdict: Verdict
    assurance: str  # "exhaustive for Participant=3", "incomplete: 1,000,000 states"
    place: Place
    trace: Trace | None = None  # a shortest counterexample, or the witness of a `sometimes`
    instance: str = ""  # the elements for which it fails: "p=p0, q=p1"
    note: str = ""  # "vacuous: its premise never holds"; how fairness was assumed; ...
    under: tuple[Fairness, ...] = ()  # of a `leads_to`: what is assumed; if violated, in this run

    @property
    def trace_length(self) -> int | None:
        """The number of steps of the trace; None without a trace."""
        return None if self.trace is None else len(self.trace.steps)


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The answer to `pdproto check` for one system at given sizes."""

    system: str
    description: str  # first sentence of the spec's own documentation
    sizes: Mapping[str, int]
    faults: tuple[str, ...]
    states: int
    transitions: int  # enabled ground rows summed over all states; self-loops count
    depth: int  # steps from an initial state to the farthest state
    seconds: float
    complete: bool
    stopped: str  # why it is not complete, as text; empty if it is
    findings: tuple[Finding, ...]
    rows_never_fired: tuple[str, ...]
    deadlocks: int
    reductions: tuple[str, ...] = ()
    memory_bytes: int = 0
    row_places: Mapping[str, Place] = field(default_factory=dict)
    rows_fired: tuple[str, ...] = ()
    # In how many states each row can fire, summed over its parameters; symmetric states count once.
    row_counts: Mapping[str, int] = field(default_factory=dict)
    rows_known: bool = True  # whether the checker tells which rows fired
    rows_hidden: tuple[str, ...] = ()  # that did not fire, and might where no dead bits are cleared
    recalled: bool = False  # from an earlier run, which took `seconds`

    @property
    def verdict(self) -> Verdict:
        """VIOLATED if any finding is; else UNKNOWN if any is, or if there is none; else HOLDS."""
        verdicts = {finding.verdict for finding in self.findings}
        for verdict in (Verdict.VIOLATED, Verdict.UNKNOWN):
            if verdict in verdicts:
                return verdict
        return Verdict.HOLDS if verdicts else Verdict.UNKNOWN


# A row of the tables, independent of the system: its name and its place.
WrittenRow = tuple[str, Place]


@dataclass(frozen=True, slots=True)
class Task:
    """One system at one of its named sizes.

    target: the system as `module:attribute`. answers: also check that a row answers every message.
    all_rows: only find out which rows fire, including rows that ignore.
    """

    system: str
    target: str
    configuration: str
    answers: bool = False
    all_rows: bool = False

    @property
    def title(self) -> str:
        """The name of the system, and of the size unless it is the default."""
        return self.system if self.configuration == "default" else " ".join(
            (self.system, self.configuration)
        )


@dataclass(frozen=True, slots=True)
class Checked:
    """A finished task. written: the rows of its system. fired: those enabled in some state."""

    task: Task
    result: CheckResult
    written: frozenset[WrittenRow]
    fired: frozenset[WrittenRow]


@dataclass(frozen=True, slots=True)
class Suite:
    """The results of all tasks, in their order.

    rows: the number of rows in their systems; 0 if coverage is unknown. never_fired: rows that fire
    in no system. stopped: why some tasks were not done; empty if all were.
    """

    tasks: tuple[Task, ...]
    checked: tuple[Checked, ...]
    rows: int = 0
    never_fired: tuple[WrittenRow, ...] = ()
    stopped: str = ""

    @property
    def verdict(self) -> Verdict:
        """VIOLATED also if a row fires in no system; UNKNOWN also if tasks are missing."""
        verdicts = {checked.result.verdict for checked in self.checked}
        if Verdict.VIOLATED in verdicts or self.never_fired:
            return Verdict.VIOLATED
        return Verdict.UNKNOWN if self.stopped or Verdict.UNKNOWN in verdicts else Verdict.HOLDS


EXIT_STATUS: Final[Mapping[Verdict, int]] = {
    Verdict.HOLDS: 0,
    Verdict.VIOLATED: 1,
    Verdict.UNKNOWN: 3,
}
