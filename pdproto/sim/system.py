"""Any system of tables in virtual time: a group that agrees, a registry, a transfer, your own.

    SimulatedSystem(SYSTEM, SYSTEM.configurations["default"], Random).run(7).finding

The ends are those that servers run, and all that they do is held to the tables
(testing/cluster.py). Whatever could happen has a clock, which is wound when it comes to be
possible, and forgotten when it no longer is; what is due first happens. A message takes its way
through the network, a timer its wait, a device and a client their time. So runs go as far as real
ones do, where a walk by mere chance would give up at the first timer.

Rule 1: the seed decides, and with it a run's character: what is slow in it, so that things happen
        in an order in which they seldom do, which calls never come, and which faults do.
Rule 2: every safety property is asked after each step. At its end the run is brought to rest, and
        every promise is asked (testing/property_checker.py).
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from pdproto.check.result import Finding
from pdproto.check.rigid import interpretations
from pdproto.ground.grounding import GroundRow, Interpretation, ground_for
from pdproto.ground.layout import Cell
from pdproto.runtime.compile import arguments_of
from pdproto.sim.chance import Seeded, Stream
from pdproto.spec.handoff.timers import WAITS
from pdproto.spec.language.machine import Call, Completion, Row, Timer
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.symbols import Sent
from pdproto.spec.language.system import Configuration, System
from pdproto.testing.cluster import Cluster, DivergenceError
from pdproto.testing.ends import End, Pacing
from pdproto.testing.property_checker import PropertyChecker, ViolationError, is_safety_net
from pdproto.testing.shrink import shrink

LATENCY_S: Final = 0.0003
TURN_S: Final = 0.0001
DEVICE_S: Final = 0.002
CLIENT_S: Final = 0.02
WAIT_S: Final = 1.0  # of a clock that no server has
# How much longer some kind of thing takes in a run than it usually does.
SLOWNESS: Final = (1.0, 1.0, 1.0, 1.0, 30.0, 1_000.0, 30_000.0)
FAULT_S: Final = (0.0005, 0.005, 0.05, 0.5, 5.0)  # from when one is possible, about
COMES: Final = (0.5, 0.8, 1.0)  # of the calls that nobody has to make, in one run or another,
STRIKES: Final = (0.0, 0.2, 0.5)  # and of the faults
STEPS_MAX: Final = 600
SECONDS_MAX: Final = 1_000.0
KNOWN_MAX: Final = 1 << 14  # states of which it is remembered what is possible

Hearing: TypeAlias = tuple[End, Cell]  # a message reaches an end whose guards read it
Happening: TypeAlias = GroundRow | Hearing
Rows: TypeAlias = tuple[GroundRow, ...]


@dataclass(frozen=True, slots=True)
class Run:
    """What became of a seed. seconds: virtual ones. finding: what it has violated, if anything."""

    seed: int
    steps: int
    seconds: float
    finding: Finding | None


class Character:
    """How long things take in one run, and what does not come at all."""

    def __init__(self, seed: int, seeded: Seeded) -> None:
        self._name: Final = str(seed)
        self._seeded: Final = seeded
        self._delays: Final = self._stream("delays")
        self._calls_come: Final = self._stream("calls").one(COMES)
        self._faults_strike: Final = self._stream("faults").one(STRIKES)
        # Whether each thing is as slow as all of its kind, or one by one.
        self._one_by_one: Final = self._stream("grain").strikes(0.5)
        self._slowness: Final[dict[str, float]] = {}
        self._comes: Final[dict[str, bool]] = {}

    def comes(self, row: GroundRow) -> bool:
        """Whether the row is to fire at all. What fairness promises always does."""
        if not row.layer and row.row.is_fair:
            return True
        name = str(row)
        if name not in self._comes:
            often = self._calls_come if isinstance(row.row.on, Call) else self._faults_strike
            self._comes[name] = self._stream(f"comes/{name}").strikes(often)
        return self._comes[name]

    def delay(self, happening: Happening) -> float:
        """How long it takes from when it has become possible; in seconds."""
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


class World:
    """The live ends under one interpretation of the rigid symbols and one assumption."""

    def __init__(self, fairness: Fairness, cluster: Cluster, checker: PropertyChecker) -> None:
        self.fairness: Final = fairness
        self.cluster: Final = cluster
        self.checker: Final = checker
        self._known: Final[dict[tuple[int, int], tuple[tuple[GroundRow, ...], Rows]]] = {}

    def possible(self) -> Rows:
        """The rows that can fire and would change something."""
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
    """Of several rows on one trigger those of the first that an end tries. In a table that answers
    each trigger in one way there is no other; a defect may bring one.
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

    seeded: makes a generator of a name, as `random.Random` does. properties: the names of those to
    ask for; empty asks for all. at_once, stores: see `pdproto.testing.ends.make_ends`.
    """

    def __init__(
        self, system: System, configuration: Configuration, seeded: Seeded, *,
        properties: frozenset[str] = frozenset(), at_once: Pacing | None = None,
        stores: frozenset[str] = frozenset(),
    ) -> None:
        self.system: Final = system
        self.configuration: Final = configuration
        self._seeded: Final = seeded
        self._properties: Final = properties
        self._at_once: Final = at_once
        self._stores: Final = stores
        self._given: Final[list[Interpretation]] = list(
            interpretations(system, configuration.sizes, configuration))
        self._worlds: Final[dict[tuple[int, Fairness], World]] = {}
        self._assumptions: Final = self._world(0, Fairness.TIMERS).checker.assumptions()

    def run(
        self, seed: int, on_row: Callable[[float, GroundRow], None] = lambda _at, _row: None
    ) -> Run:
        """The run of this seed: the same each time. on_row: is told what fires, and when, until the
        run is brought to rest.
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
        return Run(seed, clocked.steps, clocked.now, finding)

    def first_violation(self, seeds: Iterable[int]) -> Run | None:
        """The first of the runs of these seeds that violates something."""
        return next((run for run in map(self.run, seeds) if run.finding is not None), None)

    def cut_down(self, run: Run) -> Finding:
        """What the run has violated, after as few steps as were found to suffice.

        Raises ValueError for a run that has violated nothing.
        """
        if run.finding is None:
            raise ValueError(f"{self.system.name}, seed {run.seed}: nothing was violated")
        self.run(run.seed)
        world = self._world_of(run.seed)
        return shrink(ViolationError(run.finding), world.cluster, world.checker,
                      world.fairness).finding

    def _world_of(self, seed: int) -> World:
        fairness = self._assumptions[seed % len(self._assumptions)]
        return self._world(seed // len(self._assumptions) % len(self._given), fairness)

    def _world(self, number: int, fairness: Fairness) -> World:
        """The ends of one topology under one assumption; they are made once."""
        known = self._worlds.get((number, fairness))
        if known is None:
            ground = ground_for(self.system, self.configuration, self._given[number], fairness)
            known = self._worlds[number, fairness] = World(
                fairness, Cluster(ground, at_once=self._at_once, stores=self._stores),
                PropertyChecker(ground, self._properties))
        return known


class Clocked:
    """A run under way. now: in virtual seconds."""

    def __init__(
        self, world: World, character: Character, on_row: Callable[[float, GroundRow], None]
    ) -> None:
        self.now = 0.0
        self.steps = 0
        self._world: Final = world
        self._character: Final = character
        self._on_row: Final = on_row
        self._due: dict[object, float] = {}

    def go(self) -> None:
        """Until nothing is left to happen, or it has gone on for long enough.

        Raises ViolationError for a property that does not hold, and DivergenceError for an end that
        does what the tables do not allow.
        """
        cluster, checker = self._world.cluster, self._world.checker
        cluster.begin()
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
        """What could happen and would change something, by what tells it apart."""
        for row in self._world.possible():
            if self._character.comes(row):
                yield id(row), row
        for end, cell in self._world.cluster.unheard():
            yield (end.name, cell), (end, cell)
