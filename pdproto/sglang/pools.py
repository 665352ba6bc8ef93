"""What SGLang's KVArgs point to, as arrays: the pools of KV, and the rows of metadata."""

import ctypes
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]


def _memory(pointer: int, length: int) -> Bytes:
    """The bytes at an address of this process; they belong to whoever gave it."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * length).from_address(pointer))


def _items(pointer: int, length: int, item: int, what: str) -> Bytes:
    """Those bytes as [item, byte]."""
    if item < 1 or length % item:
        raise ValueError(f"{what}: {length} bytes are not a whole number of items of {item} bytes")
    return _memory(pointer, length).reshape(-1, item)


def kv_pools(args: Any) -> list[Bytes]:
    """One pool [page, 1, 1, byte] for each buffer, in SGLang's order: all K, then all V."""
    buffers = zip(args.kv_data_ptrs, args.kv_data_lens, args.kv_item_lens, strict=True)
    return [_items(*of, f"kv_data_ptrs[{i}]")[:, None, None, :] for i, of in enumerate(buffers)]


class MetadataRows:
    """The buffers that SGLang calls aux: item `slot` of each makes up the row of one request."""

    def __init__(self, args: Any) -> None:
        buffers = zip(args.aux_data_ptrs, args.aux_data_lens, args.aux_item_lens, strict=True)
        self._buffers: Final[Sequence[Bytes]] = [
            _items(*of, f"aux_data_ptrs[{i}]") for i, of in enumerate(buffers)
        ]
        self.row_bytes: Final = sum(buffer.shape[1] for buffer in self._buffers)

    def read(self, slot: int) -> bytes:
        return b"".join(buffer[slot].tobytes() for buffer in self._buffers)

    def write(self, slot: int, row: bytes) -> None:
        """Raises ValueError for a row of another length: the peer has other buffers."""
        if len(row) != self.row_bytes:
            raise ValueError(f"a metadata row of {len(row)} bytes; ours have {self.row_bytes}")
        start = 0
        for buffer in self._buffers:
            width = buffer.shape[1]
            buffer[slot] = np.frombuffer(row, np.uint8, width, start)
            start += width
