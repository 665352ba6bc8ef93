"""Real vLLM servers as tests, on a machine without a GPU.

    python -m tests.vllm_servers                every cell        (make test-servers-vllm)
    python -m tests.vllm_servers --quick        a subset
    python -m tests.vllm_servers --only equality 'late read'
    python -m tests.vllm_servers --defects      each cell must be red under its defect
    python -m tests.vllm_servers --table        write docs/vllm-servers.md
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Final

from examples.sglang_servers.serving import ServerError
from examples.vllm_servers.serving import Servers
from tests.vllm_servers import checks, record
from tests.vllm_servers.cells import CELLS, LAYOUTS, Cell
from tests.vllm_servers.stage import Stage

FOLDER: Final = Path("out/vllm-servers")
LIMIT_S: Final = 45 * 60.0
WIDTH: Final = max(len(cell.name) for cell in CELLS)


def run(stage: Stage, cell: Cell, count: int) -> tuple[str, str]:
    """One cell. Returns its failure, "" if it is green, and its line."""
    began = time.monotonic()
    try:
        found = getattr(checks, cell.check)(stage, LAYOUTS[cell.layout], count)
    except (AssertionError, ServerError) as error:
        failure = str(error) or repr(error)
        stage.end()
        return failure, f"RED    {time.monotonic() - began:6.1f} s  {failure}"
    told = asdict(found)
    return "", (f"green  {time.monotonic() - began:6.1f} s  {told['requests']} requests, "
                f"{told['equal']} equal, {told['note']}")


def run_all(servers: Servers, cells: Sequence[Cell], count: int) -> int:
    """Returns how many are red, or were not begun in time."""
    stage, end, red = Stage(servers, FOLDER), time.monotonic() + LIMIT_S, 0
    stage.reference(checks.ALL)
    for cell in cells:
        if time.monotonic() > end:
            _say(f"{cell.name:{WIDTH}}  not begun: {LIMIT_S:.0f} s are over")
            red += 1
            continue
        failure, line = run(stage, cell, count)
        red += bool(failure)
        _say(f"{cell.name:{WIDTH}}  {line}")
    stage.end()
    return red


def run_defects(servers: Servers, cells: Sequence[Cell], count: int) -> int:
    """Each cell under its defect. Returns how many are green all the same."""
    blind, stage = 0, Stage(servers, FOLDER)
    stage.reference(checks.ALL)
    for cell in sorted(cells, key=lambda cell: (cell.layout, cell.defect)):
        if stage.defect != cell.defect:
            stage.end()
            stage = Stage(servers, FOLDER, cell.defect)
        failure, line = run(stage, cell, count)
        blind += not failure
        if failure:
            record.note(cell, failure)
        _say(f"{cell.name:{WIDTH}}  {cell.defect:20}  "
             + (f"seen red: {failure[:400]}" if failure else f"BLIND: {line}"))
    stage.end()
    return blind


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a subset, and fewer requests")
    parser.add_argument("--only", nargs="+", metavar="CELL", help="these cells")
    parser.add_argument("--defects", action="store_true", help="each cell under its defect")
    parser.add_argument("--table", action="store_true", help=f"write {record.PAGE}")
    told = parser.parse_args()
    if told.table:
        record.PAGE.write_text(record.page())
        return 0
    chosen = [cell for cell in CELLS
              if (not told.only or cell.name in told.only) and (not told.quick or cell.quick)]
    began, count = time.monotonic(), 100 if told.quick or told.defects else 300
    with Servers(FOLDER / "log") as servers:
        red = (run_defects if told.defects else run_all)(servers, chosen, count)
    _say(f"{len(chosen) - red} of {len(chosen)} cells, {time.monotonic() - began:.0f} s")
    return 1 if red or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
