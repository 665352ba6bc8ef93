"""One call form for tests over every path: numpy in and numpy out, whatever runs between."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pytest
from numpy.typing import NDArray

with suppress(ImportError):  # the CPU path needs none
    import torch

from pdproto.kernels.chunk import KVLayout, Order, register

Bytes = NDArray[np.uint8]


@dataclass(frozen=True, slots=True)
class Path:
    """Where pools and chunks live, and how to bring them there and back."""

    name: str
    triton: bool

    def layout(
        self, pools: Sequence[Bytes], order: Order = Order.NHD, pages_max: int = 100_000
    ) -> KVLayout:
        """Register pools in this path's memory; `pools_of` reads them back."""
        placed = [self.put(pool) for pool in pools]
        layout = register(placed, order=order, chunk_pages_max=pages_max)
        return replace(layout, device="interpreter") if self.name == "interpreter" else layout

    def relayout(
        self, like: KVLayout, pools: Sequence[Any], order: Order | None = None
    ) -> KVLayout:
        """Register memory that is here already, with the limits and the path of `like`."""
        limit = like.chunk_pages_max
        layout = register(pools, order=order or like.order, chunk_pages_max=limit)
        return replace(layout, device=like.device)

    def put(self, array: NDArray[Any]) -> Any:
        """Copy or alias an array into this path's memory, strides kept."""
        if not self.triton:
            return array
        tensor = torch.from_numpy(array.view(np.int64) if array.dtype == np.uint64 else array)
        return tensor if self.name == "interpreter" else _to_cuda(tensor)

    def get(self, placed: Any) -> Any:
        """The bytes of what `put` returned, after all work on it."""
        if not self.triton:
            return placed
        return placed.cpu().numpy()


def _to_cuda(tensor: Any) -> Any:
    if not tensor.numel():
        return tensor.cuda()
    length = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    flat = torch.as_strided(tensor, (length,), (1,)).cuda()
    return torch.as_strided(flat, tuple(tensor.shape), tensor.stride())


PATHS: Final = {
    "native": Path("native", triton=False),
    "numpy": Path("numpy", triton=False),
    "interpreter": Path("interpreter", triton=True),
    "cuda": Path("cuda", triton=True),
}

# For a test that is about one kind of path: the fixture `path` has the others as well.
_CUDA: Final = pytest.param("cuda", marks=pytest.mark.gpu)
on_device: Final = pytest.mark.parametrize("path", ["interpreter", _CUDA], indirect=True)
on_cpu: Final = pytest.mark.parametrize("path", ["native", "numpy", "interpreter"], indirect=True)
