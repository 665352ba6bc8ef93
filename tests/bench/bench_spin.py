"""SPIN on a model that we export: its states and its speed, beside ours.

    python -m tests.bench.bench_spin [PARTICIPANTS]

prints what SPIN does with two-phase commit (default: 9 participants, 10,340,352 states). SPIN has
its usual settings for such a run: full states, depth first, one process, and a hash table that is
large from the start (-w24), so that no time goes into growing it.
"""

import sys
from typing import Final

from pdproto.check.opinions.promela import promela
from pdproto.check.opinions.spin import SpinRun, available, spin
from pdproto.ground.grounding import Ground
from pdproto.spec.examples.two_phase_commit import SYSTEM, Participant

TABLE_BITS: Final = 24


def two_phase_commit(participants: int = 9) -> SpinRun:
    """SPIN on two-phase commit."""
    return spin(promela(Ground(SYSTEM, {Participant: participants})), table_bits=TABLE_BITS)


def main() -> int:
    """Print one line; exit status 2 where SPIN is missing."""
    if not available():
        print("bench_spin: install spin and gcc first", file=sys.stderr)  # noqa: T201
        return 2
    participants = int(sys.argv[1]) if len(sys.argv) > 1 else 9
    run = two_phase_commit(participants)
    print(  # noqa: T201 - this is a command
        f"SPIN, two-phase commit, {participants} participants: {run.states:,} states "
        f"in {run.seconds:.2f} s ({run.processor_seconds:.2f} s of a core), "
        f"{run.states / run.seconds / 1e6:.2f} M states/s, "
        f"{run.mib * 2**20 / run.states:.0f} bytes/state"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
