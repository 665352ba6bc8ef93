"""Judges random systems by the oracle: `python -m tests.oracle --count 5000 --log FILE`.

The log has a line of JSON for each seed. A run that finds a log goes on behind its seeds.
"""

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path

from tests.oracle.compare import TLC, WAYS
from tests.oracle.judged import Judged, judged, told


def main() -> None:
    """Answer the seeds that the log lacks; print the numbers and every difference."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=100, help="how many seeds")
    parser.add_argument("--log", type=Path, default=Path("out/oracle.jsonl"))
    parser.add_argument("--way", action="append", choices=[way.name for way in (*WAYS, TLC)],
                        help="a way to ask the checker (default: all but tlc, the slow ones at "
                             "each tenth seed)")
    asked = parser.parse_args()
    ways = [way for way in (*WAYS, TLC) if way.name in asked.way] if asked.way else None
    asked.log.parent.mkdir(parents=True, exist_ok=True)
    known = [Judged(**json.loads(line)) for line in
             (asked.log.read_text(encoding="utf-8").splitlines() if asked.log.exists() else ())]
    done = {one.seed for one in known}
    with asked.log.open("a", encoding="utf-8") as log:
        for seed in range(asked.first, asked.first + asked.count):
            if seed not in done:
                known.append(judged(seed, ways))
                print(json.dumps(asdict(known[-1])), file=log, flush=True)
    sys.stdout.write(told(known) + "\n")


if __name__ == "__main__":
    main()
