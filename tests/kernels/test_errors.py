"""What is wrong is named before anything moves; what only a device can see, it reports."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import pytest

from pdproto.kernels.chunk import (
    HeadRange,
    Launch,
    Order,
    Outcome,
    digest_pages,
    digests_in,
    new_report,
    pack_chunk,
    pack_slices,
    plan_for,
    register,
    unpack_chunk,
    unpack_slices,
    warmup,
)
from pdproto.kernels.digest import page_digests
from pdproto.kernels.report import HostReport
from tests.kernels.paths import PATHS, Path, on_device
from tests.kernels.pools import POISON, Geometry, new_pools
from tests.kernels.reference import pack_reference
from tests.skips import INTERPRETED

GEOMETRY: Final = Geometry(entries=2, pages=6, tokens=2, heads=4, row_bytes=32)


def _chunk(path: Path, length: int) -> Any:
    return path.put(np.full(length, POISON, np.uint8))


@pytest.mark.parametrize("bad", [6, -1, 2**31 - 1])
def test_a_page_in_host_memory_that_no_pool_has(path: Path, bad: int) -> None:
    layout = path.layout(new_pools(GEOMETRY))
    chunk = _chunk(path, 4096)
    pages = np.array([0, bad, 1])
    for copy in (pack_chunk, unpack_chunk):
        with pytest.raises(ValueError, match=rf"pages\[1\]: page {bad} does not exist: .* 6"):
            copy(layout, pages, chunk)
    many = np.zeros(100, np.int64)
    many[70] = bad
    with pytest.raises(ValueError, match=rf"pages\[70\]: page {bad} does not exist: .* 6"):
        pack_chunk(layout, many, chunk)
    assert (path.get(chunk) == POISON).all()


@pytest.mark.parametrize("count", [3, 70])
def test_a_page_that_would_be_written_twice(path: Path, count: int) -> None:
    geometry = Geometry(entries=1, pages=80, tokens=1, heads=1, row_bytes=16)
    layout = path.layout(new_pools(geometry))
    pages = np.arange(count)
    pages[-1] = 1
    with pytest.raises(ValueError, match="page 1 is written more than once"):
        unpack_chunk(layout, pages, _chunk(path, 4096))


def test_arguments_are_named(path: Path) -> None:
    layout = path.layout(new_pools(GEOMETRY))
    need = plan_for(layout, 2).only.payload_bytes
    chunk, short = _chunk(path, need), _chunk(path, need - 1)
    wrong_type = path.put(np.zeros(need, np.int8))
    sums = path.put(np.zeros(3, np.int64))
    pages = [0, 1]
    peers = [HeadRange(0, 2), HeadRange(1, 2)]
    with pytest.raises(ValueError, match=rf"chunks\[0\]: {need} .*needed, got {need - 1}"):
        pack_chunk(layout, pages, short)
    with pytest.raises(ValueError, match=r"chunks\[0\]: want contiguous"):
        unpack_chunk(layout, pages, wrong_type)
    with pytest.raises(ValueError, match="chunks: want one per peer, 2, got 1"):
        pack_slices(layout, pages, [chunk], peers)
    with pytest.raises(ValueError, match=r"digests\[0\]"):
        pack_chunk(layout, pages, chunk, digests=sums)
    with pytest.raises(ValueError, match="head 1 is written more than once"):
        unpack_slices(layout, pages, [chunk, chunk], peers)
    with pytest.raises(ValueError, match="report: needed with expected"):
        unpack_chunk(layout, pages, chunk, expected=sums)
    with pytest.raises(ValueError, match="pages: want int32 or int64"):
        pack_chunk(layout, np.zeros(2), chunk)
    with pytest.raises(ValueError, match="pages: want int32 or int64"):
        pack_chunk(layout, np.zeros((1, 2), np.int64), chunk)


@pytest.mark.parametrize("copy", [pack_chunk, unpack_chunk])
def test_a_chunk_in_a_pool_is_refused(path: Path, copy: Any) -> None:
    """It would be read while it is written."""
    layout = path.layout(new_pools(GEOMETRY))
    need = plan_for(layout, 1).only.payload_bytes
    before = path.get(layout.pools[1]).copy()
    whole = layout.pools[1].reshape(-1)
    for first in (0, whole.shape[0] - need):
        with pytest.raises(ValueError, match=r"chunks\[0\]: shares memory with pools\[1\]"):
            copy(layout, [0], whole[first:])
    sums, beside = _words(path, whole[:16]), _chunk(path, need)
    name = "digests" if copy is pack_chunk else "expected"
    told = {name: sums, "report": new_report(layout)}
    with pytest.raises(ValueError, match=rf"{name}\[0\]: shares memory with pools\[1\]"):
        copy(layout, [0], beside, **told)
    assert np.array_equal(path.get(layout.pools[1]), before)


def _words(path: Path, memory: Any) -> Any:
    """Bytes as 64-bit integers, where they lie."""
    if not path.triton:
        return memory.view(np.int64)
    import torch  # noqa: PLC0415 - only where tensors are

    return memory.view(torch.int64)


def test_a_chunk_between_the_rows_of_a_pool_is_no_part_of_it(path: Path) -> None:
    both = path.put(np.random.default_rng(1).integers(0, 256, (6, 2, 1, 1, 128), np.uint8))
    layout = path.relayout(path.layout([np.zeros((1, 1, 1, 1), np.uint8)]), [both[:, 0]])
    pack_chunk(layout, [3], both[5, 1, 0, 0])
    assert np.array_equal(path.get(both[5, 1, 0, 0]), path.get(both[3, 0, 0, 0]))


def test_one_chunk_for_two_peers_is_refused(path: Path) -> None:
    layout = path.layout(new_pools(GEOMETRY))
    peers = [HeadRange(0, 2), HeadRange(2, 2)]
    need = plan_for(layout, 1, peers=peers).peers[0].payload_bytes
    chunk = _chunk(path, 2 * need)
    for second in (chunk, chunk[need - 16:]):
        with pytest.raises(ValueError, match=r"chunks\[\d\]: shares memory with chunks\[\d\]"):
            pack_slices(layout, [0], [chunk, second], peers)
    sums = [_words(path, chunk[:16])] * 2
    with pytest.raises(ValueError, match="shares memory with"):
        pack_slices(layout, [0], [chunk, chunk[need:]], peers, digests=sums)
    assert (path.get(chunk) == POISON).all()
    pack_slices(layout, [0], [chunk, chunk[need:]], peers)


def test_a_latent_has_one_writer(path: Path) -> None:
    layout = path.layout(new_pools(Geometry(1, pages=2, tokens=2, heads=1, row_bytes=32)))
    with pytest.raises(ValueError, match="an entry with a single head has one writer"):
        unpack_slices(layout, [0], [None, None], [HeadRange(0, 1), HeadRange(1, 1)])


def test_a_chunk_is_as_long_as_the_layout_allows(path: Path) -> None:
    layout = path.layout(new_pools(GEOMETRY), pages_max=4)
    with pytest.raises(ValueError, match="5 in one chunk, the layout's chunk_pages_max is 4"):
        pack_chunk(layout, [0, 1, 2, 3, 4], _chunk(path, 4096))


def test_read_only_memory_is_not_packed_into() -> None:
    layout = PATHS["numpy"].layout(new_pools(GEOMETRY))
    with pytest.raises(ValueError, match=r"chunks\[0\]: read-only"):
        pack_chunk(layout, [0], bytes(4096))
    unpack_chunk(layout, [0], bytes(4096))
    assert not layout.pools[0][0].any()
    with pytest.raises(ValueError, match=r"digests\[0\]: want a 64-bit"):
        pack_chunk(layout, [0], bytearray(4096), digests=np.zeros(2, np.float64))


def test_a_report_of_another_path_is_refused(path: Path) -> None:
    layout = path.layout(new_pools(GEOMETRY))
    report: Any = HostReport(10) if path.triton else object()
    chunk = _chunk(path, plan_for(layout, 1).only.bytes)
    sums = digests_in(plan_for(layout, 1).only, chunk)
    with pytest.raises(TypeError, match="report: want one from new_report"):
        unpack_chunk(layout, [0], chunk, expected=sums, report=report)


def test_host_memory_is_asked_for_by_name() -> None:
    """A tensor on no host stands for one on a GPU; numpy has no bfloat16."""
    torch = pytest.importorskip("torch")
    layout = PATHS["numpy"].layout(new_pools(GEOMETRY))
    elsewhere = torch.zeros(4096, dtype=torch.uint8, device="meta")
    chunk = np.zeros(4096, np.uint8)
    for pages, given, name in (
        (torch.zeros(1, dtype=torch.int64, device="meta"), chunk, "pages"),
        ([0], elsewhere, r"chunks\[0\]"),
        ([0], torch.zeros(4096, dtype=torch.bfloat16), r"chunks\[0\]"),
    ):
        with pytest.raises(TypeError, match=rf"{name}: want host memory"):
            pack_chunk(layout, pages, given)
    with pytest.raises(TypeError, match=r"digests\[0\]: want host memory"):
        pack_chunk(layout, [0], chunk, digests=elsewhere.view(torch.int64))


def test_a_launch_that_cannot_be_is_named(path: Path) -> None:
    with pytest.raises(ValueError, match="launch: ctas_max must be at least 1, got 0"):
        Launch(ctas_max=0)
    if path.triton:
        layout = path.layout(new_pools(GEOMETRY))
        chunk = _chunk(path, plan_for(layout, 1).only.bytes)
        with pytest.raises(ValueError, match="launch: its stream is on meta, the pools are on"):
            pack_chunk(layout, [0], chunk, launch=Launch(stream=SimpleNamespace(device="meta")))
        assert (path.get(chunk) == POISON).all()


def test_a_report_with_too_few_bits_is_refused(path: Path) -> None:
    """A bit past its end would be somebody else's memory."""
    geometry = Geometry(entries=1, pages=80, tokens=1, heads=1, row_bytes=16)
    pools = new_pools(geometry)
    layout = path.layout(pools, pages_max=80)
    report = new_report(path.layout(pools, pages_max=32))
    plan = plan_for(layout, 80)
    chunk = _chunk(path, plan.only.bytes)
    before = path.get(layout.pools[0]).copy()
    with pytest.raises(ValueError, match="report: 2 words, 4 needed"):
        unpack_chunk(layout, np.arange(80), chunk, expected=digests_in(plan.only, chunk),
                     report=report)  # fmt: skip
    assert np.array_equal(path.get(layout.pools[0]), before)


