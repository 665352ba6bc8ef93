"""Speed under real servers: our backend and SGLang's own Mooncake over TCP, pairs in turn.

    .venv-sglang/bin/python -m tests.servers.bench --rounds 5           (make bench-servers)

Both pairs are alive; the one that is not measured is stopped (SIGSTOP), so that it takes no
processor time. Requests go to both servers at once, as a router sends them, and stream: the time to
the first token is what a client sees. Beside them stands the bound: the same servers with SGLang's
stand-in that moves nothing, asked one after the other; what a backend that takes no time would
reach. Then prefill is killed with 150 requests in flight. `--curve` measures the time to the first
token over the length of the prompt instead (curve.py).
"""

import argparse
import json
import signal
import statistics
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.servers.demo import say
from examples.sglang_servers.serving import Servers
from tests.servers import curve
from tests.servers.load import Answer, Ask, Unmoved, Way, asks, send
from tests.servers.stage import POOL, Layout, Pair, Stage

FOLDER: Final = Path("out/servers")
BACKENDS: Final = ("pdproto", "mooncake")
BOUND: Final = "nothing"  # is moved
IN_FLIGHT: Final = (1, 32, 200)
REQUESTS: Final = 200
KILLED: Final = 150  # requests in flight when prefill is killed
AFTER_S: Final = 1.5  # of them, before
PROMPTS: Final = 8  # seeds, so that no round finds the prompts of another in a cache

# The least rate of ours over theirs, by requests in flight, and the most time to the first token.
RATE: Final = {1: 1.2, 32: 1.5, 200: 2.5}
TTFT: Final = 0.7
LAST_FAILURE_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Measured:
    """Of one load: requests a second, and the time to the first token in seconds."""

    rate: float
    p50: float
    p99: float
    failed: int


