"""Each defect that cells of real servers must notice still finds its place in what runs.

A cell is seen red by hand, once; a defect whose place has gone would leave it seen red only in the
record (tests/servers/seen_red.json).
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from functools import cache
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


@cache
def statuses() -> Mapping[str, int | None]:
    """By defect, the exit status of a process that puts it in, and nothing else.

    They are forks of a program of their own: in a fork of a process that has computed with torch,
    the threads that torch waits for are missing.
    """
    program = f"import tests.sglang.conftest, {__name__} as places; places.tell()"
    told = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=False)
    lines = told.stdout.splitlines() or [b"{}"]
    found: dict[str, int | None] = json.loads(lines[-1])
    return found


@pytest.mark.parametrize("name", DEFECTS)
def test_a_defect_finds_its_place(name: str) -> None:
    assert statuses().get(name) == 0, f"the place of {name} has gone: the traceback is above"


def test_every_defect_is_that_of_a_cell() -> None:
    assert {cell.defect for cell in (*CELLS, *GPU_CELLS)} == set(DEFECTS)


def status(name: str) -> int | None:
    """The exit status of a fork that puts this defect in; None if it does not end."""
    process = get_context("fork").Process(target=put_in, args=(name,), daemon=True)
    process.start()
    process.join(60.0)
    return process.exitcode


def tell() -> None:
    """Write the status of each defect."""
    sys.stdout.write("\n" + json.dumps({name: status(name) for name in DEFECTS}) + "\n")
