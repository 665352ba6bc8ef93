"""A stand-in for a model: it fills the pools of a rank as a forward pass would, and describes them
with SGLang's own code.

Every 8 bytes name their owner: room, buffer, head, token, and place in the request. A rank of a
tensor parallelism holds its heads of each page, and a rank of a pipeline its layers.
"""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from sglang.srt.disaggregation.decode import DecodePreallocQueue
from sglang.srt.disaggregation.prefill import PrefillBootstrapQueue
from sglang.srt.disaggregation.utils import TransferBackend, is_mla_backend
from sglang.srt.runtime_context import get_parallel, process_model_config
from sglang.srt.server_args import ServerArgs

from examples.sglang_handoff.load import HEADS, Load, Seat
from examples.sglang_handoff.pools import Buffer, Memory, heads_of, kv_buffers, state_buffers

SLICED = ("kv", "swa")


@dataclass(frozen=True, slots=True)
class Filled:
    """One component as the model fills it."""

    name: str
    buffers: tuple[Buffer, ...]
    heads: range

    def expected(self, load: Load, room: int, index: int, of: Buffer) -> Any:
        """The expected content of an item of a request, uint8 [byte]."""
        number = of.layer * 2 + of.kind + 64 * (self.name != "kv")
        base = np.uint64(room << 40 | number << 32 | index)
        if self.name not in SLICED:
            return np.full(of.items.shape[1] // 8, base, np.uint64).view(np.uint8)
        words = load.page_bytes // (8 * load.tokens * HEADS)
        head = np.array(self.heads, np.uint64)[None, :, None] << np.uint64(26)
        token = np.arange(load.tokens, dtype=np.uint64)[:, None, None] << np.uint64(16)
        page = np.broadcast_to(base | head | token, (load.tokens, len(self.heads), words))
        return np.ascontiguousarray(page).reshape(-1).view(np.uint8)

    def fill(self, load: Load, room: int, items: list[int]) -> None:
        for buffer in self.buffers:
            for index, item in enumerate(items):
                buffer.items.numpy()[item] = self.expected(load, room, index, buffer)

    def holds(self, load: Load, room: int, items: list[int], first: int = 0) -> bool:
        """Whether the items hold the expected content, from the request's item `first` on."""
        return all(
            np.array_equal(buffer.items.numpy()[item],
                           self.expected(load, room, first + index, buffer))
            for buffer in self.buffers for index, item in enumerate(items))


def filled(load: Load, seat: Seat, memory: Memory, name: str) -> Filled:
    """One component of this rank: the KV cache, or one of the states."""
    buffers = (kv_buffers(load, seat, memory) if name == "kv"
               else state_buffers(load, seat, memory, name))
    return Filled(name, tuple(buffers), heads_of(load, seat))


def manager_of(load: Load, seat: Seat, memory: Memory, metadata: Any, published: ServerArgs) -> Any:
    """The manager of this rank. SGLang's own scheduler code makes it, and describes the pools to it
    in KVArgs. The scheduler itself is not there: `asked` has the parts that this code reads.
    """
    runner = SimpleNamespace(kv_cache_dtype_str="bfloat16")
    scheduler = SimpleNamespace(
        rust_server=None, tp_worker=SimpleNamespace(model_runner=runner), enable_hisparse=False,
        model_config=process_model_config(), server_args=published,
        req_to_token_pool=memory.requests)
    asked: Any = SimpleNamespace(
        transfer_backend=TransferBackend(load.backend), tp_rank=get_parallel().tp_rank,
        pp_rank=get_parallel().pp_rank, scheduler=scheduler, metadata_buffers=metadata,
        token_to_kv_pool=memory.kv, draft_token_to_kv_pool=memory.draft,
        is_mla_backend=is_mla_backend(memory.kv), req_to_token_pool=memory.requests,
        enable_staging=False)
    if seat.side == "prefill":
        return PrefillBootstrapQueue._init_kv_manager(asked)
    return DecodePreallocQueue._init_kv_manager(asked)
