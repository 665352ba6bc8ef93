"""Checks of tensors that callers pass for the device, before anything is enqueued."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from pdproto.kernels.arguments import (
    ALIGNMENT,
    bytes_needed,
    check_count,
    check_one_each,
    page_numbers,
)
from pdproto.kernels.device_memory import PEERS_MAX, torch_device
from pdproto.kernels.layout import KVLayout
from pdproto.kernels.plan import ChunkPlan


def page_tensor(layout: KVLayout, pages: Any, *, unique: bool) -> NDArray[np.int64] | torch.Tensor:
    """Page numbers: a tensor if they are on the device, else checked and in host memory."""
    if not isinstance(pages, torch.Tensor) or pages.device != torch_device(layout):
        return page_numbers(layout, pages, unique=unique)
    if (
        pages.ndim != 1
        or pages.dtype not in {torch.int32, torch.int64}
        or not pages.is_contiguous()
    ):
        raise ValueError(f"pages: want int32 or int64 [page], got {pages.dtype} {pages.shape}")
    check_count(layout, pages.shape[0])
    return pages


def _tensor(
    layout: KVLayout, tensor: Any, name: str, kind: torch.dtype, length: int, alignment: int
) -> torch.Tensor:
    """Check a chunk or digests: device, type, contiguity, length in elements, alignment."""
    device = torch_device(layout)
    if not isinstance(tensor, torch.Tensor):
        raise ValueError(f"{name}: want a tensor on {device}, or in pinned host memory, got "
                         f"{type(tensor).__name__}")
    if tensor.device != device:
        _check_pinned(tensor, name, f"want a tensor on {device}, or in pinned host memory")
    if tensor.dtype != kind or tensor.ndim != 1 or not tensor.is_contiguous():
        raise ValueError(
            f"{name}: want contiguous {kind}, got {tensor.dtype} {tuple(tensor.shape)}"
        )
    if tensor.shape[0] < length:  # len() of a tensor takes a microsecond
        raise ValueError(f"{name}: {length} elements needed, got {tensor.shape[0]}")
    if tensor.data_ptr() % alignment:
        raise ValueError(f"{name}: its address must be a multiple of {alignment}")
    return tensor


def _check_pinned(tensor: torch.Tensor, name: str, wanted: str) -> None:
    """Refuse memory that the device of the pools does not reach."""
    if tensor.device.type != "cpu":
        raise ValueError(f"{name}: {wanted}, got one on {tensor.device}")
    if not tensor.is_pinned():
        raise ValueError(f"{name}: {wanted}: this host memory is not pinned (pin_memory=True)")


def chunk_tensors(layout: KVLayout, plan: ChunkPlan, chunks: Sequence[Any]) -> list[torch.Tensor]:
    """The memory that a kernel reads or writes for each chunk."""
    check_one_each(plan, chunks, "chunks")
    if len(chunks) > PEERS_MAX:
        raise ValueError(f"peers: at most {PEERS_MAX} in one launch, got {len(chunks)}")
    return [
        _tensor(layout, chunk, f"chunks[{i}]", torch.uint8, bytes_needed(plan, peer), ALIGNMENT)
        for i, (chunk, peer) in enumerate(zip(chunks, plan.peers, strict=True))
    ]


def digest_tensors(
    layout: KVLayout, plan: ChunkPlan, digests: Sequence[Any] | None, name: str
) -> list[torch.Tensor] | None:
    if digests is None:
        return None
    check_one_each(plan, digests, name)
    return [
        _tensor(layout, sums, f"{name}[{i}]", torch.int64, peer.entries * peer.pages, 8)
        for i, (sums, peer) in enumerate(zip(digests, plan.peers, strict=True))
    ]
