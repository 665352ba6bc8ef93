"""The clock of the host may jump: only names and the times of records are read from it."""

import ast
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).resolve().parents[2] / "pdproto"
FOLDERS: Final = ("engine", "group", "items", "node", "pages", "registry", "runtime", "sglang",
                  "transport", "vllm")
# The number of a run, which must exceed that of the run before (registry: B4); the name of a
# process; the times of spans.
READERS: Final = {"transport/incarnation.py", "sglang/manager.py", "transport/otel.py"}
WALL: Final = {"time", "time_ns", "now", "utcnow", "today"}


def reads_the_wall_clock(source: str) -> bool:
    """Whether a module names time.time, time_ns, or the present of datetime."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and node.module == "time" and any(
                name.name in WALL for name in node.names):
            return True
        if isinstance(node, ast.Attribute) and node.attr in WALL and isinstance(
                node.value, ast.Name) and node.value.id in ("time", "datetime", "date"):
            return True
    return False


def test_no_wait_is_measured_by_a_clock_that_jumps() -> None:
    found = {str(path.relative_to(SOURCE)) for folder in FOLDERS
             for path in (SOURCE / folder).rglob("*.py")
             if reads_the_wall_clock(path.read_text(encoding="utf-8"))}
    assert found == READERS


@pytest.mark.parametrize("source", [
    "import time\ntime.time()", "from time import time", "from datetime import datetime\n"
    "datetime.now()"])
def test_a_module_that_reads_it_would_be_found(source: str) -> None:
    assert reads_the_wall_clock(source)
    assert not reads_the_wall_clock("import time\nfrom time import monotonic\ntime.monotonic()")
