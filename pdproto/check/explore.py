"""Exploration of one ground system: a breadth-first search, watched and bounded.

A search ends when every state has been visited, or at the end of the level with the first violation
(unless `keep_going`), or at a limit. A search that a limit ends says so; its findings are valid.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Final

import numpy as np

from pdproto.check import native
from pdproto.check.deadbits import DeadBits, dead_bits
from pdproto.check.engine import Engine, Positions, StoppedError
from pdproto.check.native import NativeEngine
from pdproto.check.native.pack import WORDS_MAX
from pdproto.check.out_of_core import DuckDbEngine
from pdproto.check.portable import PortableEngine
from pdproto.check.questions import Question, final_guards
from pdproto.check.symmetry import symmetry
from pdproto.ground.grounding import Ground
from pdproto.ground.layout import TooLargeError
from pdproto.ground.program import WORD_BITS, Guard, Program, Symmetry

GIB: Final = 1 << 30
STATES_PER_STEP: Final = 1 << 18  # between two checks of the limits, a fraction of a second
BYTES_MIN: Final = 1 << 24  # of the native engine: it needs at least so much
LIVENESS_BYTES: Final = 48  # for each state, at worst: marks, and one path through all states
FIRST_VIOLATION: Final = "the search ends with the level of the first violation"
INTERRUPTED: Final = "interrupted"


@dataclass(frozen=True, slots=True)
class SearchLimits:
    """The limits of a search: states, and bytes of memory for them. None is no limit."""

    states_max: int | None = None
    bytes_max: int | None = None

    def forbid(self, bytes_wanted: int) -> str:
        """Why liveness may not take so many bytes; empty if it may."""
        if self.bytes_max is None or bytes_wanted <= self.bytes_max:
            return ""
        return f"liveness would take {bytes_wanted / GIB:.3g} GiB, past the {self}"

    def __str__(self) -> str:
        return "" if self.bytes_max is None else f"limit of {self.bytes_max / GIB:.3g} GiB"


NO_LIMITS: Final = SearchLimits()


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """The engine of a search, by its name.

    folder: where DUCKDB or SPARK keeps the states between runs; of SPARK it may be a URI that all
    executors reach. master: Spark's; None for the one that its own settings name.
    """

    name: str
    folder: str | None = None
    master: str | None = None


NATIVE: Final = EngineChoice("native")
PORTABLE: Final = EngineChoice("portable")
DUCKDB: Final = EngineChoice("duckdb")
SPARK: Final = EngineChoice("spark")
ENGINES: Final = {choice.name: choice for choice in (NATIVE, PORTABLE, DUCKDB, SPARK)}


@dataclass(frozen=True, slots=True)
class Reductions:
    """The reductions of the search. They change no verdict.

    exact: clear only such dead bits that no row of the protocol writes any more. Then the runs to a
    deadlock and the loops are as long as those of the plain search, too.
    """

    symmetry: bool = False
    dead_bits: bool = False
    exact: bool = False


PLAIN: Final = Reductions()


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a search. what: its name. frontier: states stored but not yet expanded."""

    what: str
    states: int
    frontier: int
    depth: int
    seconds: float
    done: bool = False

    @property
    def states_per_second(self) -> float:
        """The mean rate since the beginning of the search."""
        return self.states / max(self.seconds, 1e-9)


Monitor = Callable[[Progress], None]


def silent(_: Progress) -> None:
    """A monitor that does nothing."""


def program(
    ground: Ground,
    questions: Sequence[Question] = (),
    reductions: Reductions = Reductions(),
    watched: Sequence[Guard] = (),
) -> Program:
    """The ground system in the form that engines run.

    watched: guards that are evaluated after the search (for liveness). No bit that they read is
    cleared as dead.
    """
    actions = tuple(row.action for row in ground.rows)
    patterns = tuple(
        guard
        for question in questions
        for guard in (*(p.guard for p in question.patterns), *question.premises)
    )
    final = final_guards(ground)
    progress = tuple(not row.layer for row in ground.rows)
    dead = DeadBits()
    if reductions.dead_bits:
        acts = tuple(not row.layer and row.row.kind == "row" for row in ground.rows)
        asked = (*patterns, *final, *watched)
        dead = dead_bits(ground.layout, actions, progress, acts, asked, exact=reductions.exact)
    return Program(
        bits=ground.layout.bits,
        initial=ground.initial,
        rows=actions,
        progress=progress,
        patterns=patterns,
        sweeps=dead.sweeps,
        idle=dead.idle,
        symmetry=symmetry(ground) if reductions.symmetry else Symmetry(),
        final=final,
    )


def engine_for(
    program: Program, workers: int, limits: SearchLimits = NO_LIMITS, choice: EngineChoice = NATIVE
) -> Engine:
    """The engine of that choice, or the portable one if there was no compiler at installation.

    Raises TooLargeError for states that are too wide for the native engine, and the errors of
    DuckDbEngine and SparkEngine.
    """
    if choice == PORTABLE or not native.available():
        return PortableEngine(program)
    if program.words > WORDS_MAX:
        widest = WORDS_MAX * WORD_BITS
        raise TooLargeError(f"a state has {program.bits:,} bits; the limit is {widest:,}")
    if choice.name == DUCKDB.name:
        return DuckDbEngine(program, workers=workers, bytes_max=limits.bytes_max,
                            folder=choice.folder)
    if choice.name == SPARK.name:
        from pdproto.check.spark.table import SparkEngine  # noqa: PLC0415 - for Spark alone

        return SparkEngine(program, workers=workers, folder=choice.folder, master=choice.master)
    if limits.bytes_max is None:
        return NativeEngine(program, workers=workers)
    return NativeEngine(program, workers=workers, bytes_max=max(limits.bytes_max, BYTES_MIN))


