"""Replay the trace of a real run against the tables: one test of a mask for each line.

A line names the row that fired and its parameters, so nothing is searched. The replay tests the row
in the local state to which the earlier lines of its endpoint have led. Lines of a file keep their
order. Files are merged by causality: a line that consumes a message waits for the line that sends
it. The replay checks these rules:

* A row is enabled where it fires, its trigger fits, and it leads to the state that its line gives.
* A message is sent before it is received, with contents that its sender knew. Without the trace of
  the sender the message is trusted, and counted.
* A device writes only what a row of its table writes, as far as this endpoint can see. lives.py
  compares it with the other endpoints of the hand-over.
* No line is missing: a file numbers its lines, and an endpoint names its elements.

A killed process may have sent messages that its trace lacks. The replay trusts these too, and calls
the trace incomplete. A trace is also incomplete if a row without a trigger is enabled at its end.
"""

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeAlias

from pdproto.check.trace.events import Came, Event
from pdproto.check.trace.files import AwaitedError, File, Key, Process, RejectedError, Wait
from pdproto.check.trace.instance import Instance, MismatchError, Tables, words
from pdproto.check.trace.lines import Counted, Element, OwnTables, Read, TraceLine
from pdproto.check.trace.table import (
    AnyMessage,
    GroundedRow,
    TracedRow,
    Trigger,
    may_send,
)
from pdproto.check.trace.tally import Replayed, Tally, Watcher
from pdproto.spec.language.symbols import Message, Symbol

Carried: TypeAlias = tuple[tuple[Symbol, tuple[Element, ...]], ...]


