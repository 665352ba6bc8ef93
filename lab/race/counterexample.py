"""The shortest counterexample of a defect, as the ground rows that fire in it, in their order."""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import inf
from typing import Any, Final

from pdproto.check.checking import CheckSettings, check
from pdproto.check.questions import questions
from pdproto.check.result import Finding, PropertyKind
from pdproto.check.rigid import interpretations
from pdproto.ground.grounding import Ground, GroundRow, Interpretation, ground_for
from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.edit import DropRow, ReplaceProperties, edited
from pdproto.spec.language.machine import Timer
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.properties import Fairness, OnRow
from pdproto.spec.language.symbols import Sizes, Tuples
from pdproto.spec.language.system import System

LONG_S: Final = 300.0
HEARTBEAT: Final = "heartbeat"
TRIED_MAX: Final = 12  # sets of rows that are left out


@dataclass(frozen=True, slots=True)
class Counterexample:
    """The shortest run of the edited tables that breaks the promise of the defect.

    given: the topology of the run. rows: what fires, up to the violation, or once through its loop.
    added: names of the rows that only the edited tables have. forbidden: the last of the rows, for
    a promise about steps: it must not fire there.
    """

    bug: Bug
    finding: Finding
    given: Interpretation
    rows: tuple[GroundRow, ...]
    added: frozenset[str]
    forbidden: GroundRow | None = None

    @property
    def waits(self) -> dict[str, float]:
        """The lengths of waits, in seconds, where they are not the defaults.

        Under an assumption without clocks none ends but a detector. A wait that never ends by
        default does end where a row of the run is on it.
        """
        if self.finding.under in ((Fairness.DETECTORS,), (Fairness.NO_TIMERS,)):
            return {name: inf for name in WAITS if name != HEARTBEAT}
        timers = {row.row.on.name for row in self.rows if isinstance(row.row.on, Timer)}
        return {name: LONG_S for name in timers if name in WAITS and WAITS[name].seconds == inf}

    def holds(self, name: str, *elements: int) -> bool:
        """Whether the rigid relation holds of these elements; also if the system has none."""
        known = {symbol.name for symbol in self.given}
        return name not in known or elements in self.related(name)

    def related(self, name: str) -> frozenset[tuple[int, ...]]:
        """The tuples of the rigid relation of this name."""
        return next((tuples for symbol, tuples in self.given.items() if symbol.name == name),
                    frozenset())


class NoCounterexampleError(Exception):
    """The checker finds the promise of the defect kept, at the sizes of the catalogue."""


def shortest(bug: Bug, without: frozenset[str] = frozenset()) -> Counterexample:
    """Search for it. without: names of rows that may not be in it.

    Raises NoCounterexampleError.
    """
    claims = tuple(claim for claim in bug.system.properties if claim.name == bug.violates)
    system = edited(bug.system, bug.system.name, ReplaceProperties(claims),
                    *map(DropRow, sorted(without)))
    for given in interpretations(system, bug.configuration.sizes, bug.configuration):
        fixed = replace(bug.configuration, given={
            symbol: _always(tuples) for symbol, tuples in given.items()})
        for finding in check(system, fixed, CheckSettings(properties=(bug.violates,))).findings:
            if finding.trace is not None and finding.name == bug.violates:
                return _counterexample(bug, finding, given)
    raise NoCounterexampleError(f"{bug.id}: no run breaks {bug.violates} at its sizes")


def runs(bug: Bug) -> Iterator[Counterexample]:
    """The shortest counterexample, and then others, each the shortest without some of the rows of
    those before. Raises NoCounterexampleError if there is none at all.
    """
    example = shortest(bug)
    yield example
    seen, left = {_names(example)}, deque([(frozenset[str](), example)])
    tried = set[frozenset[str]]()
    while left:
        without, example = left.popleft()
        for row in dict.fromkeys(row.row.name for row in reversed(example.rows)):
            fewer = without | {row}
            if row in example.added or fewer in tried or len(tried) == TRIED_MAX:
                continue
            tried.add(fewer)
            try:
                other = shortest(bug, fewer)
            except (NoCounterexampleError, SpecError):
                continue
            left.append((fewer, other))
            if _names(other) not in seen:
                seen.add(_names(other))
                yield other


def _names(example: Counterexample) -> tuple[str, ...]:
    return tuple(map(str, example.rows))


def _counterexample(bug: Bug, finding: Finding, given: Interpretation) -> Counterexample:
    rows = _rows(bug, finding, given)
    ground = ground_for(bug.system, bug.configuration, given, Fairness.TIMERS)
    forbidden = None
    if finding.kind is not PropertyKind.LEADS_TO:
        forbidden = _forbidden(ground, bug.violates, rows)
    after = (*rows, forbidden) if forbidden is not None else rows
    return Counterexample(bug, finding, given, after, _added(bug.system), forbidden)


def _forbidden(ground: Ground, promise: str, rows: tuple[GroundRow, ...]) -> GroundRow | None:
    """The row that may not fire after these; None for a promise about states."""
    state = 0
    for row in rows:
        state = row.action.apply(state)
    claim = next((c for c in ground.system.properties if c.name == promise), None)
    question = next(q for q in questions(ground) if q.name == promise)
    for pattern in question.patterns:
        if not pattern.guard.holds(state):
            continue
        for row in ground.rows:
            told = pattern.instance.startswith(f"{row}: ")
            named = isinstance(claim, OnRow) and row.row.name == claim.row
            if row.action.guard.holds(state) and (
                    named or (question.kind is PropertyKind.EDGES and told)):
                return row
    return None


def _always(tuples: frozenset[tuple[int, ...]]) -> Any:
    def given(_: Sizes) -> Tuples:
        return tuple(tuples)

    return given


def _rows(bug: Bug, finding: Finding, given: Interpretation) -> tuple[GroundRow, ...]:
    """The steps of a trace as rows of the tables."""
    if finding.trace is None:
        return ()
    known: dict[tuple[str, str], GroundRow] = {}
    for fairness in (Fairness.TIMERS, Fairness.CONSUMED):
        for row in ground_for(bug.system, bug.configuration, given, fairness).rows:
            known.setdefault((row.row.name, row.parameters), row)
    return tuple(known[step.row, step.parameters] for step in finding.trace.steps)



def _added(system: System) -> frozenset[str]:
    before = {row.name for _, row in system.base.rows()} if system.base is not None else set()
    return frozenset(row.name for _, row in system.rows()) - before
