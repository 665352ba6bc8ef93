"""Random runs of any system, written as traces; and a second verdict on such traces.

The machines are those that processes run (runtime/store.py), and the interpreter chooses their
steps. The oracle evaluates the tables by the interpreter too, with a view of the state for each
machine: its variables, the messages that it has sent, and those that it has got. It shares no code
with the replay that it is compared with (check/trace/shared.py).
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

from pdproto.check.interpret import Interpreter, Store
from pdproto.check.trace.shared import SharedReplay
from pdproto.check.words import trigger_name
from pdproto.runtime.compile import arguments_of
from pdproto.runtime.store import Shared, SharedStep
from pdproto.runtime.trace_shared import SharedTrace, shared
from pdproto.spec.language.channels import channel_of
from pdproto.spec.language.formula import free_variables
from pdproto.spec.language.machine import Call, Completion, Machine, Row, Table
from pdproto.spec.language.properties import Always, OnRow
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Sent, Sizes, Variable
from pdproto.spec.language.system import System
from pdproto.testing.ends import messages_read
from tests.check.trace.alterations import Line, renumbered, write

AnyMachine: TypeAlias = Machine[*tuple[Any, ...]]
AnyMessage: TypeAlias = Message[*tuple[Any, ...]]
Key: TypeAlias = tuple[int, ...]
Instance: TypeAlias = tuple[AnyMachine, Key | None]
Told: TypeAlias = tuple[AnyMessage, Key]  # a message with its arguments


def instances(
    system: System, sizes: Sizes, together: Collection[str]
) -> Iterator[tuple[Table, Key | None]]:
    """Each machine but the world, with its own elements; None for all instances together."""
    for table in system.tables:
        if table.machine.name in together:
            yield table, None
            continue
        for own in product(*(range(sizes[sort]) for sort in table.machine.sorts)):
            yield table, own


class RandomRun:
    """A run under way: the state by the interpreter, and the machines, which write traces.

    Every machine hears at once each message that its guards read. Of the faults, only messages are
    lost that wait in a channel. together: the machines of which one process runs all instances.
    violated: the `Always` and `OnRow` that the run has violated so far.
    """

    def __init__(
        self, system: System, sizes: Sizes, random: Random, together: Collection[str] = ()
    ) -> None:
        self.store: Store = frozenset()
        self._system = system
        self._sizes = sizes
        self._random = random
        self._together = together
        self._book = Interpreter(system, sizes, tuple(system.faults))
        self._machines: dict[Instance, Shared] = {}
        self._said: set[Told] = set()
        self.violated: set[str] = set()

    def record(self, folder: Path, steps: int) -> list[Path]:
        """Make so many steps, and write a trace of each machine. Raises SpecError for a table that
        a store cannot run.
        """
        bounded = {sort: range(size) for sort, size in self._sizes.items()}
        paths = []
        with ExitStack() as files:
            for table, own in instances(self._system, self._sizes, self._together):
                name = "-".join([table.machine.name, *map(str, own or ())])
                paths.append(folder / f"{name}.jsonl")
                trace = SharedTrace(name, files.enter_context(paths[-1].open("wb")))
                self._machines[table.machine, own] = shared(
                    table, own, bounded, trace=trace, scans=True)
            for _ in range(steps):
                self._step()
        return paths

    def _step(self) -> None:
        """Take any step that is possible; more often one that changes the state."""
        possible = [(self._row(name, at), after) for (name, at), after in
                    self._book.steps(self.store)]
        possible = [one for one in possible if self._answers(*one[0])]
        changing = [one for one in possible if one[1] != self.store]
        among = changing if changing and self._random.random() < 0.8 else possible
        if among:
            (table, row, at), after = self._random.choice(among)
            self._note(OnRow, row.name, at)
            self.store = after
            self._note(Always, "", {})
            if not table.machine.world:
                step = self._take(table, row, at)
                assert step.row == row.name
                self._hear(step)

    def _note(self, kind: type[Always | OnRow], row: str, at: Mapping[Sort, int]) -> None:
        """Note the properties that are violated in this state, or where the row fires in it."""
        for claim in self._system.properties:
            if isinstance(claim, kind) and getattr(claim, "row", "") == row:
                for env in self._book.environments(free_variables(claim.claim)):
                    if not self._book.holds(claim.claim, dict(self.store), {**env, **at}):
                        self.violated.add(claim.name)

    def _row(self, name: str, at: Key) -> tuple[Table, Row, Mapping[Sort, int]]:
        found = self._system.row(name)
        assert found is not None
        table, row = found
        return table, row, dict(zip(table.parameters(row), at, strict=True))

    def _answers(self, table: Table, row: Row, at: Mapping[Sort, int]) -> bool:
        """Whether the row is the first one that its trigger enables: a machine takes that one."""
        if table.machine.world:
            return isinstance(row.on, Sent)  # a loss in a channel
        if not isinstance(row.on, Sent | Call | Completion):
            return True
        key = [at[v] for v in (*table.machine.own, *arguments_of(row))]
        for other in table.rows[:table.rows.index(row)]:
            if trigger_name(other.on) == trigger_name(row.on):
                for env in self._book.environments(table.parameters(other)):
                    if key == [env[v] for v in (*table.machine.own, *arguments_of(other))] and (
                            self._book.holds(table.guard(other), dict(self.store), env)):
                        return False
        return True

    def _take(self, table: Table, row: Row, at: Mapping[Sort, int]) -> SharedStep:
        together = table.machine.name in self._together
        own = () if together else table.machine.own
        machine = self._machines[table.machine, None if together else tuple(at[v] for v in own)]
        given = arguments_of(row)
        chosen = {v.name: i for v, i in at.items() if v not in (*own, *given)}
        arguments = [at[v] for v in given]
        match row.on:
            case Sent():
                return machine.receive(row.on.message, *arguments, choose=chosen)
            case Call() | Completion():
                return machine.call(row.on.name, *arguments, choose=chosen)
        step = machine.fire(row.name, **chosen)
        assert step is not None
        return step

    def _hear(self, step: SharedStep) -> None:
        for told in step.sent:
            message, key = told
            if message.fifo is None and told not in self._said:
                self._said.add(told)
                for (machine, own), one in self._machines.items():
                    if message in messages_read(one.table) and is_for(message, key, machine, own):
                        one.set(message, key, True)


def is_for(message: AnyMessage, key: Key, machine: AnyMachine, own: Key | None) -> bool:
    """Whether this machine is a receiver of the message. One that is not named is every one."""
    named = dict(zip(message.formals, key, strict=True))
    end = message.receiver
    return end.machine is machine and (own is None or all(
        named.get(v, element) == element for v, element in zip(end.variables, own, strict=True)))


@dataclass
class View:
    """The state that one machine knows."""

    table: Table
    own: Mapping[Sort, int]
    store: Store = frozenset()


class WrongError(Exception):
    """The line cannot be."""


class LaterError(Exception):
    """The line cannot be yet: its message has not been sent."""


@dataclass
class SharedOracle:
    """Decides about whole traces, a list of lines for each machine."""

    system: System
    sizes: Sizes
    files: Sequence[Sequence[Line]]
    sent: set[Told] = field(default_factory=set)
    queues: dict[object, list[Told]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.book = Interpreter(self.system, self.sizes)
        worlds = [table for tables in self.system.faults.values() for table in tables]
        self.lossy = {row.on.message for table in worlds for row in table.rows
                      if isinstance(row.on, Sent)}

    def conforms(self) -> bool:
        """Whether there is an order of all lines, as each file has them, that the tables allow.

        A message that was sent stays sent, and a channel has one sender and one receiver. So no
        line makes another one impossible: they are taken as they become possible.
        """
        rest = [list(lines) for lines in self.files]
        views = [self._view(lines.pop(0)) for lines in rest]
        moved = True
        try:
            while moved:
                moved = False
                for view, lines in zip(views, rest, strict=True):
                    moved |= self._follow(view, lines)
        except WrongError:
            return False
        return not any(rest)

    def _view(self, line: Line) -> View:
        (table,) = [t for t in self.system.tables if t.machine.name == line["machine"]]
        own = line["own"]
        return View(table, {v: own[v.name] for v in table.machine.own} if own is not None else {})

    def _follow(self, view: View, lines: list[Line]) -> bool:
        """Take lines until one has to wait; returns whether any was taken."""
        before = len(lines)
        try:
            while lines:
                if "heard" in lines[0]:
                    (message,) = [s for s in self.system.variables if isinstance(s, Message)
                                  and s.name == lines[0]["heard"]]
                    self._receive(view, message, tuple(lines[0]["of"]))
                else:
                    self._row(view, lines[0])
                lines.pop(0)
        except LaterError:
            pass
        return len(lines) < before

    def _receive(self, view: View, message: AnyMessage, key: Key) -> None:
        if message.fifo is None:
            if (message, key) not in self.sent:
                raise LaterError
            view.store |= {((message, key), True)}
            return
        queue = self.queues.get(self._channel(message, key), [])
        if (message, key) not in queue:
            raise LaterError
        while (first := queue.pop(0)) != (message, key):
            if first[0] not in self.lossy:
                raise WrongError
        view.store |= {((message, (*key, 0)), True)}

    @staticmethod
    def _channel(message: AnyMessage, key: Key) -> object:
        named = dict(zip(message.formals, key, strict=True))
        ends = (*message.sender.variables, *message.receiver.variables)
        return channel_of(message), tuple(named[v] for v in ends)

    def _row(self, view: View, line: Line) -> None:
        (row,) = [row for row in view.table.rows if row.name == line["row"]]
        named = {**{v.name: i for v, i in view.own.items()}, **line["with"]}
        at = tuple(named[v.name] for v in view.table.parameters(row))
        if isinstance(row.on, Sent):
            env = dict(zip(view.table.parameters(row), at, strict=True))
            self._receive(view, row.on.message, tuple(env[v] for v in row.on.arguments))
        steps = dict(self.book.steps(view.store))
        if (row.name, at) not in steps:
            raise WrongError
        view.store = frozenset(self._deliver(steps[row.name, at]))

    def _deliver(self, after: Store) -> Iterator[Any]:
        """Send what is new in the view, and keep the rest: a queue is not the sender's to see."""
        queued = []
        for cell in after:
            (symbol, at), _ = cell
            if not isinstance(symbol, Message):
                yield cell
            elif symbol.fifo is not None:
                queued.append((at[-1], (symbol, at[:-1])))
            else:
                yield cell
                self.sent.add((symbol, at))
        for _, told in sorted(queued, key=lambda one: one[0]):
            self.queues.setdefault(self._channel(*told), []).append(told)


