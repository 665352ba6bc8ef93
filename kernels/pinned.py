"""Chunks in pinned host memory, with pools on a GPU: to offload pages, or to send from there.

    chunk = torch.empty(plan.bytes, dtype=torch.uint8, pin_memory=True)
    pack_chunk(layout, pages, chunk, ...)                         # the kernel writes there itself
    pack_chunk(layout, pages, Pinned(chunk, through), ...)        # through memory of the device

A tensor in pinned host memory may take the place of any chunk and of any digests on a device. The
kernel reads or writes it over the link, without other memory: the copy lasts as long as the link
needs, and the kernel keeps its multiprocessors until then. With `Pinned` the kernel works in
memory of the device, and the copy engine carries the payload: behind a pack, and before an unpack.
Digests that lie in the chunk are read and written there by the kernel in either case.

The bytes are in host memory when the stream has done the work, as with a chunk on the device.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Pinned:
    """A chunk in pinned host memory, and memory of the device through which it goes.

    memory: uint8 [byte], a tensor in pinned host memory. through: uint8 [byte] on the pools'
    device, at an address that is a multiple of 16; used until the stream has done the work. Both
    have the bytes of the payload, and of the scales of a cast.
    """

    memory: Any
    through: Any
