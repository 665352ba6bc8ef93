"""A prepared copy does the same as a call of `pack_chunk` and `unpack_chunk`, each time anew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pdproto.kernels.arguments import Launch, Numbers
from pdproto.kernels.chunk import digests_in, new_report, pack_chunk, plan_for
from pdproto.kernels.prepared import prepare_pack, prepare_unpack
from tests.kernels.paths import PATHS, Path, on_cpu
from tests.kernels.pools import Geometry, new_pools

torch = pytest.importorskip("torch")

GEOMETRY = Geometry(entries=2, pages=7, tokens=2, heads=2, row_bytes=48)
COUNT = 3


def numbers() -> Numbers:
    return Numbers(*(torch.zeros(COUNT, dtype=torch.int64) for _ in range(2)))


@on_cpu
def test_a_prepared_copy_is_made_as_often_as_wanted(path: Path) -> None:
    seven, bytes_ = st.integers(0, 6), plan_for(path.layout(new_pools(GEOMETRY)), COUNT).only.bytes

    @settings(max_examples=5, deadline=None)
    @given(st.lists(st.tuples(
        st.lists(seven, min_size=COUNT, max_size=COUNT, unique=True), st.integers(0, 2**64 - 1),
        st.sampled_from([None, 1])), min_size=1, max_size=4))
    def check(copies: list[tuple[list[int], int, int | None]]) -> None:
        source, sink = new_pools(GEOMETRY), [np.zeros_like(pool) for pool in new_pools(GEOMETRY)]
        there, here = path.layout(source), path.layout(sink)
        plan = plan_for(there, COUNT).only
        chunk = path.put(np.zeros(bytes_, np.uint8))
        again = path.put(np.zeros(bytes_, np.uint8))
        report = new_report(here)
        digests = digests_in(plan, chunk)
        packing = prepare_pack(there, chunk, numbers(), digests=digests)
        unpacking = prepare_unpack(here, chunk, numbers(), expected=digests, report=report)
        for pages, key, ctas_max in copies:
            launch = Launch(ctas_max=ctas_max)
            packing.tell(pages)
            packing.enqueue(key, launch)
            pack_chunk(there, pages, again, digests=digests_in(plan, again), key=key)
            assert np.array_equal(path.get(chunk), path.get(again))
            unpacking.tell(pages[::-1])
            unpacking.enqueue(key, launch)
            report.fetch()
            assert report.read().clean
            for pool, of in zip(here.pools, there.pools, strict=True):
                assert np.array_equal(path.get(pool)[pages[::-1]], path.get(of)[pages])

    check()


@on_cpu
def test_wrong_page_numbers_are_refused_before_anything_is_enqueued(path: Path) -> None:
    layout = path.layout(new_pools(GEOMETRY))
    plan = plan_for(layout, COUNT).only
    chunk = path.put(np.zeros(plan.bytes, np.uint8))
    digests = digests_in(plan, chunk)
    packing = prepare_pack(layout, chunk, numbers(), digests=digests)
    packing.tell([1, 1, 1])
    with pytest.raises(ValueError, match=r"pages\[2\]: page 7 does not exist: the pools have 7"):
        packing.tell([0, 1, 7])
    unpacking = prepare_unpack(layout, chunk, numbers(), expected=digests,
                               report=new_report(layout))
    with pytest.raises(ValueError, match="page 4 is written more than once"):
        unpacking.tell([4, 0, 4])
    for few in ([], [1], [1, 2]):
        with pytest.raises(ValueError, match=f"pages: the copy was prepared for 3, got {len(few)}"):
            packing.tell(few)


def test_a_chunk_in_a_pool_is_refused_when_it_is_prepared() -> None:
    path = PATHS["interpreter"]
    pools = new_pools(GEOMETRY)
    layout = path.layout(pools)
    plan = plan_for(layout, COUNT).only
    chunk = path.put(pools[0].reshape(-1))[:plan.bytes]
    apart = path.put(np.zeros(8 * 2 * COUNT, np.uint8)).view(torch.int64)
    with pytest.raises(ValueError, match=r"chunks\[0\]: shares memory with pools\[0\]"):
        prepare_pack(layout, chunk, numbers(), digests=apart)
