"""A failed run in the form of the checker's traces: a lane for each end of one hand-over.

The run is repeated, and the steps of the ends of that hand-over are recorded row by row.
"""

from collections.abc import Iterator
from typing import Any, Final

from lab.sim.cluster import simulate
from lab.sim.outcome import Roles, RunOutcome, Violation
from lab.sim.plan import Fault
from lab.sim.plan import Kind as FaultKind
from pdproto.check.result import (
    Arrow,
    Change,
    CheckResult,
    Finding,
    Lane,
    PropertyKind,
    Trace,
    Verdict,
)
from pdproto.check.result import TraceStep as Told
from pdproto.check.words import trigger_text
from pdproto.ground.layout import Indices, value_name
from pdproto.runtime.automaton import Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.spec.handoff.roles import Sink, Source
from pdproto.spec.handoff.transfer import SYSTEM
from pdproto.spec.language.machine import Row
from pdproto.spec.language.properties import LeadsTo
from pdproto.spec.language.symbols import Message, Sent, Symbol
from pdproto.testing.chance import Seeded

STEPS_MAX: Final = 60  # the last steps, as many as a reader can follow
DEVICE: Final = Row("device", why="the end notes a report of the engine")
CRASH: Final = Row("crash", why="the process dies")


class Recording:
    """The steps of the ends of one room so far. room -1: of all rooms, in one picture."""

    def __init__(self, room: int) -> None:
        self.steps: Final[list[Told]] = []
        self.lanes: Final[dict[str, Lane]] = {}
        self._room: Final = room
        self._values: Final[dict[tuple[str, Symbol, Indices], str]] = {}

    def see(self, at: float, node: str, end: Endpoint, event: Event, step: Step) -> None:
        """Record a step, if its end belongs to the room."""
        if self._room >= 0 and (end.life is None or end.life.room != self._room):
            return
        told = _Teller(at, node, end, event, step)
        if not step.rows and not step.changed:
            return
        self.lanes.setdefault(told.lane, Lane(told.lane, told.machine))
        changes = tuple(self._changes(node, told, step))
        rows = step.rows or ((DEVICE, ()),)
        for place, (row, indices) in enumerate(rows):
            last = place == len(rows) - 1
            self.steps.append(told.row(row, indices, place == 0, changes if last else ()))

    def see_fault(self, fault: Fault) -> None:
        """Record the end of a process in each of its lanes."""
        for lane in self.lanes.values():
            if lane.name.split()[1].split(".")[0] == fault.server:
                self.steps.append(_told(CRASH, lane.name, f"{fault.at:.4f} s", fault="crash"))

    def _changes(self, node: str, told: "_Teller", step: Step) -> Iterator[Change]:
        for symbol, indices, value in step.changed:
            key = node, symbol, indices
            before = self._values.get(key, value_name(symbol.values[0]))
            self._values[key] = value_name(value)
            yield Change(told.lane, told.cell(symbol, indices), before, value_name(value))


class _Teller:
    """One event of one end, in words."""

    def __init__(self, at: float, node: str, end: Endpoint, event: Event, step: Step) -> None:
        self.machine: Final = end.automaton.table.machine.name
        self.lane: Final = f"{self.machine} {node}"
        self._at: Final = at
        self._end: Final = end
        self._event: Final = event
        self._step: Final = step
        self._other: Final = "sink" if self.machine == "source" else "source"

    def cell(self, symbol: Symbol, indices: Indices) -> str:
        """A variable, without the places that are always the same."""
        named = [self._end.peers[index] if sort is self._peer() else sort.element(index)
                 for sort, index in zip(symbol.sorts, indices, strict=True)
                 if sort is self._peer() or sort.__name__ == "Chunk"]
        return f"{symbol.name}({', '.join(named)})" if named else symbol.name

    def row(
        self, row: Row, indices: Indices, first: bool, changes: tuple[Change, ...]
    ) -> Told:
        received = None
        if first and isinstance(row.on, Sent) and self._event.from_peer:
            table = self._end.automaton.table
            peer = next((index for variable, index in
                         zip(table.parameters(row), indices, strict=True)
                         if type(variable) is self._peer()), 0)
            other = f"{self._other} {self._end.peers[peer]}"
            received = Arrow(self._message(row.on.message, other, self.lane), other, (self.lane,))
        sent = self._sent() if changes or not self._step.changed else ()
        trigger = trigger_text(row.on) if row is not DEVICE else self._event.name
        return _told(row, self.lane, f"{self._at:.4f} s", trigger=trigger, received=received,
                     sent=sent, changes=changes)

    def _sent(self) -> tuple[Arrow, ...]:
        others = [(message, f"{self._other} {self._end.peers[indices[2]]}")
                  for message, indices in self._step.sent]
        return tuple(Arrow(self._message(message, self.lane, other), self.lane, (other,))
                     for message, other in others)

    @staticmethod
    def _message(message: Message[*tuple[Any, ...]], sender: str, receiver: str) -> str:
        return f"{message.name}({sender.split()[1]}, {receiver.split()[1]})"

    def _peer(self) -> type:
        return Sink if self.machine == "source" else Source


