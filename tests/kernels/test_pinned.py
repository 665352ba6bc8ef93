"""Chunks in pinned host memory: the same bytes, and what a device does not reach is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from pdproto.kernels.arguments import Numbers  # noqa: E402 - after torch
from pdproto.kernels.chunk import (  # noqa: E402
    digest_chunk,
    digests_in,
    new_report,
    pack_chunk,
    plan_for,
    unpack_chunk,
)
from pdproto.kernels.device_arguments import chunk_tensors, digest_tensors  # noqa: E402
from pdproto.kernels.prepared import prepare_pack, prepare_unpack  # noqa: E402
from tests.kernels.paths import PATHS, Path, on_device  # noqa: E402
from tests.kernels.pools import POISON, Geometry, new_pools  # noqa: E402

GEOMETRY: Final = Geometry(entries=3, pages=6, tokens=2, heads=2, row_bytes=64)
PAGES: Final = [4, 0, 3]
KEY: Final = 99


def _host(path: Path, length: int) -> Any:
    return torch.full((length,), POISON, dtype=torch.uint8, pin_memory=path.name == "cuda")


def _expected(path: Path, pools: list[Any]) -> tuple[Any, Any]:
    """The plan, and the bytes of a chunk on the device."""
    layout = path.layout(pools)
    plan = plan_for(layout, len(PAGES)).only
    chunk = path.put(np.full(plan.bytes, POISON, np.uint8))
    pack_chunk(layout, PAGES, chunk, digests=digests_in(plan, chunk), key=KEY)
    return plan, path.get(chunk)


def _wait(path: Path) -> None:
    if path.name == "cuda":
        torch.cuda.synchronize()


@on_device
def test_a_chunk_in_pinned_memory_has_the_bytes_of_one_on_the_device(path: Path) -> None:
    pools = new_pools(GEOMETRY)
    plan, want = _expected(path, pools)
    source, sink = path.layout(pools), path.layout([np.zeros_like(pool) for pool in pools])
    chunk = _host(path, plan.bytes)
    pack_chunk(source, PAGES, chunk, digests=digests_in(plan, chunk), key=KEY)
    _wait(path)
    assert np.array_equal(chunk.numpy(), want)
    report, sums = new_report(sink), path.put(np.zeros(9, np.uint64))
    digest_chunk(sink, len(PAGES), chunk, sums, key=KEY)
    assert np.array_equal(path.get(sums), digests_in(plan, chunk).numpy())
    unpack_chunk(sink, PAGES, chunk, expected=digests_in(plan, chunk), key=KEY, report=report)
    assert report.read().clean
    for got, pool in zip(sink.pools, pools, strict=True):
        assert np.array_equal(path.get(got)[PAGES], pool[PAGES])


@on_device
def test_a_prepared_copy_reads_and_writes_pinned_memory(path: Path) -> None:
    pools = new_pools(GEOMETRY)
    plan, want = _expected(path, pools)
    source, sink = path.layout(pools), path.layout([np.zeros_like(pool) for pool in pools])
    chunk = _host(path, plan.bytes)
    sums, report = digests_in(plan, chunk), new_report(sink)
    numbers = [Numbers(torch.zeros(3, dtype=torch.int64, pin_memory=path.name == "cuda"),
                       path.put(np.zeros(3, np.int64))) for _ in range(2)]
    packing = prepare_pack(source, chunk, numbers[0], digests=sums)
    unpacking = prepare_unpack(sink, chunk, numbers[1], expected=sums, report=report)
    packing.tell(PAGES)
    packing.enqueue(KEY)
    _wait(path)
    assert np.array_equal(chunk.numpy(), want)
    unpacking.tell(PAGES)
    unpacking.enqueue(KEY)
    report.fetch()
    assert report.read().clean


def test_memory_that_a_device_does_not_reach_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pinned or not is what torch says; the kernel would fault on the rest."""
    layout = replace(PATHS["interpreter"].layout(new_pools(GEOMETRY)), device="cuda:0")
    plan = plan_for(layout, 3)
    host = torch.zeros(plan.only.bytes, dtype=torch.uint8)
    elsewhere = torch.empty(plan.only.bytes, dtype=torch.uint8, device="meta")
    sums = torch.zeros(9, dtype=torch.int64)
    wanted = r"want a tensor on cuda:0, or in pinned host memory"
    with pytest.raises(ValueError, match=rf"chunks\[0\]: {wanted}: .* is not pinned"):
        chunk_tensors(layout, plan, [host])
    with pytest.raises(ValueError, match=rf"digests\[0\]: {wanted}: .* is not pinned"):
        digest_tensors(layout, plan, [sums], "digests")
    with pytest.raises(ValueError, match=rf"chunks\[0\]: {wanted}, got one on meta"):
        chunk_tensors(layout, plan, [elsewhere])
    with pytest.raises(ValueError, match=rf"chunks\[0\]: {wanted}, got ndarray"):
        chunk_tensors(layout, plan, [host.numpy()])
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: True)
    (found,) = chunk_tensors(layout, plan, [host])
    assert found is host
    with pytest.raises(ValueError, match=r"chunks\[0\]: .* needed, got 5"):
        chunk_tensors(layout, plan, [host[:5]])
