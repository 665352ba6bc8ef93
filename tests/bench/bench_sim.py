"""The simulator's speed and size: hand-overs a second with every check on, and what many take.

    python -m tests.bench.bench_sim [RUNS | servers]

The first: 16 servers of each side, 10,000 requests of one chunk each (the shortest hand-over), then
of one to three, and then one server of each side, whose batches carry more; the median and best of
RUNS runs (default: 3), in seconds of the processor, as other load disturbs a clock. A loop of plain
additions is timed beside it, so that machines can be compared. The second: 500 servers of each side
with 100,000 hand-overs open at once, all of which then come to their end, in a process of its own;
its largest size is told. `servers`: only how a hand-over's time grows with the servers of a side.
"""

import gc
import resource
import subprocess
import sys
import time
from random import Random
from statistics import median
from typing import Any, Final

from lab.sim.cluster import Cluster, simulate
from lab.sim.plan import Shape, planned
from tests.bench.bench_peers import exponent

RUNS: Final = 3
GOAL_PER_S: Final = 5_000
GOAL_BYTES: Final = 4 << 30
SHORT: Final[dict[str, Any]] = {
    "prefill": 16, "decode": 16, "requests": 10_000, "rate": 50_000.0, "pages": 4_096,
    "slots": 2_048, "buffers": 2_048, "turn_s": 0.002, "forward_s": 0.0001, "chunks": 1,
}
SERVERS: Final = (16, 50, 100)  # of each side
OPEN: Final = 100_000
MANY: Final[dict[str, Any]] = {
    "prefill": 500, "decode": 500, "requests": OPEN, "rate": 1e6, "skew_s": 0.0, "chunks": 1,
    "pages": 2_048, "slots": 1_024, "buffers": 1_024, "turn_s": 0.01, "forward_s": 0.0001,
    "generate_s": 1e-3, "allocation_s": 1e-3, "write_s": 2.0, "writes": 1_024,
    "sign_of_life_s": 20.0, "silent_s": 100.0, "waits": {},
}


def measured(shape: dict[str, Any]) -> tuple[float, float]:
    """Hand-overs a second of one run, and steps of each hand-over."""
    plan = planned(0, Shape(**shape), Random)
    gc.collect()
    began = time.process_time()
    outcome = simulate(plan, Random)
    seconds = time.process_time() - began
    if outcome.violation is not None or outcome.succeeded != len(plan.requests):
        raise AssertionError(f"the run has failed: {outcome.violation}")
    return outcome.succeeded / seconds, outcome.steps / outcome.succeeded


def additions_per_s() -> float:
    """How fast this machine is at the moment."""
    began, total = time.process_time(), 0
    for number in range(3_000_000):
        total += number
    return 3_000_000 / (time.process_time() - began)


def many() -> None:
    """In a process of its own: 1,000 nodes, and how many hand-overs were open at the most."""
    plan = planned(0, Shape(**MANY), Random)
    cluster = Cluster(plan, Random)
    most = 0

    def look() -> None:
        nonlocal most
        nodes = [node for server in cluster.servers.values() for node in server.nodes]
        most = max(most, sum(len(node.lives) for node in nodes) // 2)
        if cluster.event_queue.now < 10.0:
            cluster.event_queue.after(0.1, look)

    cluster.event_queue.at(0.0, look)
    began = time.process_time()
    outcome = cluster.run()
    seconds = time.process_time() - began
    size = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    if outcome.violation is not None:
        raise AssertionError(f"the run has failed: {outcome.violation}")
    print(f"{len(cluster.servers):,} nodes, {most:,} hand-overs open at once, "  # noqa: T201
          f"{outcome.succeeded:,} of {len(plan.requests):,} to Success: {size / 2**30:.2f} GiB, "
          f"{seconds:.0f} s of the processor; goal {GOAL_BYTES / 2**30:.0f} GiB")


def servers() -> None:
    """The time of a hand-over by the number of servers, and the exponent of its growth."""
    found = []
    measured({**SHORT, "requests": 500})  # the automata are discovered once
    for count in SERVERS:
        speed, _ = measured({**SHORT, "prefill": count, "decode": count})
        found.append((count, 1e6 / speed))
        print(f"{count} x {count} servers: {speed:,.0f} hand-overs/s/core, "  # noqa: T201
              f"{1e6 / speed:,.0f} us each")
    print(f"growth with servers: {exponent(found):.2f}")  # noqa: T201


def main(arguments: list[str]) -> int:
    """Print what was measured; 1 if a goal is missed."""
    if arguments == ["servers"]:
        servers()
        return 0
    if arguments == ["many"]:
        many()
        return 0
    runs = int(arguments[0]) if arguments else RUNS
    best = 0.0
    for name, shape in (("one chunk", SHORT), ("1 to 3 chunks", {**SHORT, "chunks": 3}),
                        ("one chunk, 1 server a side", {**SHORT, "prefill": 1, "decode": 1})):
        measured({**shape, "requests": 500})  # the automata are discovered once
        results = [(measured(shape), additions_per_s()) for _ in range(runs)]
        speeds = [speed for (speed, _), _ in results]
        (_, steps), _ = results[0]
        machine = median(additions for _, additions in results)
        print(f"{name}: {median(speeds):,.0f} hand-overs/s/core (best {max(speeds):,.0f}), "  # noqa: T201
              f"{steps:.1f} steps each, each checked; the machine: {machine / 1e6:.1f} M "
              f"additions/s; goal {GOAL_PER_S:,}")
        best = max(best, median(speeds))
    status = subprocess.run([sys.executable, "-m", __spec__.name, "many"], check=False).returncode
    return int(best < GOAL_PER_S or status != 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
