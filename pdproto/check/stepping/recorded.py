"""A recorded run as a path of the whole system: from a report in JSON, or from traces of processes.

The lines of a trace name elements as the processes did, and a walker counts them. An element gets
the number of its first occurrence; where a sort is ordered, or all its elements are numbers, the
elements are sorted.

Traces of hand-overs may have several lives, and the path is that of one. Lives cannot share a path:
each counts its own chunks, buffers and pages from 0, and the lines do not say which of them are one
thing.

Lines of a file keep their order. Of the next lines of all files, the path takes the first one that
is possible in the whole system, in the order in which `pdproto trace` replays them. So a line waits
for what another process must do before: for its message, or for the device that both share.
"""

import json
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, TypeAlias

from pdproto.check.result import Verdict
from pdproto.check.runs import Transition
from pdproto.check.stepping.walk import PathError, Walker
from pdproto.check.trace.files import File, RejectedError
from pdproto.check.trace.instance import Instance, Tables, words
from pdproto.check.trace.lines import Element, Read
from pdproto.check.trace.replay import Replay
from pdproto.check.trace.shared import SharedFile, SharedReplay, is_shared
from pdproto.check.trace.shared_lines import Read as SharedRead
from pdproto.check.trace.shared_lines import frozen
from pdproto.ground.layout import value_name
from pdproto.spec.language.numbered import Numbers
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Symbol
from pdproto.spec.language.system import System

Elements: TypeAlias = tuple[Hashable, ...]
Life: TypeAlias = tuple[Element, ...]  # what the endpoints of one hand-over have in common


class RecordError(Exception):
    """A file has no run of the system. The message names the file and the line."""


@dataclass(frozen=True, slots=True)
class RecordedRow:
    """A row that fired, with the sorts and the elements of its parameters."""

    where: str
    row: str
    sorts: tuple[type[Sort], ...]
    elements: Elements

    def move(self, walker: Walker, state: int, numbers: "ElementNumbers") -> Transition:
        """The transition of that row. Raises PathError."""
        named = zip(self.sorts, numbers.of(self.sorts, self.elements), strict=True)
        label = f"{self.row}({', '.join(sort.element(index) for sort, index in named)})"
        return walker.move(state, label, f"{self.where}: ")


@dataclass(frozen=True, slots=True)
class RecordedWrite:
    """A value that a device or the world has written. The trace does not name the row."""

    where: str
    symbol: Symbol
    elements: Elements
    value: str

    @property
    def sorts(self) -> tuple[type[Sort], ...]:
        """The sorts of the elements."""
        return self.symbol.sorts

    def move(self, walker: Walker, state: int, numbers: "ElementNumbers") -> Transition | None:
        """The row that changes the least of those that write the value; None if it is there.

        Raises PathError if no row can write it in this state.
        """
        layout, at = walker.ground.layout, numbers.of(self.symbol.sorts, self.elements)

        def stands(there: int) -> bool:
            return value_name(layout.value(there, self.symbol, at)) == self.value

        if stands(state):
            return None
        writing = [Transition(row, state, after) for row in walker.ground.rows
                   if row.action.guard.holds(state) and stands(after := row.action.apply(state))]
        if not writing:
            raise PathError(f"{self.where}: no row can write {self.symbol} := {self.value} here")
        return min(writing, key=lambda move: (move.before ^ move.after).bit_count())


RecordedStep: TypeAlias = RecordedRow | RecordedWrite
Queue: TypeAlias = deque[tuple[int, RecordedStep]]


class ElementNumbers:
    """The numbers of the elements, by sort."""

    def __init__(self, elements: Mapping[type[Sort], Sequence[Hashable]]) -> None:
        self._of: Final = {sort: {element: index for index, element in enumerate(of)}
                           for sort, of in elements.items()}

    def of(self, sorts: Sequence[type[Sort]], elements: Elements) -> tuple[int, ...]:
        """The numbers of these elements."""
        return tuple(self._of[sort][element]
                     for sort, element in zip(sorts, elements, strict=True))


