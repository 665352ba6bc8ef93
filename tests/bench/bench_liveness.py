"""How much longer a check takes with liveness than without it.

    python -m tests.bench.bench_liveness [PARTICIPANTS]

explores two-phase commit (default: with 9 participants) and then checks each `leads_to`
under its assumptions, three times, on one worker. It prints both times of a core, and their sum as
a multiple of the first; the median of the multiples is the figure.
"""

import sys
from dataclasses import dataclass
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import process_time
from typing import Final

from pdproto.check.explore import explore
from pdproto.check.liveness import Liveness
from pdproto.check.questions import leads_to_instances, questions
from pdproto.ground.grounding import Ground
from pdproto.spec.examples.two_phase_commit import SYSTEM
from pdproto.spec.language.properties import LeadsTo

RUNS: Final = 3


@dataclass(frozen=True, slots=True)
class Run:
    """One check. exploring, liveness: seconds of a core. bytes: more that liveness took."""

    states: int
    exploring: float
    liveness: float
    more_bytes: int

    @property
    def multiple(self) -> float:
        """The time with liveness, as a multiple of the time without."""
        return (self.exploring + self.liveness) / self.exploring


def check(ground: Ground) -> Run:
    """Explore with the safety properties, then check liveness; all of it must hold."""
    claims = [claim for claim in ground.system.properties if isinstance(claim, LeadsTo)]
    began = process_time()
    found = explore(ground, tuple(questions(ground)), keep_going=True)
    between, before = process_time(), getrusage(RUSAGE_SELF).ru_maxrss
    liveness = Liveness(found)
    for claim in claims:
        for obligation in leads_to_instances(ground, claim):
            assert liveness.unfulfilled(obligation, claim.under) is None
    ended, after = process_time(), getrusage(RUSAGE_SELF).ru_maxrss
    run = Run(found.engine.states, between - began, ended - between, (after - before) * 1024)
    found.engine.close()
    return run


def main(arguments: list[str]) -> int:
    """Print a line for each run, and the median."""
    participants = int(arguments[0]) if arguments else 9
    ground = Ground(SYSTEM, dict.fromkeys(SYSTEM.sorts, participants))
    runs = []
    for _ in range(RUNS):
        runs.append(check(ground))
        run = runs[-1]
        print(f"{run.states:,} states: {run.exploring:.2f} s, and {run.liveness:.2f} s for "  # noqa: T201
              f"liveness, {run.multiple:.2f} times; {run.more_bytes / run.states:.1f} bytes a "
              "state more", flush=True)
    print(f"with liveness {median(run.multiple for run in runs):.2f} times as long")  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
