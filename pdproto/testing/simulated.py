"""Any system of tables in virtual time: a group that agrees, a registry, a transfer, your own.

    SimulatedSystem(SYSTEM, SYSTEM.configurations["default"], Random).run(7).finding

The ends are those that servers run, and each of their steps is compared with the tables
(testing/cluster.py). Each possible event gets a due time when it becomes possible, and loses it
when it is no longer possible. The event that is due first happens. The delay depends on the kind of
event: a message takes the latency of the network, a timer its wait, a device and a client their
times. So runs go as far as real ones; a random walk would end at the first timer.

Rule 1: the seed decides everything, also the character of a run: its slow kinds of events (so that
        events happen in unusual orders), the calls that never come, and its faults.
Rule 2: every safety property is checked after each step. At the end the run is brought to rest, and
        every leads-to property is checked (testing/property_checker.py).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from pdproto.check.result import Finding
from pdproto.ground.grounding import GroundRow
from pdproto.ground.layout import Cell
from pdproto.runtime.compile import arguments_of
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.machine import Call, Completion, Row, Timer
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.symbols import Sent
from pdproto.spec.language.system import Configuration, System
from pdproto.testing.chance import Seeded, Stream
from pdproto.testing.cluster import Cluster, DivergenceError
from pdproto.testing.ends import End
from pdproto.testing.property_checker import PropertyChecker, ViolationError, is_safety_net
from pdproto.testing.world import World, Worlds

LATENCY_S: Final = 0.0003
TURN_S: Final = 0.0001
DEVICE_S: Final = 0.002
CLIENT_S: Final = 0.02
WAIT_S: Final = 1.0  # of a timer that no server has
# The factors by which a kind of event may be slower in a run than usual.
SLOWNESS: Final = (1.0, 1.0, 1.0, 1.0, 30.0, 1_000.0, 30_000.0)
FAULT_S: Final = (0.0005, 0.005, 0.05, 0.5, 5.0)  # typical delays of a possible fault
CALL_SHARES: Final = (0.5, 0.8, 1.0)  # shares of optional calls that come, one for each run
FAULT_SHARES: Final = (0.0, 0.2, 0.5)  # shares of faults that happen, one for each run
STEPS_MAX: Final = 600
SECONDS_MAX: Final = 1_000.0
KNOWN_MAX: Final = 1 << 14  # states whose possible rows are cached

Hearing: TypeAlias = tuple[End, Cell]  # a message reaches an end whose guards read it
Happening: TypeAlias = GroundRow | Hearing
Rows: TypeAlias = tuple[GroundRow, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """The outcome of a seed. seconds: virtual time. finding: the violation; None for none.

    fairness: what is assumed of the environment.
    """

    seed: int
    steps: int
    seconds: float
    finding: Finding | None
    fairness: Fairness


class Character:
    """The character of one run: how long events take, and which never happen."""

    def __init__(self, seed: int, seeded: Seeded) -> None:
        self._name: Final = str(seed)
        self._seeded: Final = seeded
        self._delays: Final = self._stream("delays")
        self._call_share: Final = self._stream("calls").one(CALL_SHARES)
        self._fault_share: Final = self._stream("faults").one(FAULT_SHARES)
        # Whether slowness is drawn for each event, or once for all events of a kind.
        self._one_by_one: Final = self._stream("grain").happens(0.5)
        self._slowness: Final[dict[str, float]] = {}
        self._comes: Final[dict[str, bool]] = {}

    def comes(self, row: GroundRow) -> bool:
        """Whether the row may fire in this run. Fair rows always may."""
        if not row.layer and row.row.is_fair:
            return True
        name = str(row)
        if name not in self._comes:
            often = self._call_share if isinstance(row.row.on, Call) else self._fault_share
            self._comes[name] = self._stream(f"comes/{name}").happens(often)
        return self._comes[name]

    def delay(self, happening: Happening) -> float:
        """The delay in seconds from when the event has become possible until it happens."""
        if isinstance(happening, tuple):
            end, (message, _) = happening
            return self._slow(message.name, end.name, LATENCY_S)
        row = happening.row
        match row.on:
            case Sent():
                return self._slow(row.on.symbol.name, str(happening), LATENCY_S)
            case Timer():
                wait = WAITS.get(row.on.name)
                seconds = WAIT_S if wait is None else wait.seconds
                return seconds + self._delays.delay(TURN_S)
            case Call():
                return self._slow(str(happening), "", CLIENT_S)
        if happening.layer or not row.is_fair:
            return self._delays.delay(self._delays.one(FAULT_S))
        outside = row.on is not None or happening.table.machine.world
        return self._slow(row.name, happening.parameters, DEVICE_S if outside else TURN_S)

    def _slow(self, kind: str, one: str, typical: float) -> float:
        name = f"{kind}/{one}" if self._one_by_one else kind
        if name not in self._slowness:
            self._slowness[name] = self._stream(f"slowness/{name}").one(SLOWNESS)
        return self._delays.delay(typical * self._slowness[name])

    def _stream(self, name: str) -> Stream:
        return Stream(self._seeded, f"{self._name}/{name}")


class TimedWorld(World):
    """A world whose possible rows are kept by state."""

    def __init__(self, cluster: Cluster, checker: PropertyChecker, fairness: Fairness) -> None:
        super().__init__(cluster, checker, fairness)
        self._known: Final[dict[tuple[int, int], tuple[tuple[GroundRow, ...], Rows]]] = {}

    def possible(self) -> Rows:
        """The rows that can fire and would change the state."""
        cluster = self.cluster
        enabled = cluster.enabled()
        key = id(enabled), cluster.state
        known = self._known.get(key)
        if known is None or known[0] is not enabled:
            rows = tuple(
                row for row in _answering(enabled)
                if row.action.apply(cluster.state) != cluster.state
                and not (self.fairness is Fairness.DETECTORS and is_safety_net(row)))
            if len(self._known) >= KNOWN_MAX:
                self._known.clear()
            known = self._known[key] = enabled, rows
        return known[1]


def _answering(enabled: Rows) -> Iterator[GroundRow]:
    """The rows that an end would take. If several rows have the same trigger, the end takes the
    first one. Only a table with a defect has such rows.
    """
    first: dict[object, Row] = {}
    for ground in enabled:
        row, environment = ground.row, ground.environment
        if isinstance(row.on, Sent | Call | Completion):
            name = row.on.symbol.name if isinstance(row.on, Sent) else row.on.name
            given = (*ground.table.machine.own, *arguments_of(row))
            key = ground.table.machine, name, tuple([environment[v] for v in given])
            if first.setdefault(key, row) is not row:
                continue
        yield ground


class SimulatedSystem:
    """A system of tables, run in virtual time by the ends that servers run.

    seeded: makes a random generator from a name, as `random.Random` does. ends: options of
    `Worlds`.
    """

    def __init__(
        self, system: System, configuration: Configuration, seeded: Seeded, **ends: Any
    ) -> None:
        self.system: Final = system
        self.configuration: Final = configuration
        self._seeded: Final = seeded
        self._worlds: Final = Worlds(TimedWorld, system, configuration, **ends)

    def run(
        self, seed: int, on_row: Callable[[float, GroundRow], None] = lambda _at, _row: None
    ) -> Run:
        """The run of this seed, which is always the same. on_row: called with the time and each row
        that fires, until the run is brought to rest.
        """
        world = self._world_of(seed)
        clocked = Clocked(world, Character(seed, self._seeded), on_row)
        finding = None
        try:
            clocked.go()
            world.checker.settle(world.cluster, world.fairness, world.cluster.fire)
        except ViolationError as error:
            finding = error.finding
        except DivergenceError as error:
            finding = world.checker.diverged(world.cluster.moves, str(error))
        return Run(seed, clocked.steps, clocked.now, finding, world.fairness)

    def first_violation(self, seeds: Iterable[int]) -> Run | None:
        """The first run of these seeds that violates a property; None if there is none."""
        return next((run for run in map(self.run, seeds) if run.finding is not None), None)

    def cut_down(self, run: Run) -> Finding:
        """The violation of the run, with a trace that is made as short as possible.

        Raises ValueError for a run without a violation.
        """
        if run.finding is None:
            raise ValueError(f"{self.system.name}, seed {run.seed}: no property was violated")
        # Run again: the cluster must have the moves of this run, which a worker may have made.
        found = self.run(run.seed).finding or run.finding
        return self._world_of(run.seed).cut_down(ViolationError(found)).finding

    def _world_of(self, seed: int) -> TimedWorld:
        return self._worlds.chosen(seed // len(self._worlds.assumptions), seed)


class Clocked:
    """A run under way. now: in virtual seconds."""

    def __init__(
        self, world: TimedWorld, character: Character, on_row: Callable[[float, GroundRow], None]
    ) -> None:
        self.now = 0.0
        self.steps = 0
        self._world: Final = world
        self._character: Final = character
        self._on_row: Final = on_row
        self._due: dict[object, float] = {}

    def go(self) -> None:
        """Run until no event is possible, or until a limit is reached.

        Raises ViolationError for a property that does not hold, and DivergenceError for an end
        whose step the tables do not allow.
        """
        cluster, checker = self._world.cluster, self._world.checker
        cluster.begin()
        checker.check_state(cluster)
        while self.steps < STEPS_MAX and self.now < SECONDS_MAX:
            possible = dict(self._possible())
            if not possible:
                return
            due = {key: self._due.get(key) for key in possible}
            self._due = {
                key: self.now + self._character.delay(possible[key]) if at is None else at
                for key, at in due.items()}
            first = min(self._due, key=self._due.__getitem__)
            self.now = self._due.pop(first)
            self.steps += 1
            happening = possible[first]
            if isinstance(happening, tuple):
                cluster.hear(*happening)
            else:
                self._on_row(self.now, happening)
                cluster.fire(happening)
            checker.check_state(cluster)

    def _possible(self) -> Iterator[tuple[object, Happening]]:
        """The possible events that would change the state, each with a key."""
        for row in self._world.possible():
            if self._character.comes(row):
                yield id(row), row
        for end, cell in self._world.cluster.unheard():
            yield (end.name, cell), (end, cell)
