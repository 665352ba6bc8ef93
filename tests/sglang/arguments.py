"""KVArgs with the fields that pools.py reads, of buffers for which SGLang has no pool.

test_kvargs.py has KVArgs that SGLang itself makes, and holds the names of these fields to them.
"""

from types import SimpleNamespace
from typing import Any


def arguments(
    kv: list[Any], aux: list[Any], states: dict[str, list[Any]] | None = None, *,
    page_size: int = 4,
) -> SimpleNamespace:
    """Of tensors [item, ...]. page_size: tokens of an item."""
    args = SimpleNamespace(page_size=page_size, kv_layer_ids=[], num_draft_entries=0,
                           mla_compression_ratios=None, kv_layout=None,
                           state_types=list(states or {}),
                           state_layer_ids=[[] for _ in states or {}], swa_kv_cache_layout=None)
    args.kv_data_ptrs, args.kv_data_lens, args.kv_item_lens = _described(kv)
    args.aux_data_ptrs, args.aux_data_lens, args.aux_item_lens = _described(aux)
    listed = [_described(buffers) for buffers in (states or {}).values()]
    args.state_data_ptrs = [pointers for pointers, _, _ in listed]
    args.state_data_lens = [lengths for _, lengths, _ in listed]
    args.state_item_lens = [widths for _, _, widths in listed]
    return args


def _described(buffers: list[Any]) -> tuple[list[int], list[int], list[int]]:
    return ([a.ctypes.data for a in buffers], [a.nbytes for a in buffers],
            [a[0].nbytes for a in buffers])
