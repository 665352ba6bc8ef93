"""Calls SGLang's own gather into its staging buffer, if SGLang is installed.

It writes the same chunks as `plan`: [entry][page][token][head][dim], a slice of heads for each
peer.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Final

import torch

from lab.bench.driver import LeftOutError
from lab.bench.subject import Subject

BLOCK: Final = 1024
GRID_MAX: Final = 65_535

Calls = list[Callable[[], object]]


def _module() -> Any:
    try:
        from sglang.srt.disaggregation.common import staging_buffer  # noqa: PLC0415 - an extra
    except ImportError as error:
        raise LeftOutError(f"SGLang cannot be imported: {error}") from None
    return staging_buffer


def _fits(subject: Subject) -> list[torch.Tensor]:
    """Every pool in SGLang's form, int16 [token of the pool, head, dim]."""
    case, (group,) = subject.case, subject.layout.groups
    if group.addresses[0] % 2:
        raise LeftOutError("it moves whole elements, and pools are not aligned to that")
    heads = max(peer.parts[0].heads.count for peer in subject.plan.peers)
    blocks = -(-case.pages * case.page_tokens * heads * (case.row_bytes // 2) // BLOCK)
    if blocks > GRID_MAX:
        raise LeftOutError(f"its grid has {blocks:,} blocks along y; {GRID_MAX:,} is the limit")
    return [pool.view(torch.int16).flatten(0, 1) for pool in subject.layout.pools]


def kernel(subject: Subject) -> Calls:
    """Only its Triton kernel, a launch for each peer; page numbers and table are on the device."""
    module, pools, case = _module(), _fits(subject), subject.case
    table = module.make_ptr_table([pool.data_ptr() for pool in pools], device=pools[0].device)
    pages = [listed.long() for listed in subject.pages]
    dim = case.row_bytes // 2

    def call(repeat: int) -> None:
        for chunk, peer in zip(subject.chunks[repeat], subject.plan.peers, strict=True):
            heads = peer.parts[0].heads
            tokens, elements = case.pages * case.page_tokens, heads.count * dim
            module._fused_gather_to_staging_kernel[
                case.entries, -(-tokens * elements // BLOCK)
            ](
                table, pages[repeat], chunk[: peer.payload_bytes].view(torch.int16), tokens,
                case.heads * dim, heads.first * dim, tokens * elements, elements,
                case.page_tokens, BLOCK,
            )  # fmt: skip

    return [partial(call, repeat) for repeat in range(len(subject.calls))]


def call(subject: Subject) -> Calls:
    """The whole call of its senders, for each peer: it sends its tables, launches, and waits."""
    module, pools, case = _module(), _fits(subject), subject.case
    if case.entries % 2:
        raise LeftOutError("it needs the same number of K and V entries")
    half = case.entries // 2
    pages = [listed.cpu().numpy() for listed in subject.pages]
    staging = module.StagingBuffer(16, str(pools[0].device), pools[0].device.index or 0)

    def call(repeat: int) -> None:
        for chunk, peer in zip(subject.chunks[repeat], subject.plan.peers, strict=True):
            heads = peer.parts[0].heads
            staging.buffer = chunk
            module.gather_all_layers_to_staging(
                pools[:half], pools[half:], pages[repeat], staging, heads.first, heads.count,
                case.page_tokens,
            )  # fmt: skip

    return [partial(call, repeat) for repeat in range(len(subject.calls))]
