"""Replay the traces of machines that many hand-overs share: a group, a registry, a queue.

runtime/trace_shared.py writes the lines. The rules are those of replay.py: each row is enabled
where it fires, at elements of its machine; a message is sent before it is received, if the trace of
its sender is given; no line of a file is missing. The replay does not check whether a row without a
trigger is enabled at the end of a trace.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any, Final

import msgspec

from pdproto.check.trace.cells import Cell, Environment, TracedCells, sent_by
from pdproto.check.trace.channels import SentInOrder, element_names
from pdproto.check.trace.lines import OwnTables
from pdproto.check.trace.shared_lines import Read, SharedLine, frozen, shared_lines
from pdproto.check.trace.shared_narrative import Narrative, changes_of, lane_of
from pdproto.check.trace.shared_orders import Recorder
from pdproto.check.trace.verdict import Nearest, Rejection
from pdproto.check.words import formula_text
from pdproto.ground.layout import value_name
from pdproto.ground.local import own_elements
from pdproto.spec.language.formula import atoms
from pdproto.spec.language.machine import Instance as Party
from pdproto.spec.language.machine import Row, Table
from pdproto.spec.language.symbols import Message, Sent, Symbol
from pdproto.spec.language.system import System


class MisfitError(Exception):
    """A line that no row explains. nearest: the row that it names."""

    def __init__(self, why: str, *nearest: Nearest) -> None:
        super().__init__(why)
        self.nearest: Final = nearest


class AwaitedCellError(Exception):
    """A line consumes a message that no line has sent so far."""

    def __init__(self, cell: Cell) -> None:
        super().__init__(cell)
        self.cell: Final = cell


class SharedInstance:
    """One machine of one process. own: its own elements; empty if it stands for all instances."""

    def __init__(self, table: Table, line: SharedLine) -> None:
        names = {variable.name: variable for variable in table.machine.own}
        own = line.own
        if own is msgspec.UNSET:
            raise MisfitError("the line has no `own`, with the machine's own elements")
        if own is not None and own.keys() != names.keys():
            raise MisfitError(f"`own` of {table.machine} must name "
                              f"{', '.join(names) or 'nothing'}, not {', '.join(own) or 'nothing'}")
        self.table: Final = table
        self.own: Final[Environment] = {
            names[name]: frozen(of) for name, of in (own or {}).items()}
        self._numbers: Final = own_elements(table)
        numbers = {sort.__name__: tuple(of) for sort, of in self._numbers.items()}
        self.bounded: Final = numbers | {
            sort: tuple(map(frozen, of)) for sort, of in (line.begins or {}).items()}
        self.cells: Final = TracedCells(table, self.bounded, fixed=len(self.own))
        self.rows: Final = {row.name: row for row in table.rows}
        self.symbols: Final = {atom.symbol.name: atom.symbol for row in table.rows
                               for atom, _ in atoms(table.guard(row))}
        self.fired = 0

    @property
    def lane(self) -> str:
        """The name of the instance's lane: `worker 3`."""
        return lane_of(self.table.machine, self.own.values())

    def is_at(self, party: Party, key: Environment) -> bool:
        """Whether this is the sender or the receiver of a message with these elements."""
        machine = self.table.machine
        return party.machine is machine and (not self.own or all(
            self.own[own] == key[variable]
            for own, variable in zip(machine.own, party.variables, strict=True)))

    def environment(self, row: Row, given: Mapping[str, Any]) -> Environment:
        """The row's parameters. Raises MisfitError if the line gives other ones."""
        wanted = {v.name: v for v in self.table.parameters(row) if v not in self.own}
        if wanted.keys() != given.keys():
            raise MisfitError(f"{row.name} takes {', '.join(wanted) or 'nothing'}, but the line "
                                f"gives {', '.join(given) or 'nothing'}")
        told = {wanted[name]: frozen(of) for name, of in given.items()}
        for variable, element in told.items():
            if element not in self._numbers.get(type(variable), (element,)):
                raise MisfitError(f"{row.name}: {variable.name} is {element}, which is no number "
                                  f"of {type(variable).__name__}")
        return {**self.own, **told}