class Replay:
    """The replay of some files against the tables of a system.

    from_middle: the traces may begin in the middle; endpoints that began before are skipped.
    watcher: is called with each event of the instances whose keys are in `watched`. on_line: with
    each line that conforms.
    """

    def __init__(
        self,
        tables: Tables,
        paths: Sequence[Path],
        *,
        from_middle: bool = False,
        watched: frozenset[tuple[int, int, int]] = frozenset(),
        watcher: Watcher | None = None,
        on_line: Callable[[File, Read], None] = lambda _file, _read: None,
    ) -> None:
        system = tables.system
        self.tables: Final = tables
        self._own: Final = OwnTables(tables.system)
        self.files: Final = [File(number, path) for number, path in enumerate(paths)]
        self.tally: Final = Tally()
        self._from_middle: Final = from_middle
        self._watched: Final = watched
        self._watcher: Final = watcher
        self._on_line: Final = on_line
        self._messages: Final = {s.name: s for s in system.variables if isinstance(s, Message)}
        self._by_faults: Final = {u.symbol for tables in system.faults.values() for table in tables
                                  for row in table.rows for u in table.updates(row) if u.value}
        self._sent: Final[dict[Key, tuple[Carried, tuple[int, ...]]]] = {}
        self._told: Final[dict[tuple[object, ...], Instance]] = {}
        self._trusted: Final[set[Key]] = set()
        self._ready: Final[deque[File]] = deque(self.files)
        self._waiting: Final[dict[Key, list[Wait]]] = {}

    def run(self) -> None:
        """Replay everything. Raises RejectedError at the first line that no row explains."""
        for file in self.files:
            self._open(file)
        while self._ready or self._waiting:
            self.go_on()
            if self._waiting:
                self._trust()

    def go_on(self) -> None:
        """Replay the files that wait for no other. After a RejectedError: the files that are left.
        """
        while self._ready:
            self._follow(self._ready.popleft())

    def instances(self) -> Iterator[Instance]:
        for file in self.files:
            for process in file.processes:
                yield from process.ends.values()

    # Files

    def _open(self, file: File) -> None:
        """Read the name of the node from the first line."""
        for read in file:
            if read.line is not None:
                file.node = read.line.node
            return

    def _follow(self, file: File) -> None:
        """Replay a file as far as it goes without the others."""
        for read in file:
            try:
                self._line(file, read)
            except AwaitedError as wait:
                self._waiting.setdefault(wait.key, []).append(Wait(file, read, wait))
                return
            except MismatchError as error:
                raise RejectedError(file.path, read, self._instance(file, read), error) from error
            self.tally.lines += read.line is not None
            self._on_line(file, read)

    def _instance(self, file: File, read: Read) -> Instance | None:
        if read.line is None or not file.processes:
            return None
        return file.processes[-1].ends.get(read.line.end)

    def _trust(self) -> None:
        """All files wait for messages. Accept one whose sender has an incomplete trace.

        Raises RejectedError if there is none. Then the waiting line is wrong, or the sender's trace
        lacks the line that sends the message.
        """
        waiting = [wait for waits in self._waiting.values() for wait in waits]
        for wait in waiting:
            if not all(file.whole for file in self._senders(wait)):
                self._trusted.add(wait.awaited.key)
                self._resume(wait.awaited.key)
                return
        rest = {file.number: [read.line for read in file if read.line] for file in self.files}
        first = next((wait for wait in waiting if not self._may_come(wait, rest)), waiting[0])
        name, arguments = first.awaited.key
        error = MismatchError(f"no line sends {name}({', '.join(map(words, arguments))})")
        instance = self._instance(first.file, first.read)
        raise RejectedError(first.file.path, first.read, instance, error)

    def _may_come(self, wait: Wait, rest: Mapping[int, Sequence[TraceLine]]) -> bool:
        """Whether a line that was not replayed yet may send the message."""
        return any(
            may_send(self.tables.by_machine[line.machine], line.row, line.given, *wait.awaited.key)
            for file in self._senders(wait) for line in rest[file.number]
            if line.row is not None and line.machine in self.tables.by_machine)

    def _resume(self, key: Key) -> None:
        """Let the files go on that wait for this message."""
        self._ready.extend(wait.file for wait in self._waiting.pop(key, ()))

    def _senders(self, wait: Wait) -> list[File]:
        """The files of the node that sends the message."""
        names = self._sender(wait.awaited.message, wait.awaited.key[1])
        return [file for file in self.files if file.node in names]

    @staticmethod
    def _sender(message: AnyMessage, arguments: tuple[Element, ...]) -> set[Element]:
        named = dict(zip(message.formals, arguments, strict=True))
        return {named[v] for v in message.sender.variables if isinstance(named[v], str)}

    # Lines

    def _line(self, file: File, read: Read) -> None:
        if read.cut and file.processes:
            file.processes[-1].whole = False
        line = read.line
        if line is None:
            if not read.cut:
                raise MismatchError(f"this is not a line of a trace: {read.problem}")
            return
        process = self._process(file, line)
        process.knows[file.number] = read.number
        instance = process.ends.get(line.end)
        if line.begins is not None:
            self._own.require(file.path, read.number, line.machine, line.tables)
            self._begin(file, process, line, line.begins)
        elif instance is None:
            if line.end not in process.passed and not self._from_middle:
                raise MismatchError(f"no line says that endpoint {line.end} begins")
            process.passed.add(line.end)
            self.tally.passed += 1
        elif line.row is not None:
            self._row(instance, read, line, line.row)
        elif line.elements is not None:
            instance.recount(self.tables, line.machine, line.elements)
        elif line.device is not None:
            self._device(instance, read, line)
        elif line.heard is not None:
            self._heard(instance, read, line)
        else:
            raise MismatchError("the line has no row, no device, no message and no elements")
        process.lines = line.n

    def _process(self, file: File, line: TraceLine) -> Process:
        """The process of the line, which must be its next line."""
        if line.node != file.node:
            raise MismatchError(f"the file is of node {file.node}, but the line of {line.node}")
        if not file.processes or (line.n == 1 and file.processes[-1].lines):
            # A new process: an earlier one may have been killed before it wrote its last lines.
            for process in file.processes:
                process.whole = False
            first = Process(len(file.processes), [0] * len(self.files), whole=line.n == 1,
                            lines=line.n - 1)
            if line.n != 1 and not self._from_middle:
                raise MismatchError(f"the trace begins with line {line.n} of its process: if this "
                                    f"is intended, use --from-middle")
            file.processes.append(first)
        process = file.processes[-1]
        if line.n != process.lines + 1:
            raise MismatchError(f"line {line.n} of the process follows its line {process.lines}")
        return process

    def _begin(
        self, file: File, process: Process, line: TraceLine, counted: Mapping[str, Counted]
    ) -> None:
        if line.end in process.ends or line.end in process.passed:
            raise MismatchError(f"endpoint {line.end} has begun before")
        instance = Instance((file.number, process.number, line.end), line.node)
        instance.begin(self.tables, line.machine, counted)
        process.ends[line.end] = instance

    def _row(self, instance: Instance, read: Read, line: TraceLine, name: str) -> None:
        local = self._named(instance, line, name)
        given, indices = line.given, instance.indices
        try:
            at = tuple([indices[sort][given[name]] for name, sort in local.parameters])
        except KeyError:
            at = ()
        if len(at) != len(given) or len(at) != len(local.parameters):
            at = instance.parameters(local, given)
            self._identify(instance)
        ground = local.ground.get(at) or instance.local.ground(local, at)
        state, came, assumed = instance.state, None, False
        if ground.trigger is not None:
            came = ground.trigger[:2]
            bits, assumed = self._receive(instance, ground.trigger, line)
            state |= bits
        guard = ground.guard
        if guard is None or state & guard.mask != guard.value or (
                not (guard.is_cube or guard.holds(state))):
            raise MismatchError(f"{name} cannot fire here", (ground,), state)
        after = ground.apply(state)
        if line.state is not None and line.state != instance.local.word(after):
            raise MismatchError(f"{name} leads to {instance.local.word(after)}, and not to "
                                f"{line.state}", (ground,), state)
        for message, arguments in ground.sent:
            self._send(instance, after, message, arguments)
        instance.rows += 1
        self.tally.rows[name] += 1
        self._move(instance, read, ground, after, came=came, assumed=assumed)

    def _named(self, instance: Instance, line: TraceLine, name: str) -> TracedRow:
        table = instance.local.table
        if line.machine != table.machine.name:
            raise MismatchError(f"this endpoint is a {table.machine}, not a {line.machine}")
        local = instance.local.rows.get(name)
        if local is None:
            raise MismatchError(f"the table of {table.machine} has no row {name!r}")
        if line.on != local.on:
            raise MismatchError(f"{name} answers {local.on or 'nothing'}, and not "
                                f"{line.on or 'nothing'}")
        if local.row.kind == "reject":
            raise MismatchError(f"{name} refuses its trigger: it never fires")
        return local

    def _identify(self, instance: Instance) -> None:
        """Check that no other endpoint of the process has the same own elements."""
        own = instance.own
        if instance.identified or None in own:
            return
        instance.identified = True
        process = self._process_of(instance)
        identity = (instance.local.table.machine.name, *own)
        first = process.identities.setdefault(identity, instance)
        if first is not instance:
            raise MismatchError(f"endpoint {first.key[2]} is {', '.join(map(words, own))} already")
        first = self._told.setdefault(identity, instance)
        if first.key[0] != instance.key[0]:
            raise MismatchError(f"{self.files[first.key[0]].path} tells of "
                                f"{', '.join(map(words, own))} too")

    def _move(
        self, instance: Instance, read: Read, ground: GroundedRow | None, after: int, *,
        devices: tuple[GroundedRow, ...] = (), came: Came | None = None, assumed: bool = False,
    ) -> None:
        before, instance.state = instance.state, after
        instance.events.append(Event(
            self.tally.lines, read.number, instance.local, after, None if devices else ground,
            devices, came, assumed))
        self.tally.states.add((id(instance.local), after))
        if instance.key in self._watched and self._watcher is not None:
            self._watcher(Replayed(instance, instance.local, read, ground, before, after))

    # Messages

    def _receive(
        self, instance: Instance, trigger: Trigger, line: TraceLine
    ) -> tuple[int, bool]:
        """The bits of the message that triggers the row, and whether it is assumed. Raises
        AwaitedError if it is not sent.
        """
        message, indices, names = trigger
        key = message.name, tuple([line.given[name] for name in names])
        sent = self._sent.get(key)
        if sent is None and key not in self._trusted and self._expects(message, key):
            raise AwaitedError(message, key)
        bits = instance.local.mark(message, indices).value
        if sent is None:
            sender = ", ".join(map(str, self._sender(message, key[1])))
            self.tally.assumed[sender or "unknown"] += 1
            return bits | self._trusting(instance, message, indices), True
        carried, knows = sent
        self._process_of(instance).learn(knows)
        for symbol, elements in carried:
            if symbol.name in instance.local.symbols:
                at = instance.at(symbol, elements)
                bits |= instance.local.layout.literal(symbol, at, True).value
        return bits, False

    def _process_of(self, instance: Instance) -> Process:
        return self.files[instance.key[0]].processes[instance.key[1]]

    def _expects(self, message: AnyMessage, key: Key) -> bool:
        """Whether a trace of the message's sender is given."""
        names = self._sender(message, key[1])
        return any(file.node in names for file in self.files)

    @staticmethod
    def _trusting(instance: Instance, message: AnyMessage, indices: tuple[int, ...]) -> int:
        """The bits of all relations that the message can carry: the real ones are unknown."""
        bits = 0
        named = dict(zip(message.formals, indices, strict=True))
        own = tuple(named[v] for v in message.sender.variables)
        for relation in message.carries:
            if relation.name in instance.local.symbols:
                for at in instance.local.cells(relation, own):
                    bits |= instance.local.layout.literal(relation, at, True).value
        return bits

    def _send(
        self, instance: Instance, state: int, message: AnyMessage, indices: tuple[int, ...]
    ) -> None:
        key = message.name, instance.elements(message, indices)
        if key in self._sent:
            return
        carried = []
        named = dict(zip(message.formals, indices, strict=True))
        own = tuple(named[v] for v in message.sender.variables)
        local = instance.local
        for relation in message.carries:
            for at in local.cells(relation, own):
                if local.value(state, relation, at):
                    carried.append((relation, instance.elements(relation, at)))
        self._sent[key] = tuple(carried), tuple(self._process_of(instance).knows)
        self._resume(key)

    def _heard(self, instance: Instance, read: Read, line: TraceLine) -> None:
        """Take a message that triggers no row; rows read that it has arrived."""
        message = self._messages.get(line.heard or "")
        if message is None or message.name not in instance.local.symbols:
            raise MismatchError(f"no row of {instance.local.table.machine} reads {line.heard!r}")
        indices = instance.at(message, line.of)
        key = message.name, line.of
        sent = self._sent.get(key)
        if sent is not None:
            self._process_of(instance).learn(sent[1])
        elif message not in self._by_faults and self._expects(message, key):
            raise AwaitedError(message, key)
        bits = instance.local.mark(message, indices).value
        self._move(instance, read, None, instance.state | bits, came=(message, indices),
                   assumed=sent is None)

    # Devices

    def _device(self, instance: Instance, read: Read, line: TraceLine) -> None:
        local = instance.local
        written = []
        for name, elements, value in line.device or ():
            symbol = local.symbols.get(name)
            if symbol is None or (name, value) not in local.writable:
                raise MismatchError(f"no device may write {name} := {value}")
            written.append((name, instance.at(symbol, elements), value))
        if not instance.identified:
            self._identify(instance)
        rows = local.device(tuple(written))
        ground = next((row for row in rows if row.holds(instance.state)), None)
        if ground is None:
            names = " or ".join(dict.fromkeys(row.row.name for row in rows))
            raise MismatchError(f"{names} cannot fire here" if names else
                                "no row of a device writes these values", rows, instance.state)
        self._move(instance, read, ground, ground.apply(instance.state), devices=rows)
