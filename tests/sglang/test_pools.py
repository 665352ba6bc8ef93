"""What SGLang's KVArgs point to, seen as arrays; without SGLang."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from pdproto.kernels.chunk import register
from pdproto.sglang.pools import MetadataRows, kv_pools


def arguments(kv: list[Any], aux: list[Any]) -> SimpleNamespace:
    """As SGLang fills them in from tensors [item, ...]."""
    return SimpleNamespace(
        kv_data_ptrs=[a.ctypes.data for a in kv], kv_data_lens=[a.nbytes for a in kv],
        kv_item_lens=[a[0].nbytes for a in kv],
        aux_data_ptrs=[a.ctypes.data for a in aux], aux_data_lens=[a.nbytes for a in aux],
        aux_item_lens=[a[0].nbytes for a in aux],
    )


def test_pools_are_the_very_memory() -> None:
    kv: list[Any] = [np.zeros((6, 2, 8), np.float32), np.zeros((6, 4), np.float64)]
    pools = kv_pools(arguments(kv, []))
    assert [pool.shape for pool in pools] == [(6, 1, 1, 64), (6, 1, 1, 32)]
    pools[0][3] = 0xFF
    assert np.isnan(kv[0][3]).all()
    assert not kv[0][[0, 1, 2, 4, 5]].any()
    kv[1][5] = 1.0
    assert pools[1][5].any()
    assert register(pools).pages == 6


def test_a_row_of_metadata_goes_from_slot_to_slot() -> None:
    generator = np.random.default_rng(1)
    theirs: list[Any] = [generator.integers(0, 99, (4, 3), np.int32), generator.random((4, 2))]
    ours: list[Any] = [np.zeros((7, 3), np.int32), np.zeros((7, 2))]
    source, sink = MetadataRows(arguments([], theirs)), MetadataRows(arguments([], ours))
    row = source.read(2)
    assert len(row) == source.row_bytes == sink.row_bytes == 28
    sink.write(6, row)
    for there, here in zip(theirs, ours, strict=True):
        assert (here[6] == there[2]).all()
        assert not here[:6].any()


def test_a_row_of_other_buffers_is_refused_and_writes_nothing() -> None:
    ours = [np.zeros((2, 3), np.int32)]
    with pytest.raises(ValueError, match="a metadata row of 8 bytes; ours have 12"):
        MetadataRows(arguments([], ours)).write(0, bytes(8))
    assert not ours[0].any()


def test_lengths_that_do_not_fit_name_the_buffer() -> None:
    args = arguments([np.zeros((3, 8), np.uint8)], [])
    args.kv_item_lens = [7]
    with pytest.raises(ValueError, match=r"kv_data_ptrs\[0\]: 24 bytes .* 7 bytes"):
        kv_pools(args)