def measure(way: Way, wanted: Sequence[Ask], in_flight: int) -> Measured:
    began = time.monotonic()
    answers = send(way, wanted, in_flight=in_flight, seconds=120.0, stream=True)
    seconds = time.monotonic() - began
    full = [answer for answer in answers if answer.is_full]
    first = sorted(answer.first or answer.seconds for answer in full) or [float("nan")]
    return Measured(len(full) / seconds, first[len(first) // 2], first[int(len(first) * 0.99)],
                    len(answers) - len(full))


def kill(pair: Pair, wanted: Sequence[Ask]) -> float:
    """Seconds from the kill of prefill until the last request has failed."""
    killed: list[float] = []

    def strike() -> None:
        killed.append(time.monotonic())
        pair.prefill.signal_all(signal.SIGKILL)

    timer = threading.Timer(AFTER_S, strike)
    timer.start()
    answers: list[Answer] = send(pair.both, wanted, in_flight=len(wanted), seconds=90.0)
    timer.join()
    return max((a.at - killed[0] for a in answers if not a.is_full), default=0.0)


@contextmanager
def stopped(pairs: Iterable[Pair]) -> Iterator[None]:
    """While another one is measured."""
    servers = [server for pair in pairs for server in pair.servers]
    for server in servers:
        server.signal_all(signal.SIGSTOP)
    try:
        yield
    finally:
        for server in servers:
            server.signal_all(signal.SIGCONT)
        time.sleep(0.5)  # their heartbeats


def rounds(pairs: dict[str, Pair], count: int) -> dict[str, dict[int, list[Measured]]]:
    found: dict[str, dict[int, list[Measured]]] = {
        backend: {load: [] for load in IN_FLIGHT} for backend in (*pairs, BOUND)}
    for number in range(count):
        order = [*pairs, BOUND] if number % 2 == 0 else [BOUND, *reversed(pairs)]
        for load in IN_FLIGHT:
            wanted = asks(REQUESTS, seed=100 + number % PROMPTS + 10 * load, shortest=200,
                          longest=400, new=4)
            for backend in order:
                pair = pairs.get(backend, pairs[BACKENDS[0]])
                way = Unmoved(pair.prefill.url, pair.decode.url) if backend == BOUND else pair.both
                with stopped(other for other in pairs.values() if other is not pair):
                    measured = measure(way, wanted, load)
                found[backend][load].append(measured)
                say(f"round {number + 1}  {load:3} in flight  {backend:8}  "
                     f"{measured.rate:6.1f} requests/s  TTFT p50 {measured.p50 * 1e3:6.0f} ms  "
                     f"p99 {measured.p99 * 1e3:6.0f} ms"
                     + (f"  {measured.failed} FAILED" if measured.failed else ""))
    return found


def summary(found: dict[str, dict[int, list[Measured]]], last: dict[str, float]) -> bool:
    """Medians beside each other. Returns whether what we want holds."""
    met = True
    for load in IN_FLIGHT:
        ours, theirs = (_median(found[backend][load]) for backend in BACKENDS)
        rate, ttft = ours.rate / theirs.rate, ours.p99 / theirs.p99
        holds = rate >= RATE[load] and ttft <= TTFT
        met = met and holds
        say(f"{load:3} in flight: {ours.rate:.1f} / {theirs.rate:.1f} requests/s = {rate:.2f} "
             f"(want {RATE[load]}), TTFT p99 {ours.p99 * 1e3:.0f} / {theirs.p99 * 1e3:.0f} ms = "
             f"{ttft:.2f} (want {TTFT})  {'met' if holds else 'NOT MET'}")
        bound = _median(found[BOUND][load])
        say(f"    the bound: {bound.rate:.1f} requests/s = {bound.rate / theirs.rate:.2f}, "
             f"TTFT p99 {bound.p99 * 1e3:.0f} ms = {bound.p99 / theirs.p99:.2f}")
    holds = last["pdproto"] <= LAST_FAILURE_S
    say(f"kill -9 of prefill with {KILLED} in flight: the last has failed after "
         f"{last['pdproto']:.1f} / {last['mooncake']:.1f} s (want {LAST_FAILURE_S:.0f})  "
         f"{'met' if holds else 'NOT MET'}")
    return met and holds


def _median(of: Sequence[Measured]) -> Measured:
    rate, p50, p99 = (statistics.median(values)
                      for values in zip(*((m.rate, m.p50, m.p99) for m in of), strict=True))
    return Measured(rate, p50, p99, sum(m.failed for m in of))


def ways(servers: Servers) -> curve.Ways:
    """Of the curve. SGLang's router asks both servers at once."""
    stage, flags = Stage(servers, FOLDER), ("--chunked-prefill-size", str(curve.CHUNK))

    @contextmanager
    def pair(backend: str) -> Iterator[Way]:
        yield stage.pair(Layout(backend=backend, both=flags)).both
        stage.end()

    return {curve.ALONE: lambda: curve.one_server(
                servers, stage.model(Layout().model), (*POOL, *flags)),
            "pdproto, at once": lambda: pair("pdproto"), "Mooncake": lambda: pair("mooncake")}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", metavar="FILE", help="write the numbers there")
    parser.add_argument("--curve", action="store_true", help="of the time to the first token")
    told = parser.parse_args()
    with Servers(FOLDER / "bench-log") as servers:
        if told.curve:
            curve.measure("SGLang", ways(servers), told.rounds)
            return 0
        stages = {backend: Stage(servers, FOLDER) for backend in BACKENDS}
        pairs = {backend: stage.pair(Layout(backend=backend))
                 for backend, stage in stages.items()}
        found = rounds(pairs, told.rounds)
        last = {}
        for backend, pair in pairs.items():
            with stopped(other for other in pairs.values() if other is not pair):
                last[backend] = kill(pair, asks(KILLED, seed=7, new=64))
    if told.json:
        numbers = {backend: {load: [[m.rate, m.p50, m.p99, m.failed] for m in measured]
                             for load, measured in loads.items()}
                   for backend, loads in found.items()}
        Path(told.json).write_text(json.dumps({"loads": numbers, "last failure s": last}))
    return 0 if summary(found, last) else 1


if __name__ == "__main__":
    sys.exit(main())
