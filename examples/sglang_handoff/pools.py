"""The memory of a rank: pools of SGLang's own classes, as small as a drill needs them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import torch
from sglang.srt.configs.mamba_utils import Mamba2CacheParams, Mamba2StateShape
from sglang.srt.mem_cache.memory_pool import (
    DSATokenToKVPool,
    HybridLinearKVPool,
    HybridReqToTokenPool,
    MambaPool,
    MHATokenToKVPool,
    MLATokenToKVPool,
)
from sglang.srt.mem_cache.swa_memory_pool import SWAKVPool

from examples.sglang_handoff.load import HEADS, Load, Seat

DTYPE: Final = torch.bfloat16
CONFIG: Final = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16",
    "hidden_size": 64, "intermediate_size": 128, "vocab_size": 320,
    "max_position_embeddings": 4096, "num_attention_heads": HEADS, "num_key_value_heads": HEADS,
}


def write_config(load: Load, folder: Path) -> None:
    """The model's configuration, from which SGLang reads heads and layers; it has no weights."""
    told = CONFIG | {"num_hidden_layers": load.layers,
                     "full_attention_layer_ids": [*full_attention(load, range(load.layers))]}
    (folder / "config.json").write_text(json.dumps(told), encoding="utf-8")


def full_attention(load: Load, layers: range) -> range:
    """The layers that have a state and no KV: every second one of a hybrid model."""
    is_hybrid = {"swa", "mamba"} & set(load.states)
    return range(layers.start + layers.start % 2, layers.stop, 2) if is_hybrid else layers


def others(load: Load, layers: range) -> list[int]:
    return sorted(set(layers) - set(full_attention(load, layers)))


def layers_of(load: Load, seat: Seat) -> range:
    """The layers of this rank's stage."""
    each = load.layers // load.stages(seat.side)
    return range(seat.pp * each, (seat.pp + 1) * each)


