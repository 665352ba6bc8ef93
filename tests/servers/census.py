"""What a server holds: threads, files and memory of its schedulers, tokens of its KV cache."""

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from examples.sglang_servers.serving import SglangServer

MEMORY_MIB: Final = 64.0  # of growth that an allocator may keep
FILES: Final = 2  # sockets of a client library that keeps a few alive
SETTLE_S: Final = 40.0
SLOW: Final = "slow_turns_total"
SLOW_TURNS: Final = 2  # a host may delay its guest, which counts as processor time
RANKS: Final = 4  # of a server, at most


@dataclass(frozen=True, slots=True)
class Census:
    """used: tokens of the KV cache that requests hold. busy: requests in any of SGLang's queues.
    slow: turns of our loops that took over 50 ms of processor time, since the start.
    """

    threads: int
    files: int
    memory_mib: float
    used: int
    busy: int
    slow: float

    def grown(self, since: "Census") -> str:
        """What there is more of than before: "" if nothing."""
        told = []
        if self.used or self.busy:
            told.append(f"{self.used} tokens and {self.busy} requests are still held")
        if self.threads > since.threads:
            told.append(f"threads {since.threads} -> {self.threads}")
        if self.files > since.files + FILES:
            told.append(f"files {since.files} -> {self.files}")
        if self.memory_mib > since.memory_mib + MEMORY_MIB:
            told.append(f"memory {since.memory_mib:.0f} -> {self.memory_mib:.0f} MiB")
        if self.slow > since.slow + SLOW_TURNS:
            told.append(f"slow turns {since.slow:g} -> {self.slow:g}")
        return ", ".join(told)


def census(server: SglangServer) -> Census:
    slow = _slow_turns(server)  # first: its first answer begins a thread
    threads = files = 0
    memory = 0.0
    for pid in server.schedulers():
        root = Path(f"/proc/{pid}")
        threads += len(list((root / "task").iterdir()))
        files += len(list((root / "fd").iterdir()))
        memory += _private_mib((root / "smaps_rollup").read_text())
    loads = server.held()
    if not loads:
        raise OSError(f"{server.name} does not answer")
    return Census(threads, files, memory,
                  sum(load["num_used_tokens"] for load in loads), sum(map(_busy, loads)),
                  slow)


def _slow_turns(server: SglangServer) -> float:
    """Of all its ranks. Raises OSError if none answers."""
    return sum(by_rank(server, SLOW)) if server.operator is not None else 0.0


def by_rank(server: SglangServer, name: str) -> list[float]:
    """A metric of all its ranks, from their operator's ports. Raises OSError if none answers."""
    assert server.operator is not None
    told = []
    for number in range(RANKS):
        with suppress(OSError):
            told += str(replace(server, port=server.operator + number).get("/metrics")).splitlines()
    found = [float(line.split()[-1]) for line in told if line.startswith(name)]
    if not found:
        raise OSError(f"{server.name}: no operator's port from {server.operator} on answers")
    return found


def _busy(load: dict[str, Any]) -> int:
    queues = load.get("disaggregation") or {}
    return int(load["num_running_reqs"] + load["num_waiting_reqs"]
               + sum(value for name, value in queues.items() if name.endswith("_queue_reqs")))


def _private_mib(rollup: str) -> float:
    kib = (line.split() for line in rollup.splitlines())
    return sum(int(words[1]) for words in kib if words[0].startswith("Private_")) / 1024


def settled(server: SglangServer, since: Census | None = None, seconds: float = SETTLE_S) -> Census:
    """Once nothing is under way there, and nothing has grown `since`; or after these seconds."""
    end = time.monotonic() + seconds
    found = None
    while time.monotonic() < end and server.is_alive():
        with suppress(OSError):
            found = census(server)
            if not (found.grown(since) if since else found.used or found.busy):
                break
        time.sleep(0.25)
    if found is None:
        raise AssertionError(f"{server.name} does not answer: {server.tail()}")
    return found