@on_device
@pytest.mark.parametrize("kind", ["int32", "int64"])
@pytest.mark.parametrize("row_bytes", [32, 20])
def test_bad_pages_on_the_device(path: Path, kind: str, row_bytes: int) -> None:
    """Pack ships zeros for them, unpack stores nothing, and the first position is reported."""
    geometry = Geometry(entries=2, pages=6, tokens=2, heads=4, row_bytes=row_bytes)
    pools = new_pools(geometry)
    layout = path.layout(pools)
    pages = np.array([5, 6, 0, -1, 2**31 - 1, 3]).astype(kind)
    good = [0, 2, 5]
    plan = plan_for(layout, 6)
    chunk, report = _chunk(path, plan.only.bytes), new_report(layout)
    pack_chunk(layout, path.put(pages), chunk, report=report)
    want = pack_reference(pools, Order.NHD, [5, 0, 0, 0, 0, 3], plan, plan.only)
    shaped = want.reshape(2, 6, -1)
    shaped[:, [1, 3, 4]] = 0
    assert np.array_equal(path.get(chunk)[: want.size], want)
    assert report.read() == Outcome(bad_index=1, mismatched=())
    report.clear()

    sums = path.put(np.zeros(12, np.int64))
    digest_pages(layout, path.put(pages), sums, report=report)
    told = path.get(sums).view(np.uint64)
    assert np.array_equal(told, page_digests(shaped.reshape(12, -1), entries=2))
    assert report.read().bad_index == 1
    report.clear()

    target = path.layout([np.full_like(pool, POISON) for pool in pools])
    unpack_chunk(target, path.put(pages), chunk, report=report)
    assert report.read().bad_index == 1
    for got, pool in zip(target.pools, pools, strict=True):
        stored = path.get(got)
        assert np.array_equal(stored[pages[good]], pool[pages[good]])
        assert (stored[[1, 2, 4]] == POISON).all()


