"""vLLM's KV caches as components (items/components.py): one for each group of layers.

A block of a layer is an item. vLLM names the axes of a layer [block, head, token, K and V], or
[block, token, vector] if all heads share one vector (MLA), in whatever order they lie in memory
(VLLM_KV_CACHE_LAYOUT). In the layouts below, the bytes of a block are contiguous: heads are its
outer axis (HNC, as on a CPU), or tokens (NHC).

Where block sizes of the two servers differ, an item is a part of a block (blocks.py): some of its
tokens, which must be in one piece.

A layer with a state (Mamba) is a list of tensors [block, ...], which lie one behind another in a
block.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any, Final

import torch

from pdproto.items.components import KV, Bytes, Component, Heads
from pdproto.pages.device import Device
from pdproto.pages.devices import device_named

HEAD_MAJOR: Final = 1  # rows of a head in a block whose outer axis is the heads
WITH_HEADS: Final = 4  # dimensions of a layer
LAYOUTS: Final = "LBHNC, LBNHC, BLHNC or BLNHC"
IN_PARTS: Final = "LBNHC"  # where tokens are the outer axis of a block, and blocks lie in a row
STATES: Final = "states"


def components(
    caches: Mapping[str, Any], groups: Sequence[Sequence[str]], heads: int,
    parts: Sequence[int] = (),
) -> list[Component]:
    """The components of a rank's KV caches.

    caches: each layer of this rank, by vLLM's name of the layer. groups: the names of the layers of
    each group. heads: KV heads of the whole model. parts: of a block, for each group; () for whole
    blocks. Raises ValueError for a KV cache that cannot be handed over.
    """
    found = []
    for place, names in enumerate(groups):
        group = f" group {place}" if len(groups) > 1 else ""
        layers = {name: caches[name] for name in names if name in caches}
        has_states = any(isinstance(layer, Sequence) for layer in layers.values())
        found.append(_states(f"{STATES}{group}", layers) if has_states
                     else _component(f"{KV}{group}", layers, heads, parts[place] if parts else 1))
    return found


def device_of(caches: Mapping[str, Any]) -> Device | None:
    """The device of all layers; None for host memory.

    Raises ValueError for layers on several devices, and for a device that cannot be used.
    """
    found = {str(tensor.device): layer for layer, cache in caches.items()
             for tensor in (cache if isinstance(cache, Sequence) else [cache])}
    if len(found) > 1:
        told = " and ".join(f"{layer} is on {name}" for name, layer in sorted(found.items())[:2])
        raise ValueError(f"{told}: the connector wants the KV cache of a worker on one device")
    try:
        return device_named(next(iter(found), "cpu"))
    except RuntimeError as error:
        raise ValueError(f"a KV cache on {', '.join(found)}: {error}") from None


def _component(name: str, caches: Mapping[str, Any], heads: int, parts: int) -> Component:
    by_memory: dict[int, str] = {}  # layers may share the cache of another
    for layer, tensor in caches.items():
        by_memory.setdefault(tensor.data_ptr(), layer)
    layers = sorted(by_memory.values(), key=layer_number)
    numbers = tuple(map(layer_number, layers))
    rows = {_rows_of_part(layer, caches[layer], parts) for layer in layers}
    if len(rows) > 1:
        raise ValueError(f"{name}: its layers lie in several ways, with and without heads or with "
                         f"heads and with tokens outermost: the connector hands over layers of one "
                         f"kind in a group")
    split = rows.pop() if rows else None
    items = tuple(_items(layer, caches[layer], parts) for layer in layers)
    return Component(name, items, numbers, None if split is None else Heads(heads, split))


def _states(name: str, caches: Mapping[str, Sequence[Any]]) -> Component:
    layers = sorted(caches, key=layer_number)
    return Component(name, tuple(_state(layer, caches[layer]) for layer in layers),
                     tuple(map(layer_number, layers)), unsplit=STATES)


def _state(layer: str, tensors: Sequence[Any]) -> Bytes:
    """The state of a layer as [block, byte]. Raises ValueError if it is not in one piece."""
    sizes = [tensor[0].numel() * tensor.element_size() for tensor in tensors]
    strides = {tensor.stride(0) * tensor.element_size() for tensor in tensors}
    places = [tensor.data_ptr() - tensors[0].data_ptr() for tensor in tensors]
    if (len(strides) > 1 or places != [0, *accumulate(sizes[:-1])]
            or not all(tensor[0].is_contiguous() for tensor in tensors)):
        raise ValueError(f"{layer}: a state of {' and '.join(map(str, sizes))} bytes at "
                         f"{' and '.join(map(str, places))}: want one part behind another")
    return _rows(layer, tensors[0], sum(sizes))


def layer_number(name: str) -> int:
    """The number of a layer, from vLLM's name of it. Raises ValueError for a name without a number.
    """
    found = re.findall(r"(?:^|\.)(\d+)(?:\.|$)", name)
    if not found:
        raise ValueError(f"layer {name!r} has no number in its name")
    return int(found[0])


def _rows_of_head(layer: str, tensor: Any) -> int | None:
    """How many rows of a head a block has, one behind another head's; None without heads.

    Raises ValueError for a layer whose blocks are not contiguous.
    """
    shape, strides = tuple(tensor.shape), tensor.stride()
    if len(shape) == WITH_HEADS:
        _, heads, tokens, content = shape
        if strides[1:] == (tokens * content, content, 1):
            return HEAD_MAJOR
        if strides[1:] == (content, heads * content, 1):
            return int(tokens)
    elif len(shape) == WITH_HEADS - 1 and strides[1:] == (shape[2], 1):
        return None
    raise ValueError(f"{layer}: a KV cache of shape {shape} and strides {strides}: want each block "
                     f"in one piece: set VLLM_KV_CACHE_LAYOUT to {LAYOUTS}")


def _rows_of_part(layer: str, tensor: Any, parts: int) -> int | None:
    """The same for a part of a block. Raises ValueError for parts that are in several pieces."""
    rows = _rows_of_head(layer, tensor)
    if parts == 1:
        return rows
    is_in_pieces = rows == HEAD_MAJOR and tensor.shape[1] > 1
    if is_in_pieces or tensor.stride(0) != tensor[0].numel():
        raise ValueError(f"{layer}: page_tokens hands over parts of blocks, and a part of a block "
                         f"of shape {tuple(tensor.shape[1:])} and strides {tensor.stride()} is not "
                         f"in one piece beside the next: set VLLM_KV_CACHE_LAYOUT to {IN_PARTS}, "
                         f"or use one block size at both ends")
    return rows if rows in {None, HEAD_MAJOR} else rows // parts


def _items(layer: str, tensor: Any, parts: int) -> Bytes:
    """A layer as [block, byte], or as [part, byte]."""
    found = _rows(layer, tensor, tensor[0].numel() * tensor.element_size())
    return found if parts == 1 else found.reshape(len(found) * parts, -1)


def _rows(layer: str, tensor: Any, length: int) -> Bytes:
    """The first bytes of each block [block, byte], in vLLM's own memory: an array, or a tensor on a
    device. length: how many. Raises ValueError if blocks overlap.
    """
    blocks, width = tensor.shape[0], tensor.element_size()
    apart = tensor.stride(0) * width
    if blocks > 1 and apart < length:
        raise ValueError(f"{layer}: its blocks of {length} bytes overlap, {apart} bytes apart")
    memory: Any = torch.empty(0, dtype=torch.uint8, device=tensor.device)
    memory.set_(tensor.untyped_storage(), tensor.storage_offset() * width, (blocks, length),
                (apart, 1))
    found: Bytes = memory.numpy() if tensor.device.type == "cpu" else memory
    return found
