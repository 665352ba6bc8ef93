"""What people wait for: whole commands, imports included.

    python -m tests.bench.bench_answers
    python -m tests.bench.bench_answers --first PYTHON    # such as that of `make test-wheel`

prints the wall time of first answers on small systems, of a large reduced one, and of liveness.
--first: only the first answer on the system of the tutorial, by the pdproto of that interpreter.
"""

import argparse
import os
import re
import subprocess
import sys
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Final

RUNS: Final = 3
FIRST_RUNS: Final = 10
TUTORIAL: Final = Path(__file__).resolve().parents[2] / "docs/tutorial/check-your-own-protocol.md"
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


def first_answer(python: str) -> str:
    """A line: wall and processor seconds of `pdproto check vote.py:SYSTEM` without a cache."""
    found = re.search(r"```python\n(# vote\.py\n.*?)```", TUTORIAL.read_text(encoding="utf-8"),
                      re.DOTALL)
    assert found is not None
    walls, cores = [], []
    with TemporaryDirectory() as folder:
        (Path(folder) / "vote.py").write_text(found[1], encoding="utf-8")
        for _ in range(FIRST_RUNS):
            before, began = os.times(), perf_counter()
            done = subprocess.run(
                [python, "-m", "pdproto.cli.main", "check", "vote.py:SYSTEM", "--no-cache"],
                cwd=folder, check=True, capture_output=True, text=True,
            )  # fmt: skip
            walls.append(perf_counter() - began)
            after = os.times()
            cores.append(after.children_user + after.children_system
                         - before.children_user - before.children_system)
            assert "HOLDS  41 states" in done.stdout
    return "; ".join(f"{what} {min(times):.2f} s at best, {median(times):.2f} s in the median"
                     for what, times in (("wall", walls), ("processor", cores)))


def main() -> int:
    """Print one line a command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--first", metavar="PYTHON")
    python = parser.parse_args().first
    line = first_answer(os.path.abspath(python or sys.executable))
    print(f"pdproto check vote.py:SYSTEM (the tutorial): {line}", flush=True)  # noqa: T201
    for command in () if python else COMMANDS:
        print(f"{seconds(command):7.2f} s  pdproto check {command}", flush=True)  # noqa: T201
    return 0


if __name__ == "__main__":
    sys.exit(main())