@dataclass(slots=True)
class RecordedRun:
    """A recorded run. ended: why it goes no further, with the line; empty if all was read.

    sizes: the elements that it names, by the name of the sort. steps: those of each file, each with
    its number in the order of the replay. labels: those of a report, instead of steps. faults: the
    layers; None if the record does not say. lives: the names of the lives in the traces, of which
    `life` is the number of the one that is followed, from 1; none in traces of other machines.
    """

    sizes: dict[str, int]
    steps: tuple[tuple[tuple[int, RecordedStep], ...], ...] = ()
    labels: tuple[str, ...] = ()
    numbers: ElementNumbers = field(default_factory=lambda: ElementNumbers({}))
    faults: tuple[str, ...] | None = None
    ended: str = ""
    lives: tuple[str, ...] = ()
    life: int = 1

    def follow(self, walker: Walker) -> tuple[Transition, ...]:
        """The run in the walker, which has at least these sizes. Raises PathError."""
        if self.labels:
            return walker.follow(self.labels)
        state, moves = walker.initial, list[Transition]()
        waiting = [deque(steps) for steps in self.steps if steps]
        while waiting:
            queue, move = self._next(walker, state, waiting)
            queue.popleft()
            if move is not None:
                moves.append(move)
                state = move.after
            waiting = [queue for queue in waiting if queue]
        return tuple(moves)

    def _next(
        self, walker: Walker, state: int, waiting: list[Queue]
    ) -> tuple[Queue, Transition | None]:
        """The queue with the first step that is possible, and its transition. Raises PathError."""
        refused: PathError | None = None
        for queue in sorted(waiting, key=lambda queue: queue[0][0]):
            try:
                return queue, queue[0][1].move(walker, state, self.numbers)
            except PathError as error:
                refused = refused or error
        raise refused or AssertionError(state)


def recorded(system: System, paths: Sequence[Path], life: int | None = None) -> RecordedRun:
    """The run in a report (one file), or in the traces of all processes of one run.

    life: the number of a hand-over in the traces, from 1, in the order in which they fire their
    first rows; None for that of the line that no row explains, or else the first one.

    Raises RecordError, and OSError for a file that cannot be read.
    """
    report = _report(paths[0]) if len(paths) == 1 else None
    if report is not None:
        if life is not None:
            raise RecordError(f"{paths[0]} is a report: it has one run, and no lives")
        return _of_report(system, paths[0], report)
    reader = _LineReader(system)
    reader.read(paths)
    lives = reader.lives
    if life is not None and not 1 <= life <= len(lives):
        raise RecordError(f"there is no life {life}: the traces have {len(lives)}" if lives else
                          "only traces of hand-overs have lives to choose from")
    chosen = reader.rejected or next(iter(lives), None) if life is None else lives[life - 1]
    steps = reader.steps(chosen)
    if not steps:
        raise RecordError(reader.ended or f"{paths[0]}: no row has fired in this trace")
    elements = {sort: _in_order(sort, tuple(of)) for sort, of in reader.elements.items()}
    return RecordedRun({sort.__name__: len(of) for sort, of in elements.items()
                        if sort.own_size() is None},
                       steps, numbers=ElementNumbers(elements), ended=reader.ended,
                       lives=tuple(", ".join(map(words, one)) for one in lives),
                       life=1 if chosen is None else lives.index(chosen) + 1)


def _in_order(sort: type[Sort], elements: tuple[Any, ...]) -> tuple[Hashable, ...]:
    """The elements in the order of their numbers. They are given in that of their occurrence."""
    if issubclass(sort, Numbers):
        return tuple(sort.values.numbers)
    counted = sort.ordered or all(isinstance(element, int) for element in elements)
    return tuple(sorted(elements)) if counted else elements


def _report(path: Path) -> dict[str, Any] | None:
    """The JSON of `check`, `fuzz` or `sim`; None for any other file."""
    try:
        report = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return report if isinstance(report, dict) and "properties" in report else None


def _of_report(system: System, path: Path, report: Mapping[str, Any]) -> RecordedRun:
    """The first violation with a trace, or else the first witness."""
    try:
        if report["system"] != system.name:
            raise RecordError(f"{path} is about {report['system']}, and not about {system.name}")
        drawn = [one for one in report["properties"] if one.get("trace")]
        drawn.sort(key=lambda one: one["verdict"] != Verdict.VIOLATED)
        labels = [f"{step['row']}({step['parameters']})" for one in drawn[:1]
                  for step in one["trace"]]
        sizes, faults = dict(report["sizes"]), tuple(report["faults"])
    except (KeyError, TypeError) as error:
        raise RecordError(f"{path} is no report of pdproto: it lacks {error}") from error
    if not labels:
        raise RecordError(f"{path} has no trace: it needs a result with a counterexample")
    return RecordedRun(sizes, labels=tuple(labels), faults=faults)


@dataclass(frozen=True, slots=True)
class _ReadStep:
    """A step of a file. end: its endpoint, in traces of hand-overs."""

    path: Path
    step: RecordedStep
    end: Instance | None

    @property
    def life(self) -> Life | None:
        """The life of its endpoint."""
        return None if self.end is None else _life(self.end)


