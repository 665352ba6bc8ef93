"""How fast traces are replayed: the golden one, lived again and again with other lives.

    python -m tests.bench.bench_trace [COPIES] [RUNS]

prints lines a second, by the clock and by the processor (which other load disturbs less), and what
a line costs in memory (default: 1,000 copies of each file, 3 runs). Also the processor time with
the orders of the lines of all hand-overs, as a ratio of that without them.
"""

import json
import sys
from pathlib import Path
from resource import RUSAGE_SELF, getrusage
from statistics import median
from tempfile import TemporaryDirectory
from time import perf_counter, process_time
from typing import Any, Final

from pdproto.check.trace.instance import Tables
from pdproto.check.trace.lives import Lives
from pdproto.check.trace.replay import Replay
from pdproto.cli.systems import load
from tests.check.trace.alterations import Line, golden

COPIES: Final = 1_000
RUNS: Final = 3


def copied(lines: list[Line], copies: int, path: Path) -> int:
    """Write the lines so often, each time of new lives and endpoints. Returns how many."""
    ends = max(line["end"] for line in lines)
    with path.open("w") as file:
        for copy in range(copies):
            for line in lines:
                moved = {**{key: _moved(value, copy) for key, value in line.items()},
                         "n": line["n"] + len(lines) * copy, "end": line["end"] + ends * copy}
                file.write(json.dumps(moved, separators=(",", ":")) + "\n")
    return copies * len(lines)


def _moved(value: Any, copy: int) -> Any:
    """The value with every life replaced by another."""
    if isinstance(value, dict):
        return {key: _moved(one, copy) for key, one in value.items()}
    if isinstance(value, list):
        if len(value) == 3 and all(isinstance(part, int) for part in value):
            return [value[0] + (copy << 20), value[1], value[2] + (copy << 20)]
        return [_moved(one, copy) for one in value]
    return value


def main() -> None:
    copies = int(sys.argv[1]) if len(sys.argv) > 1 else COPIES
    runs = int(sys.argv[2]) if len(sys.argv) > 2 else RUNS
    with TemporaryDirectory() as folder:
        paths = [Path(folder) / f"{lines[0]['node']}.jsonl" for lines in golden()]
        count = sum(copied(lines, copies, path)
                    for lines, path in zip(golden(), paths, strict=True))
        clock, processor, ratios = [], [], []
        for _ in range(runs):
            replay = Replay(Tables(load("transfer")), paths)
            began, used = perf_counter(), process_time()
            replay.run()
            lines = process_time() - used
            examined = Lives(replay).examine()
            clock.append(count / (perf_counter() - began))
            processor.append(count / (process_time() - used))
            ratios.append((process_time() - used) / lines)
            assert examined.wrong is None
            assert not examined.assumes
            assert replay.tally.lines == count
    peak = getrusage(RUSAGE_SELF).ru_maxrss * 1024
    print(f"{count:,} lines of {len(paths)} files: "  # noqa: T201 - this is a command
          f"{median(clock):,.0f} lines/s by the clock, "
          f"{median(processor):,.0f} lines/s of a core, {median(ratios):.2f} x the time without "
          f"orders; {peak / count:,.0f} bytes a line")


if __name__ == "__main__":
    main()
