"""Holds the branches that tests take, folder by folder: `make coverage` ends with it.

    python -m tests.project.coverage_gate out/coverage.json

A total over all folders would let well tested code hide the rest. So each folder that decides what
servers do has a bound of its own, in percent of its branches.
"""

import json
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

# By folder, in percent: tests that are not slow reached this on 2026-11-24. For the checker they
# were those of check, cli, prove and language, and the traces of registry and group; for the rest
# those of node, runtime, ground, transport, registry, group and fuzz. All tests together take more:
# raise a bound when they exceed it.
BOUNDS: Final[Mapping[str, float]] = {
    "pdproto/check": 95.6,
    "pdproto/node": 95.2,
    "pdproto/runtime": 98.6,
}


def percentages(report: Mapping[str, Any]) -> dict[str, float]:
    """The percentage of branches that were taken, by the folders with a bound."""
    every: Counter[str] = Counter()
    taken: Counter[str] = Counter()
    for name, file in report["files"].items():
        for folder in BOUNDS:
            if Path(name).is_relative_to(folder):
                every[folder] += file["summary"]["num_branches"]
                taken[folder] += file["summary"]["covered_branches"]
    return {folder: 100 * taken[folder] / every[folder] for folder in BOUNDS if every[folder]}


def problems(found: Mapping[str, float]) -> Iterator[str]:
    """A line for each folder below its bound, and for each that was not measured."""
    for folder, bound in BOUNDS.items():
        if folder not in found:
            yield f"{folder}: not measured: run the tests with --cov --cov-branch"
        elif found[folder] < bound:
            yield f"{folder}: {found[folder]:.1f} % of its branches are taken, want {bound:g} %"


def main(path: str) -> int:
    """Print the percentage of each folder; 1 if one is too low."""
    found = percentages(json.loads(Path(path).read_text(encoding="utf-8")))
    for folder, percentage in found.items():
        sys.stdout.write(f"{folder:16} {percentage:5.1f} % of branches, bound {BOUNDS[folder]:g}\n")
    wrong = list(problems(found))
    sys.stderr.writelines(f"{line}\n" for line in wrong)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