def heads_of(load: Load, seat: Seat) -> range:
    """The heads of this rank; all of them under MLA, where every rank holds the same."""
    if load.latent:
        return range(HEADS)
    first = seat.tp * HEADS // load.tp(seat.side)
    return range(first, first + max(1, HEADS // load.tp(seat.side)))


@dataclass(frozen=True, slots=True)
class Memory:
    """The pools by the names of SGLang's scheduler. requests: the pool that holds a request's
    state, where the KV pool does not.
    """

    kv: Any
    draft: Any
    requests: Any


def memory_of(load: Load, seat: Seat) -> Memory:
    draft = None
    if seat.side in load.drafts:
        draft = _attention(load, seat, layer_num=1)
    if "mamba" not in load.states:
        return Memory(_kv(load, seat), draft, None)
    if "swa" not in load.states:
        layers = layers_of(load, seat)
        pool = HybridLinearKVPool(
            _tokens(load, seat), DTYPE, load.page(seat.side), len(heads_of(load, seat)),
            _head_dim(load), [*full_attention(load, layers)], "cpu",
            MambaPool(size=load.state_rows("mamba"), spec_state_size=0,
                      cache_params=_mamba(others(load, layers)),
                      mamba_layer_ids=others(load, layers), device="cpu"),
            start_layer=layers.start)
        return Memory(pool, draft, None)
    return Memory(_kv(load, seat), draft, _requests(load, seat))


def _kv(load: Load, seat: Seat) -> Any:
    layers = layers_of(load, seat)
    if "swa" in load.states:
        return SWAKVPool(
            _tokens(load, seat), load.state_rows("swa") * load.tokens, load.tokens, DTYPE,
            len(heads_of(load, seat)), _head_dim(load), others(load, layers),
            [*full_attention(load, layers)], "cpu")
    if not load.latent:
        return _attention(load, seat, layer_num=len(layers), start_layer=layers.start,
                          end_layer=layers.stop)
    rank = load.page_bytes // load.tokens // DTYPE.itemsize // 2
    usual: dict[str, Any] = {
        "size": _tokens(load, seat), "page_size": load.page(seat.side), "dtype": DTYPE,
        "kv_lora_rank": rank, "qk_rope_head_dim": rank, "layer_num": len(layers), "device": "cpu",
        "enable_memory_saver": False, "start_layer": layers.start, "end_layer": layers.stop}
    if "dsa" in load.states:
        return DSATokenToKVPool(**usual, index_head_dim=128, kv_cache_dim=2 * rank)
    return MLATokenToKVPool(**usual)


def _attention(load: Load, seat: Seat, **layers: int) -> Any:
    return MHATokenToKVPool(
        _tokens(load, seat), load.page(seat.side), DTYPE, len(heads_of(load, seat)),
        _head_dim(load), device="cpu", enable_memory_saver=False, **layers)


def _tokens(load: Load, seat: Seat) -> int:
    """For which the KV cache of a rank has room."""
    return load.pool_pages(seat.side) * load.page(seat.side)


def _head_dim(load: Load) -> int:
    return load.page_bytes // load.tokens // HEADS // DTYPE.itemsize


def _mamba(layers: list[int]) -> Mamba2CacheParams:
    shape = Mamba2StateShape.create(
        tp_world_size=1, intermediate_size=32, n_groups=1, num_heads=2, head_dim=16, state_size=16,
        conv_kernel=5)
    return Mamba2CacheParams(shape=shape, layers=layers)


def _requests(load: Load, seat: Seat) -> Any:
    layers = others(load, layers_of(load, seat))
    rows = load.state_rows("mamba")
    return HybridReqToTokenPool(
        size=rows, mamba_size=rows, mamba_spec_state_size=0, max_context_len=64, device="cpu",
        enable_memory_saver=False, cache_params=_mamba(layers), mamba_layer_ids=layers,
        enable_mamba_extra_buffer=False)


@dataclass(frozen=True, slots=True)
class Buffer:
    """The items [item, byte] of one layer. kind: which buffer of its layer (K is 0, V is 1)."""

    items: torch.Tensor
    layer: int
    kind: int


def kv_buffers(load: Load, seat: Seat, memory: Memory) -> list[Buffer]:
    layers = layers_of(load, seat)
    pool = getattr(memory.kv, "full_kv_pool", memory.kv)
    rows = load.page(seat.side)
    found = _of_attention(load, pool, rows, [*full_attention(load, layers)])
    if memory.draft is not None:
        found += _of_attention(load, memory.draft, rows, [load.layers])
    return found


def state_buffers(load: Load, seat: Seat, memory: Memory, name: str) -> list[Buffer]:
    layers = layers_of(load, seat)
    if name == "swa":
        return _of_attention(load, memory.kv.swa_kv_pool, load.tokens, others(load, layers))
    if name == "dsa":
        indices = memory.kv.index_key_cache.buffer
        return [Buffer(_bytes(one), layer, 0) for one, layer in zip(indices, layers, strict=True)]
    holder = memory.requests or memory.kv
    state = holder.mamba_pool.mamba_cache
    kinds = [*state.conv, state.temporal]
    return [Buffer(_bytes(tensor[place]), layer, kind) for kind, tensor in enumerate(kinds)
            for place, layer in enumerate(others(load, layers))]


def _of_attention(load: Load, pool: Any, rows: int, layers: list[int]) -> list[Buffer]:
    kinds = [pool.kv_buffer] if load.latent else [pool.k_buffer, pool.v_buffer]
    return [Buffer(_bytes(tensor, rows), layer, kind) for kind, tensors in enumerate(kinds)
            for tensor, layer in zip(tensors, layers, strict=True)]


def _bytes(tensor: torch.Tensor, rows: int = 1) -> torch.Tensor:
    """The same memory as [item, byte], with so many rows an item."""
    return tensor.view(torch.uint8).view(tensor.shape[0] // rows, -1)
