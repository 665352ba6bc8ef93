"""What people wait for: whole commands, imports included.

    python -m tests.bench.bench_answers

prints the wall time of first answers on small systems, of a large reduced one, and of liveness.
"""

import subprocess
import sys
from statistics import median
from time import perf_counter
from typing import Final

RUNS: Final = 3
COMMANDS: Final = (
    "two-phase-commit",
    "lock-server",
    "lock-server-broken",
    "ring-election",
    "two-phase-commit --size Participant=9 --symmetry",
    "two-phase-commit --size Participant=30 --symmetry --property agreement",
    "two-phase-commit --size Participant=9 --property agreement",
    "two-phase-commit --size Participant=7 --property a_decision_arrives",
)


def seconds(command: str) -> float:
    """The median wall time of the command, start-up included."""
    times = []
    for _ in range(RUNS):
        began = perf_counter()
        subprocess.run(
            [sys.executable, "-m", "pdproto.cli.main", "check", *command.split(), "--quiet"],
            check=False, capture_output=True,
        )
        times.append(perf_counter() - began)
    return median(times)


def main() -> int:
    """Print one line a command."""
    for command in COMMANDS:
        print(f"{seconds(command):7.2f} s  pdproto check {command}", flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