@dataclass(slots=True, eq=False)
class SharedFile:
    """The position of the replay in a file. held: the line that waits for a message. ends: the
    machines of its present process, by number; began: those of all its processes.
    """

    number: int
    path: Path
    lines: Iterator[Read]
    node: str = ""
    held: Read | None = None
    ends: dict[int, SharedInstance] = field(default_factory=dict)
    began: list[SharedInstance] = field(default_factory=list)
    last: int = 0
    processes: int = 0
    whole: bool = True

    def __iter__(self) -> Iterator[Read]:
        while (read := self.held or next(self.lines, None)) is not None:
            self.held = read
            yield read
            self.held = None


class SharedReplay:
    """The replay of some files together. from_middle: machines that began before are skipped.

    on_line: is called with each line that conforms, in the order of the replay. recorder: collects
    the lines for the search for an order. wrong: a line that is none for a reason that others know:
    the number of its file, its own there, and the reason.
    """

    def __init__(
        self, system: System, paths: Sequence[Path], *, from_middle: bool,
        on_line: Callable[[SharedFile, Read], None] = lambda _file, _read: None,
        recorder: Recorder | None = None, wrong: tuple[int, int, str] | None = None,
    ) -> None:
        self.system: Final = system
        self.files: Final = [
            SharedFile(number, path, shared_lines(path)) for number, path in enumerate(paths)]
        self.instances: Final[list[SharedInstance]] = []
        self.fired: Final[Counter[str]] = Counter()
        self.assumed: Final[Counter[str]] = Counter()
        self.lines = 0
        self.passed = 0
        self._from_middle: Final = from_middle
        self._on_line: Final = on_line
        self._recorder: Final = recorder
        self._wrong: Final = wrong
        self._tables: Final = {table.machine.name: table for table in system.tables}
        self._own: Final = OwnTables(system)
        worlds = [table for table in (*system.tables, *chain(*system.faults.values()))
                  if table.machine.world]
        rows = [(table, row) for table in worlds for row in table.rows]
        self._by_world: Final = {
            *((u.symbol, u.value) for table, row in rows for u in table.updates(row)),
            *((symbol, True) for _, row in rows for symbol in sent_by(row))}
        self._senders: Final = set(self._traced(paths))
        self._sent: Final[set[Cell]] = set()
        self._channels: Final = SentInOrder(
            row.on.message for _, row in rows if isinstance(row.on, Sent))
        self._narrative: Final = Narrative(system)

    def _traced(self, paths: Sequence[Path]) -> Iterator[tuple[str, tuple[Hashable, ...] | None]]:
        """The machines in the files, with their own elements."""
        for path in paths:
            for read in shared_lines(path):
                if read.line is not None and read.line.begins is not None:
                    own = read.line.own
                    yield read.line.machine, tuple(
                        map(frozen, own.values())) if isinstance(own, dict) else None

    def run(self) -> Rejection | None:
        """Replay all files. Returns the first line that no row explains; None if there is none."""
        files = self.files
        while files:
            before, held = self.lines, []
            for file in files:
                try:
                    cell = self._follow(file)
                except MisfitError as error:
                    return self._rejection(file, error)
                if cell is not None:
                    held.append((file, cell))
            files = [file for file, _ in held]
            if held and self.lines == before:  # each waits for another
                lost = next((cell for _, cell in held if self._may_be_lost(cell)), None)
                if lost is None:
                    file, cell = held[0]
                    why = f"no line sends {element_names(*cell)}"
                    return self._rejection(file, MisfitError(why))
                self._believe(*lost)
        return None

    def _may_be_lost(self, cell: Cell) -> bool:
        """Whether the line that sends the message may be one that an incomplete trace lacks."""
        message, key = cell
        if not isinstance(message, Message):
            return False
        named = dict(zip(message.formals, key, strict=True))
        return any(not file.whole and instance.is_at(message.sender, named)
                   for file in self.files for instance in file.began)

    def absent(self) -> Iterator[str]:
        """The processes of the run without a trace: a line of another one names them."""
        machines = [table.machine for table in self._tables.values() if not table.machine.world]
        begun = {(instance.table.machine, element) for instance in self.instances
                 for element in instance.own.values()}
        alone = {instance.table.machine for instance in self.instances if not instance.own}
        for machine in machines:
            if machine not in alone and not machine.sorts:
                yield f"{machine} did what others tell of it: no trace of it is given"
        named = dict.fromkeys((sort, element) for instance in self.instances
                              for sort, of in instance.bounded.items() for element in of)
        for sort, element in named:
            for machine in machines:
                if machine not in alone and (machine, element) not in begun and sort in (
                        one.__name__ for one in machine.sorts):
                    yield (f"{lane_of(machine, [element])} did what others tell of it: no trace "
                           "of it is given")

    def _follow(self, file: SharedFile) -> Cell | None:
        """Replay a file until it needs another one. Returns the message that it waits for."""
        for read in file:
            if self._recorder is not None:
                self._recorder.begin(file.number)
            try:
                self._line(file, read)
            except AwaitedCellError as awaited:
                return awaited.cell
            if self._recorder is not None:
                self._recorder.end(read.number)
            self.lines += read.line is not None
            self._on_line(file, read)
        return None

    def _line(self, file: SharedFile, read: Read) -> None:
        file.whole = file.whole and not read.cut
        line = read.line
        if self._wrong is not None and self._wrong[:2] == (file.number, read.number):
            raise MisfitError(self._wrong[2])
        if line is None:
            if not read.cut:
                raise MisfitError(f"this is not a line of a trace: {read.problem}")
            return
        self._count(file, line)
        instance = file.ends.get(line.end)
        if line.begins is not None:
            self._own.require(file.path, read.number, line.machine, line.tables)
            self._begin(file, line)
        elif instance is None:
            if not self._from_middle:
                raise MisfitError(f"no line says that machine {line.end} begins")
            self.passed += 1
        elif line.row is not None:
            self._row(instance, line, line.row)
        elif line.heard is not None:
            self._heard(instance, line.heard, line.of)
        else:
            self._device(instance, line)
        file.last = line.n

    def _count(self, file: SharedFile, line: SharedLine) -> None:
        """Check that the line is the next one of its process."""
        file.node = file.node or line.node
        if line.node != file.node:
            raise MisfitError(f"the file is of node {file.node}, but the line of {line.node}")
        if line.n == 1 and file.last:  # another process writes on; the one before may have been cut
            file.whole = False
            file.ends.clear()
            file.last = 0
        if line.n != file.last + 1 and not (self._from_middle and not file.last):
            raise MisfitError(f"line {line.n} of the process follows its line {file.last}")

    def _begin(self, file: SharedFile, line: SharedLine) -> None:
        table = self._tables.get(line.machine)
        if table is None or table.machine.world:
            raise MisfitError(f"{self.system.name} has no machine {line.machine!r}")
        if line.end in file.ends:
            raise MisfitError(f"machine {line.end} has begun before")
        instance = file.ends[line.end] = SharedInstance(table, line)
        if self._recorder is not None:
            instance.cells.watcher = self._recorder.wrote
        file.began.append(instance)
        self.instances.append(instance)

    def _row(self, instance: SharedInstance, line: SharedLine, name: str) -> None:
        row = instance.rows.get(name)
        if row is None or instance.table.machine.name != line.machine:
            raise MisfitError(f"the table of {instance.table.machine} has no row {name!r}, or "
                                f"this is no {line.machine}")
        on = None if row.on is None else str(row.on)
        if line.on != on:
            raise MisfitError(f"{name} answers {on or 'nothing'}, and not "
                                f"{line.on or 'nothing'}")
        if row.kind == "reject":
            raise MisfitError(f"{name} refuses its trigger: it never fires")
        environment = instance.environment(row, line.given)
        if isinstance(row.on, Sent):
            key = tuple(environment[variable] for variable in row.on.arguments)
            self._receive(instance, row.on.message, key)
        failing = [part for part in instance.table.condition(row).parts
                   if not instance.cells.explains(part, environment)]
        if failing:
            parameters = ", ".join(f"{of} = {element}" for of, element in line.given.items())
            raise MisfitError(f"{name} cannot fire here",
                                Nearest(name, parameters, tuple(map(formula_text, failing))))
        lane = instance.lane
        changes = changes_of(instance.cells, instance.table, row, lane, environment)
        instance.cells.apply(instance.table, row, environment)
        if self._recorder is not None:
            self._recorder.fires(row, environment)
        sent = list(instance.cells.sent(row, environment))
        for symbol, key in sent:
            self._sent.add((symbol, key))
            self._channels.send(symbol, key)
            if self._recorder is not None:
                self._recorder.sends(symbol, key)
            instance.cells.write(symbol, key, True)
        self._narrative.fired(row, lane, line.given, environment, changes, sent)
        instance.fired += 1
        self.fired[name] += 1

    def _receive(
        self,
        instance: SharedInstance,
        message: Message[*tuple[Any, ...]],
        key: tuple[Hashable, ...],
    ) -> None:
        """Take a message. Raises AwaitedCellError if a given trace has not sent it yet."""
        if (message, key) not in self._sent:
            named = dict(zip(message.formals, key, strict=True))
            sender = message.sender
            own = tuple(named[variable] for variable in sender.variables)
            name = sender.machine.name
            traced = self._senders & {(name, own), (name, None)}
            if traced and (message, True) not in self._by_world:
                raise AwaitedCellError((message, key))
            self._believe(message, key)
        elif not self._channels.waits(message, key):
            raise AwaitedCellError((message, key))
        overtaken = self._channels.take(message, key)
        if overtaken is not None:
            raise MisfitError(f"{element_names(message, key)} overtakes "
                              f"{element_names(*overtaken)} in their channel")
        if self._recorder is not None:
            self._recorder.receives(message, key)
        instance.cells.write(message, key, True)

    def _believe(self, message: Symbol, key: tuple[Hashable, ...]) -> None:
        """Accept that the message was sent after all others in its channel. It can come now, so a
        line is believed once.
        """
        self._sent.add((message, key))
        self._channels.send(message, key)
        if isinstance(message, Message):
            self.assumed[message.sender.machine.name] += 1

    def _heard(self, instance: SharedInstance, name: str, of: Sequence[Any]) -> None:
        message = instance.symbols.get(name)
        if not isinstance(message, Message) or len(of) != len(message.sorts):
            raise MisfitError(f"no row of {instance.table.machine} reads {name!r} of {of}")
        self._receive(instance, message, tuple(map(frozen, of)))

    def _device(self, instance: SharedInstance, line: SharedLine) -> None:
        for name, of, value in line.device or ():
            symbol = instance.symbols.get(name)
            values = () if symbol is None else symbol.values
            written = {value_name(one): one for one in values if (symbol, one) in self._by_world
                       or one in getattr(symbol, "engine_writes", ())}
            if symbol is None or value not in written:
                raise MisfitError(f"neither a device nor the world may write {name} := {value}")
            instance.cells.write(symbol, tuple(map(frozen, of)), written[value])

    def _rejection(self, file: SharedFile, error: MisfitError) -> Rejection:
        read = file.held
        text = "" if read is None else read.text.decode(errors="replace").rstrip("\n")
        number = 0 if read is None else read.number
        line = None if read is None else read.line
        name, parameters, lane = "", "", ""
        if line is not None:
            name = line.row or line.heard or ""
            parameters = ", ".join(map(str, line.given.values()))
            instance = file.ends.get(line.end)
            lane = line.machine if instance is None else instance.lane
        known = lane.split(" ")[0] in {machine.name for machine in self.system.machines}
        why = "; ".join(map(str, (error, *error.nearest)))
        trace = self._narrative.until(name, parameters, lane if known else "", number, why)
        return Rejection(
            str(file.path), number, text, str(error), error.nearest, trace=trace,
            earlier=self._narrative.earlier,
        )


def is_shared(paths: Sequence[Path]) -> bool:
    """Whether the first line of the files is of a machine that hand-overs share."""
    first = next((read.line for path in paths for read in shared_lines(path)), None)
    return first is not None and first.own is not msgspec.UNSET
