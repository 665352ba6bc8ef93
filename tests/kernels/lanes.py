"""Count what the requests of warps touch in compiled copies, for pages of many sizes, as JSON.

A warp that reads or writes 32 times 16 bytes in one piece touches 16 sectors of 32 bytes and 4
lines of 128; one whose lanes each are in another page touches 32 of both, for the same bytes. A
program of its own, as `codegen` is, and as that one in need of no GPU.
"""

from __future__ import annotations

import json
import sys
from itertools import product
from typing import Any, Final

import numpy as np
import torch

from pdproto.kernels import device
from pdproto.kernels.chunk import (
    digests_in,
    new_report,
    pack_chunk,
    plan_for,
    unpack_chunk,
)
from tests.kernels import emulated
from tests.kernels.paths import PATHS
from tests.kernels.ptx import Requests

PAGE_BYTES: Final = (256, 512, 656, 1024, 1152, 2048, 4096)
KINDS: Final = ("plain", "digests")
POOL_BYTES: Final = 48 << 10


def _aligned(length: int) -> torch.Tensor:
    memory = torch.zeros(length + 128, dtype=torch.uint8)
    start = -memory.data_ptr() % 128
    return memory[start : start + length]


def counted(page_bytes: int, kind: str) -> dict[str, dict[str, Requests]]:
    """Global accesses of a pack and an unpack of pages at random, each checked for its bytes.

    kind: of the copy, see `KINDS`.
    """
    found: list[dict[str, Requests]] = []

    def run(*arguments: Any, **named: Any) -> None:
        found.append(emulated.run(*arguments, **named))

    device.run = run  # type: ignore[attr-defined]
    path, pages = PATHS["interpreter"], POOL_BYTES // page_bytes
    random = np.random.default_rng(page_bytes)
    pool, target = (_aligned(pages * page_bytes) for _ in range(2))
    pool[:] = torch.from_numpy(random.integers(0, 256, len(pool), np.uint8))
    like, shape = path.layout([np.zeros((1, 1, 1, 1), np.uint8)]), (pages, 1, 1, page_bytes)
    source, sink = (path.relayout(like, [one.reshape(shape)]) for one in (pool, target))
    numbers, report = torch.from_numpy(random.permutation(pages)), new_report(sink)
    plan = plan_for(source, pages).only
    chunk = _aligned(plan.bytes)
    sums = digests_in(plan, chunk) if kind == "digests" else None
    pack_chunk(source, numbers, chunk, digests=sums)
    unpack_chunk(sink, numbers, chunk, expected=sums, report=report)
    if not (torch.equal(pool, target) and report.read().clean):
        raise SystemExit(f"{page_bytes} B pages: wrong bytes")
    return dict(zip(("pack", "unpack"), found, strict=True))


def main() -> None:
    """By case, then by kind of access: sectors and lines a request, and the least of both."""
    told = {}
    for page_bytes, kind in product(PAGE_BYTES, KINDS):
        for name, accesses in counted(page_bytes, kind).items():
            told[f"{name}, {kind}, {page_bytes} B"] = {
                access: (one.sectors / one.requests, one.lines / one.requests,
                         one.lanes / one.requests / 2)
                for access, one in accesses.items() if access in {"ld16", "st16"}
            }  # fmt: skip
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
