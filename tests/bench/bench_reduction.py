"""How many rows a partial-order reduction would leave out, in each system of the hand-over.

    python -m tests.bench.bench_reduction

explores each system at its first size, up to 100,000 states, without symmetry, and looks at 100
states, evenly spread. It prints a table: the moving rows of a state, the share of them that a
smallest stubborn set keeps, and the share of states in which it leaves a row out; if only deadlocks
matter, and if the properties matter. Where no state has fewer, a reduced search gains nothing; how
many states it would visit elsewhere is not measured.
"""

import sys
from dataclasses import dataclass
from typing import Final

import numpy as np

from pdproto.check.explore import Reductions, SearchLimits, explore, program
from pdproto.check.load import load
from pdproto.check.questions import questions
from pdproto.check.rigid import interpretations
from pdproto.cli.systems import BUILT_IN
from pdproto.ground.grounding import ground_for
from pdproto.spec.catalogue import HANDOFF
from pdproto.spec.language.properties import Fairness
from tests.bench.stubborn import StubbornSets, moving

STATES_MAX: Final = 100_000
LOOKED_AT: Final = 100


@dataclass(frozen=True, slots=True)
class Share:
    """rows: of the moving rows, the share that is kept. smaller: the share of states with less."""

    rows: float
    smaller: float

    def __str__(self) -> str:
        return f"{self.rows:.0%} | {self.smaller:.0%}"


def share(sets: StubbornSets, states: list[int], visible: int = 0) -> Share:
    """The part of these states' rows that the sets leave."""
    every = [moving(sets.rows, state).bit_count() for state in states]
    kept = [sets.smallest(state, visible).bit_count() for state in states]
    smaller = sum(few < all_ for few, all_ in zip(kept, every, strict=True))
    return Share(sum(kept) / max(sum(every), 1), smaller / len(states))


def line(name: str) -> str:
    """The line of the table for one system."""
    system = load(BUILT_IN[name])
    configuration = next(iter(system.configurations.values()))
    given = next(interpretations(system, configuration.sizes, configuration))
    ground = ground_for(system, configuration, given, Fairness.TIMERS)
    asked = tuple(questions(ground))
    found = explore(ground, reductions=Reductions(dead_bits=configuration.dead_bits),
                    limits=SearchLimits(states_max=STATES_MAX), keep_going=True)
    form = program(ground, asked)
    seen = 0
    for guard in (*form.patterns, *form.final):
        seen |= guard.reads
    places = np.linspace(0, found.engine.states - 1, LOOKED_AT).astype(int).tolist()
    states = [found.engine.state(found.engine.identity(place)) for place in places]
    found.engine.close()
    mean = sum(moving(form.rows, state).bit_count() for state in states) / len(states)
    sets = StubbornSets(form.rows)
    visible = sets.writers_of(seen)
    return (f"| `{name}` | {len(form.rows)} | {len(form.rows) - visible.bit_count()} "
            f"| {mean:.1f} | {share(sets, states)} | {share(sets, states, visible)} |")


def main() -> int:
    """Print the table."""
    print("| system | rows | which no property sees | moving | deadlocks: rows kept "  # noqa: T201
          "| states with fewer | properties: rows kept | states with fewer |")
    print("|---" * 8 + "|")  # noqa: T201
    for name in HANDOFF:
        print(line(name), flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
