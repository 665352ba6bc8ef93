"""What stands for a model: pools of one rank, what a forward pass leaves there, and SGLang's words
for them.

Every 8 bytes say whose they are: room, buffer, head, token, and place in the request. A rank of a
tensor parallelism holds its heads of each page, and one of a pipeline its layers.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from sglang.srt.disaggregation.base.conn import KVArgs, StateType

from examples.sglang_handoff.load import HEADS, TOKENS, Load, Seat

STATE_ITEMS = {"swa": 2, "mamba": 1, "dsa": 3}  # of one request
SLICED = ("kv", "swa")


@dataclass(frozen=True, slots=True)
class Pools:
    """The buffers of one component, [item, byte] each. layers, kinds: of each buffer."""

    name: str
    buffers: tuple[torch.Tensor, ...]
    layers: tuple[int, ...]
    kinds: tuple[int, ...]
    heads: range

    def expected(self, load: Load, room: int, index: int, of: int) -> Any:
        """What an item of a request is to hold, uint8 [byte]."""
        number = self.layers[of] * 2 + self.kinds[of] + 64 * (self.name != "kv")
        base = np.uint64(room << 32 | number << 24 | index)
        if self.name not in SLICED:
            return np.full(self.buffers[of].shape[1] // 8, base, np.uint64).view(np.uint8)
        words = load.page_bytes // (8 * TOKENS * HEADS)
        head = np.array(self.heads, np.uint64)[None, :, None] << np.uint64(20)
        token = np.arange(TOKENS, dtype=np.uint64)[:, None, None] << np.uint64(16)
        page = np.broadcast_to(base | head | token, (TOKENS, len(self.heads), words))
        return np.ascontiguousarray(page).reshape(-1).view(np.uint8)

    def fill(self, load: Load, room: int, items: list[int]) -> None:
        for of, buffer in enumerate(self.buffers):
            for index, item in enumerate(items):
                buffer.numpy()[item] = self.expected(load, room, index, of)

    def holds(self, load: Load, room: int, items: list[int], first: int = 0) -> bool:
        """Whether these hold what they are to, from the request's item `first` on."""
        return all(
            np.array_equal(buffer.numpy()[item], self.expected(load, room, first + index, of))
            for of, buffer in enumerate(self.buffers) for index, item in enumerate(items))


def pools(load: Load, seat: Seat, name: str) -> Pools:
    """Of one component of this rank."""
    each = load.layers // (load.pp if seat.side == "prefill" else load.decode_pp)
    layers = range(seat.pp * each, (seat.pp + 1) * each)
    size = load.prefill_tp if seat.side == "prefill" else load.decode_tp
    heads = range(HEADS) if load.latent else _heads(size, seat.tp)
    width = load.page_bytes // HEADS * len(heads) if name in SLICED else 512
    kinds = 1 if name == "dsa" else 2
    items = load.pool_pages if name == "kv" else 2 * load.in_flight * STATE_ITEMS[name]
    buffers = tuple(torch.zeros((items, width), dtype=torch.uint8)
                    for _ in range(kinds * len(layers)))
    of_kinds = tuple(kind for kind in range(kinds) for _ in layers)
    return Pools(name, buffers, tuple(layers) * kinds, of_kinds, heads)


def _heads(size: int, rank: int) -> range:
    return range(rank * HEADS // size, rank * HEADS // size + max(1, HEADS // size))


def arguments(seat: Seat, kv: Pools, states: list[Pools], metadata: Any) -> Any:
    """SGLang's KVArgs of this rank."""
    args = KVArgs()
    args.engine_rank, args.pp_rank, args.system_dp_rank, args.gpu_id = seat.tp, seat.pp, 0, 0
    args.rust_http_port = args.ib_device = args.kv_layout = None
    args.kv_cache_dtype_str = "bfloat16"
    args.prefill_start_layer, args.prefill_end_layer = min(kv.layers), max(kv.layers) + 1
    args.kv_data_ptrs, args.kv_data_lens, args.kv_item_lens = _described(kv)
    args.kv_data_mem_kinds = ["DRAM"] * len(kv.buffers)
    args.kv_layer_ids = list(kv.layers)
    args.num_draft_entries = 0
    args.kv_head_num, args.total_kv_head_num = len(kv.heads), HEADS
    args.page_size = TOKENS
    args.aux_data_ptrs, args.aux_data_lens, args.aux_item_lens = metadata.get_buf_infos()
    args.state_types = [StateType(of.name) for of in states]
    described = [_described(of) for of in states]
    args.state_data_ptrs = [pointers for pointers, _, _ in described]
    args.state_data_lens = [lengths for _, lengths, _ in described]
    args.state_item_lens = [widths for _, _, widths in described]
    args.state_layer_ids = [list(of.layers) for of in states]
    args.state_dim_per_tensor = [[] for _ in states]
    args.state_slice_outer_counts = [[] for _ in states]
    args.state_conv_shard_groups = [[] for _ in states]
    args.is_hybrid_mla_backend = False
    args.swa_kv_cache_layout = args.mla_compression_ratios = None
    return args


def _described(of: Pools) -> tuple[list[int], list[int], list[int]]:
    buffers = of.buffers
    return ([b.data_ptr() for b in buffers], [b.nbytes for b in buffers],
            [b[0].nbytes for b in buffers])
