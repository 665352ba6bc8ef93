"""One behaviour of machines that many hand-overs share: an order in which no property is violated.

Lines of a process keep their order, and a message is sent before it is received; in a channel, the
receipts name the sendings by their order. Rows read only variables of their own machine, so all
these orders are behaviours. The search (search.py) looks for one in which each `Always` and `OnRow`
holds. A line that no property reads is placed as soon as it can be: that excludes no order.
"""

from collections.abc import Collection, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeAlias

from pdproto.check.trace.cells import Cell, Environment
from pdproto.check.trace.claims import Book, Claims, Key
from pdproto.check.trace.search import NextLineError, SearchEnd, search
from pdproto.spec.language.channels import queue_at
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Machine, Row
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Symbol, Variable
from pdproto.spec.language.system import System

Sent: TypeAlias = dict[int, int]  # of a message: the place of the first line that sends it, by file


class SharedEvent(NamedTuple):
    """A line. number: of all, in the order of the replay. line: in its file. needs: the lines of
    which one must come before; None if none need. writes: the cells that properties read. row:
    only if it has an `OnRow`.
    """

    number: int
    line: int
    needs: Sent | None = None
    writes: tuple[tuple[Cell, Value], ...] = ()
    row: str = ""
    environment: Environment | None = None

    @property
    def is_read(self) -> bool:
        """Whether a property reads the line."""
        return bool(self.writes or self.row)


class Recorder:
    """Collects the lines of a replay, as the search needs them."""

    def __init__(self, system: System, files: int) -> None:
        self.claims: Final = Claims(system)
        self.steps: Final[list[list[SharedEvent]]] = [[] for _ in range(files)]
        self._number = 0
        self._file = 0
        self._sent: Final[dict[Cell, Sent]] = {}
        self._queues: Final[dict[object, list[tuple[Cell, Sent]]]] = {}
        self._begin(0)

    def _begin(self, file: int) -> None:
        self._file = file
        self._needs: Sent | None = None
        self._writes: list[tuple[Cell, Value]] = []
        self._row = ""
        self._environment: Environment | None = None

    def begin(self, file: int) -> None:
        """The next line is one of this file."""
        self._begin(file)

    def wrote(self, symbol: Symbol, key: Key, value: Value) -> None:
        """The line gives a variable this value."""
        if isinstance(symbol, Variable) and symbol in self.claims.symbols:
            self._writes.append(((symbol, key), value))

    def fires(self, row: Row, environment: Environment) -> None:
        """The line is one of this row."""
        if row.name in self.claims.on_row:
            self._row, self._environment = row.name, environment

    def sends(self, symbol: Symbol, key: Key) -> None:
        """The line sends a message."""
        place = len(self.steps[self._file])
        queue = queue_at(symbol, key) if isinstance(symbol, Message) else None
        if queue is not None:
            self._queues.setdefault(queue, []).append(((symbol, key), {self._file: place}))
            return
        self._sent.setdefault((symbol, key), {}).setdefault(self._file, place)
        if symbol in self.claims.symbols:
            self._writes.append(((symbol, key), True))

    def receives(self, message: Message[*tuple[Any, ...]], key: Key) -> None:
        """The line takes a message, or hears of it."""
        queue = queue_at(message, key)
        if queue is None:
            self._needs = self._sent.get((message, key))
            return
        waiting = self._queues.get(queue, [])
        while waiting:
            cell, sent = waiting.pop(0)
            if cell == (message, key):
                self._needs = sent
                return

    def end(self, line: int) -> None:
        """The line conforms."""
        self._number += 1
        self.steps[self._file].append(SharedEvent(
            self._number, line, self._needs, tuple(self._writes), self._row, self._environment))


class SharedCut(NamedTuple):
    """A state on the way. places: the number of lines that are placed, by file. undo: the values
    that the last line has replaced.
    """

    places: tuple[int, ...]
    depth: int = 0
    undo: tuple[tuple[Cell, Value], ...] = ()


@dataclass(frozen=True, slots=True)
class Violation:
    """A line, by its file and its number there, after which no order is left."""

    file: int
    line: int
    why: str
    claim: str


