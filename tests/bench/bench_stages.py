"""What a second pipeline stage costs: python -m tests.bench.bench_stages [REQUESTS]

The drill with one stage and with two, in turns: the processor time of a hand-over at all ranks
together, and by part: the schedulers look 2,000 times a second, whether there is anything to do or
not, so theirs is a price of waiting, too. First with one page of 8 bytes in one pool, then with the
pages of the drill, of which two stages have twice as many bytes.
"""

import json
import subprocess
import sys
from statistics import median
from typing import Final

REQUESTS: Final = 800
ROUNDS: Final = 3
LOADS: Final = {"8 bytes": ("--layers", "1", "--page-bytes", "8", "--pages", "1"), "pages": ()}


def processor_ms(stages: int, requests: int, load: tuple[str, ...]) -> dict[str, float]:
    """Of a hand-over, in milliseconds: of all, and by part."""
    told = subprocess.run(
        [sys.executable, "-m", "pdproto.cli.main", "handoff", "--quiet", "--abort-rate", "0",
         "--pp", str(stages), "--requests", str(requests), "--json", "-", *load],
        capture_output=True, text=True, check=True)
    numbers = json.loads(told.stdout)
    return {"all": float(numbers["processor_ms_per_request"]), **numbers["processor_ms_by_part"]}


def main(requests: int) -> None:
    """Print a line for each load and part: the medians."""
    for name, load in LOADS.items():
        measured: dict[int, list[dict[str, float]]] = {1: [], 2: []}
        for _ in range(ROUNDS):
            for stages, found in measured.items():
                found.append(processor_ms(stages, requests, load))
        for part in measured[1][0]:
            one, two = (median(run[part] for run in found) for found in measured.values())
            times = f": {two / one:.1f} times" if one else ""
            print(f"{name}, {part}: {one:.2f} ms with one stage, "  # noqa: T201 - the result
                  f"{two:.2f} ms with two{times}", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else REQUESTS)
