"""Requests a second under real vLLM servers, and the time to the first token: ours beside NIXL.

    python -m tests.vllm_servers.bench --rounds 3        (make bench-servers-vllm)

Pairs of servers come in turns, so that all meet the same machine; figures are medians of rounds.
There are two comparisons: of both connectors as vLLM runs them, where a thread of NIXL keeps a core
of each server busy, and with pauses in that thread and in the ranks of both (patient_nixl.py),
which is the fairer one where there are few cores. `--beside plain` compares two ways of ours: the
proxy passes on prefill's first token, or decode's. `--curve` measures the time to the first token
over the length of the prompt instead (tests/servers/curve.py).
"""

import argparse
import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from examples.servers.demo import say
from examples.vllm_servers.serving import OURS, Servers
from tests.servers import curve
from tests.servers.load import Way, asks, send
from tests.vllm_servers.cells import CHUNKS, LAYOUTS
from tests.vllm_servers.figures import steps, within_a_millisecond
from tests.vllm_servers.stage import Pair, Stage, Streamed

FOLDER: Final = Path("out/vllm-servers")
LOADS: Final = ((1, 30), (8, 120), (32, 200))  # in flight, requests
# The other layout of a comparison, and ours: see LAYOUTS.
BESIDE: Final = {"nixl": "stock", "patient-nixl": "plain", "plain": "first-token"}


def measure(pair: Pair, in_flight: int, count: int, seed: int) -> dict[str, float]:
    """Of one load. Milliseconds, and requests a second."""
    began = time.monotonic()
    answers = send(Streamed(pair.through.url), asks(count, seed=seed), in_flight=in_flight,
                   seconds=300.0)
    wall = time.monotonic() - began
    failed = [answer for answer in answers if not answer.is_full]
    if failed:
        raise RuntimeError(f"{len(failed)} of {count} failed: {failed[0].error}")
    first = sorted((answer.first or 0.0) * 1e3 for answer in answers)
    return {"requests/s": count / wall, "p50": statistics.median(first),
            "p99": first[int(len(first) * 0.99)]}


def steps_told(pair: Pair) -> str:
    """Of how many steps the connector's calls took at most a millisecond, on both servers: on the
    wall, and of the CPU. Where processes wait for a core, the wall counts those waits too.
    """
    return ", ".join(
        f"{server.name} {step.split('_')[1]} "
        f"{within_a_millisecond(server, f'{step}_seconds'):.2%} "
        f"(CPU {within_a_millisecond(server, f'{step}_cpu_seconds'):.2%}) of {every:.0f}"
        for server in pair.servers for step, every in steps(server).items())


def ways(servers: Servers) -> curve.Ways:
    """Of the curve: the proxy asks one server after the other, or both at once."""
    stage = Stage(servers, FOLDER)

    @contextmanager
    def pair(name: str) -> Iterator[Way]:
        layout = replace(LAYOUTS[name], prefill=CHUNKS)
        yield Streamed(stage.pair(layout).through.url)
        stage.end()

    return {curve.ALONE: lambda: curve.one_server(
                servers, stage.model(LAYOUTS["plain"].at_prefill), CHUNKS, Streamed),
            "pdproto, in turn": lambda: pair("plain"), "pdproto, at once": lambda: pair("at-once"),
            "NIXL": lambda: pair("patient-nixl")}


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--beside", choices=BESIDE, nargs="+", default=["nixl", "patient-nixl"])
    parser.add_argument("--curve", action="store_true", help="of the time to the first token")
    told = parser.parse_args()
    turns = [name for other in told.beside for name in (BESIDE[other], other)]
    found: dict[tuple[str, int], list[dict[str, float]]] = defaultdict(list)
    with Servers(FOLDER / "log") as servers:
        if told.curve:
            curve.measure("vLLM", ways(servers), told.rounds)
            return 0
        stage = Stage(servers, FOLDER)
        for number in range(told.rounds):
            for name in turns[::-1] if number % 2 else turns:
                pair = stage.pair(LAYOUTS[name])
                measure(pair, 8, 16, 1_000)  # warm
                for in_flight, count in LOADS:
                    figures = measure(pair, in_flight, count, number)
                    found[name, in_flight].append(figures)
                    say(f"round {number + 1}, {name}, {in_flight} in flight: " + ", ".join(
                        f"{key} {value:.1f}" for key, value in figures.items())
                        + f"; load {os.getloadavg()[0]:.1f}")
                if LAYOUTS[name].connector == OURS:
                    say(f"steps within 1 ms: {steps_told(pair)}")
        stage.end()
    say(table(found, told.beside))
    return 0


def table(found: dict[tuple[str, int], list[dict[str, float]]], beside: list[str]) -> str:
    """Medians, and the ratios of ours to each of the others."""
    rows = ["| in flight | beside | requests/s: its, ours | ratio | first token: p50, ms | p99, ms "
            "| ratio |",
            "|---:|---|---:|---:|---:|---:|---:|"]
    for in_flight, _ in LOADS:
        for name in beside:
            its, ours = ({key: statistics.median(one[key] for one in found[turn, in_flight])
                          for key in ("requests/s", "p50", "p99")} for turn in (name, BESIDE[name]))
            rows.append(
                f"| {in_flight} | {name} | {its['requests/s']:.1f}, {ours['requests/s']:.1f} | "
                f"{ours['requests/s'] / its['requests/s']:.2f} | "
                f"{its['p50']:.0f}, {ours['p50']:.0f} | {its['p99']:.0f}, {ours['p99']:.0f} | "
                f"{ours['p99'] / its['p99']:.2f} |")
    return "\n".join(rows)


if __name__ == "__main__":
    sys.exit(main())