class Orders:
    """The search. The state is that of the last cut."""

    def __init__(self, steps: Sequence[Sequence[SharedEvent]], book: Book) -> None:
        self._steps: Final = steps
        self._book: Final = book

    def run(self) -> SearchEnd[SharedCut]:
        """Place all lines."""
        return search(
            SharedCut((0,) * len(self._steps)), sum(map(len, self._steps)),
            depth=lambda cut: cut.depth, nexts=self._nexts, after=self._after,
            key=lambda cut: cut.places, leave=self._leave)

    def violation(self, found: SearchEnd[SharedCut]) -> Violation | None:
        """The line at which the longest attempt ends; None if all lines are placed."""
        if found.error is None:
            return None
        step = self._steps[found.number][found.cut.places[found.number]]
        return Violation(found.number, step.line, str(found.error), found.error.claim)

    def _nexts(self, cut: SharedCut) -> Iterator[int]:
        """The files that have another line that can come: one that no property reads, else all,
        first the one that the replay placed first.
        """
        left = []
        for number, (steps, place) in enumerate(zip(self._steps, cut.places, strict=True)):
            if place < len(steps) and self._can_come(steps[place], cut.places):
                if not steps[place].is_read:
                    return iter((number,))
                left.append((steps[place].number, number))
        return iter([number for _, number in sorted(left)])

    @staticmethod
    def _can_come(step: SharedEvent, places: tuple[int, ...]) -> bool:
        return step.needs is None or any(
            places[file] > place for file, place in step.needs.items())

    def _after(self, cut: SharedCut, number: int) -> SharedCut:
        """The state after the next line of a file. Raises NextLineError if it violates one."""
        step = self._steps[number][cut.places[number]]
        claim = self._book.broken_at(step.row, step.environment or {}) if step.row else ""
        if claim:
            raise NextLineError(f"{claim} is violated where {step.row} fires", claim)
        undo = tuple([(cell, self._book.write(cell, value)) for cell, value in step.writes])
        places = (*cut.places[:number], cut.places[number] + 1, *cut.places[number + 1:])
        after = SharedCut(places, cut.depth + 1, undo)
        claim = self._book.broken(cell for cell, _ in undo)
        if claim:
            self._leave(after)
            raise NextLineError(f"{claim} is violated after it", claim)
        return after

    def _leave(self, cut: SharedCut) -> None:
        for cell, value in reversed(cut.undo):
            self._book.write(cell, value)


def book_of(
    recorder: Recorder,
    instances: Sequence[tuple[Machine[*tuple[Any, ...]], Environment, Mapping[str, Any]]],
) -> Book:
    """The cells of these instances: machine, own elements, and elements of its bounded sorts."""
    keys: dict[Machine[*tuple[Any, ...]], list[Key]] = {}
    for machine, own, _ in instances:
        keys.setdefault(machine, []).append(tuple(own.values()))
    begun = {machine: _told(machine, of) for machine, of in keys.items()}
    elements: dict[type[Sort], dict[Hashable, None]] = {}
    sorts = {sort.__name__: sort for symbol in recorder.claims.symbols for sort in symbol.sorts}
    for _, own, named in instances:
        for variable, element in own.items():
            elements.setdefault(type(variable), {})[element] = None
        for name, of in named.items():
            if name in sorts:
                elements.setdefault(sorts[name], {}).update(dict.fromkeys(of))
    for steps in recorder.steps:
        for step in steps:
            for (symbol, key), _ in step.writes:
                for sort, element in zip(symbol.domain, key, strict=False):
                    elements.setdefault(sort, {})[element] = None
    bounded = {sorts[name] for _, _, of in instances for name in of if name in sorts}
    return Book(recorder.claims, begun, elements, bounded)


def _told(machine: Machine[*tuple[Any, ...]], keys: Sequence[Key]) -> Collection[Key] | None:
    """The instances of which lines tell: none if two processes tell of one. None means all."""
    everybody = bool(machine.own) and () in keys
    if len(set(keys)) < len(keys) or (everybody and len(keys) > 1):
        return ()
    return None if everybody else set(keys)
