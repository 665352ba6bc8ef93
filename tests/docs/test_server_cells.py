"""The pages of the cells of real servers are those of their sources."""

import ast
from pathlib import Path

import pytest

from tests.servers import cells as of_sglang
from tests.servers import standstill
from tests.servers.defects import DEFECTS
from tests.servers.gpu_cells import GPU_CELLS, GPU_LAYOUTS, GPU_RECORD
from tests.servers.layouts import LAYOUTS
from tests.servers.record import Record
from tests.vllm_servers import cells as of_vllm
from tests.vllm_servers import on_gpu

DEFECTIVE = Path(of_vllm.__file__).with_name("defective.py")


@pytest.mark.parametrize(("record", "module"), [
    (of_sglang.RECORD, "tests.servers"), (GPU_RECORD, "tests.servers --device cuda"),
    (of_vllm.RECORD, "tests.vllm_servers"), (on_gpu.RECORD, "tests.vllm_servers --device cuda"),
])  # fmt: skip
def test_the_page_is_generated(record: Record, module: str) -> None:
    assert record.page.read_text() == record.text(), f"python -m {module} --table"


def test_no_standstill_is_survived_by_the_engines_own_backend_alone() -> None:
    """Seen red with a failed request, a held page and a server that serves no more in a measurement
    of ours, and without one of a measurement.
    """
    assert standstill.measured().keys() == {"SGLang", "vLLM"}
    assert standstill.lost_alone() == []


def test_every_cell_of_sglang_has_a_layout_and_a_defect() -> None:
    for cells, layouts in ((of_sglang.CELLS, LAYOUTS), (GPU_CELLS, GPU_LAYOUTS)):
        for cell in cells:
            assert cell.layout in layouts
            assert cell.defect in DEFECTS


def test_every_cell_of_vllm_has_a_layout_and_a_defect() -> None:
    """defective.py imports vLLM, so its names are read."""
    (table,) = (node for node in ast.parse(DEFECTIVE.read_text()).body
                if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "DEFECTS")
    functions = {node.id.replace("_", "-") for node in ast.walk(table)
                 if isinstance(node, ast.Name)}
    for cells, layouts in ((of_vllm.CELLS, of_vllm.LAYOUTS), (on_gpu.CELLS, on_gpu.LAYOUTS)):
        for cell in cells:
            assert cell.layout in layouts
            assert cell.defect in functions | {of_vllm.PLUGIN_OFF}
