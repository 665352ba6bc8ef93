"""The compiled kernels move 16 bytes at a time, spill nothing, and stay within their budget.

At the full bandwidth of an H200 its multiprocessors can issue about 230 thread instructions for
every 16 bytes; the budgets here are counted over a whole program that moves one tile.

The Triton that is installed compiles. `make test-ptx` runs this for the oldest one that we claim to
support and for the one that CUDA builds of torch 2.10 and 2.11 bring as well.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
from _pytest.mark import ParameterSet

from tests.shared_answers import once

pytest.importorskip("triton")
ROOT: Final = Path(__file__).resolve().parents[2]

# registers, and instructions for every 16 bytes
BUDGETS: Final = {
    "pack": (48, 24), "pack, pages unchecked": (48, 28), "unpack": (48, 24),
    "pack small pages": (48, 24), "pack tiny pages": (56, 30),
    "unpack tiny pages, pages unchecked": (64, 34),
    "pack flat": (48, 36), "pack flat, pages unchecked": (56, 44), "unpack flat": (64, 44),
    "pack slices": (48, 30), "unpack slices": (56, 38), "pack other order": (48, 40),
    "pack and digest": (80, 66), "unpack and verify": (80, 72), "digest chunk": (64, 64),
    # A tile is of half as many units, for a sum of every page takes registers.
    "pack and digest small pages": (48, 100), "unpack and verify tiny pages": (80, 145),
}  # fmt: skip


# A way to copy and each to cast; `make test-ptx` and the night compile all.
BY_DAY: Final = (
    "pack", "unpack", "unpack and verify", "cast static", "cast page", "cast head", "uncast",
)  # fmt: skip


def kinds(budgets: Mapping[str, object]) -> list[ParameterSet]:
    """The names of the kernels, of which some wait for the night."""
    return [pytest.param(name, marks=() if name in BY_DAY else pytest.mark.nightly)
            for name in budgets]


def _printed(program: str, *arguments: str) -> Any:
    """What a program prints, from a process where Triton compiles."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    # Another Triton than the installed one comes by this path, see the Makefile.
    paths = [str(ROOT), *filter(None, [environment.get("PYTHONPATH")])]
    environment |= {"PYTHONPATH": os.pathsep.join(paths), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-m", program, *arguments],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def printed(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Of the kernels of the day, or of all if a test of the night is chosen."""
    by_night = any(item.get_closest_marker("nightly") for item in request.session.items)
    asked = () if by_night else BY_DAY
    found: dict[str, Any] = once("codegen", partial(_printed, "tests.kernels.codegen", *asked))
    return found


def _version(printed: dict[str, Any]) -> tuple[int, ...]:
    return tuple(map(int, printed["triton"].split(".")[:2]))


def _budget(printed: dict[str, Any], budget: tuple[int, int]) -> tuple[int, float]:
    """Registers and instructions. What older compilers make takes more of both."""
    if _version(printed) >= (3, 9):
        return budget
    return budget[0] + 24, budget[1] * 1.15


@pytest.fixture(scope="module")
def compiled(printed: dict[str, Any]) -> dict[str, Any]:
    """The kernels by name."""
    kernels: dict[str, Any] = printed["kernels"]
    return kernels


def test_no_value_of_a_chunk_makes_triton_compile_again(printed: dict[str, Any]) -> None:
    """Counts, keys and addresses change from chunk to chunk; the compiled kernel does not."""
    assert len(set(printed["specializations"])) == 1


@pytest.mark.parametrize("name", kinds(BUDGETS))
def test_payload_moves_in_16_bytes(compiled: dict[str, Any], name: str) -> None:
    memory, vectors = compiled[name]["memory"], compiled[name]["vectors"]
    assert memory["LDG.E.128"] == vectors
    stores = {opcode: count for opcode, count in memory.items() if opcode.startswith("STG")}
    stored = stores.pop("STG.E.128", 0)
    assert stored == (0 if name == "digest chunk" else vectors)
    # Beside the payload a kernel stores digests only.
    assert stores == ({"STG.E.64": 1} if "digest" in name else {})
    assert not [opcode for opcode in memory if opcode[2] == "G" and ".U" in opcode]


@pytest.mark.parametrize("name", kinds(BUDGETS))
def test_budgets_hold(
    printed: dict[str, Any], compiled: dict[str, Any], name: str
) -> None:
    registers, instructions = _budget(printed, BUDGETS[name])
    assert compiled[name]["REG"] <= registers
    assert compiled[name]["per_vector"] <= instructions
    if "digest" not in name and "verify" not in name:
        assert compiled[name]["SHARED"] == 0


# The same for 16 bytes of codes, which take 48 bytes of traffic: time for about 345.
CAST_BUDGETS: Final = {
    "cast static": (40, 185), "cast page": (48, 305), "cast head": (48, 345),
    "cast page other order": (64, 340), "uncast": (48, 75), "uncast head": (48, 95),
}  # fmt: skip


@pytest.mark.parametrize("name", kinds(CAST_BUDGETS))
def test_budgets_of_casts_hold(
    printed: dict[str, Any], compiled: dict[str, Any], name: str
) -> None:
    registers, instructions = _budget(printed, CAST_BUDGETS[name])
    assert compiled[name]["REG"] <= registers
    assert compiled[name]["per_vector"] <= instructions


def test_nothing_spills(printed: dict[str, Any], compiled: dict[str, Any]) -> None:
    """Triton 3.4 alone keeps four registers of a verifying copy in memory."""
    few = 16 if _version(printed) == (3, 4) else 0
    for name, found in compiled.items():
        assert found["STACK"] <= few, name
        assert found["LOCAL"] == 0, name
        if not found["STACK"]:
            assert not [opcode for opcode in found["memory"] if opcode[2] == "L"], name


def test_casts_load_and_store_16_bytes(compiled: dict[str, Any]) -> None:
    for name in ("cast static", "cast page", "cast head"):
        memory = compiled[name]["memory"]
        # Two loads of 8 elements for a store of 16; where the scale follows, read twice.
        assert memory["LDG.E.128"] == (4 if name == "cast static" else 8)
        assert memory["STG.E.128"] == 2
    memory = compiled["uncast"]["memory"]
    assert (memory["LDG.E.128"], memory["STG.E.128"]) == (2, 4)


@pytest.mark.nightly
def test_neighbouring_lanes_move_neighbouring_bytes() -> None:
    """A request of a warp touches no sector and no line that it need not, whatever the page size.

    With a lane in each page, as Triton 3.4 to 3.6 would have it of pages on an axis of their own,
    256 B pages take 32 sectors and 32 lines for what fits 16 and 4.
    """
    touched = _printed("tests.kernels.lanes")
    assert len(touched) == 28
    for case, kinds in touched.items():
        assert set(kinds) == {"ld16", "st16"}, case
        for sectors, lines, least in kinds.values():
            # Pages of 656 B begin within a sector and within a line.
            assert sectors <= least * 1.06, case
            assert lines <= least / 4 + 2, case
