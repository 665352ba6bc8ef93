"""Checks that every trigger is answered in every state: by a row, an `Ignore` or a `Reject`.

Messages, completions and calls at any time arrive in any state: a state without an answer is an
error. Other calls and timers are decided by the caller and the clock; an endpoint does not offer
them in a state without a row, which is worth a note. Local variables range over the values of
subject.py. Messages may be sent or not, because a runtime must also answer a faulty peer.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pdproto.check.lint.remark import Remark, Severity
from pdproto.check.lint.solver import Constraint, Domains
from pdproto.check.lint.subject import AnyMachine, LintSubject, TriggerInstance
from pdproto.check.words import trigger_name, trigger_text
from pdproto.ground.layout import Indices, value_name
from pdproto.spec.language.formula import Value, atoms
from pdproto.spec.language.machine import Call, Completion, Table, Timer, Trigger
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Function, Message, Sent

AnyFunction: TypeAlias = Function[Any, *tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class _Hole:
    """A state of the machine in which no row answers the trigger."""

    state: Value | None  # None: the machine's table has no state variable
    witness: tuple[str, ...]


def totality(subject: LintSubject) -> Iterator[Remark]:
    """The triggers without an answer, and the calls and timers that are not offered."""
    for machine, tables in subject.tables.items():
        state = next((table.state for table in tables if table.state is not None), None)
        for trigger in _triggers(subject, machine, tables):
            match trigger:
                case Sent() | Completion() | Call(any_time=True):
                    yield from _unanswered(subject, machine, tables, state, trigger)
                case _:
                    yield from _not_offered(subject, machine, tables, state, trigger)


def _triggers(
    subject: LintSubject, machine: AnyMachine, tables: Sequence[Table]
) -> Iterable[Sent | Completion | Call | Timer]:
    """Each trigger of the machine once, with the variables of its first row or declaration."""
    found: dict[tuple[str, str], Sent | Completion | Call | Timer] = {}
    for symbol in subject.system.variables:
        if isinstance(symbol, Message) and symbol.receiver.machine is machine:
            found["message", symbol.name] = symbol(*symbol.formals)
    for table in tables:
        for row in table.rows:
            if row.on is not None:
                found.setdefault(trigger_name(row.on), row.on)
    return found.values()


def _unanswered(
    subject: LintSubject,
    machine: AnyMachine,
    tables: Sequence[Table],
    state: AnyFunction | None,
    trigger: Sent | Completion | Call,
) -> Iterator[Remark]:
    text = trigger_text(trigger).removeprefix("on ")
    if not any(_waits(row.on, trigger) for table in tables for row in table.rows):
        # A message that guards read needs no row.
        if isinstance(trigger, Sent) and not _is_read(subject, trigger.message):
            problem = f"{machine} has no row for {text}, in any state"
            yield Remark("totality", Severity.ERROR, problem, trigger.message.place)
        return
    holes = _holes(subject, machine, state, trigger)
    if not holes:
        return
    where = _among(value_name(hole.state) for hole in holes if hole.state is not None)
    machine_state = f"{machine} in {where}" if where else f"{machine}"
    problem = f"{machine_state} has no row for {text}"
    yield Remark("totality", Severity.ERROR, problem, tables[0].place, holes[0].witness)


def _not_offered(
    subject: LintSubject,
    machine: AnyMachine,
    tables: Sequence[Table],
    state: AnyFunction | None,
    trigger: Call | Timer,
) -> Iterator[Remark]:
    """One note for each trigger: the states in which no row on it can fire."""
    if state is None or not all(subject.ground.sizes[sort] for sort in machine.sorts):
        return
    rows = [
        number
        for number, row in enumerate(subject.ground.rows)
        if row.table.machine is machine and _waits(row.row.on, trigger)
    ]
    missing: list[str] = []
    own = (0,) * len(machine.own)
    for value, domains in _states(subject, subject.receivable, state, own):
        here = [n for n in rows if subject.event(subject.ground.rows[n]).own == own]
        if all(subject.solve(domains, subject.guards[number]) is None for number in here):
            missing.append(value_name(value))
    if missing:
        problem = f"{trigger_text(trigger)} is not offered by {machine} in {_among(missing)}"
        place = next(r.place for t in tables for r in t.rows if _waits(r.on, trigger))
        yield Remark("offer", Severity.NOTE, problem, place)


def _holes(
    subject: LintSubject,
    machine: AnyMachine,
    state: AnyFunction | None,
    trigger: Sent | Completion | Call,
) -> list[_Hole]:
    """For each value of the state variable, the first instance of the trigger without an answer."""
    holes: dict[Value | None, _Hole] = {}
    for event in _events(subject, machine, trigger):
        given: list[Constraint] = []
        if isinstance(trigger, Sent):
            first = () if trigger.message.fifo is None else (0,)
            bit = subject.offset(trigger.message, (*event.arguments, *first))
            given = [({bit: 0b10},)]
        rows = subject.rows_by_event.get(event, ())
        refused = [subject.cells.fails(subject.answers[n]) for n in rows]
        choices: Iterable[tuple[Value | None, Domains]] = [(None, subject.receivable)]
        if state is not None:
            choices = _states(subject, subject.receivable, state, event.own)
        for value, domains in choices:
            if value in holes:
                continue
            solution = subject.solve(domains, given + refused)
            if solution is not None and not _excluded(subject, domains, rows):
                pinned = {c: v for c, v in solution.items() if ({c: 0b10},) not in given}
                witness = subject.witness(pinned, domains)
                named = _instance(machine, event, trigger)
                holes[value] = _Hole(value, (*named, *witness, *subject.topology))
    order = list(state.values) if state is not None else [None]
    return [holes[value] for value in order if value in holes]


def _excluded(subject: LintSubject, domains: Domains, rows: Sequence[int]) -> bool:
    """Whether some row answers wherever the lemmas hold, also if the trigger was not sent."""
    if not subject.lemmas:
        return False
    refused = [subject.cells.fails(subject.conditions[number]) for number in rows]
    return subject.in_known_states(domains, refused) is None


def _states(
    subject: LintSubject, domains: Domains, state: AnyFunction, own: Indices
) -> Iterator[tuple[Value, Domains]]:
    """Each possible value of the instance's state variable, with the domains narrowed to it."""
    cell = subject.offset(state, own)
    for code, value in enumerate(state.values):
        if domains[cell] >> code & 1:
            yield value, {**domains, cell: 1 << code}


