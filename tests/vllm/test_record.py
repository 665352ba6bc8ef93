"""The page of the cells of real vLLM servers is that of its sources."""

import ast
from pathlib import Path

from tests.vllm_servers import cells, record

DEFECTIVE = Path(cells.__file__).with_name("defective.py")


def test_the_page_is_generated() -> None:
    assert record.PAGE.read_text() == record.page(), "python -m tests.vllm_servers --table"


def test_every_cell_has_a_layout_and_a_defect() -> None:
    """defective.py imports vLLM, so its names are read."""
    functions = {node.name.replace("_", "-") for node in ast.parse(DEFECTIVE.read_text()).body
                 if isinstance(node, ast.FunctionDef)}
    for cell in cells.CELLS:
        assert cell.layout in cells.LAYOUTS
        assert cell.defect in functions
