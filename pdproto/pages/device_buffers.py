"""The memory of one chunk that a device copies, and what is made once for it; device_copies.py."""

from dataclasses import dataclass, field
from typing import Any, Final

import torch

from pdproto.kernels.arguments import Numbers
from pdproto.kernels.chunk import KVLayout, Report
from pdproto.kernels.prepared import Prepared
from pdproto.pages.copies import Bytes

NUMBER_BYTES: Final = 8  # of a page number
WAYS_KEPT: Final = 64  # for each chunk's memory


@dataclass(eq=False, slots=True)
class Way:
    """The prepared copy of chunks of one number of pages, and views of the memory of the chunk.

    padding: between payload and digests. host: where the chunk is copied, or None. view: the bytes
    of a write: a head, and the chunk; or None.
    """

    copy: Prepared
    chunk: Any
    padding: Any
    host: Any
    view: Bytes | None


@dataclass(eq=False, slots=True)
class Buffers:
    """Memory for one chunk and its page numbers.

    fits: bytes of a chunk, and of its page numbers. packs: whether chunks are packed, or unpacked.
    device: for both. host, numbers: pinned, for the bytes of a write, if the engine sends them from
    there, and for page numbers. padded: the way whose padding is empty. reports: of the chunks that
    were unpacked.
    """

    fits: tuple[int, int]
    packs: bool
    device: Any
    host: Any
    numbers: Any
    ways: dict[tuple[KVLayout, int, int, int], Way] = field(default_factory=dict)
    padded: Way | None = None
    reports: dict[KVLayout, Report] = field(default_factory=dict)

    def numbers_of(self, count: int) -> Numbers:
        """Memory for so many page numbers; on the device it follows that of the chunk."""
        length, behind = NUMBER_BYTES * count, self.fits[0]
        return Numbers(self.numbers[:length].view(torch.int64),
                       self.device[behind:behind + length].view(torch.int64))
