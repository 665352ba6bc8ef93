"""Real SGLang servers as tests, on a machine without a GPU or on one GPU.

    .venv-sglang/bin/python -m tests.servers                  every cell        (make test-servers)
    .venv-sglang/bin/python -m tests.servers --quick          the subset of CI
    .venv-sglang/bin/python -m tests.servers --only equality 'TP 2 -> 1'
    .venv-sglang/bin/python -m tests.servers --defects        each cell must be red under its defect
    .venv-sglang/bin/python -m tests.servers --table          write docs/servers.md
    .venv-sglang/bin/python -m tests.servers --standstills    measure the table of standstills
    python -m tests.servers --device cuda                     on a GPU   (make test-servers-gpu)
    python -m tests.servers --device cuda --seconds 500       the cells that end in that time
"""

import sys
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Final

from examples.sglang_servers.serving import GpuServers, Servers
from tests.servers import (
    checks,
    deploy_checks,
    fleet_checks,
    front_checks,
    gpu_checks,
    machine,
    standstill,
)
from tests.servers.cells import PLAIN, RECORD
from tests.servers.gpu_cells import GPU_LAYOUTS, GPU_RECORD
from tests.servers.layouts import LAYOUTS
from tests.servers.record import Cell
from tests.servers.stage import Stage
from tests.servers.suite import Finding, Suite, arguments, run

FOLDERS: Final = {"cpu": Path("out/servers"), "cuda": Path("out/servers-gpu")}
SERVERS: Final = {"cpu": Servers, "cuda": GpuServers}
RECORDS: Final = {"cpu": RECORD, "cuda": GPU_RECORD}
BACKENDS: Final = (standstill.OURS, "mooncake")
QUICK_S: Final = 6 * 60.0


def main() -> int:
    told = arguments(__doc__ or "", tuple(FOLDERS))
    folder, record = FOLDERS[told.device], RECORDS[told.device]
    layouts = LAYOUTS if told.device == "cpu" else GPU_LAYOUTS

    def check(stage: Stage, cell: Cell) -> Finding:
        place = next(one for one in (checks, fleet_checks, front_checks, deploy_checks, gpu_checks)
                     if hasattr(one, cell.check))
        found: Finding = getattr(place, cell.check)(stage, layouts[cell.layout], *cell.given)
        return found

    if told.table:
        record.page.write_text(record.text())
        return 0
    with SERVERS[told.device](folder / "log") as servers:
        if told.standstills is not None:
            stage = Stage(servers, folder)
            for backend in told.standstills or BACKENDS:
                layout = replace(layouts[PLAIN], backend=backend)
                standstill.measure(
                    "SGLang", backend, standstill.of_table(
                        ("prefill", "decode", "the registry"), told.only or ()),
                    partial(stage.pair, layout), partial(checks.meet, stage), stage.end)
            return 0
        suite = Suite(record, lambda defect: Stage(servers, folder, defect), check,
                      machine.refused() if told.device == "cpu" else {},
                      machine.untested() if told.device == "cpu" else (), QUICK_S)
        return run(suite, told)


if __name__ == "__main__":
    sys.exit(main())