@on_device
def test_device_arguments_are_named(path: Path) -> None:
    layout = path.layout(new_pools(GEOMETRY))
    need = plan_for(layout, 2).only.payload_bytes
    chunk = _chunk(path, need + 16)
    with pytest.raises(ValueError, match=r"chunks\[0\]: want a tensor"):
        pack_chunk(layout, [0, 1], np.zeros(need, np.uint8))
    start = 1 + -chunk.data_ptr() % 16
    with pytest.raises(ValueError, match=r"chunks\[0\]: its address must be a multiple of 16"):
        unpack_chunk(layout, [0], chunk[start:])
    peers = [HeadRange(0, 1)] * 1025
    with pytest.raises(ValueError, match="peers: at most 1024 in one launch, got 1025"):
        pack_slices(layout, [0], [chunk] * 1025, peers)
    with pytest.raises(ValueError, match="pages: want int32 or int64"):
        pack_chunk(layout, path.put(np.zeros(2, np.int16)), chunk)
    with pytest.raises(ValueError, match="chunk_pages_max"):
        pack_chunk(path.layout(new_pools(GEOMETRY), pages_max=1), path.put(np.zeros(2, np.int64)),
                   chunk)  # fmt: skip


def test_warmup_makes_every_kernel_that_copies_need(path: Path) -> None:
    layout = path.layout(new_pools(GEOMETRY))
    made = warmup(layout, peers=[(HeadRange(0, 2), HeadRange(2, 2))]) if path.triton else 0
    # Packing, unpacking, both with digests, digests of pages: each with page numbers checked
    # before, as int64 or as int32; and digests of chunks. Whole pages and slices.
    assert made == (2 * 6 * 3 if path.triton else warmup(layout))