def _told(
    row: Row, lane: str, when: str, *, trigger: str = "", fault: str = "",
    received: Arrow | None = None, sent: tuple[Arrow, ...] = (), changes: tuple[Change, ...] = (),
) -> Told:
    return Told(row=row.name, parameters=when, lane=lane, trigger=trigger, why=row.why,
                place=row.place, fault=fault, received=received, sent=sent, lost=(),
                changes=changes, holds={})


def told(outcome: RunOutcome, seeded: Seeded, roles: Roles, command: str) -> CheckResult:
    """The run of this outcome, which violates something, as a result that every report can show.

    Raises ValueError for a run that violates nothing.
    """
    violation = outcome.violation
    if violation is None:
        raise ValueError(f"seed {outcome.plan.seed}: no property was violated")
    recording = Recording(violation.room)
    simulate(outcome.plan, seeded, roles=roles, recorder=recording.see,
             on_fault=lambda fault: _note(recording, fault))
    finding = Finding(
        name=violation.name,
        kind=PropertyKind.ALWAYS,
        claim=_claim(violation),
        verdict=Verdict.VIOLATED,
        assurance=f"seed {outcome.plan.seed}",
        place=SYSTEM.place,
        trace=trace_of(recording, violation),
        instance="" if violation.room < 0 else f"room={violation.room}",
    )
    shape = outcome.plan.shape
    return CheckResult(
        system="sim", description=f"The runtime in a simulated cluster. Replay: {command}",
        sizes={"prefill": shape.prefill, "decode": shape.decode, "pp": shape.pp,
               "requests": len(outcome.plan.requests)},
        faults=tuple(dict.fromkeys(str(fault.kind) for fault in outcome.plan.faults)),
        states=0, transitions=outcome.steps, depth=len(recording.steps),
        seconds=outcome.seconds, complete=False, stopped="the first violation",
        findings=(finding,), rows_never_fired=(), deadlocks=0)


def _note(recording: Recording, fault: Fault) -> None:
    if fault.kind is FaultKind.CRASH:
        recording.see_fault(fault)


def _claim(violation: Violation) -> str:
    named = {claim.name: claim for claim in SYSTEM.properties if not isinstance(claim, LeadsTo)}
    claim = named.get(violation.name)
    why = f"{claim.why}. " if claim is not None and claim.why else ""
    return f"{why}At {violation.at:.4f} s: {violation.about}"


def trace_of(recording: Recording, violation: Violation) -> Trace:
    """The steps up to the violation, as reports take them."""
    steps = recording.steps[-STEPS_MAX:]
    if steps:
        last = steps[-1]
        steps[-1] = Told(last.row, last.parameters, last.lane, last.trigger, last.why, last.place,
                         last.fault, last.received, last.sent, last.lost, last.changes,
                         {violation.name: False})
    lanes = dict(recording.lanes)
    for step in steps:
        for arrow in (*step.sent, *((step.received,) if step.received else ())):
            for name in (arrow.sender, *arrow.receivers):
                lanes.setdefault(name, Lane(name, name.split()[0]))
    return Trace(tuple(sorted(lanes.values(), key=lambda lane: lane.name, reverse=True)), (),
                 tuple(steps), start_holds={violation.name: True})
