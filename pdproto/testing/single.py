"""One live end under arbitrary events: each event takes a row of its table, or changes nothing.

The peers of this end follow no protocol. It gets messages that no peer can have sent, calls in any
order, and any report of a clock or device. So it reaches states that no run of the system reaches.

    OneEnd(SYSTEM, SYSTEM.configurations["default"], "source").run()
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test

from pdproto.check.rigid import interpretations
from pdproto.ground.grounding import Ground, GroundRow
from pdproto.ground.layout import Cell, cell_name
from pdproto.ground.local import local_symbols
from pdproto.runtime.errors import ProtocolError
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Call, Completion
from pdproto.spec.language.place import SpecError
from pdproto.spec.language.symbols import Message, Sent, Variable
from pdproto.spec.language.system import Configuration, System
from pdproto.testing.ends import Carried, End, Said, make_ends, messages_read
from pdproto.testing.machine import REPORTS, RUN, Report

STRIDE: Final = 4  # events in one rule: drawing a number takes longer than an event
ANY_NUMBER: Final = st.integers(0, (1 << 16) - 1)
ANY_NUMBERS: Final = st.integers(0, (1 << 16 * STRIDE) - 1)


class WrongAnswerError(AssertionError):
    """An end has answered an event otherwise than its table."""


@dataclass(frozen=True, slots=True)
class Expected:
    """The table's answer to an event: a row (None if no row may fire), and the state after it."""

    row: GroundRow | None
    after: int


class OneEnd:
    """The first instance of one machine as a live end, with all events that can happen to it.

    stores: see `pdproto.testing.ends.make_ends`. A row without a trigger fires only as an event of
    its own here. runs: the system whose table the end runs, if it differs from `system`. Raises
    SpecError if the system has no such machine.
    """

    def __init__(
        self,
        system: System,
        configuration: Configuration,
        machine: str,
        *,
        stores: frozenset[str] = frozenset(),
        runs: System | None = None,
    ) -> None:
        sizes = configuration.sizes
        given = next(iter(interpretations(system, sizes, configuration)))
        self.ground: Final = Ground(system, sizes, (), given)
        run = self.ground if runs is None else Ground(runs, sizes, (), given)
        found = [end for end in make_ends(run, stores=stores)
                 if end.table.machine.name == machine]
        if not found:
            raise SpecError(system.place, f"{system.name} has no machine {machine!r}")
        self.end: Final[End] = found[0]
        self.table: Final = next(t for t in system.tables if t.machine.name == machine)
        own = dict.fromkeys(self.table.machine.own, 0)
        self.rows: Final = tuple(
            row for row in self.ground.rows
            if row.table is self.table and all(row.environment[v] == 0 for v in own)
        )
        self._answers: Final = {
            id(row): [other for other in self.rows if _answers(other, row)] for row in self.rows}
        self._carried: Final = {id(row): self._carriable(row) for row in self.rows}
        self.known: Final = self._known()
        self.writable: Final = tuple(self._writable())
        self.hearable: Final = tuple(self._hearable())
        self.fired: Final[Counter[str]] = Counter()
        self.count = 0

    def _known(self) -> int:
        """The bits of the state that this end knows."""
        symbols = set(local_symbols(self.table))
        return sum(field.mask for (symbol, indices), field in self.ground.layout.fields.items()
                   if symbol in symbols and self._is_its(symbol, indices))

    def _is_its(self, symbol: Any, indices: tuple[int, ...]) -> bool:
        """Whether a cell belongs to this instance; True for symbols of other machines."""
        own = len(self.table.machine.own)
        machine = self.table.machine
        if isinstance(symbol, Variable) and machine in (symbol.owner, symbol.engine):
            return not any(indices[:own])
        return True

    def _writable(self) -> Iterator[tuple[Cell, Value]]:
        """The values that other owners may write into variables shared with this end."""
        for symbol, indices in self.end.kept:
            if isinstance(symbol, Variable) and symbol.engine is not None:
                its = symbol.owner is self.table.machine
                yield from (((symbol, indices), value) for value in symbol.values
                            if (value in symbol.engine_writes) == its)

    def _hearable(self) -> Iterator[Said]:
        """The messages to this end that trigger no row, but that its guards read."""
        triggers = {row.on.message for row in self.table.rows if isinstance(row.on, Sent)}
        for symbol, indices in self.ground.layout.fields:
            if isinstance(symbol, Message) and symbol in messages_read(self.table) - triggers:
                given = dict(zip(symbol.formals, indices, strict=True))
                if not any(given.get(v, 0) for v in symbol.receiver.variables):
                    yield symbol, indices

    def carried(self, row: GroundRow) -> Carried:
        """The relations that may travel with the message of the row's trigger."""
        return self._carried[id(row)]

    def _carriable(self, row: GroundRow) -> Carried:
        on = row.row.on
        if not isinstance(on, Sent):
            return ()
        given = dict(zip(on.message.formals, self.ground.cell(on.arguments, row.environment),
                         strict=True))
        own = tuple(given[v] for v in on.message.sender.variables)
        return tuple((symbol, at) for symbol, at in self.ground.layout.fields
                     if symbol in on.message.carries and at[:len(own)] == own)

    def expected(self, row: GroundRow, state: int, carried: Carried) -> Expected:
        """The table's answer to the trigger of the row: the first row that the trigger enables."""
        layout = self.ground.layout
        for cell in carried:
            state |= layout.literal(*cell, True).value
        trigger = 0
        if isinstance(row.row.on, Sent):
            indices = self.ground.cell(row.row.on.arguments, row.environment)
            trigger = layout.field(row.row.on.message, indices).mask
        for other in self._answers[id(row)]:
            if not other.action.guard.holds(state | trigger):
                continue
            if other.row.kind == "reject":
                return Expected(None, state)
            return Expected(other, other.action.apply(state | trigger) & self.known)
        return Expected(None, state)

    def machine(self) -> type["EndMachine"]:
        """The state machine, a class that Hypothesis runs."""
        return type("EndMachine", (EndMachine,), {"of": self})

    def run(self, chosen: settings = RUN) -> Report:
        """Run the machine. chosen: Hypothesis settings. Raises WrongAnswerError."""
        try:
            run_state_machine_as_test(self.machine(), settings=chosen)
        finally:
            REPORTS.append(self.report())
        return self.report()

    def report(self) -> Report:
        """The counts of all runs so far."""
        names = dict.fromkeys(row.row.name for row in self.rows if row.row.kind != "reject")
        never = tuple(name for name in names if name not in self.fired)
        return Report(f"{self.ground.system.name}, one {self.table.machine}", self.count,
                      dict(self.fired), never)


