"""Verifies traces: how many lines conform, and an explanation of the line that no row explains.

The events of that line's hand-over are replayed once more, and shown as lanes and steps like every
other trace of the checker. Elements get short names: p0 is the first source that occurs.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from pdproto.check.narrative import lane_name
from pdproto.check.report.as_json import to_json as result_json
from pdproto.check.result import (
    Arrow,
    Change,
    CheckResult,
    Finding,
    Lane,
    PropertyKind,
    Trace,
    TraceStep,
    Verdict,
)
from pdproto.check.trace.files import RejectedError
from pdproto.check.trace.instance import Instance, MismatchError, Tables, words
from pdproto.check.trace.lines import Element, TraceLine
from pdproto.check.trace.lives import Examined, Lives, Wrong
from pdproto.check.trace.replay import Replay
from pdproto.check.trace.shared import is_shared
from pdproto.check.trace.shared_verdict import verify_shared
from pdproto.check.trace.table import AnyMessage, GroundedRow, LocalTable
from pdproto.check.trace.tally import Replayed
from pdproto.check.trace.verdict import (
    CONFORMS,
    NEAREST_MAX,
    NO_ROW,
    STEPS_MAX,
    Nearest,
    Rejection,
    ReplayResult,
    why_unjudged,
)
from pdproto.check.unjudged import unjudged
from pdproto.check.words import formula_text, trigger_name, trigger_text
from pdproto.ground.grounding import element_names
from pdproto.ground.layout import cell_name, value_name
from pdproto.ground.local import require_one_start
from pdproto.spec.language.formula import bound_variables, free_variables
from pdproto.spec.language.machine import Instance as Party
from pdproto.spec.language.properties import Always, OnRow
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Symbol
from pdproto.spec.language.system import System

CLAIM: Final = "the lines are a behaviour of the tables, and violate no property"


def verify(system: System, paths: Sequence[Path], *, from_middle: bool = False) -> ReplayResult:
    """Replay the traces against the system.

    from_middle: the traces may begin in the middle; endpoints that began before are skipped. Raises
    OSError for a file that cannot be read.
    """
    require_one_start(*system.every_table)
    if is_shared(paths):
        return verify_shared(system, paths, from_middle=from_middle)
    replay = Replay(Tables(system), paths, from_middle=from_middle)
    rejection, examined = None, Examined()
    try:
        replay.run()
        examined = Lives(replay).examine()
    except RejectedError as error:
        rejection = _explained(paths, error, replay, from_middle=from_middle)
    if examined.wrong is not None:
        rejection = _out_of_order(paths, examined.wrong, replay, from_middle=from_middle)
    instances = list(replay.instances())
    lines = replay.tally.lines if examined.wrong is None else examined.wrong.event.number
    return ReplayResult(
        system, tuple(map(str, paths)), lines, len(instances),
        dict(replay.tally.rows), len(replay.tally.states),
        max((instance.rows for instance in instances), default=0),
        dict(replay.tally.assumed), replay.tally.passed,
        () if rejection else tuple(_missing(replay, instances)),
        () if rejection else (*_absent(replay, instances), *examined.assumes), rejection,
        {} if rejection else {**_of_two(system, instances), **unjudged(system, why_unjudged)})


def _of_two(system: System, instances: Sequence[Instance]) -> dict[str, str]:
    """The properties about two hand-overs, each of which is examined alone."""
    shared = {sort for instance in instances
              for sort, one in zip(instance.local.own, instance.own, strict=True)
              if one is not None and not isinstance(one, str)}
    found = {}
    for claim in system.properties:
        if isinstance(claim, Always | OnRow):
            variables = {*free_variables(claim.claim), *bound_variables(claim.claim)}
            if any(sum(type(one) is sort for one in variables) > 1 for sort in shared):
                found[f"{claim.name}, for two hand-overs"] = "each is examined alone"
    return found


def _missing(replay: Replay, instances: Sequence[Instance]) -> Iterator[str]:
    for file in replay.files:
        if not file.processes:
            yield f"{file.path} has no lines"
        for process in file.processes:
            if not process.whole:
                yield (f"{file.path}: process {process.number + 1}, up to its line "
                       f"{process.lines}, is incomplete")
    if replay.tally.lines and not replay.tally.rows:
        yield NO_ROW
    pending = [(instance, ground) for instance in instances
               for ground in instance.local.pending(instance.state)[:1]]
    for instance, ground in pending[:NEAREST_MAX]:
        own = ", ".join(map(words, instance.own))
        yield f"{ground.row.name} could still fire at {instance.local.table.machine} {own}"
    if len(pending) > NEAREST_MAX:
        yield f"and so on at {len(pending) - NEAREST_MAX:,} more endpoints"


def _absent(replay: Replay, instances: Sequence[Instance]) -> Iterator[str]:
    """The processes of the run without a trace: an endpoint of another one names them."""
    given = {file.node for file in replay.files}
    named = dict.fromkeys(name for instance in instances for of in instance.names.values()
                          for name in of if isinstance(name, str))
    for name in named:
        if name not in given:
            yield f"{name} did what others tell of it: no trace of it is given"


def _explained(
    paths: Sequence[Path], error: RejectedError, replay: Replay, *, from_middle: bool
) -> Rejection:
    text = error.read.text.decode(errors="replace").rstrip("\n")
    about = error.instance
    if about is None:
        return Rejection(str(error.path), error.read.number, text, str(error))
    events = _events(paths, about, replay, from_middle=from_middle)
    return RejectionNarrator(replay.tables.system, events, error).rejection(text)


def _out_of_order(
    paths: Sequence[Path], wrong: Wrong, replay: Replay, *, from_middle: bool
) -> Rejection:
    """The rejection of a line that conforms alone, and not with the lines of other processes."""
    about = wrong.instance
    events = {(event.instance.key, event.read.number): event
              for event in _events(paths, about, replay, from_middle=from_middle)}
    last = events[about.key, wrong.event.at]
    run = [events[instance.key, event.at] for instance, event in wrong.run]
    error = RejectedError(paths[about.key[0]], last.read, last.instance,
                          MismatchError(wrong.why, (), last.before))
    text = last.read.text.decode(errors="replace").rstrip("\n")
    return RejectionNarrator(replay.tables.system, run, error).rejection(text, wrong.claim)


def _events(
    paths: Sequence[Path], about: Instance, replay: Replay, *, from_middle: bool
) -> list[Replayed]:
    """The lines of the endpoints that belong together with this one."""
    shared = {(sort, element) for sort, element in zip(about.local.own, about.own, strict=True)
              if element is not None and not isinstance(element, str)}
    watched = frozenset(
        instance.key for instance in replay.instances() if instance is about or shared & set(
            zip(instance.local.own, instance.own, strict=True)))
    events: list[Replayed] = []
    again = Replay(replay.tables, paths, from_middle=from_middle, watched=watched,
                   watcher=events.append)
    with suppress(RejectedError):
        again.run()
    return events


class RejectionNarrator:
    """Explains the rejected line by the events of its endpoints before it."""

    def __init__(self, system: System, events: Sequence[Replayed], error: RejectedError) -> None:
        self.system: Final = system
        self.error: Final = error
        self.events: Final = events
        self.names: Final[dict[type[Sort], dict[Element, int]]] = {}
        about = [error.instance] if error.instance is not None else []
        for instance in (*about, *(event.instance for event in events)):
            for sort, of in instance.names.items():
                for element in of:
                    self._number(sort, element)

    def _number(self, sort: type[Sort], element: Element) -> int:
        known = self.names.setdefault(sort, {})
        if isinstance(element, int):
            return known.setdefault(element, element)
        return known.setdefault(element, len(known))

    def rejection(self, text: str, claim: str = "") -> Rejection:
        """The explanation. text: the rejected line. claim: the property that it violates."""
        error = self.error
        legend = {sort.element(index): words(element) for sort, of in self.names.items()
                  for element, index in of.items() if not isinstance(element, int)}
        return Rejection(str(error.path), error.read.number, text, str(error),
                         tuple(self.nearest()), legend, self.trace(),
                         max(0, len(self.events) - STEPS_MAX), claim)

    def nearest(self) -> Iterator[Nearest]:
        """The row that the line names, then rows on its trigger, the nearest first."""
        instance, line = self.error.instance, self.error.read.line
        if instance is None or line is None or line.begins or line.elements:
            return
        mismatch = self.error.error
        state = instance.state if mismatch.state is None else mismatch.state
        named = list(mismatch.grounds)
        found = {(g.row.name, tuple(g.environment.values())): g
                 for g in (*named, *self._alike(instance.local, named, line))}
        failing = [(ground, instance.local.failing(ground, state)) for ground in found.values()]
        first, rest = failing[:len(named)], failing[len(named):]
        rest.sort(key=lambda pair: len(pair[1]))
        for ground, parts in (first + rest)[:NEAREST_MAX]:
            environment = self._environment(instance, ground)
            yield Nearest(ground.row.name, element_names(environment),
                          tuple(formula_text(part, environment) for part in parts))

    @staticmethod
    def _alike(
        local: LocalTable, named: Sequence[GroundedRow], line: TraceLine
    ) -> Iterator[GroundedRow]:
        """Rows on the same trigger. If the line names no row: rows without a trigger."""
        row = named[0].row if named else None
        if line.row is not None and line.row in local.rows:
            row = local.rows[line.row].row
        if line.device is not None:
            return
        wanted = None if row is None else trigger_name(row.on)
        for other in local.rows.values():
            if trigger_name(other.row.on) == (wanted or ("", "")) and other.row.kind != "reject":
                for ground in local.every(other):
                    if not named or ground.trigger is None or named[0].trigger == ground.trigger:
                        yield ground

    def trace(self) -> Trace:
        """The last events, and the rejected line as the last step."""
        events = self.events[-STEPS_MAX:]
        before = self.events[:-STEPS_MAX]
        steps = (*map(self._step, events), self._last())
        instances = list(dict.fromkeys(event.instance for event in events))
        if self.error.instance is not None and self.error.instance not in instances:
            instances.append(self.error.instance)
        lanes = {self._lane(instance): instance.local.table.machine.name for instance in instances}
        for step in steps:
            for arrow in (*step.sent, *((step.received,) if step.received else ())):
                for lane in (arrow.sender, *arrow.receivers):
                    lanes.setdefault(lane, lane.split(" ")[0])
        starts = dict.fromkeys(instances, "")
        for event in before:
            if event.instance in starts:
                starts[event.instance] = event.local.word(event.after)
        start = tuple(
            Change(self._lane(instance), self._cell(instance, symbol, (0,) * len(symbol.sorts)), "",
                   word or value_name(symbol.values[0]))
            for instance, word in starts.items()
            if (symbol := instance.local.table.state) is not None)
        order = [machine.name for machine in self.system.machines]
        ordered = sorted(lanes, key=lambda lane: (order.index(lanes[lane]), lane))
        return Trace(tuple(Lane(lane, lanes[lane]) for lane in ordered), start, steps,
                     start_holds={CONFORMS: True})

    def _step(self, event: Replayed) -> TraceStep:
        instance, ground, line = event.instance, event.ground, event.read.line
        lane = self._lane(instance)
        changes = tuple(
            Change(lane, self._cell(instance, symbol, indices),
                   value_name(event.local.value(event.before, symbol, indices)),
                   value_name(event.local.value(event.after, symbol, indices)))
            for (symbol, indices), place in event.local.layout.fields.items()
            if (event.before ^ event.after) & place.mask and event.local.owns(symbol))
        if ground is None:
            heard = line.heard if line is not None else ""
            return TraceStep(f"hear {heard}", "", lane, "", "", self.system.place, "", None, (), (),
                        changes, {CONFORMS: True})
        environment = self._environment(instance, ground)
        by_device = line is not None and line.device is not None
        received = None
        if ground.trigger is not None:
            received = self._arrow(instance, ground.trigger[0], ground.trigger[1])
        return TraceStep(
            ground.row.name, element_names(environment), lane,
            "a device" if by_device else trigger_text(ground.row.on, environment),
            ground.row.why, ground.row.place, "", received,
            tuple(self._arrow(instance, message, at) for message, at in ground.sent), (),
            changes, {CONFORMS: True})

    def _last(self) -> TraceStep:
        """The rejected line, as a step that violates the claim."""
        instance, line = self.error.instance, self.error.read.line
        name = f"line {self.error.read.number}"
        if line is not None:
            name = line.row or line.heard or ("device" if line.device is not None else name)
        parameters = "" if line is None else ", ".join(
            self._word(instance, name, element) for name, element in line.given.items())
        lane = self._lane(instance) if instance is not None else ""
        rows = {} if instance is None else instance.local.rows
        place = rows[name].row.place if name in rows else self.system.place
        return TraceStep(name, parameters, lane, f"line {self.error.read.number}", str(self.error),
                    place, "", None, (), (), (), {CONFORMS: False})

    def _word(self, instance: Instance | None, name: str, element: Element) -> str:
        for sort, known in self.names.items():
            if element in known and instance is not None and any(
                    (name, sort) in row.parameters for row in instance.local.rows.values()):
                return sort.element(known[element])
        return words(element)

    def _environment(self, instance: Instance, ground: GroundedRow) -> dict[Sort, int]:
        return {variable: self._index(instance, type(variable), index)
                for variable, index in ground.environment.items()}

    def _index(self, instance: Instance, sort: type[Sort], index: int) -> int:
        of = instance.names.get(sort, ())
        return self._number(sort, of[index]) if index < len(of) else index

    def _lane(self, instance: Instance) -> str:
        sorts = instance.local.own
        return lane_name(instance.local.table.machine,
                         tuple(self._index(instance, sort, 0) for sort in sorts))

    def _cell(self, instance: Instance, symbol: Symbol, indices: tuple[int, ...]) -> str:
        at = zip(symbol.sorts, indices, strict=True)
        return cell_name(symbol, tuple(self._index(instance, sort, index) for sort, index in at))

    def _arrow(self, instance: Instance, message: AnyMessage, at: tuple[int, ...]) -> Arrow:
        given = {variable: self._index(instance, type(variable), index)
                 for variable, index in zip(message.formals, at, strict=True)}
        return Arrow(self._cell(instance, message, at), _party(message.sender, given),
                     (_party(message.receiver, given),))


def _party(party: Party, given: Mapping[Sort, int]) -> str:
    """The lane of an instance, without elements that the message does not name."""
    named = [type(v).element(given[v]) for v in party.variables if v in given]
    return " ".join([party.machine.name, *named])


def to_result(verified: ReplayResult) -> CheckResult:
    """The replay as the result of a check, for all reports."""
    rejection, system = verified.rejection, verified.system
    named = "" if rejection is None else "; ".join(
        f"{short} is {name}" for short, name in rejection.names.items())
    note = "; ".join((*verified.missing, *verified.assumes, *(
        f"not judged: {claim}: {why}" for claim, why in verified.unjudged.items())))
    if rejection is not None:
        note = f"{rejection.file}, line {rejection.number}: {rejection.why}" + (
            f" ({named})" if named else "") + "".join(
            f"; {nearest}" for nearest in rejection.nearest[:1]) + (
            f"; {rejection.earlier:,} earlier steps are left out" if rejection.earlier else "")
    finding = Finding(
        CONFORMS, PropertyKind.ALWAYS, CLAIM, verified.verdict,
        f"{verified.lines:,} lines of {len(verified.files):,} files", system.place,
        rejection.trace if rejection is not None else None, note=note)
    rows = {row.name: row for table in system.tables if not table.machine.world
            for row in table.rows}
    fired = [name for name in rows if name in verified.rows]
    return CheckResult(
        system.name, system.about, {}, (), verified.states, sum(verified.rows.values()),
        verified.longest, 0.0, verified.verdict is not Verdict.UNKNOWN, note, (finding,),
        tuple(name for name, row in rows.items() if name not in verified.rows
              and row.kind != "reject"),
        0, row_places={name: row.place for name, row in rows.items()}, rows_fired=tuple(fired))


def to_json(verified: ReplayResult) -> dict[str, Any]:
    """The replay as JSON values."""
    rejection = verified.rejection
    return {
        "system": verified.system.name,
        "verdict": {Verdict.HOLDS: "conforms", Verdict.VIOLATED: "rejected",
                    Verdict.UNKNOWN: "incomplete"}[verified.verdict],
        "files": list(verified.files), "lines": verified.lines, "endpoints": verified.endpoints,
        "rows": dict(verified.rows), "assumed": dict(verified.assumed),
        "passed": verified.passed, "missing": list(verified.missing),
        "assumes": list(verified.assumes),
        "not_judged": [f"{claim}: {why}" for claim, why in verified.unjudged.items()],
        "rejection": None if rejection is None else {
            "file": rejection.file, "line": rejection.number, "text": rejection.text,
            "why": rejection.why, "claim": rejection.claim, "names": dict(rejection.names),
            "nearest": [{"row": row.row, "parameters": row.parameters,
                         "failing": list(row.failing)} for row in rejection.nearest],
            "finding": result_json(to_result(verified))["properties"][0],
        },
    }
