"""A stand-in for a model: it fills the pools of a rank as a forward pass would, and describes them
with SGLang's own code.

Every 8 bytes name their owner: room, buffer, head, token, and place in the request. A rank of a
tensor parallelism holds its heads of each page, and a rank of a pipeline its layers.
"""

from dataclasses import dataclass
from functools import partial
from time import monotonic, sleep
from types import SimpleNamespace
from typing import Any, Final

import numpy as np
import torch
from sglang.srt.disaggregation import role_switch
from sglang.srt.disaggregation.decode import DecodePreallocQueue
from sglang.srt.disaggregation.prefill import PrefillBootstrapQueue
from sglang.srt.disaggregation.utils import DisaggregationMode, TransferBackend, is_mla_backend
from sglang.srt.runtime_context import get_parallel, process_model_config
from sglang.srt.server_args import ServerArgs

from examples.sglang_handoff.load import HEADS, Load, Seat
from examples.sglang_handoff.pools import Buffer, Memory, heads_of, kv_buffers, state_buffers

SLICED = ("kv", "swa")
KEPT_S: Final = 30.0  # as long as SGLang keeps pages of a failed request under other backends


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
        tokens = of.items.shape[1] // (8 * words * len(self.heads))
        base = np.uint64(room << 40 | number << 32)
        head = np.array(self.heads, np.uint64)[None, :, None] << np.uint64(26)
        token = np.arange(index * tokens, (index + 1) * tokens, dtype=np.uint64)[:, None, None]
        page = np.broadcast_to(base | head | token, (tokens, len(self.heads), words))
        return np.ascontiguousarray(page).reshape(-1).view(np.uint8)

    def fill(self, load: Load, room: int, items: list[int]) -> None:
        for buffer in self.buffers:
            for index, item in enumerate(items):
                buffer.items.numpy()[item] = self.expected(load, room, index, buffer)

    def holds(self, load: Load, room: int, items: list[int], first: int = 0) -> bool:
        """Whether the items hold the expected content, from the request's item `first` on. The last
        page of a request may have room for more tokens.
        """
        return all(
            np.array_equal(*(page[:self._length(load, first + index, buffer)] for page in (
                buffer.items.numpy()[item], self.expected(load, room, first + index, buffer))))
            for buffer in self.buffers for index, item in enumerate(items))

    def _length(self, load: Load, index: int, of: Buffer) -> int:
        """The bytes of an item that hold tokens of the request."""
        whole: int = of.items.shape[1]
        if self.name != "kv" or load.page_tokens is None:
            return whole
        token = load.page_bytes // load.tokens // HEADS * len(self.heads)
        return min(whole, load.request_tokens * token - index * whole)


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
    first, then = PrefillBootstrapQueue._init_kv_manager, DecodePreallocQueue._init_kv_manager
    if seat.side == "prefill":
        first, then = then, first
    if load.switched:
        _end_role(first(asked), seat.side)
    return then(asked)


def _end_role(manager: Any, after: str) -> None:
    """End a manager as SGLang's scheduler does when its server changes to another role."""
    before = "decode" if after == "prefill" else "prefill"
    queue = SimpleNamespace(kv_manager=manager)
    scheduler: Any = SimpleNamespace(
        disaggregation_mode=DisaggregationMode(before), disable_radix_cache=True,
        disagg_prefill_bootstrap_queue=queue, disagg_decode_prealloc_queue=queue,
        server_args=SimpleNamespace(enable_pd_role_switch=True),
        _pd_role_switch_unhealthy=False, _pd_role_switch_in_progress=False)
    refused = role_switch._reject_reason(scheduler, after)
    if refused is not None:
        raise ValueError(refused[0])
    role_switch.teardown_disaggregation(scheduler)


def name_memory(load: Load, request: Any, states: Any, prefix: int) -> None:
    """SGLang's own code names the pages of the tokens behind the prefix to the receiver.

    request: its receiver, pages and slot.
    """
    size = load.page("decode")
    places = torch.tensor(request.pages)[:, None] * size + torch.arange(size)
    queue: Any = SimpleNamespace(
        req_to_metadata_buffer_idx_allocator=SimpleNamespace(alloc=lambda: request.slot),
        transfer_queue=SimpleNamespace(enable_staging=False), _num_published_destinations=0)
    queue._transfer_page_indices = partial(DecodePreallocQueue._transfer_page_indices, queue)
    DecodePreallocQueue._send_kv_metadata(
        queue, request.waiting, places.reshape(-1)[:load.request_tokens - prefix], size, states,
        decode_prefix_len=prefix)


def keep_memory(manager: Any, receiver: Any) -> None:
    """Wait until no write can reach the pages of a failed request. SGLang keeps them meanwhile."""
    if not manager.enable_deferred_decode_kv_release:
        return
    receiver.ensure_abort_notified(force_arm=True)
    until = monotonic() + KEPT_S
    while receiver.abort_notified and monotonic() < until \
            and not manager.is_abort_release_safe(receiver.bootstrap_room,
                                                  len(receiver.bootstrap_infos)):
        sleep(0.001)
    manager.clear_deferred_abort_state(receiver.bootstrap_room)
    receiver.clear()
