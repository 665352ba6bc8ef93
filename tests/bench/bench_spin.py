"""SPIN on a model that we export: its states and its speed, beside ours.

    python -m tests.bench.bench_spin [PARTICIPANTS]

prints what SPIN does with two-phase commit (default: 9 participants, 10,340,352 states). SPIN has
its usual settings for such a run: full states, depth first, one process, and a hash table that is
large from the start (-w24), so that no time goes into growing it.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from resource import RUSAGE_CHILDREN, getrusage
from time import perf_counter
from typing import Final

from pdproto.check.promela import promela
from pdproto.ground.grounding import Ground
from pdproto.spec.examples.two_phase_commit import SYSTEM, Participant

COMPILER: Final = ("gcc", "-O2", "-DSAFETY", "-DNOREDUCE", "-o", "pan", "pan.c")
DEPTH_MAX: Final = 10_000  # steps of one path; our examples need a few dozen


@dataclass(frozen=True, slots=True)
class SpinRun:
    """What `pan` reports. seconds: of the search alone, by the clock; mib: all its memory.

    processor_seconds: what the search used of one core, which other load disturbs less.
    """

    states: int
    transitions: int
    errors: int
    seconds: float
    processor_seconds: float
    mib: float


def available() -> bool:
    """Whether SPIN and a C compiler are installed."""
    return all(shutil.which(tool) for tool in ("spin", "gcc"))


def spin(model: str, *, table_bits: int = 24) -> SpinRun:
    """Compile a Promela model and search it. table_bits: 2 to this power hash slots.

    Raises subprocess.CalledProcessError if SPIN, the compiler or the search fails, and ValueError
    if the search was cut short.
    """
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "model.pml").write_text(model, encoding="utf-8")
        for command in (("spin", "-a", "model.pml"), COMPILER):
            subprocess.run(command, cwd=folder, check=True, capture_output=True)
        command = ("./pan", f"-m{DEPTH_MAX}", f"-w{table_bits}")
        used, began = _processor_seconds(), perf_counter()
        done = subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
        seconds, used = perf_counter() - began, _processor_seconds() - used
    if "max search depth too small" in done.stdout:
        raise ValueError(f"SPIN's search needs paths of more than {DEPTH_MAX:,} steps")
    return SpinRun(
        states=int(_number(r"(\S+) states, stored", done.stdout)),
        transitions=int(_number(r"(\S+) transitions", done.stdout)),
        errors=int(_number(r"errors: (\S+)", done.stdout)),
        seconds=seconds,
        processor_seconds=used,
        mib=_number(r"(\S+)\s+total actual memory usage", done.stdout),
    )


def _processor_seconds() -> float:
    """Of all child processes that have ended."""
    usage = getrusage(RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _number(pattern: str, report: str) -> float:
    found = re.search(pattern, report)
    if found is None:
        raise ValueError(f"SPIN's report has no {pattern!r}:\n{report}")
    return float(found[1])


def two_phase_commit(participants: int = 9) -> SpinRun:
    """SPIN on two-phase commit."""
    return spin(promela(Ground(SYSTEM, {Participant: participants})))


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
