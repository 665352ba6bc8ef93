"""Ratios of two runs in turns on one machine, beside those of the page docs/reference/ratios.md.

    python -m tests.bench.ratios            # measures, and warns of each that is over 15 % worse
    python -m tests.bench.ratios --write    # measures, and writes the page anew

Exit status: 0, or 1 if a bench fails or prints no ratio.
"""

import os
import platform
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "reference" / "ratios.md"
WORSE: Final = 1.15  # times the ratio of the page; issue 21, "Measure"
ROW: Final = re.compile(r"^\| ([^|]+) \| ([\d.]+) \| `", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio that a bench prints; less is better. printed: a pattern with one group, the number.
    """

    name: str
    bench: tuple[str, ...]
    printed: str


RATIOS: Final = (
    Ratio("exploring with liveness, beside exploring alone",
          ("tests.bench.bench_liveness", "8"), r"with liveness ([\d.]+) times"),
    Ratio("exploring with a function into a sort, beside a relation in its place",
          ("tests.bench.bench_functions",), r"function / relation: ([\d.]+)"),
    Ratio("events a second by code written by hand, beside an endpoint's",
          ("tests.bench.bench_dispatch",), r"if / elif .* ([\d.]+) times"),
)


def measured(ratio: Ratio) -> float | None:
    """The ratio, measured now; None if the bench fails or does not print it."""
    done = subprocess.run([sys.executable, "-m", *ratio.bench], capture_output=True, text=True,
                          check=False)
    found = re.search(ratio.printed, done.stdout)
    if done.returncode or found is None:
        sys.stderr.write(done.stdout + done.stderr)
        return None
    return float(found[1])


def worse(known: Mapping[str, float], now: Mapping[str, float]) -> list[str]:
    """A line for each ratio that is over 15 % worse than the known one."""
    return [
        f"{name}: {ratio:.2f}, which was {known[name]:.2f} ({PAGE.name})"
        for name, ratio in now.items() if name in known and ratio > known[name] * WORSE
    ]


def on_page(text: str) -> dict[str, float]:
    """The ratios of a page, by their names."""
    return {name: float(ratio) for name, ratio in ROW.findall(text)}


def page(now: Mapping[str, float]) -> str:
    """The page with these ratios, with the date and the machine."""
    rows = "\n".join(
        f"| {one.name} | {now[one.name]:.2f} | `python -m {' '.join(one.bench)}` |"
        for one in RATIOS if one.name in now)
    day = datetime.now(UTC).date()
    return f"""# Ratios

    make bench-ratios

measures these, and warns of each that is over 15 % worse than here. Both sides of a ratio run in
turns on one machine, so machines differ little. CI does it weekly. Less is better.
[All figures](speed.md).

{day}, {_machine()}, `python -m tests.bench.ratios --write`:

| | ratio | with |
|---|--:|---|
{rows}
"""


def _machine() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    names = re.findall(r"^model name\s*: (.+)$", text, re.MULTILINE)
    return f"{names[0] if names else platform.machine()}, {os.cpu_count()} cores"


def main(arguments: list[str]) -> int:
    """Measure, and warn or write the page."""
    found = {ratio.name: measured(ratio) for ratio in RATIOS}
    now = {name: ratio for name, ratio in found.items() if ratio is not None}
    for name, ratio in now.items():
        print(f"{name}: {ratio:.2f}")  # noqa: T201 - this is a command
    if arguments == ["--write"]:
        PAGE.write_text(page(now))
    else:
        for line in worse(on_page(PAGE.read_text()), now):
            print(f"::warning::{line}")  # noqa: T201 - GitHub shows it
    return int(len(now) < len(RATIOS))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
