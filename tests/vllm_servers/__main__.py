"""Real vLLM servers as tests, on a machine without a GPU, or on one GPU.

    python -m tests.vllm_servers                every cell        (make test-servers-vllm)
    python -m tests.vllm_servers --device cuda  every cell of a GPU    (make test-servers-vllm-gpu)
    python -m tests.vllm_servers --quick        the subset of CI
    python -m tests.vllm_servers --only equality 'late read'
    python -m tests.vllm_servers --defects      each cell must fail under its defect
    python -m tests.vllm_servers --standstills  measure the table of standstills, or --only some
    python -m tests.vllm_servers --table        write docs/vllm-servers.md, or that of a GPU
"""

import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Final

from examples.vllm_servers.serving import CPU, CUDA, DEVICES, EAGER, servers_on
from tests.servers import standstill
from tests.servers.record import Cell, Record
from tests.servers.suite import Finding, Suite, arguments, run
from tests.vllm_servers import adapter_checks, cells, checks, deploy_checks, on_gpu
from tests.vllm_servers.stage import Stage

FOLDERS: Final = {CPU: Path("out/vllm-servers"), CUDA: Path("out/vllm-servers-gpu")}
RECORDS: Final = {CPU: cells.RECORD, CUDA: on_gpu.RECORD}
QUICK_S: Final = 5 * 60.0  # without the servers of the reference
BACKENDS: Final = {standstill.OURS: "defaults", "NixlConnector": "nixl"}
LAYOUTS: Final[Mapping[str, Mapping[str, cells.Layout]]] = {
    CPU: cells.LAYOUTS, CUDA: on_gpu.LAYOUTS}


def main() -> int:
    told = arguments(__doc__ or "", DEVICES)
    record: Record = RECORDS[told.device]
    if told.table:
        record.page.write_text(record.text())
        return 0
    folder, layouts = FOLDERS[told.device], LAYOUTS[told.device]

    def check(stage: Stage, cell: Cell) -> Finding:
        place = next(one for one in (checks, adapter_checks, deploy_checks)
                     if hasattr(one, cell.check))
        found: Finding = getattr(place, cell.check)(stage, layouts[cell.layout], *cell.given)
        return found

    with servers_on(told.device)(folder / "log") as servers:
        def begin(defect: str | None) -> Stage:
            stage = Stage(servers, folder, defect, few=told.quick or told.defects, alone=(EAGER,))
            stage.reference(checks.QUICK if told.quick and told.device == CPU else checks.ALL)
            return stage

        if told.standstills is not None:
            stage = begin(None)
            for backend in told.standstills or BACKENDS:
                layout = layouts[BACKENDS[backend]]
                what = standstill.of_table(("prefill", "decode"), told.only or ())
                standstill.measure("vLLM", backend, what, partial(stage.pair, layout),
                                   partial(checks.meet, stage), stage.end)
            return 0
        return run(Suite(record, begin, check, quick_s=QUICK_S), told)


if __name__ == "__main__":
    sys.exit(main())
