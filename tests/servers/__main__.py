"""Real SGLang servers as tests, on a machine without a GPU.

    .venv-sglang/bin/python -m tests.servers                  every cell        (make test-servers)
    .venv-sglang/bin/python -m tests.servers --quick          the subset of CI
    .venv-sglang/bin/python -m tests.servers --only equality 'TP 2 -> 1'
    .venv-sglang/bin/python -m tests.servers --defects        each cell must be red under its defect
    .venv-sglang/bin/python -m tests.servers --table          write docs/servers.md
"""

import sys
from pathlib import Path
from typing import Final

from examples.sglang_servers.serving import Servers
from tests.servers import checks, machine
from tests.servers.cells import RECORD
from tests.servers.layouts import LAYOUTS
from tests.servers.record import Cell
from tests.servers.stage import Stage
from tests.servers.suite import Finding, Suite, arguments, run

FOLDER: Final = Path("out/servers")
QUICK_S: Final = 6 * 60.0


def check(stage: Stage, cell: Cell) -> Finding:
    found: Finding = getattr(checks, cell.check)(stage, LAYOUTS[cell.layout])
    return found


def main() -> int:
    told = arguments(__doc__ or "")
    if told.table:
        RECORD.page.write_text(RECORD.text())
        return 0
    with Servers(FOLDER / "log") as servers:
        suite = Suite(RECORD, lambda defect: Stage(servers, FOLDER, defect), check,
                      machine.refused(), machine.untested(), QUICK_S)
        return run(suite, told)


if __name__ == "__main__":
    sys.exit(main())
