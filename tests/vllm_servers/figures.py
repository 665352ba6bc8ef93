"""Numbers of real vLLM servers that a cell compares: histograms, threads and open files."""

import os
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from examples.servers.serving import Server
from examples.vllm_servers.serving import gauge

STEPS: Final = ("pdproto_scheduler_step", "pdproto_worker_step")
MILLISECOND: Final = 'le="0.001"'


def steps(server: Server) -> dict[str, float]:
    """How many steps each histogram of a server has, by name; names without a step are left out."""
    return {step: every for step in STEPS if (every := gauge(server, f"{step}_seconds_count"))}


def within_a_millisecond(server: Server, name: str) -> float:
    """The share of a histogram of seconds that is at most a millisecond."""
    lines = str(server.get("/metrics")).splitlines()
    within = sum(float(line.split()[-1]) for line in lines
                 if line.startswith(f"vllm:{name}_bucket") and MILLISECOND in line)
    return within / gauge(server, f"{name}_count")


class Size(NamedTuple):
    """The threads and the open files of a server's engine processes together."""

    threads: int
    files: int

    def is_within(self, other: "Size", more: int) -> bool:
        """Whether it has at most so many more of either."""
        return all(ours <= theirs + more for ours, theirs in zip(self, other, strict=True))


def size_of(server: Server) -> Size:
    """All processes of the server but its first, which has a connection for each client."""
    engine = [pid for pid in server.processes() if pid != server.pid]
    return Size(sum(_entries(pid, "task") for pid in engine),
                sum(_entries(pid, "fd") for pid in engine))


def _entries(pid: int, folder: str) -> int:
    with suppress(OSError):  # it has ended meanwhile
        return len(os.listdir(Path("/proc") / str(pid) / folder))
    return 0