@dataclass
class Exploration:
    """A search of one ground system with its questions, and its results so far."""

    ground: Ground
    questions: tuple[Question, ...]
    program: Program
    engine: Engine
    deadlocks_matter: bool = True
    stopped: str = ""  # why it is not complete; empty if it is
    seconds: float = 0.0

    @property
    def complete(self) -> bool:
        """Whether every state was visited."""
        return not self.stopped

    @property
    def depth(self) -> int:
        """The number of steps from an initial state to the last level."""
        return max(0, len(self.engine.levels) - 1)

    @property
    def transitions(self) -> int:
        """The sum of enabled ground rows over all states, as TLC counts; without ignored events."""
        counted = [row.row.kind == "row" for row in self.ground.rows]
        return int(self.engine.fired[counted].sum())

    @property
    def liveness_bytes(self) -> int:
        """An estimate of the bytes for the states and for checking liveness on their graph."""
        return self.engine.bytes + self.engine.states * LIVENESS_BYTES

    def hit(self, question: Question) -> int | None:
        """The id of the first state with a pattern of the question."""
        numbers = self._numbers(question)
        hits = self.engine.hits  # a new dict at each access
        found = [n for n in numbers[: len(question.patterns)] if n in hits]
        if not found:
            return None
        return hits[min(found, key=lambda n: (self.depth_of(hits[n]), n))]

    def vacuous(self, question: Question) -> bool:
        """Whether the question is an implication with a premise that never held."""
        premises = self._numbers(question)[len(question.patterns) :]
        return question.implication and self.engine.hits.keys().isdisjoint(premises)

    def _numbers(self, question: Question) -> range:
        start = 0
        for other in self.questions:
            count = len(other.patterns) + len(other.premises)
            if other is question:
                return range(start, start + count)
            start += count
        raise KeyError(question.name)

    def path(self, identity: int) -> list[int]:
        """The stored states from an initial state to this one."""
        states = []
        current: int | None = identity
        while current is not None:
            states.append(self.engine.state(current))
            current = self.engine.parent(current)
        return states[::-1]

    def depth_of(self, identity: int) -> int:
        """Steps from an initial state to this one."""
        return len(self.path(identity)) - 1

    def starts(self) -> Positions:
        """[at least 1]: the positions of the initial states."""
        stored = dict.fromkeys(map(self.program.normal, self.program.initial))
        found = [self.engine.find(state) for state in stored]
        return np.array([self.engine.position(one) for one in found if one is not None], np.int64)

    def violated(self) -> bool:
        """Whether a bad pattern has been found, or a deadlock if `deadlocks_matter`."""
        if self.deadlocks_matter and self.engine.stuck[0] > 0:
            return True
        hits = self.engine.hits.keys()
        return any(
            question.bad
            and not hits.isdisjoint(self._numbers(question)[: len(question.patterns)])
            for question in self.questions
        )


def explore(  # noqa: PLR0913 - the options of a search, all by name
    ground: Ground,
    questions: Sequence[Question] = (),
    *,
    reductions: Reductions = Reductions(),
    limits: SearchLimits = SearchLimits(),
    watched: Sequence[Guard] = (),
    workers: int = 1,
    keep_going: bool = False,
    deadlocks_matter: bool = True,
    monitor: Monitor = silent,
    what: str = "",
    choice: EngineChoice = NATIVE,
) -> Exploration:
    """Search a ground system. After Ctrl-C or at a limit it returns the results so far.

    watched: see `program`. workers: threads. keep_going: continue after a violation. what: the name
    of the search for the monitor. choice: of the engine. Raises TooLargeError as `engine_for` does.
    """
    form = program(ground, questions, reductions, watched)
    engine = engine_for(form, workers, limits, choice)
    found = Exploration(ground, tuple(questions), form, engine, deadlocks_matter)
    began = monotonic()
    try:
        _run(found, limits, keep_going, lambda: _look(found, monitor, what, began))
    except KeyboardInterrupt:
        found.stopped = INTERRUPTED
    found.seconds = monotonic() - began
    monitor(_progress(found, what, began, done=True))
    return found


def _run(
    found: Exploration, limits: SearchLimits, keep_going: bool, look: Callable[[], None]
) -> None:
    engine = found.engine
    strictly = limits.states_max is not None
    growth = 1.0
    while True:
        step = STATES_PER_STEP
        if limits.states_max is not None:
            room = limits.states_max - engine.states
            step = max(1, min(step, int(room / growth) // 2))
        stored, waiting = engine.states, engine.frontier
        try:
            more = engine.step(step, strictly=strictly)
        except MemoryError:
            within = f" within the {limits}" if limits.bytes_max is not None else ""
            found.stopped = f"memory ran out{within} at {engine.states:,} states"
            return
        except StoppedError as error:
            found.stopped = str(error)
            return
        new = engine.states - stored
        growth = max(growth, new / max(1, waiting + new - engine.frontier))
        look()
        if engine.at_level_end and not keep_going and more and found.violated():
            found.stopped = FIRST_VIOLATION
            return
        if not more:
            return
        if limits.states_max is not None and engine.states >= limits.states_max:
            found.stopped = f"the limit of {limits.states_max:,} states was reached"
            return
        if limits.bytes_max is not None and engine.bytes >= limits.bytes_max:
            found.stopped = f"the {limits} was reached at {engine.states:,} states"
            return


def _progress(found: Exploration, what: str, began: float, *, done: bool) -> Progress:
    engine = found.engine
    return Progress(what, engine.states, engine.frontier, found.depth, monotonic() - began, done)


def _look(found: Exploration, monitor: Monitor, what: str, began: float) -> None:
    monitor(_progress(found, what, began, done=False))
