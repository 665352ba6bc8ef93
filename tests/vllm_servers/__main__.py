"""Real vLLM servers as tests, on a machine without a GPU.

    python -m tests.vllm_servers                every cell        (make test-servers-vllm)
    python -m tests.vllm_servers --quick        a subset
    python -m tests.vllm_servers --only equality 'late read'
    python -m tests.vllm_servers --defects      each cell must fail under its defect
    python -m tests.vllm_servers --table        write docs/vllm-servers.md
"""

import sys
from pathlib import Path
from typing import Final

from examples.vllm_servers.serving import Servers
from tests.servers.record import Cell
from tests.servers.suite import Finding, Suite, arguments, run
from tests.vllm_servers import checks
from tests.vllm_servers.cells import LAYOUTS, RECORD
from tests.vllm_servers.stage import Stage

FOLDER: Final = Path("out/vllm-servers")


def check(stage: Stage, cell: Cell) -> Finding:
    found: Finding = getattr(checks, cell.check)(stage, LAYOUTS[cell.layout])
    return found


def main() -> int:
    told = arguments(__doc__ or "")
    if told.table:
        RECORD.page.write_text(RECORD.text())
        return 0
    with Servers(FOLDER / "log") as servers:
        def begin(defect: str | None) -> Stage:
            stage = Stage(servers, FOLDER, defect, few=told.quick or told.defects)
            stage.reference(checks.ALL)
            return stage

        return run(Suite(RECORD, begin, check), told)


if __name__ == "__main__":
    sys.exit(main())