def _life(end: Instance) -> Life:
    """The own elements of the endpoint that are not names of nodes; all lines have been read.

    An endpoint that never learned its life has a life of its own.
    """
    known = tuple(of for of in end.own if of is not None and not isinstance(of, str))
    return known or (f"not known of {end.node}, endpoint {end.key[2]}",)


class _LineReader:
    """Collects what the lines of traces say.

    elements: by sort, in the order of the lines. ended: why the replay ended early. rejected: the
    life of the line that no row explains.
    """

    def __init__(self, system: System) -> None:
        self.elements: Final[dict[type[Sort], dict[Hashable, None]]] = {}
        self.ended = ""
        self.rejected: Life | None = None
        self._system: Final = system
        self._sorts: Final = {sort.__name__: sort for sort in system.sorts}
        self._symbols: Final = {symbol.name: symbol for symbol in system.variables}
        self._steps: Final[list[_ReadStep]] = []  # in the order of the replay

    def read(self, paths: Sequence[Path]) -> None:
        """Read all lines that conform."""
        if is_shared(paths):
            rejection = SharedReplay(
                self._system, paths, from_middle=False, on_line=self._shared).run()
            if rejection is not None:
                self.ended = f"{rejection.file}, line {rejection.number}: {rejection.why}"
            return
        replay = Replay(Tables(self._system), paths, on_line=self._handed_over)
        try:
            replay.run()
        except RejectedError as error:
            self.ended = f"{error.path}, line {error.read.number}: {error}"
            self.rejected = None if error.instance is None else _life(error.instance)
            # The lines before it may need lines of other processes, for a device that they share.
            with suppress(RejectedError):
                replay.go_on()

    @property
    def lives(self) -> list[Life]:
        """The lives of hand-overs, in the order of their first steps, then that of the rejection.
        """
        found = dict.fromkeys(one.life for one in self._steps)
        return [life for life in (*found, self.rejected) if life is not None]

    def steps(self, life: Life | None) -> tuple[tuple[tuple[int, RecordedStep], ...], ...]:
        """The steps of that life in each file, each with its number in the order of the replay."""
        found: dict[Path, list[tuple[int, RecordedStep]]] = {}
        for number, one in enumerate(self._steps):
            if one.life == life:
                found.setdefault(one.path, []).append((number, self._whole(one.step, one.end)))
        return tuple(map(tuple, found.values()))

    def _whole(self, step: RecordedStep, end: Instance | None) -> RecordedStep:
        """The step with the elements of its end that its line did not know yet."""
        own: Mapping[type[Sort], Hashable] = {} if end is None else dict(
            zip(end.local.own, end.own, strict=True))
        elements = tuple(own.get(sort) if element is None else element
                         for sort, element in zip(step.sorts, step.elements, strict=True))
        for sort, element in zip(step.sorts, elements, strict=True):
            self.elements.setdefault(sort, {})[element] = None
        return replace(step, elements=elements)

    def _shared(self, file: SharedFile, read: SharedRead) -> None:
        line = read.line
        if line is None or line.end not in file.ends:
            return
        where, instance = f"{file.path}, line {read.number}", file.ends[line.end]
        if line.begins is not None:
            for variable, element in instance.own.items():
                self.elements.setdefault(type(variable), {})[element] = None
            for name, of in line.begins.items():
                self.elements.setdefault(self._sorts[name], {}).update(
                    dict.fromkeys(map(frozen, of)))
        elif line.row is not None:
            environment = instance.environment(instance.rows[line.row], line.given)
            self._fire(file.path, where, line.row, environment)
        for name, of, value in line.device or ():
            self._write(file.path, where, (name, tuple(map(frozen, of)), value))

    def _handed_over(self, file: File, read: Read) -> None:
        line = read.line
        if line is None or line.end not in file.processes[-1].ends:
            return
        where, end = f"{file.path}, line {read.number}", file.processes[-1].ends[line.end]
        if line.row is not None:
            parameters = end.local.table.parameters(end.local.rows[line.row].row)
            self._fire(file.path, where, line.row, {v: line.given[v.name] for v in parameters}, end)
        for written in line.device or ():
            self._write(file.path, where, written, end)

    def _fire(
        self, path: Path, where: str, row: str, environment: Mapping[Sort, Hashable],
        end: Instance | None = None,
    ) -> None:
        step = RecordedRow(where, row, tuple(map(type, environment)), tuple(environment.values()))
        self._steps.append(_ReadStep(path, step, end))

    def _write(
        self, path: Path, where: str, written: tuple[str, Elements, str],
        end: Instance | None = None,
    ) -> None:
        name, of, value = written
        self._steps.append(_ReadStep(path, RecordedWrite(where, self._symbols[name], of, value),
                                     end))
