"""Chunks in pinned host memory: the same bytes, and what a device does not reach is refused."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("triton")

from lab.casts.cast import pack_cast, unpack_cast  # noqa: E402 - after torch
from pdproto.kernels.arguments import Numbers  # noqa: E402
from pdproto.kernels.chunk import (  # noqa: E402
    Pinned,
    Request,
    digest_chunk,
    digests_in,
    new_report,
    pack_chunk,
    pack_requests,
    plan_for,
    unpack_chunk,
    unpack_requests,
)
from pdproto.kernels.device_arguments import chunk_tensors, digest_tensors  # noqa: E402
from pdproto.kernels.plan import Scale  # noqa: E402
from pdproto.kernels.prepared import prepare_pack, prepare_unpack  # noqa: E402
from tests.kernels.paths import PATHS, Path, on_device  # noqa: E402
from tests.kernels.pools import POISON, Geometry, new_pools  # noqa: E402

GEOMETRY: Final = Geometry(entries=3, pages=6, tokens=2, heads=2, row_bytes=64)
PAGES: Final = [4, 0, 3]
KEY: Final = 99


def _host(path: Path, length: int) -> Any:
    return torch.full((length,), POISON, dtype=torch.uint8, pin_memory=path.name == "cuda")


def _chunk(path: Path, length: int, *, through: bool) -> tuple[Any, Any]:
    """What is given to a call, and the host memory where its bytes are."""
    memory = _host(path, length)
    if not through:
        return memory, memory
    return Pinned(memory, path.put(np.full(length, POISON + 1, np.uint8))), memory


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
@pytest.mark.parametrize("through", [False, True])
def test_a_chunk_in_pinned_memory_has_the_bytes_of_one_on_the_device(
    path: Path, through: bool
) -> None:
    pools = new_pools(GEOMETRY)
    plan, want = _expected(path, pools)
    source, sink = path.layout(pools), path.layout([np.zeros_like(pool) for pool in pools])
    chunk, memory = _chunk(path, plan.bytes, through=through)
    pack_chunk(source, PAGES, chunk, digests=digests_in(plan, memory), key=KEY)
    _wait(path)
    assert np.array_equal(memory.numpy(), want)
    report, sums = new_report(sink), path.put(np.zeros(9, np.uint64))
    if through:
        chunk.through[:] = 0  # what is unpacked comes from the host's memory
    digest_chunk(sink, len(PAGES), chunk, sums, key=KEY)
    assert np.array_equal(path.get(sums), digests_in(plan, memory).numpy())
    if through:
        chunk.through[:] = 0
    unpack_chunk(sink, PAGES, chunk, expected=digests_in(plan, memory), key=KEY, report=report)
    assert report.read().clean
    for got, pool in zip(sink.pools, pools, strict=True):
        assert np.array_equal(path.get(got)[PAGES], pool[PAGES])


@on_device
def test_requests_in_pinned_memory(path: Path) -> None:
    """One through memory of the device, and one directly, in one launch."""
    pools = new_pools(GEOMETRY)
    source, sink = path.layout(pools), path.layout([np.zeros_like(pool) for pool in pools])
    length = plan_for(source, 2).only.bytes
    chunks = [_chunk(path, length, through=through)[0] for through in (True, False)]
    requests = [Request([4, 0], chunks[:1]), Request([5, 3], chunks[1:])]
    pack_requests(source, requests)
    _wait(path)
    chunks[0].through[:] = 0
    unpack_requests(sink, requests)
    for got, pool in zip(sink.pools, pools, strict=True):
        assert np.array_equal(path.get(got)[[0, 3, 4, 5]], pool[[0, 3, 4, 5]])


@on_device
def test_a_cast_and_a_prepared_copy_go_through_memory_of_the_device(path: Path) -> None:
    words = [pool.view(np.uint16) & 0x3FFF for pool in new_pools(GEOMETRY)]  # finite numbers
    pools = [path.put(one.view(np.int16)).view(torch.bfloat16) for one in words]
    like = path.layout(new_pools(GEOMETRY))
    layout = path.relayout(like, pools)
    plan = plan_for(layout, len(PAGES), scale=Scale.PAGE).only
    direct = path.put(np.zeros(plan.digest_offset, np.uint8))
    pack_cast(layout, PAGES, direct, scale=Scale.PAGE)
    chunk, memory = _chunk(path, plan.digest_offset, through=True)
    chunk.through[:] = 0
    memory[:] = 0
    pack_cast(layout, PAGES, chunk, scale=Scale.PAGE)
    _wait(path)
    assert np.array_equal(memory.numpy(), path.get(direct))
    targets = [path.relayout(like, [torch.zeros_like(one) for one in pools]) for _ in range(2)]
    chunk.through[:] = 0
    for target, given in zip(targets, (direct, chunk), strict=True):
        unpack_cast(target, PAGES, given, scale=Scale.PAGE)
    for one, other in zip(targets[0].pools, targets[1].pools, strict=True):
        assert torch.equal(one, other)
        assert one.any()

    raw = new_pools(GEOMETRY)
    plain, want = _expected(path, raw)
    source, sink = path.layout(raw), path.layout([np.zeros_like(pool) for pool in raw])
    chunk, memory = _chunk(path, plain.bytes, through=True)
    sums, report = digests_in(plain, memory), new_report(sink)
    numbers = [Numbers(torch.zeros(3, dtype=torch.int64, pin_memory=path.name == "cuda"),
                       path.put(np.zeros(3, np.int64))) for _ in range(2)]
    packing = prepare_pack(source, chunk, numbers[0], digests=sums)
    unpacking = prepare_unpack(sink, chunk, numbers[1], expected=sums, report=report)
    packing.tell(PAGES)
    packing.enqueue(KEY)
    _wait(path)
    assert np.array_equal(memory.numpy(), want)
    chunk.through[:] = 0
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
    with pytest.raises(ValueError, match=r"chunks\[0\]\.memory: .* is not pinned"):
        chunk_tensors(layout, plan, [Pinned(host, host)])
    monkeypatch.setattr(torch.Tensor, "is_pinned", lambda _: True)
    (found,) = chunk_tensors(layout, plan, [host])
    assert found is host
    with pytest.raises(ValueError, match=r"chunks\[0\]\.through: want a tensor on cuda:0, got cpu"):
        chunk_tensors(layout, plan, [Pinned(host, host)])
    with pytest.raises(ValueError, match=r"chunks\[0\]: .* needed, got 5"):
        chunk_tensors(layout, plan, [host[:5]])


def test_pinned_memory_for_two_chunks_is_refused() -> None:
    path = PATHS["interpreter"]
    layout = path.layout(new_pools(GEOMETRY))
    length = plan_for(layout, 1).only.bytes
    memory = _host(path, length)
    requests = [Request([page], [Pinned(memory, _host(path, length))]) for page in (0, 1)]
    with pytest.raises(ValueError, match=r"requests\[\d\].memory: shares memory with requests"):
        pack_requests(layout, requests)


def test_pools_in_host_memory_need_no_pinned_chunk() -> None:
    layout = PATHS["numpy"].layout(new_pools(GEOMETRY))
    memory = torch.zeros(plan_for(layout, 1).only.bytes, dtype=torch.uint8)
    with pytest.raises(TypeError, match=r"chunks\[0\]: the pools are in host memory: give its"):
        pack_chunk(layout, [0], Pinned(memory, memory))
