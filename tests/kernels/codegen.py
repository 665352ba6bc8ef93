"""Compile kernels for sm_90, without a GPU: those that are named, or all. Print them as JSON.

A program of its own, because Triton either compiles or interprets in one process, and the
other tests interpret. The assembler and the disassembler come with Triton.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, make_backend
from triton.runtime.jit import create_function_from_signature

from lab.casts.device import CastVariant
from lab.casts.kernel import cast_kernel
from pdproto.kernels import page_copy
from pdproto.kernels.device_launch import OPTIONS
from pdproto.kernels.table import Table
from pdproto.kernels.tiling import variant_for

TOOLS: Final = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
WARPS: Final = 4
COPY_TYPES: Final = {
    "table_ptr": "*i64", "peer_ptr": "*i64", "page_ptr": "*i32", "chunk_ptr": "*u8",
    "digest_ptr": "*i64", "report_ptr": "*i32", "pool_pages": "i32", "pages": "i32",
    "page_tiles": "i32", "segments": "i32", "peers": "i32", "tiles": "i32", "key": "i64",
}  # fmt: skip
CAST_TYPES: Final = {
    "table_ptr": "*i64", "page_ptr": "*i64", "chunk_ptr": "*u8", "static_ptr": "*fp32",
    "report_ptr": "*i32", "scale_offset": "i64", "pool_pages": "i32", "pages": "i32",
    "groups": "i32", "tiles": "i32",
}  # fmt: skip

# name: page bytes, atom, depth, from the pool, store, digest, check, peers
COPIES: Final = {
    "pack": (32768, 16, 0, True, True, 0, False, False),
    "pack, pages unchecked": (32768, 16, 0, True, True, 0, True, False),
    "unpack": (32768, 16, 0, False, True, 0, False, False),
    "pack small pages": (4096, 16, 0, True, True, 0, False, False),
    "pack tiny pages": (256, 16, 0, True, True, 0, False, False),
    "unpack tiny pages, pages unchecked": (256, 16, 0, False, True, 0, True, False),
    "pack flat": (1152, 16, 0, True, True, 0, False, False),
    "pack flat, pages unchecked": (1152, 16, 0, True, True, 0, True, False),
    "unpack flat": (656, 16, 0, False, True, 0, True, False),
    "pack slices": (4096, 16, 1, True, True, 0, False, True),
    "unpack slices": (32768, 16, 1, False, True, 0, False, True),
    "pack other order": (32768, 16, 2, True, True, 0, False, False),
    "pack and digest": (32768, 16, 0, True, True, 1, False, False),
    "unpack and verify": (32768, 16, 0, False, True, 2, True, False),
    "pack and digest small pages": (4096, 16, 0, True, True, 1, False, False),
    "unpack and verify tiny pages": (256, 16, 0, False, True, 2, True, False),
    "digest chunk": (32768, 16, 0, False, False, 1, False, False),
    "pack narrow": (264, 8, 0, True, True, 0, False, False),
    "pack and digest narrow": (132, 4, 0, True, True, 1, False, False),
}
# name: depth, apart in the chunk, scale, to the chunk
CASTS: Final = {
    "cast static": (0, False, 0, True), "cast page": (0, False, 1, True),
    "cast head": (1, True, 2, True), "uncast": (0, False, 1, False),
    "uncast head": (1, True, 2, False), "cast page other order": (2, False, 1, True),
}  # fmt: skip


def compiled(
    kernel: Any, variant: tuple[Any, ...], pages: torch.dtype = torch.int32, warps: int = WARPS
) -> Any:
    """What Triton makes of a kernel for sm_90, by form: "ptx", "cubin" and those between."""
    types = dict(COPY_TYPES if kernel is page_copy.copy_kernel else CAST_TYPES)
    types["page_ptr"] = "*i64" if pages == torch.int64 else "*i32"
    constants = dict(zip(kernel.arg_names[len(types):], variant, strict=True))
    signature = {name: types.get(name, "constexpr") for name in kernel.arg_names}
    source = ASTSource(kernel, signature, constants, {})
    options = {"num_warps": warps, **OPTIONS}
    return triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options).asm


def _tool(name: str, *arguments: str) -> str:
    command = [str(TOOLS / name), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def _described(forms: Any, vectors: float) -> dict[str, Any]:
    """Registers, spills, shared memory, memory instructions, and instructions a vector."""
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(forms["cubin"])
        file.flush()
        usage = _tool("cuobjdump", "-res-usage", file.name)
        assembly = _tool("nvdisasm", "-c", file.name)
    opcodes = re.findall(
        r"^\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P[0-9T]+\s+)?([A-Z][A-Z0-9_.]+)", assembly, re.MULTILINE
    )
    opcodes = [opcode for opcode in opcodes if opcode != "NOP"]
    used = {
        name: int(value) for name, value in re.findall(r"(REG|STACK|SHARED|LOCAL):(\d+)", usage)
    }
    memory = Counter(opcode for opcode in opcodes if re.match(r"(LD|ST)[GLS]\b", opcode))
    return {**used, "memory": memory, "vectors": vectors, "per_vector": len(opcodes) / vectors}


def _specializations() -> list[Any]:
    """What Triton would compile the copy kernel for, given very different values."""
    kernel = page_copy.copy_kernel
    bind = create_function_from_signature(
        kernel.signature, kernel.params, make_backend(GPUTarget("cuda", 90, 32))
    )
    words, halves = torch.zeros(64, dtype=torch.int64), torch.zeros(64, dtype=torch.int32)
    chunk = torch.zeros(64, dtype=torch.uint8)
    constants = (16, 1, 1024, 0, False, False, True, True, 0, False, False)
    found = []
    for start, number, key in ((0, 1, 0), (1, 16, 2**62), (3, 7, -5)):
        values = (words[start:], words[start:], halves[start:], chunk, words[start:],
                  halves[start:], *([number] * 6), key)  # fmt: skip
        found.append(repr(bind(*values, *constants, num_warps=WARPS)[1]))
    return found


def main(asked: Collection[str]) -> None:
    """One entry per kernel that is asked for; a vector is 16 bytes that a thread of one tile
    stores, or reads.
    """
    found: dict[str, Any] = {}
    for name in (name for name in COPIES if name in asked):
        size, atom, depth, from_pool, store, digest, check, peers = COPIES[name]
        table = Table(np.zeros((1, 14), np.int64), atom, depth, False, size, True)
        variant = variant_for(
            table, from_pool=from_pool, store=store, digest=digest, check=check, peers=peers,
        )  # fmt: skip
        unit = 16 if atom == 16 else 8
        vectors = variant.pages * variant.units * unit / (WARPS * 32 * 16)
        found[name] = _described(compiled(page_copy.copy_kernel, variant), vectors)
    for name in (name for name in CASTS if name in asked):
        depth, apart, scale, to_chunk = CASTS[name]
        casting = CastVariant(tl.bfloat16, 16, 256, depth, False, apart, scale, to_chunk, True)
        vectors = 256 * (1 if to_chunk else 2) / (WARPS * 32)
        found[name] = _described(compiled(cast_kernel, casting), vectors)
    told = {"kernels": found, "specializations": _specializations(), "triton": triton.__version__}
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1:] or (*COPIES, *CASTS))