def _events(
    subject: LintSubject, machine: AnyMachine, trigger: Sent | Completion | Call
) -> Iterator[TriggerInstance]:
    """Every instance of the trigger at every instance of its receiver."""
    kind, name = trigger_name(trigger)
    variables: tuple[Sort, ...] = (
        trigger.arguments if isinstance(trigger, Sent) else trigger.parameters
    )
    receiver = trigger.message.receiver.variables if isinstance(trigger, Sent) else machine.own
    for own in subject.instances(machine.sorts):
        at = dict(zip(receiver, own, strict=True))
        for arguments in subject.instances(tuple(type(v) for v in variables)):
            named = zip(variables, arguments, strict=True)
            if all(at.get(variable, element) == element for variable, element in named):
                yield TriggerInstance(machine, own, kind, name, arguments)


def _instance(
    machine: AnyMachine, event: TriggerInstance, trigger: Sent | Completion | Call
) -> Iterator[str]:
    """The elements of the machine's instance and of the trigger: `p = p0`, `n = n1`."""
    if isinstance(trigger, Sent):
        own, variables = trigger.message.receiver.variables, trigger.arguments
    else:
        own, variables = machine.own, trigger.parameters
    at = dict(zip((*own, *variables), (*event.own, *event.arguments), strict=True))
    for variable, element in at.items():
        yield f"{variable!r} = {type(variable).element(element)}"


def _waits(on: Trigger, trigger: Trigger) -> bool:
    return trigger_name(on) == trigger_name(trigger)


def _is_read(subject: LintSubject, message: Message[*tuple[Any, ...]]) -> bool:
    return any(
        atom.symbol is message
        for table, row in subject.system.rows()
        if table.machine is message.receiver.machine
        for condition in row.conditions
        for atom, _ in atoms(condition)
    )


def _among(words: Iterable[str]) -> str:
    """`a`, `a or b`, `a, b or c`."""
    listed = list(words)
    if len(listed) < 2:
        return "".join(listed)
    return f"{', '.join(listed[:-1])} or {listed[-1]}"
