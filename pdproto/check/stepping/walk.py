"""A system at given sizes, walked one row at a time.

This module is pure. `pdproto run`, and `pdproto explore` with its server, are thin layers over it.
A path is a tuple of row labels, `ask(c0, r0)`, from an initial state. It names rows and not
numbers, so it outlives an edit of other rows.
"""

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Final, TypeAlias

from pdproto.check.explore import program
from pdproto.check.narrative import Narrator, lane_name
from pdproto.check.questions import DEADLOCK, Question, questions
from pdproto.check.result import Trace, TraceStep
from pdproto.check.rigid import interpretations
from pdproto.check.runs import RealRun, Transition
from pdproto.check.words import formula_text, trigger_text
from pdproto.ground.grounding import Environment, Ground, GroundRow, Interpretation
from pdproto.ground.layout import cell_name
from pdproto.ground.program import Guard
from pdproto.spec.language.formula import Formula, normal
from pdproto.spec.language.kinds import suggestion
from pdproto.spec.language.symbols import Sent
from pdproto.spec.language.system import Configuration, System

Path: TypeAlias = tuple[str, ...]

STEPS_KEPT: Final = 20_000  # told steps that a session keeps: some ten megabytes
CELLS_SHOWN: Final = 4  # the values behind a condition that fails


class PathError(Exception):
    """A step of a path is no row of the system, or is not enabled where the path takes it."""


@dataclass(frozen=True, slots=True)
class Choice:
    """An enabled row. changes: whether it leads to another state."""

    label: str
    ground: GroundRow
    lane: str
    trigger: str
    changes: bool


@dataclass(frozen=True, slots=True)
class Failing:
    """A condition of a guard that does not hold. now: what is the case instead, or empty."""

    text: str  # "phase(c0) = holding"
    now: str = ""  # "it is idle"; of several cells "phase(c0) = idle, phase(c1) = idle"

    def __str__(self) -> str:
        return f"{self.text}, but {self.now}" if self.now else self.text


@dataclass(frozen=True, slots=True)
class Disabled:
    """A row that cannot fire, and the conditions that fail. others: its further instances."""

    label: str
    ground: GroundRow
    lane: str
    trigger: str
    failing: tuple[Failing, ...]
    others: int = 0


class _RememberingNarrator(Narrator):
    """Tells each step once: the answers of a session are about paths that begin alike."""

    def __init__(self, ground: Ground, asked: Sequence[Question]) -> None:
        super().__init__(ground, asked)
        self._told: Final[dict[tuple[int, int], TraceStep]] = {}

    def step(self, move: Transition) -> TraceStep:
        key = id(move.row), move.before  # the rows of the ground system live as long as it does
        if key not in self._told:
            if len(self._told) >= STEPS_KEPT:
                self._told.clear()
            self._told[key] = super().step(move)
        return self._told[key]


