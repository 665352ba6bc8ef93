"""How fast the native engine searches: two-phase commit, padded to several widths.

    python -m tests.bench.bench_search [RUNS]

prints a line for each width and number of workers (default: 3 runs of each, taken in turn, each in
a process of its own). The model is the one that TLC, Stateright and SPIN are measured with: 9
participants, 10,340,352 states, here with a pattern for each of the 72 disagreements, and the
count of each row. Padding spreads its 40 bits over a wider state. One worker is pinned to a core.
"""

import json
import os
import subprocess
import sys
from dataclasses import asdict, dataclass
from resource import RUSAGE_SELF, getrusage
from statistics import median
from time import perf_counter, process_time
from typing import Final

from pdproto.check.native import NativeEngine, available
from tests.check.programs import TWO_PHASE_COMMIT_STATES, two_phase_commit

RUNS: Final = 3
PARTICIPANTS: Final = 9
CASES: Final = ((40, 1), (40, 2), (128, 1), (128, 2), (256, 1), (512, 1))  # (bits, workers)
STEP_STATES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Run:
    """One search. seconds: by the clock; processor_seconds: of all cores, which other load
    disturbs less. peak_bytes: by how much the process grew.
    """

    states: int
    transitions: int
    seconds: float
    processor_seconds: float
    peak_bytes: int


def search(bits: int, workers: int) -> Run:
    """Search the whole model in this process."""
    if workers == 1:
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    program = two_phase_commit(PARTICIPANTS, bits=bits)
    before = _peak_bytes()
    used, began = process_time(), perf_counter()
    engine = NativeEngine(program, workers=workers)
    while engine.step(STEP_STATES):
        pass
    seconds, used = perf_counter() - began, process_time() - used
    assert engine.states == TWO_PHASE_COMMIT_STATES[PARTICIPANTS]
    return Run(engine.states, int(engine.fired.sum()), seconds, used, _peak_bytes() - before)


def _peak_bytes() -> int:
    return getrusage(RUSAGE_SELF).ru_maxrss * 1024


def apart(bits: int, workers: int) -> Run:
    """Search in a process of its own, so that the peak is that of this search."""
    command = [sys.executable, "-m", __spec__.name, "--one", str(bits), str(workers)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return Run(**json.loads(done.stdout))


def report(runs: dict[tuple[int, int], list[Run]]) -> None:
    """Print the table. Rates are in millions a second."""
    titles = ("bits", "workers", "states/s best", "median", "core's time", "steps/s", "B/state")
    print("  ".join(titles))  # noqa: T201
    for (bits, workers), of_case in runs.items():
        best = min(of_case, key=lambda run: run.seconds)
        busy = min(run.processor_seconds for run in of_case)
        figures = (
            f"{bits:{len(titles[0])}}",
            f"{workers:{len(titles[1])}}",
            f"{best.states / best.seconds / 1e6:{len(titles[2])}.2f}",
            f"{best.states / median(run.seconds for run in of_case) / 1e6:{len(titles[3])}.2f}",
            f"{best.states / busy / 1e6:{len(titles[4])}.2f}",
            f"{best.transitions / best.seconds / 1e6:{len(titles[5])}.1f}",
            f"{best.peak_bytes / best.states:{len(titles[6])}.1f}",
        )
        print("  ".join(figures))  # noqa: T201
    for bits in sorted({bits for bits, workers in runs if workers == 2}):
        one, two = ([run.seconds for run in runs[bits, workers]] for workers in (1, 2))
        ratios = min(one) / min(two), median(one) / median(two)
        print(f"two workers / one, {bits} bits: best {ratios[0]:.2f}, median {ratios[1]:.2f}")  # noqa: T201


def main(arguments: list[str]) -> int:
    """Exit status: 0, or 2 if there is nothing to measure."""
    if not available():
        print("the native engine was not compiled")  # noqa: T201
        return 2
    if arguments[:1] == ["--one"]:
        print(json.dumps(asdict(search(int(arguments[1]), int(arguments[2])))))  # noqa: T201
        return 0
    runs: dict[tuple[int, int], list[Run]] = {case: [] for case in CASES}
    for _ in range(int(arguments[0]) if arguments else RUNS):
        for bits, workers in CASES:
            runs[bits, workers].append(apart(bits, workers))
    report(runs)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
