"""The oracle's answer about a system: counts, and the verdict on each property."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from pdproto.spec.language.properties import Fairness, LeadsTo, Sometimes
from pdproto.spec.language.system import Configuration, System
from tests.oracle.above import jointly, refinements
from tests.oracle.fair import broken_instances, is_ever_pending
from tests.oracle.interpreter import Given, Interpreter
from tests.oracle.orbits import orbits
from tests.oracle.search import DEADLOCK, Graph, Questions, TooManyError, Verdict, worlds

WORLDS_MAX = 10


@dataclass
class World:
    """One interpretation of the rigid relations, with the graph of each network that was asked
    for.
    """

    system: System
    configuration: Configuration
    given: Given
    most: int
    graphs: dict[Fairness, Graph] = field(default_factory=dict)

    def graph(self, fairness: Fairness = Fairness.TIMERS) -> Graph:
        """The graph of the network and the timers of this assumption."""
        if fairness is Fairness.DETECTORS:
            fairness = Fairness.TIMERS
        if fairness not in self.graphs:
            reader = Interpreter(self.system, self.configuration.sizes, self.configuration.faults,
                                 self.given, fairness)
            self.graphs[fairness] = Graph(reader).explore(self.most)
        return self.graphs[fairness]


@dataclass
class Answer:
    """The counts and verdicts, summed over the interpretations.

    stuck: the number of deadlocks. broken: of each `leads_to`, the assumptions that do not help.
    """

    worlds: list[World]
    states: int = 0
    transitions: int = 0
    depth: int = 0
    stuck: int = 0
    orbits: int = 0  # states that differ in more than the names of elements
    fired: Counter[str] = field(default_factory=Counter)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    broken: dict[str, set[Fairness]] = field(default_factory=dict)
    pending: dict[str, bool] = field(default_factory=dict)


def answer(system: System, configuration: Configuration, most: int) -> Answer:
    """Explore the system. Raises TooManyError above `most` states of one interpretation, and for
    many interpretations.
    """
    found = worlds(system, configuration)
    if len(found) > WORLDS_MAX:
        raise TooManyError
    whole = Answer([World(system, configuration, alike[0], most) for alike in found])
    for world in whole.worlds:
        graph = world.graph()
        whole.states += len(graph.depth)
        whole.transitions += graph.transitions
        whole.depth = max(whole.depth, *graph.depth.values(), 0)
        whole.fired += graph.fired
        whole.orbits += orbits(graph)
    for name in Questions(whole.worlds[0].graph()).names() if found else ():
        is_witness = any(isinstance(p, Sometimes) and p.name == name for p in system.properties)
        whole.verdicts[name] = _jointly(
            [Questions(world.graph()).verdict(name) for world in whole.worlds], is_witness)
    stuck = [graph.depth[state] for world in whole.worlds for graph in [world.graph()]
             for state in graph.depth if graph.is_stuck(state)]
    whole.stuck = len(stuck)
    whole.verdicts[DEADLOCK] = Verdict(bool(stuck), min(stuck, default=None))
    for name, refines in refinements(system.properties).items() if found else ():
        whole.verdicts[name] = _jointly(
            [jointly(world.graph(), refines) for world in whole.worlds], is_witness=False)
    for claim in system.properties:
        if isinstance(claim, LeadsTo):
            _live(whole, claim)
    return whole


def _jointly(verdicts: Sequence[Verdict], is_witness: bool) -> Verdict:
    """One violation decides, and so does one witness of a `sometimes`."""
    lengths = [v.length for v in verdicts if v.length is not None]
    return Verdict(is_witness == (not lengths), min(lengths, default=None),
                   all(v.vacuous for v in verdicts))


def _live(whole: Answer, claim: LeadsTo) -> None:
    whole.broken[claim.name] = {
        fairness for fairness in claim.under
        if any(broken_instances(world.graph(fairness), claim, fairness)
               for world in whole.worlds)}
    whole.pending[claim.name] = any(is_ever_pending(world.graph(fairness), claim)
                                    for world in whole.worlds for fairness in claim.under)


