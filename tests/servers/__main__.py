"""Real SGLang servers as tests, on a machine without a GPU.

    .venv-sglang/bin/python -m tests.servers                  every cell        (make test-servers)
    .venv-sglang/bin/python -m tests.servers --quick          the subset of CI
    .venv-sglang/bin/python -m tests.servers --only equality 'TP 2 -> 1'
    .venv-sglang/bin/python -m tests.servers --defects        each cell must be red under its defect
    .venv-sglang/bin/python -m tests.servers --table          write docs/servers.md
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.sglang_servers.serving import ServerError, Servers
from tests.servers import checks, record
from tests.servers.cells import CELLS, Cell
from tests.servers.layouts import LAYOUTS
from tests.servers.stage import Stage

FOLDER: Final = Path("out/servers")
LIMIT_S: Final = 45 * 60.0
WIDTH: Final = max(len(cell.name) for cell in CELLS)


@dataclass(frozen=True, slots=True)
class Result:
    """failure: "" for a cell that is green."""

    cell: Cell
    failure: str
    line: str


def run(stage: Stage, cell: Cell) -> Result:
    began = time.monotonic()
    try:
        found = getattr(checks, cell.check)(stage, LAYOUTS[cell.layout])
    except (AssertionError, ServerError) as error:
        failure = str(error) or repr(error)
        if stage.defect and isinstance(error, ServerError):
            raise  # a defect that no server starts with proves nothing
        stage.end()
        return Result(cell, failure, f"RED    {time.monotonic() - began:6.1f} s  {failure}")
    return Result(cell, "", f"green  {time.monotonic() - began:6.1f} s  {found.requests} requests, "
                            f"{found.equal} equal, {found.note}")


def run_all(servers: Servers, cells: Sequence[Cell]) -> int:
    """Returns how many are red, or were not begun in time."""
    stage, end, red = Stage(servers, FOLDER), time.monotonic() + LIMIT_S, 0
    for cell in cells:
        if time.monotonic() > end:
            sys.stdout.write(f"{cell.name:{WIDTH}}  not begun: {LIMIT_S:.0f} s are over\n")
            red += 1
            continue
        result = run(stage, cell)
        red += bool(result.failure)
        sys.stdout.write(f"{cell.name:{WIDTH}}  {result.line}\n")
        sys.stdout.flush()
    stage.end()
    return red


def run_defects(servers: Servers, cells: Sequence[Cell]) -> int:
    """Each cell under its defect. Returns how many are green all the same."""
    blind = 0
    for cell in cells:
        stage = Stage(servers, FOLDER, cell.defect)
        result = run(stage, cell)
        stage.end()
        blind += not result.failure
        if result.failure:
            record.note(cell, result.failure)
        verdict = f"seen red: {result.failure}" if result.failure else f"BLIND: {result.line}"
        sys.stdout.write(f"{cell.name:{WIDTH}}  {cell.defect:26}  {verdict[:400]}\n")
        sys.stdout.flush()
    return blind


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the subset that CI runs")
    parser.add_argument("--only", nargs="+", metavar="CELL", help="these cells")
    parser.add_argument("--defects", action="store_true", help="each cell under its defect")
    parser.add_argument("--table", action="store_true", help="write docs/servers.md")
    told = parser.parse_args()
    if told.table:
        record.PAGE.write_text(record.page())
        return 0
    chosen = [cell for cell in CELLS
              if (not told.only or cell.name in told.only) and (not told.quick or cell.quick)]
    began = time.monotonic()
    with Servers(FOLDER / "log") as servers:
        red = (run_defects if told.defects else run_all)(servers, chosen)
    sys.stdout.write(f"{len(chosen) - red} of {len(chosen)} cells, "
                     f"{time.monotonic() - began:.0f} s\n")
    return 1 if red or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