def test_a_stream_of_another_device_is_refused_by_both_names() -> None:
    torch = pytest.importorskip("torch")
    if torch.cuda.is_available():
        pytest.skip(INTERPRETED)
    path = PATHS["interpreter"]
    layout = path.layout(new_pools(Geometry(entries=1, pages=2, tokens=2, heads=1, row_bytes=16)))
    chunk = path.put(np.zeros(plan_for(layout, 1).only.bytes, np.uint8))
    stream = SimpleNamespace(device=torch.device("cuda:1"))
    with pytest.raises(ValueError, match="launch: its stream is on cuda:1, the pools are on cpu"):
        pack_chunk(layout, [0], chunk, launch=Launch(stream=stream))
    assert not path.get(chunk).any()


def test_pools_on_two_devices_are_refused_by_both_names() -> None:
    torch = pytest.importorskip("torch")
    first, second = (torch.zeros((2, 2, 1, 16), dtype=torch.uint8) for _ in range(2))
    elsewhere = SimpleNamespace(**{
        name: getattr(second, name) for name in (
            "data_ptr", "dtype", "element_size", "is_conj", "is_neg", "is_quantized", "shape",
            "stride")}, device=torch.device("cuda:1"))
    told = r"pools\[1\]: 2 pages on cuda:1, but pools\[0\] has 2 on "
    with pytest.raises(ValueError, match=told):
        register([first, elsewhere])


def test_every_damaged_page_is_named_past_a_word_of_the_report(path: Path) -> None:
    """A word has the bits of 32 pages."""
    layout = path.layout(new_pools(Geometry(2, pages=80, tokens=1, heads=1, row_bytes=16)))
    plan, pages = plan_for(layout, 80).only, np.arange(80)[::-1].copy()
    placed, report = path.put(np.zeros(plan.bytes, np.uint8)), new_report(layout)
    pack_chunk(layout, pages, placed, digests=digests_in(plan, placed))
    damaged = path.get(placed).copy()
    for entry, position in ((0, 17), (1, 17), (0, 31), (1, 32), (0, 79)):
        damaged[plan.offset(entry, position)] ^= 1
    placed = path.put(damaged)
    unpack_chunk(layout, pages, placed, expected=digests_in(plan, placed), report=report)
    assert report.read() == Outcome(None, (17, 31, 32, 79))
