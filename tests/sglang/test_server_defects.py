"""Each defect that cells of real servers must notice still finds its place in what runs.

A cell is seen red by hand, once; a defect whose place has gone would leave it seen red only in the
record (tests/servers/seen_red.json).
"""

from multiprocessing import get_context

import pytest

from tests.skips import SGLANG

pytest.importorskip("sglang", reason=SGLANG)

# The modules that defects change, read once before the forks.
import sglang.srt.disaggregation.mooncake.conn
import sglang.srt.managers.scheduler  # noqa: F401

import pdproto.sglang.manager
import pdproto.sglang.receiver  # noqa: F401
from tests.servers.cells import CELLS
from tests.servers.defects import DEFECTS, put_in
from tests.servers.gpu_cells import GPU_CELLS


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_finds_its_place(name: str) -> None:
    """In a process of its own."""
    process = get_context("fork").Process(target=put_in, args=(name,))
    process.start()
    process.join(60.0)
    assert process.exitcode == 0, f"the place of {name} has gone: the traceback is above"


def test_every_defect_is_that_of_a_cell() -> None:
    assert {cell.defect for cell in (*CELLS, *GPU_CELLS)} == set(DEFECTS)

