"""Hypothesis state machines made from tables: whole clusters with every fault of the tables.

    from pdproto.testing.machine import Fuzzer
    Fuzzer(SYSTEM, SYSTEM.configurations["default"]).run()

The Hypothesis rules are the kinds of trigger and the faults. The guards of the rows decide which
rules are enabled and what they do. Each step acts on the live ends (cluster.py). Messages are
delivered late, again, in any order or never, because the rows on them stay enabled. The machine
checks all safety properties after every step. At the end of a run it lets all fair rows fire until
nothing changes, and checks all liveness properties (property_checker.py).

Random walks end early, because a row that gives up can nearly always fire. So an exploration counts
first in how many states each row can fire. Rare rows are more likely in every choice, and every
second run begins with a shortest path to a rare row (pre_exploration.py).

A failing run is shortened (shrink.py) and printed as the checker prints its traces. Below it
Hypothesis prints a blob that replays it.
"""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from hypothesis import HealthCheck, Phase, __version__, reproduce_failure, settings, target
from hypothesis import seed as seeded
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from pdproto.check.result import Finding
from pdproto.ground.grounding import GroundRow
from pdproto.spec.language.machine import Call, Completion, Timer
from pdproto.spec.language.properties import Fairness
from pdproto.spec.language.symbols import Sent
from pdproto.spec.language.system import Configuration, System
from pdproto.testing.cluster import Cluster, DivergenceError
from pdproto.testing.pre_exploration import PreExploration
from pdproto.testing.property_checker import PropertyChecker, ViolationError, is_safety_net
from pdproto.testing.world import World, Worlds

# shrink.py shortens a run, and not Hypothesis: it knows that rows are steps, and is far faster.
RUN: Final = settings(
    deadline=None,
    print_blob=True,
    stateful_step_count=30,
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
    phases=tuple(phase for phase in Phase if phase not in (Phase.shrink, Phase.explain)),
)
STRIDE: Final = 4  # steps in one rule: drawing a number takes longer than a step
PICK: Final = st.integers(0, 255)
HALF: Final = 128  # of the numbers of PICK
PICKS: Final = st.integers(0, (1 << 8 * STRIDE) - 1)

Choices: TypeAlias = Mapping[str, Sequence[GroundRow]]


@dataclass(frozen=True, slots=True)
class Report:
    """The counts of all runs of a machine.

    fired: how often each row fired. never: the rows that never fired.
    """

    system: str
    runs: int
    fired: Mapping[str, int]
    never: tuple[str, ...]

    @property
    def steps(self) -> int:
        """The number of rows that fired in all runs."""
        return sum(self.fired.values())

    def __str__(self) -> str:
        share = f"{len(self.fired)} of {len(self.fired) + len(self.never)} rows fired"
        missing = f"; never: {', '.join(self.never)}" if self.never else ""
        return f"{self.system}: {self.runs:,} runs, {self.steps:,} steps, {share}{missing}"


REPORTS: Final[list[Report]] = []  # all reports of this process, for the summary of a test run


class FuzzedWorld(World):
    """A world whose rare rows are known."""

    def __init__(self, cluster: Cluster, checker: PropertyChecker, fairness: Fairness) -> None:
        super().__init__(cluster, checker, fairness)
        self.pre_exploration: Final = PreExploration(cluster.ground)
        self._cut: Final[dict[tuple[int, ...], ViolationError]] = {}
        self._known: Final[dict[int, tuple[tuple[GroundRow, ...], int, Choices]]] = {}

    def cut_down(self, error: DivergenceError | ViolationError) -> ViolationError:
        """Hypothesis runs into a failure several times, and needs the same error each time."""
        key = tuple(id(move.row) for move in self.cluster.moves)
        if key not in self._cut:
            self._cut[key] = super().cut_down(error)
        return ViolationError(self._cut[key].finding)

    def choices(self) -> Choices:
        """The enabled rows by kind, the rarest first.

        The kind "onward" has all rows that change the state, "idle" all that do not: a repeated or
        an ignored event.
        """
        enabled, state = self.cluster.enabled(), self.cluster.state
        known = self._known.get(id(enabled))
        if known is None or known[0] is not enabled or known[1] != state:
            known = self._known[id(enabled)] = enabled, state, self._sorted(enabled, state)
        return known[2]

    def _sorted(self, enabled: tuple[GroundRow, ...], state: int) -> Choices:
        found: dict[str, list[GroundRow]] = {}
        # Under Fairness.DETECTORS no clock of a safety net runs out.
        nets = self.fairness is not Fairness.DETECTORS
        for row in sorted(enabled, key=lambda row: self.pre_exploration.rarity[str(row)]):
            if not nets and is_safety_net(row):
                continue
            if row.action.apply(state) == state:
                found.setdefault("idle", []).append(row)
            else:
                found.setdefault("onward", []).append(row)
                found.setdefault(kind_of(row), []).append(row)
        return found


