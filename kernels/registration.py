"""Register the pools of a KV cache: read their layout from its tensors, and check it once.

Nothing here reads or writes a pool or imports torch: address, shape and strides are read through
the attributes that arrays of numpy and tensors of torch share. Sizes and strides are bytes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any

from pdproto.kernels.layout import SEGMENTS_MAX, EntryGroup, Geometry, KVLayout, Order, Shape
from pdproto.kernels.overlap import check_pools_apart


@dataclass(frozen=True, slots=True)
class Memory:
    """Address, shape, strides and element type of a numpy array or torch tensor.

    element: the name of the type, which both ends compare. Copies are of bytes, so any type will do
    whose elements lie in the memory of the array itself.
    """

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    element: str
    element_bytes: int
    device: str


def memory_of(array: Any, name: str) -> Memory:
    """Describe `array`. Raises TypeError unless it is a numpy array or a torch tensor with its
    elements in memory.
    """
    if hasattr(array, "data_ptr"):
        element = str(array.dtype).removeprefix("torch.")
        size = int(array.element_size())
        if elsewhere := _lie_elsewhere(array):
            raise TypeError(f"{name}: {elsewhere}")
        strides = tuple(size * int(step) for step in array.stride())
        address, device = int(array.data_ptr()), str(array.device)
    elif hasattr(array, "__array_interface__"):
        element, size = str(array.dtype), int(array.dtype.itemsize)
        if array.dtype.hasobject or array.dtype.names:
            raise TypeError(f"{name}: elements of type {element} are no numbers")
        strides = tuple(int(step) for step in array.strides)
        address, read_only = array.__array_interface__["data"]
        if read_only:
            raise ValueError(f"{name}: read-only memory")
        device = "cpu"
    else:
        raise TypeError(f"{name}: want a numpy array or a torch tensor, got {type(array).__name__}")
    return Memory(address, tuple(int(n) for n in array.shape), strides, element, size, device)


def _lie_elsewhere(tensor: Any) -> str:
    """Why the memory of a tensor of torch has not all of its elements; "" if it has."""
    if tensor.device.type == "meta":
        return "a tensor on the device meta has no memory"
    if tensor.is_conj() or tensor.is_neg():
        return "the tensor is conjugated or negated when it is read: want tensor.resolve_conj()"
    if tensor.is_quantized:
        return f"elements of type {tensor.dtype} have their scale outside of the memory"
    return ""


def _nests(axes: Sequence[tuple[int, int]], row_bytes: int) -> bool:
    """Whether no two rows overlap, for axes of (stride, length) around rows of `row_bytes`."""
    inner = row_bytes
    for stride, length in sorted(axis for axis in axes if axis[1] > 1):
        if stride < inner:
            return False
        inner = stride * length
    return True


def _with_heads(memory: Memory, order: Order) -> Memory:
    """A pool of latents as they are kept, [page, token, dim], as one with a single head."""
    if len(memory.shape) != 3:
        return memory
    (pages, tokens, dim), (page, token, element) = memory.shape, memory.strides
    if order is Order.HND:
        return replace(memory, shape=(pages, 1, tokens, dim), strides=(page, page, token, element))
    return replace(memory, shape=(pages, tokens, 1, dim), strides=(page, token, token, element))


def _halves(pools: Sequence[Any], axis: int) -> list[Any]:
    """The keys of every pool, and then the values of every pool."""
    if axis not in {0, 1}:
        raise ValueError(f"kv_axis: want 0 or 1, got {axis}")
    for index, pool in enumerate(pools):
        if len(pool.shape) not in {4, 5} or pool.shape[axis] != 2:
            told = f"want keys and values on axis {axis}, got shape {tuple(pool.shape)}"
            raise ValueError(f"pools[{index}]: {told}")
    return [pool[half] if axis == 0 else pool[:, half] for half in (0, 1) for pool in pools]


def _geometry(memory: Memory, order: Order, name: str) -> Geometry:
    """Read the geometry off one pool, whose axes are those of `register`."""
    if len(memory.shape) != 4 or 0 in memory.shape:
        axes = "[page, token, head, dim]" if order is Order.NHD else "[page, head, token, dim]"
        raise ValueError(f"{name}: want a non-empty {axes}, got shape {memory.shape}")
    if memory.strides[3] != memory.element_bytes and memory.shape[3] > 1:
        raise ValueError(f"{name}: its last axis must be contiguous, strides {memory.strides}")
    row_bytes = memory.shape[3] * memory.element_bytes
    if not _nests(list(zip(memory.strides[:3], memory.shape[:3], strict=True)), row_bytes):
        raise ValueError(f"{name}: rows overlap or run backwards, strides {memory.strides}")
    token, head = (1, 2) if order is Order.NHD else (2, 1)
    shape = Shape(memory.shape[token], memory.shape[head], row_bytes, memory.element)
    return Geometry(shape, memory.strides[0], memory.strides[token], memory.strides[head])


def _check_kinds(pools: object, order: object) -> None:
    if not isinstance(pools, Sequence) or isinstance(pools, str | bytes | memoryview | range):
        raise TypeError(f"pools: want a list of arrays or tensors, got a {type(pools).__name__}")
    if not isinstance(order, Order):
        raise TypeError(f"order: want Order.NHD or Order.HND, got a {type(order).__name__}")


def register(
    pools: Sequence[Any], *, order: Order = Order.NHD, chunk_pages_max: int | None = None,
    kv_axis: int | None = None,
) -> KVLayout:  # fmt: skip
    """Register the pools of a paged KV cache, in the order their bytes take in a chunk.

    Each pool is a numpy array or torch tensor of shape [page, token, head, dim] (NHD) or
    [page, head, token, dim] (HND), of any element type and any strides as long as a row of
    `dim` elements is contiguous. MLA has one head, and may leave that axis out: [page, token, dim].
    kv_axis: where keys and values of a layer are one pool, the axis of length 2 that tells them
    apart: 0 for [2, page, ...], 1 for [page, 2, ...]. The keys of all layers precede the values.
    All pools have the same number of pages and lie on the same device; shapes may differ from pool
    to pool. No two pools share a byte, but they may be interleaved views of one tensor.
    `chunk_pages_max` bounds the pages of one chunk (default: the pages of a pool).

    Raises TypeError or ValueError, naming the pool, before anything is kept.
    """
    _check_kinds(pools, order)
    if not pools:
        raise ValueError("pools: want at least one pool")
    if kv_axis is not None:
        pools = _halves(pools, kv_axis)
    if len(pools) > SEGMENTS_MAX:
        raise ValueError(f"pools: at most {SEGMENTS_MAX} entries, got {len(pools)}")
    memories = [
        _with_heads(memory_of(pool, f"pools[{index}]"), order) for index, pool in enumerate(pools)
    ]
    if kv_axis is None and all(len(m.shape) == 5 for m in memories):
        raise ValueError("pools: of five axes; name that of keys and values with kv_axis")
    geometries = [_geometry(m, order, f"pools[{i}]") for i, m in enumerate(memories)]

    pages, device = memories[0].shape[0], memories[0].device
    for index, memory in enumerate(memories):
        if memory.shape[0] != pages or memory.device != device:
            raise ValueError(
                f"pools[{index}]: {memory.shape[0]} pages on {memory.device},"
                f" but pools[0] has {pages} on {device}"
            )
    check_pools_apart(
        [(memory.address, geometry) for memory, geometry in zip(memories, geometries, strict=True)],
        pages,
    )
    limit = pages if chunk_pages_max is None else chunk_pages_max
    if limit < 1:
        raise ValueError(f"chunk_pages_max: want at least 1, got {limit}")
    groups = []
    for geometry, indices in groupby(range(len(pools)), key=lambda index: geometries[index]):
        members = list(indices)
        groups.append(EntryGroup(geometry, members[0], tuple(memories[i].address for i in members)))
    return KVLayout(order, pages, limit, device, tuple(groups), tuple(pools))


def entries_of(layout: KVLayout, first: int, last: int) -> KVLayout:
    """The layout of the entries from `first` up to `last`: to hand over some layers by themselves.

    Keep it: plans and tables are made once for each layout. Raises ValueError for no such entries.
    """
    if not 0 <= first < last <= layout.entries:
        raise ValueError(f"entries {first} to {last}: the layout has {layout.entries}")
    part = register(
        layout.pools[first:last], order=layout.order, chunk_pages_max=layout.chunk_pages_max
    )
    return replace(part, device=layout.device)