def _answers(row: GroundRow, wanted: GroundRow) -> bool:
    """Whether the row answers the event of the wanted row.

    The wanted row answers only at its own parameters, because the caller chooses them.
    """
    on = wanted.row.on
    if row.row.name == wanted.row.name or not isinstance(on, Sent | Call | Completion):
        return row is wanted
    match row.row.on:
        case Sent(arguments=arguments) as other:
            return isinstance(on, Sent) and other.message is on.message and (
                _at(row, arguments) == _at(wanted, on.arguments))
        case Call(parameters=parameters) | Completion(parameters=parameters) as other:
            return not isinstance(on, Sent) and type(other) is type(on) and (
                other.name == on.name and _at(row, parameters) == _at(wanted, on.parameters))
        case _:
            return False


def _at(row: GroundRow, variables: Any) -> tuple[int, ...]:
    return tuple(row.environment[v] for v in variables)


class EndMachine(RuleBasedStateMachine):
    """Any event at any time. state: the state by the table, after the events so far."""

    of: OneEnd

    def __init__(self) -> None:
        super().__init__()
        self.of.end.begin()
        self.of.count += 1
        self.state = 0
        self.told: list[str] = []

    @rule(picks=ANY_NUMBERS, carried=st.integers(0, 255))
    def anything(self, picks: int, carried: int) -> None:
        """The trigger of any row, whether or not the row can fire."""
        of = self.of
        for shift in range(0, 16 * STRIDE, 16):
            row = of.rows[(picks >> shift & 0xFFFF) % len(of.rows)]
            some = [cell for i, cell in enumerate(of.carried(row)) if carried >> i & 1]
            self._happen(row, tuple(some))

    @rule(picks=ANY_NUMBERS)
    def onward(self, picks: int) -> None:
        """The trigger of a row that changes the state, so that the run gets far."""
        of = self.of
        for shift in range(0, 16 * STRIDE, 16):
            rows = [row for row in of.rows if self._is_useful(row)]
            if rows:
                row = rows[(picks >> shift & 0xFFFF) % len(rows)]
                self._happen(row, of.carried(row))

    def _is_useful(self, row: GroundRow) -> bool:
        expected = self.of.expected(row, self.state, self.of.carried(row))
        return expected.row is row and expected.after != self.state

    def _happen(self, row: GroundRow, some: Carried) -> None:
        of = self.of
        expected = of.expected(row, self.state, some)
        self.told.append(f"{row}, {row.row.on}")
        before = of.end.portrait()
        try:
            taken = of.end.fire(row, some)
            rows = taken.rows
        except ProtocolError:
            rows = ()
        rejected = rows and next(r for r in of.table.rows if r.name == rows[0][0]).kind == "reject"
        if expected.row is None:
            if rows and not rejected:
                self._wrong(f"it fires {rows[0]}, but the table allows no row")
            self._compare(before)
            return
        if not rows or rows[0][0] != expected.row.row.name:
            self._wrong(f"it fires {rows[:1] or 'nothing'}, and the table has {expected.row}")
        of.fired[expected.row.row.name] += 1
        self.state = expected.after
        self._compare(self.state)

    @precondition(lambda self: self.of.writable)
    @rule(pick=ANY_NUMBER)
    def device(self, pick: int) -> None:
        """A device or another owner writes a value at any time."""
        cell, value = self.of.writable[pick % len(self.of.writable)]
        self.told.append(f"{cell_name(*cell)} becomes {value}")
        symbol = cell[0]
        if isinstance(symbol, Variable) and symbol.owner is self.of.table.machine:
            self.of.end.write(((cell, value),))
        else:
            self.of.end.put(cell, value)
        self.state = self._with(cell, value)
        self._compare(self.state)

    @precondition(lambda self: self.of.hearable)
    @rule(pick=ANY_NUMBER)
    def heard(self, pick: int) -> None:
        """A message that triggers no row, and that no peer need have sent."""
        message, indices = self.of.hearable[pick % len(self.of.hearable)]
        self.told.append(f"{cell_name(message, indices)} is heard")
        self.of.end.hear(message, indices)
        self.state |= self.of.ground.layout.field(message, indices).mask & self.of.known
        self._compare(self.state)

    def _with(self, cell: Cell, value: Value) -> int:
        literal = self.of.ground.layout.literal(*cell, value)
        return self.state & ~literal.mask | literal.value

    def _compare(self, state: int) -> None:
        of = self.of
        mask = sum(of.ground.layout.field(*cell).mask for cell in of.end.kept)
        if of.end.portrait() != state & mask:
            self._wrong("its state differs from its table's")

    def _wrong(self, what: str) -> None:
        events = "\n".join(f"  {number}  {event}" for number, event in enumerate(self.told, 1))
        raise WrongAnswerError(f"{self.of.end.name}: {what}, after\n{events}")