def kind_of(row: GroundRow) -> str:
    """The kind of event that makes the row fire, as the name of a rule of ClusterMachine."""
    if row.layer:
        return "fault"
    match row.row.on:
        case Sent():
            return "delivery"
        case Call():
            return "call"
        case Timer():
            return "clock"
        case Completion():
            return "report"
        case _:
            return "step"


class Fuzzer:
    """Fuzzes live ends with the triggers and faults of a system. ends: options of `Worlds`."""

    def __init__(self, system: System, configuration: Configuration, **ends: Any) -> None:
        self.system: Final = system
        self.configuration: Final = configuration
        self.worlds: Final = Worlds(FuzzedWorld, system, configuration, **ends)
        self.fired: Final[Counter[str]] = Counter()
        self.assumed: Final[set[Fairness]] = set()  # in the runs so far
        self.count = 0
        ground = self.worlds.chosen(0, 0).cluster.ground
        self.rows: Final = tuple(dict.fromkeys(
            row.row.name for row in ground.rows if row.row.kind != "reject"))

    def machine(self) -> type["ClusterMachine"]:
        """The state machine, a class that Hypothesis runs."""
        return type("ClusterMachine", (ClusterMachine,), {"fuzzer": self})

    def run(self, chosen: settings = RUN, *, seed: int | None = None) -> Report:
        """Run the machine. chosen: Hypothesis settings. seed: the same seed gives the same runs.

        Raises ViolationError for a property that a run violates, and for an end that differs from
        its tables.
        """
        try:
            return self._run(
                self.machine() if seed is None else seeded(seed)(self.machine()), chosen)
        finally:
            REPORTS.append(self.report())

    def replay(self, blob: str, chosen: settings = RUN) -> Report:
        """Run a failing run again.

        blob: as printed with the failure; `ViolationError.blob` has it too. Raises ViolationError
        again, unless the tables or the code have changed.
        """
        return self._run(reproduce_failure(__version__, blob.encode())(self.machine()), chosen)

    def _run(self, machine: type["ClusterMachine"], chosen: settings) -> Report:
        try:
            run_state_machine_as_test(machine, settings=chosen)
        except ViolationError as error:
            error.blob = _blob(error)
            if error.blob:  # a replay has none
                error.add_note(f"Fuzzer.replay({error.blob!r}) runs it again.")
            raise
        return self.report()

    def report(self) -> Report:
        """The counts of all runs so far."""
        never = tuple(name for name in self.rows if name not in self.fired)
        return Report(self.system.name, self.count, dict(self.fired), never)

    def finding(self, chosen: settings = RUN) -> Finding | None:
        """The violation that `run` finds; None if it finds none."""
        try:
            self.run(chosen)
        except ViolationError as error:
            return error.finding
        return None


def _blob(error: ViolationError) -> str:
    """The blob in the notes that Hypothesis added to the error; empty if there is none."""
    notes = "\n".join(getattr(error, "__notes__", ()))
    said = re.search(r"reproduce_failure\('[^']*', b'([^']*)'\)", notes)
    return said.group(1) if said else ""


