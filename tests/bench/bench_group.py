"""What it costs to decide as a group: requests/s and latency, by the number of ranks.

    python -m tests.bench.bench_group [REQUESTS]

All ranks are nodes of one process, with sockets and threads of their own, so that one interpreter
does the work of all: a group of real processes shares it out. Every rank votes as soon as it can,
and its transfer ends at once; a request takes an admission and a release, each decided from the
votes of all ranks. Prints requests/s with many in flight, and the median and 99th percentile of the
time from submission to answer with one in flight, each the median of interleaved runs.
"""

import sys
import tempfile
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, sleep
from typing import Final

from tests.group.groups import Ranks, ranks

REQUESTS: Final = 400
ROUNDS: Final = 3
IN_FLIGHT: Final = 64
POLL_S: Final = 0.0005
RANKS: Final = (1, 2, 4)


def turn(group: Ranks) -> None:
    """A turn of every scheduler; then the threads of the nodes have the interpreter."""
    for scheduler in group.schedulers:
        scheduler.turn()
    sleep(POLL_S)


def many(group: Ranks, requests: int) -> float:
    """Requests answered a second, with IN_FLIGHT of them open at any time."""
    group.answered.clear()
    submitted = 0
    began = perf_counter()
    while len(group.answered) < requests:
        while submitted < requests and submitted - len(group.answered) < IN_FLIGHT:
            group.submit(submitted)
            submitted += 1
        turn(group)
    assert all(request.answer and request.answer.served for request in group.answered)
    return requests / (perf_counter() - began)


def one(group: Ranks, requests: int) -> list[float]:
    """Seconds from submission to answer, one request after the other."""
    seconds = []
    for room in range(requests):
        began = perf_counter()
        request = group.submit(room)
        while request.answer is None:
            turn(group)
        seconds.append(perf_counter() - began)
    return seconds


def main(requests: int) -> int:
    rates: dict[int, list[float]] = {count: [] for count in RANKS}
    waits: dict[int, list[float]] = {count: [] for count in RANKS}
    for _ in range(ROUNDS):
        for count in RANKS:
            with (tempfile.TemporaryDirectory() as folder,
                  ranks(Path(folder), count, slots=IN_FLIGHT) as group):
                group.until_answered(group.submit(0))  # all ranks are there
                rates[count].append(many(group, requests))
                waits[count] += one(group, requests // 4)
    print(f"ranks  requests/s ({IN_FLIGHT} in flight)  ms to an answer, median  p99")  # noqa: T201 - this is a command
    for count in RANKS:
        p99 = quantiles(waits[count], n=100)[98]
        print(f"{count:5}  {median(rates[count]):10,.0f}                "  # noqa: T201
              f"{median(waits[count]) * 1e3:23.2f}  {p99 * 1e3:.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS))
