"""Hand-overs under SGLang's own classes: our backend against SGLang's own, in one run.

    python -m tests.bench.bench_sglang [--rounds N] [--backend mooncake] [--engine tcp] [--brief]

It needs SGLang 0.5.23 and, for its Mooncake backend, mooncake-transfer-engine-non-cuda: run it with
the Python of `make test-sglang`. Two processes, one pinned to each of two processors, do what two
schedulers do, with one poll interval; pages are filled and compared by the tests and not here.
In each round both backends take their turn, so that what else the machine does disturbs both.

The table gives medians over the rounds (default: 3) and the ratios within a round. Status 1: a goal
is missed. Goals: 1.5 times their hand-overs/s with 8 KiB and 32 or 128 in flight, not fewer with
16 MiB, and p99 not above theirs in these.
"""

import argparse
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from statistics import median
from typing import Any, Final

PAYLOADS: Final = {  # layers, pages, bytes of a page of K and of V
    "8 KiB": (1, 1, 4_096), "1 MiB": (4, 4, 32_768), "16 MiB": (32, 8, 32_768),
}
IN_FLIGHT: Final = (1, 32, 128)
REQUESTS: Final = {  # that count, by payload and how many are in flight
    ("8 KiB", 1): 300, ("8 KiB", 32): 1_500, ("8 KiB", 128): 2_500,
    ("1 MiB", 1): 120, ("1 MiB", 32): 250, ("1 MiB", 128): 400,
    ("16 MiB", 1): 24, ("16 MiB", 32): 64, ("16 MiB", 128): 160,
}
RATE_GOALS: Final = {("8 KiB", 32): 1.5, ("8 KiB", 128): 1.5} | {
    ("16 MiB", count): 1.0 for count in IN_FLIGHT}


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one run of one backend."""

    rate: float
    p50_ms: float
    p99_ms: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=3, help="of each cell (default: 3)")
    parser.add_argument("--backend", default="mooncake", help="of SGLang's (default: mooncake)")
    parser.add_argument("--engine", default="tcp", help="of ours (default: tcp)")
    parser.add_argument("--brief", action="store_true", help="only the cells that have goals")
    asked = parser.parse_args()
    for module, what in (("sglang", "SGLang 0.5.23"), ("examples", "to run where examples/ is")):
        if find_spec(module) is None:
            sys.stderr.write(f"bench_sglang needs {what}: use the Python of `make test-sglang`\n")
            return 2
    cells = [cell for cell in REQUESTS if not asked.brief or cell in RATE_GOALS]
    sys.stdout.write(f"{'payload':>8} {'in flight':>9} {'backend':>9} {'/s':>8} {'p50 ms':>8} "
                     f"{'p99 ms':>8}   ratio of /s, of p99\n")
    missed = [cell for cell in cells if not _cell(cell, asked)]
    for payload, in_flight in missed:
        sys.stdout.write(f"missed: {payload}, {in_flight} in flight\n")
    return int(bool(missed))


def _cell(cell: tuple[str, int], asked: Any) -> bool:
    """Measure and print one; whether it meets its goal."""
    found: dict[str, list[Figures]] = {asked.backend: [], "pdproto": []}
    for number in range(asked.rounds):
        for place, backend in enumerate(found):
            port = 18_000 + (number * 2 + place) % 40 * 100
            found[backend].append(_run(cell, backend, asked.engine, port))
    theirs, ours = found.values()
    rate = median(o.rate / t.rate for o, t in zip(ours, theirs, strict=True))
    tail = median(o.p99_ms / t.p99_ms for o, t in zip(ours, theirs, strict=True))
    for backend, figures in found.items():
        line = (f"{cell[0]:>8} {cell[1]:>9} {backend:>9} {median(f.rate for f in figures):>8.1f} "
                f"{median(f.p50_ms for f in figures):>8.2f} "
                f"{median(f.p99_ms for f in figures):>8.2f}")
        sys.stdout.write(line + (f"   {rate:.2f}, {tail:.2f}\n" if backend == "pdproto" else "\n"))
    sys.stdout.flush()
    goal = RATE_GOALS.get(cell)
    return goal is None or (rate >= goal and tail <= 1.0)


def _run(cell: tuple[str, int], backend: str, engine: str, port: int) -> Figures:
    """Raises TimeoutError if a backend stops, and ValueError for hand-overs that fail."""
    from examples.sglang_handoff.__main__ import summary  # noqa: PLC0415 - SGLang is there by now
    from examples.sglang_handoff.cluster import run  # noqa: PLC0415
    from examples.sglang_handoff.load import Load  # noqa: PLC0415

    payload, in_flight = cell
    layers, pages, page_bytes = PAYLOADS[payload]
    warm = min(2 * in_flight, 64)
    load = Load(
        backend=backend, engine=engine, requests=REQUESTS[cell] + warm, warm=warm,
        in_flight=in_flight, layers=layers, pages=pages, page_bytes=page_bytes, port=port,
        pinned=True, timed=True,
    )
    found = summary(load, run(load, seconds=60.0))
    if found["failed"] or found["wrong"]:
        raise ValueError(f"{backend}, {cell}: {found}")
    return Figures(found["hand-overs/s"], found["p50 ms"], found["p99 ms"])


if __name__ == "__main__":
    sys.exit(main())
