"""The compiled kernels move 16 bytes at a time, spill nothing, and stay within their budget.

At the full bandwidth of an H200 its multiprocessors can issue about 230 thread instructions for
every 16 bytes; the budgets here are counted over a whole program that moves one tile.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any, Final

import pytest

pytest.importorskip("triton")
ROOT: Final = Path(__file__).resolve().parents[2]

# registers, and instructions for every 16 bytes
BUDGETS: Final = {
    "pack": (48, 24), "pack, pages unchecked": (48, 28), "unpack": (48, 24),
    "pack small pages": (48, 24), "pack tiny pages": (56, 30),
    "unpack tiny pages, pages unchecked": (64, 34),
    "pack flat": (48, 36), "pack flat, pages unchecked": (56, 44), "unpack flat": (64, 44),
    "pack slices": (48, 30), "unpack slices": (56, 38), "pack other order": (48, 40),
    "pack and digest": (72, 54), "unpack and verify": (72, 60), "digest chunk": (64, 54),
    # A tile is of half as many units, for a sum of every page takes registers.
    "pack and digest small pages": (48, 82), "unpack and verify tiny pages": (72, 112),
}  # fmt: skip


@pytest.fixture(scope="module")
def printed() -> dict[str, Any]:
    """What `codegen` prints, from a process where Triton compiles."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment |= {"PYTHONPATH": str(ROOT), "PYTHONWARNINGS": "error"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.codegen"],
        cwd=ROOT, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


@pytest.fixture(scope="module")
def compiled(printed: dict[str, Any]) -> dict[str, Any]:
    """The kernels by name."""
    kernels: dict[str, Any] = printed["kernels"]
    return kernels


def test_no_value_of_a_chunk_makes_triton_compile_again(printed: dict[str, Any]) -> None:
    """Counts, keys and addresses change from chunk to chunk; the compiled kernel does not."""
    assert len(set(printed["specializations"])) == 1


@pytest.mark.parametrize("name", BUDGETS)
def test_payload_moves_in_16_bytes(compiled: dict[str, Any], name: str) -> None:
    memory, vectors = compiled[name]["memory"], compiled[name]["vectors"]
    assert memory["LDG.E.128"] == vectors
    stores = {opcode: count for opcode, count in memory.items() if opcode.startswith("STG")}
    stored = stores.pop("STG.E.128", 0)
    assert stored == (0 if name == "digest chunk" else vectors)
    # Beside the payload a kernel stores digests only.
    assert stores == ({"STG.E.64": 1} if "digest" in name else {})
    assert not [opcode for opcode in memory if opcode[2] == "G" and ".U" in opcode]


@pytest.mark.parametrize("name", BUDGETS)
def test_budgets_hold(compiled: dict[str, Any], name: str) -> None:
    registers, instructions = BUDGETS[name]
    assert compiled[name]["REG"] <= registers
    assert compiled[name]["per_vector"] <= instructions
    if "digest" not in name and "verify" not in name:
        assert compiled[name]["SHARED"] == 0


# The same for 16 bytes of codes, which take 48 bytes of traffic: time for about 345.
CAST_BUDGETS: Final = {
    "cast static": (40, 185), "cast page": (48, 305), "cast head": (48, 345),
    "cast page other order": (64, 340), "uncast": (48, 75), "uncast head": (48, 95),
}  # fmt: skip


@pytest.mark.parametrize("name", CAST_BUDGETS)
def test_budgets_of_casts_hold(compiled: dict[str, Any], name: str) -> None:
    registers, instructions = CAST_BUDGETS[name]
    assert compiled[name]["REG"] <= registers
    assert compiled[name]["per_vector"] <= instructions


def test_nothing_spills(compiled: dict[str, Any]) -> None:
    for name, found in compiled.items():
        assert (found["STACK"], found["LOCAL"]) == (0, 0), name
        assert not [opcode for opcode in found["memory"] if opcode[2] == "L"], name


def test_casts_load_and_store_16_bytes(compiled: dict[str, Any]) -> None:
    for name in ("cast static", "cast page", "cast head"):
        memory = compiled[name]["memory"]
        # Two loads of 8 elements for a store of 16; where the scale follows, read twice.
        assert memory["LDG.E.128"] == (4 if name == "cast static" else 8)
        assert memory["STG.E.128"] == 2
    memory = compiled["uncast"]["memory"]
    assert (memory["LDG.E.128"], memory["STG.E.128"]) == (2, 4)
