"""What the oracle says of a seed: whether its system is one to judge, and every difference."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.judging import judged_system
from tests.oracle.answers import Answer, answer
from tests.oracle.compare import SLOW, WAYS, Way, differences
from tests.oracle.search import TooManyError, starts
from tests.oracle.systems import draw

STATES_MAX = 400
JUDGED = "judged"


@dataclass(frozen=True)
class Judged:
    """outcome: JUDGED, or why there is no answer. traits: what is not trivial about the system."""

    seed: int
    outcome: str
    traits: tuple[str, ...] = ()
    states: int = 0
    verdicts: int = 0
    differences: tuple[str, ...] = ()


def ways_of(seed: int) -> tuple[Way, ...]:
    """The ways in which the checker is asked: the slow ones for each tenth seed."""
    return tuple(way for way in WAYS if way.name not in SLOW or seed % 10 == 0)


def judged(seed: int, ways: Sequence[Way] | None = None) -> Judged:
    """Draw the system of the seed, and ask the oracle and the checker about it."""
    ways = ways_of(seed) if ways is None else ways
    system, configuration = draw(seed)
    try:
        expected = answer(system, configuration, STATES_MAX)
    except TooManyError:
        return Judged(seed, "too many states")
    if not expected.worlds:
        return Judged(seed, "no interpretation")
    if not all(starts(world.graph().reader, STATES_MAX) for world in expected.worlds):
        return Judged(seed, "no initial state")
    found = [one for way in ways for one in differences(system, configuration, expected, way)]
    if ways:
        judged_system(seed)
    verdicts = len(expected.verdicts) + sum(
        len(world_claim.under) for world_claim in system.properties
        if hasattr(world_claim, "under"))
    return Judged(seed, JUDGED, tuple(_traits(expected)), expected.states, verdicts * len(ways),
                  tuple(found))


def _traits(found: Answer) -> Iterable[str]:
    traits = {
        "deadlock": found.stuck > 0,
        "violated": any(v.violated for name, v in found.verdicts.items() if name != "deadlock"),
        "witness": any(not v.violated and v.length is not None for v in found.verdicts.values()),
        "broken leads_to": any(found.broken.values()),
        "kept leads_to": any(not broken and found.pending[name]
                             for name, broken in found.broken.items()),
        "symmetric": found.orbits < found.states,
        "several interpretations": len(found.worlds) > 1,
        "over 20 states": found.states > 20,
    }
    return (name for name, has in traits.items() if has)


def told(found: Iterable[Judged]) -> str:
    """The numbers of a run, in words."""
    every = list(found)
    outcomes = Counter(one.outcome for one in every)
    traits = Counter(trait for one in every for trait in one.traits)
    lines = [f"{len(every):,} systems: {dict(outcomes)}",
             f"{sum(one.states for one in every):,} states, "
             f"{sum(one.verdicts for one in every):,} verdicts compared",
             ", ".join(f"{count:,} {trait}" for trait, count in traits.most_common())]
    lines += [f"seed {one.seed}: {text}" for one in every for text in one.differences]
    return "\n".join(lines)