def kept(system: System, store: Store) -> Store:
    """The cells of a state that some machine keeps: variables, and messages that guards read."""
    read_by_guards = {message for table in system.tables for message in messages_read(table)}
    return frozenset(cell for cell in store if isinstance(cell[0][0], Variable)
                     or cell[0][0] in read_by_guards)


def replayed(replay: SharedReplay, sizes: Sizes) -> Store:
    """The same cells at the end of a replay."""
    found = set()
    for one in replay.instances:
        own = tuple(one.own.values())
        variables = [s for s in one.table.machine.symbols if isinstance(s, Variable)]
        for symbol in (*variables, *messages_read(one.table)):
            for key in product(*(range(sizes[sort]) for sort in symbol.sorts)):
                value = one.cells.value(symbol, key)
                mine = not isinstance(symbol, Variable) or key[:len(own)] == own
                if mine and value != symbol.values[0]:
                    found.add(((symbol, key), value))
    return frozenset(found)


def read(paths: Sequence[Path]) -> list[list[Line]]:
    """The lines of each file."""
    return [[json.loads(line) for line in path.read_bytes().splitlines()] for path in paths]


def altered(system: System, sizes: Sizes, lines: Sequence[Line], random: Random
            ) -> Iterator[tuple[str, list[Line]]]:
    """The lines of one machine with one alteration, and its kind: a line dropped, swapped with the
    next one, or with another row or other elements.
    """
    for place in range(1, len(lines)):
        before, line, behind = list(lines[:place]), lines[place], list(lines[place + 1:])
        yield "dropped", renumbered([*before, *behind])
        if behind:
            yield "swapped", renumbered([*before, behind[0], line, *behind[1:]])
        if "row" in line:
            other = _other(system, sizes, lines[0], random)
            yield "replaced", [*before, {**line, **other}, *behind]


def _other(system: System, sizes: Sizes, begins: Line, random: Random) -> Line:
    """Any row of the machine that has begun with this line, at any elements."""
    (table,) = [table for table in system.tables if table.machine.name == begins["machine"]]
    row = random.choice(table.rows)
    given = [v for v in table.parameters(row) if v.name not in (begins["own"] or {})]
    return {"row": row.name, "on": None if row.on is None else str(row.on),
            "with": {v.name: random.randrange(sizes[type(v)]) for v in given}}


def put(files: Sequence[Sequence[Line]], folder: Path) -> list[Path]:
    """The lines as files."""
    return [write(lines, folder / f"{number}.jsonl") for number, lines in enumerate(files)]