class ClusterMachine(RuleBasedStateMachine):
    """Takes any step that the tables allow, at any time."""

    fuzzer: Fuzzer

    def __init__(self) -> None:
        super().__init__()
        self.world = self.fuzzer.worlds.chosen(0, 0)
        self.world.cluster.begin()
        self.seen: set[str] = set()
        self.failed = False

    @initialize(topology=PICK, relying=PICK, goal=PICK, state=PICK)
    def begin(self, topology: int, relying: int, goal: int, state: int) -> None:
        """Choose the topology, the fairness assumption, and the path to a rare row, if any."""
        fuzzer = self.fuzzer
        self.world = fuzzer.worlds.chosen(topology, relying)
        fuzzer.assumed.add(self.world.fairness)
        fuzzer.count += 1
        self.act_and_check(self.world.cluster.begin)
        if goal < HALF:
            self.lead(self.world.pre_exploration.way(goal * goal / HALF**2, state / (2 * HALF)))

    def lead(self, way: Sequence[GroundRow]) -> None:
        """Fire these rows, except those that are disabled: ends that act at once may have gone on.
        """
        for row in way:
            if row in self.world.cluster.enabled():
                self.happen(row)

    def can(self, kind: str) -> bool:
        """Whether a row of this kind is enabled."""
        return kind in self.world.choices()

    def do(self, kind: str, pick: int) -> None:
        """Fire a row of this kind; rarer rows are likelier. pick: 0 to 255."""
        rows = self.world.choices().get(kind)
        if rows:
            self.happen(rows[len(rows) * pick * pick >> 16])

    def happen(self, row: GroundRow) -> None:
        """Let the row fire, and check the result. Raises ViolationError."""
        self.seen.add(row.row.name)
        self.fuzzer.fired[row.row.name] += 1
        self.act_and_check(lambda: self.world.cluster.fire(row))

    def act_and_check(self, act: Callable[[], None]) -> None:
        """Act, and check the new state. Raises ViolationError."""
        world = self.world
        try:
            act()
            world.checker.check_state(world.cluster)
        except (DivergenceError, ViolationError) as error:
            self.failed = True
            raise world.cut_down(error) from None

    @precondition(lambda self: self.can("onward"))
    @rule(picks=PICKS)
    def onward(self, picks: int) -> None:
        """A few steps that change the state. Most steps of a run are of this kind."""
        for shift in range(0, 8 * STRIDE, 8):
            self.do("onward", picks >> shift & 255)

    @precondition(lambda self: self.can("delivery"))
    @rule(pick=PICK)
    def delivery(self, pick: int) -> None:
        """A message reaches its receiver."""
        self.do("delivery", pick)

    @precondition(lambda self: self.can("call"))
    @rule(pick=PICK)
    def call(self, pick: int) -> None:
        """The application makes a call."""
        self.do("call", pick)

    @precondition(lambda self: self.can("clock"))
    @rule(pick=PICK)
    def clock(self, pick: int) -> None:
        """A clock runs out."""
        self.do("clock", pick)

    @precondition(lambda self: self.can("report"))
    @rule(pick=PICK)
    def report(self, pick: int) -> None:
        """A device reports a completion."""
        self.do("report", pick)

    @precondition(lambda self: self.can("step"))
    @rule(pick=PICK)
    def step(self, pick: int) -> None:
        """An end or an engine fires a row without a trigger."""
        self.do("step", pick)

    @precondition(lambda self: self.can("fault"))
    @rule(pick=PICK)
    def fault(self, pick: int) -> None:
        """A process dies, or the network loses a message."""
        self.do("fault", pick)

    @precondition(lambda self: self.can("idle"))
    @rule(pick=PICK)
    def nothing_new(self, pick: int) -> None:
        """A row that does not change the state: a repeated or an ignored event."""
        self.do("idle", pick)

    @precondition(lambda self: self.world.cluster.is_unheard)
    @rule(pick=PICK)
    def hearing(self, pick: int) -> None:
        """A message that triggers no row reaches an end whose guards read it."""
        cluster = self.world.cluster
        unheard = list(cluster.unheard())
        end, cell = unheard[pick % len(unheard)]
        self.act_and_check(lambda: cluster.hear(end, cell))

    @precondition(lambda self: not self.world.choices() and not self.world.cluster.is_unheard)
    @rule()
    def at_rest(self) -> None:
        """No row is enabled: Hypothesis needs a rule that can run."""

    def teardown(self) -> None:
        """The end of a run: no more faults; all fair rows fire, and liveness is checked."""
        if self.failed:
            return
        fired = self.fuzzer.fired
        target(sum(1.0 / fired[name] for name in sorted(self.seen)), label="rare rows")
        world = self.world
        try:
            world.checker.settle(world.cluster, world.fairness, self._fire)
        except (DivergenceError, ViolationError) as error:
            raise world.cut_down(error) from None

    def _fire(self, row: GroundRow) -> None:
        self.fuzzer.fired[row.row.name] += 1
        self.world.cluster.fire(row)