class Walker:
    """The rows and the words of one ground system. Raises the errors of `Ground`."""

    def __init__(
        self, system: System, configuration: Configuration, given: Interpretation | None = None
    ) -> None:
        self.system: Final = system
        self.configuration: Final = configuration
        self.ground: Final = Ground(
            system, configuration.sizes, configuration.faults, given
        )
        self.questions: Final = tuple(questions(self.ground))
        self.form: Final = program(self.ground, self.questions)
        self.initial = self.form.initial[0]  # in which every path begins
        self.narrator: Final = _RememberingNarrator(self.ground, self.questions)
        self._conditions: Final[dict[int, tuple[tuple[str, Guard], ...]]] = {}

    def starting(self, state: int) -> "Walker":
        """The walker whose paths begin in this initial state."""
        other = copy(self)
        other.initial = state
        return other

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """The label of each ground row."""
        return tuple(map(self.label, self.ground.rows))

    @cached_property
    def _by_label(self) -> dict[str, list[GroundRow]]:
        found: dict[str, list[GroundRow]] = {}
        for label, row in zip(self.labels, self.ground.rows, strict=True):
            found.setdefault(_bare(label), []).append(row)
        return found

    def follow(self, path: Sequence[str]) -> tuple[Transition, ...]:
        """The run along a path. Raises PathError at the first step that is not possible."""
        state, moves = self.initial, []
        for number, label in enumerate(path, start=1):
            moves.append(self.move(state, label, f"step {number}: "))
            state = moves[-1].after
        return tuple(moves)

    def move(self, state: int, label: str, where: str = "") -> Transition:
        """The transition of an enabled row. Raises PathError, with the text `where` before it."""
        rows = self._by_label.get(_bare(label))
        if rows is None:
            raise PathError(f"{where}{self.system.name} has no row {label!r} at these sizes"
                            f"{suggestion(label, self.labels)}")
        for row in rows:
            if row.action.guard.holds(state):
                return Transition(row, state, row.action.apply(state))
        failing = "; ".join(map(str, self._failing(rows[0], state)))
        raise PathError(f"{where}{label} cannot fire here: it needs {failing}")

    def after(self, moves: Sequence[Transition]) -> int:
        """The state at the end of a run."""
        return moves[-1].after if moves else self.initial

    def enabled(self, state: int) -> list[Choice]:
        """The rows that can fire in the state, in the order of the tables."""
        return [
            Choice(label, row, self.lane(row), trigger_text(row.row.on, row.environment),
                   row.action.apply(state) != state)
            for label, row in zip(self.labels, self.ground.rows, strict=True)
            if row.action.guard.holds(state)
        ]

    def disabled(self, state: int) -> list[Disabled]:
        """The rows of kind `row` with no enabled instance: the nearest instance of each.

        Rows with the fewest failing conditions come first.
        """
        by_name: dict[str, list[tuple[str, GroundRow]]] = {}
        for label, row in zip(self.labels, self.ground.rows, strict=True):
            if row.row.kind == "row":
                by_name.setdefault(row.row.name, []).append((label, row))
        found = []
        for rows in by_name.values():
            if any(row.action.guard.holds(state) for _, row in rows):
                continue
            label, row = min(rows, key=lambda one: len(self._broken(one[1], state)))
            found.append(self._disabled(label, row, state, len(rows) - 1))
        return sorted(found, key=lambda one: len(one.failing))

    def instances(self, state: int, name: str) -> list[Choice | Disabled]:
        """Every instance of the row of that name in the state. Raises PathError for no such row."""
        bare = _bare(name)
        rows = [(label, row) for label, row in zip(self.labels, self.ground.rows, strict=True)
                if bare in (row.row.name, _bare(label))]
        if not rows:
            names = (row.name for _, row in self.system.rows())
            raise PathError(f"{self.system.name} has no row {name!r} at these sizes"
                            f"{suggestion(name, names)}")
        able = {choice.label: choice for choice in self.enabled(state)}
        return [able.get(label) or self._disabled(label, row, state) for label, row in rows]

    def _disabled(self, label: str, row: GroundRow, state: int, others: int = 0) -> Disabled:
        trigger = trigger_text(row.row.on, row.environment)
        return Disabled(label, row, self.lane(row), trigger, self._failing(row, state), others)

    def _failing(self, row: GroundRow, state: int) -> tuple[Failing, ...]:
        return tuple(Failing(text, self._now(guard, state))
                     for text, guard in self._broken(row, state))

    def _broken(self, row: GroundRow, state: int) -> list[tuple[str, Guard]]:
        return [(text, guard) for text, guard in self._guards(row) if not guard.holds(state)]

    def _guards(self, row: GroundRow) -> tuple[tuple[str, Guard], ...]:
        """Each condition of the row's guard: its text, and the condition as a guard."""
        key = id(row)
        if key not in self._conditions:
            grounded = ((part, self.ground.guard(normal(part), row.environment, row.row))
                        for part in row.table.guard(row.row).parts)
            self._conditions[key] = tuple(
                (_condition(part, row.environment), guard)
                for part, guard in grounded if guard is not None
            )
        return self._conditions[key]

    def _now(self, guard: Guard, state: int) -> str:
        """The values of the cells that the guard reads; a truth value goes without saying."""
        if guard.reads.bit_count() == 1:
            return ""
        values = self.values(guard, state)
        if len(values) == 1:
            return f"it is {values[0].split(' = ')[-1]}"
        more = ", ..." if len(values) > CELLS_SHOWN else ""
        return ", ".join(values[:CELLS_SHOWN]) + more

    def values(self, guard: Guard, state: int) -> list[str]:
        """The cells that a guard reads, each with its value in the state: `phase(c0) = idle`."""
        layout, reads = self.ground.layout, guard.reads
        read = dict.fromkeys((symbol, indices[: len(symbol.domain)])
                             for (symbol, indices), field in layout.fields.items()
                             if field.mask & reads)
        return [f"{cell_name(*cell)} = {layout.text(state, *cell)}" for cell in read]

    @staticmethod
    def label(row: GroundRow) -> str:
        """The row with its parameters: `ask(c0, r0)`, or `decide` without any."""
        return str(row) if row.environment else row.row.name

    def lane(self, row: GroundRow) -> str:
        """The process that fires the row."""
        machine = row.table.machine
        return lane_name(machine, self.ground.cell(machine.own, row.environment))

    def trace(self, moves: Sequence[Transition]) -> Trace:
        """The run as lanes and steps."""
        return self.narrator.trace(RealRun(self.initial, moves))

    def is_stuck(self, state: int) -> bool:
        """Whether no row of the protocol changes the state any more."""
        return not any(
            not row.layer and row.action.guard.holds(state) and row.action.apply(state) != state
            for row in self.ground.rows
        )

    def is_final(self, state: int) -> bool:
        """Whether a run may end in the state."""
        return any(guard.holds(state) for guard in self.form.final)

    def violated(self, state: int) -> list[str]:
        """The properties of single states that fail in the state; `deadlock` for a stuck one."""
        found = [one.name for one in self.questions
                 if one.bad and any(pattern.guard.holds(state) for pattern in one.patterns)]
        if self.is_stuck(state) and not self.is_final(state):
            found.append(DEADLOCK)
        return found

    def successors(self, state: int) -> Iterator[tuple[str, int]]:
        """The label of each enabled row that changes the state, with the next state."""
        for choice in self.enabled(state):
            if choice.changes:
                yield choice.label, choice.ground.action.apply(state)


def walkers(system: System, configuration: Configuration) -> Iterator[Walker]:
    """A walker for each interpretation of the rigid relations, and each initial state there."""
    for given in interpretations(system, configuration.sizes, configuration):
        walker = Walker(system, configuration, given)
        yield from map(walker.starting, walker.form.initial)


def nth_walker(system: System, configuration: Configuration, number: int) -> Walker:
    """The walker with that number, from 1. Raises PathError."""
    found = list(islice(walkers(system, configuration), number))
    if not 1 <= number <= len(found):
        several = any(len(one.form.initial) > 1 for one in found)
        word = "initial state" if several else "topology"
        count = f"1 {word}" if len(found) == 1 else (
            f"{len(found)} {f'{word}s' if several else 'topologies'}")
        raise PathError(f"{system.name} has {count} at these sizes: there is none with the number "
                        f"{number}")
    return found[-1]


def _condition(part: Formula, environment: Environment) -> str:
    text = formula_text(part, environment)
    return f"message {text}" if isinstance(part, Sent) else text


def _bare(label: str) -> str:
    """The label without spaces and without empty parentheses, as links write it."""
    return "".join(label.split()).removesuffix("()")
