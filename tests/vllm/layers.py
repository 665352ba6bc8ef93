"""The layers of an engine without a model (engine.py), and the content of a token in each."""

import hashlib
from collections.abc import Sequence
from math import prod
from typing import Any, Final

import torch
from vllm.v1.kv_cache_interface import (
    ChunkedLocalAttentionSpec,
    FullAttentionSpec,
    KVCacheSpec,
    MambaSpec,
    MLAAttentionSpec,
    RSWASpec,
    SlidingWindowMLASpec,
    SlidingWindowSpec,
)

BLOCK: Final = 32
HEADS: Final = 2
TOKENS_MAX: Final = 1024  # of a request
STATE_PAGE_BYTES: Final = 128  # of a block of a layer with a state; a state has 76
LATENT: Final = 576  # numbers of a token in a layer with latent attention
LATENT_AXES: Final = 3  # block, token, vector


SIZES: Final = {"num_kv_heads": HEADS, "head_size": 4, "dtype": torch.float32}
ONE_VECTOR: Final = {"num_kv_heads": 1, "head_size": LATENT, "dtype": torch.float32}


def full(block: int = BLOCK) -> KVCacheSpec:
    return FullAttentionSpec(block_size=block, **SIZES)


def window(tokens: int, block: int = BLOCK) -> KVCacheSpec:
    return SlidingWindowSpec(block_size=block, **SIZES, sliding_window=tokens)


def chunked(tokens: int, block: int = BLOCK) -> KVCacheSpec:
    """Attention within chunks of so many tokens (Llama 4)."""
    return ChunkedLocalAttentionSpec(block_size=block, **SIZES, attention_chunk_size=tokens)


def reference_window(tokens: int, block: int = BLOCK) -> KVCacheSpec:
    """Attention over the whole prompt and the last generated tokens (R-SWA)."""
    return RSWASpec(block_size=block, **SIZES, rswa_window=tokens)


def latent(block: int = BLOCK) -> KVCacheSpec:
    """Latent attention (MLA): one vector for K, V and all heads."""
    return MLAAttentionSpec(block_size=block, **ONE_VECTOR)


def latent_window(tokens: int, block: int = BLOCK) -> KVCacheSpec:
    return SlidingWindowMLASpec(block_size=block, **ONE_VECTOR, sliding_window=tokens)


def states(**changes: Any) -> MambaSpec:
    """Layers with states, which have two parts of two types."""
    return MambaSpec(**{
        "block_size": TOKENS_MAX, "shapes": ((1, 6), (2, 8)),
        "dtypes": (torch.float16, torch.float32), "mamba_cache_mode": "none", **changes})


def aligned(block: int = BLOCK, **changes: Any) -> MambaSpec:
    """Those with prefix caching: a place for a state behind each block of tokens."""
    return states(block_size=block, mamba_cache_mode="align", **changes)


def state_of(spec: MambaSpec, blocks: int) -> list[torch.Tensor]:
    """A layer's states as vLLM lays them: the parts one behind another in a block."""
    page = torch.zeros(blocks, STATE_PAGE_BYTES, dtype=torch.uint8)
    found, first = [], 0
    for shape, dtype in zip(spec.shapes, spec.dtypes, strict=True):
        count = prod(shape) * dtype.itemsize
        found.append(page[:, first:first + count].view(dtype).view(blocks, *shape))
        first += count
    return found


def zeros(spec: KVCacheSpec, blocks: int, tp: int, *, tokens_outermost: bool) -> Any:
    """A layer of one rank, as vLLM names its axes."""
    if isinstance(spec, MambaSpec):
        return state_of(spec, blocks)
    if isinstance(spec, (MLAAttentionSpec, SlidingWindowMLASpec)):
        return torch.zeros(blocks, spec.block_size, LATENT)
    heads = HEADS // tp
    if tokens_outermost:
        return torch.zeros(blocks, spec.block_size, heads, 8).permute(0, 2, 1, 3)
    return torch.zeros(blocks, heads, spec.block_size, 8)


def cell(layer: Any, block: int, place: int) -> torch.Tensor:
    """A token of a layer: [head, content], or [vector]."""
    found: torch.Tensor = layer[block, place] if layer.dim() == LATENT_AXES else layer[
        block, :, place]
    return found


def mark(layer: str, token: int, width: int) -> torch.Tensor:
    """The content of a token in a layer: no two layers have the same, and no two places in it."""
    return torch.arange(width) + (token * LATENT + int(layer.split(".")[1]) * 2**20)


def read(ranks: Sequence[Any], block: int, place: int) -> bytes:
    """What all ranks have of a token. Latent vectors count once if they are all the same."""
    cells = [cell(layer, block, place) for layer in ranks]
    if ranks[0].dim() == LATENT_AXES:
        return b"".join(dict.fromkeys(cell.numpy().tobytes() for cell in cells))
    return torch.cat(cells).numpy().tobytes()


def state_bytes(parts: Sequence[torch.Tensor], block: int) -> bytes:
    return b"".join(part[block].contiguous().view(torch.uint8).numpy().tobytes()
                    for part in parts)


def copy_state(parts: Sequence[torch.Tensor], source: int, target: int) -> None:
    for part in parts:
        part[target] = part[source]


def copy_block(layer: Any, source: int, target: int) -> None:
    copy_state(layer if isinstance(layer, list) else [layer], source, target)


def take_in(parts: Sequence[torch.Tensor], block: int, token: int, *, begins: bool) -> None:
    """Have the state of a request take a token in. begins: it is the request's first."""
    before = b"" if begins else state_bytes(parts, block)
    digest = hashlib.sha256(before + token.to_bytes(4, "little")).digest()
    for place, part in enumerate(parts):
        numbers = torch.tensor([float(digest[(place + one) % len(digest)])
                                for one in range(part[block].numel())])
        part[block] = numbers.view(part[block].shape).to(part.dtype)
