"""vLLM's KV caches as components (items/components.py): one for each group of layers.

A block of a layer is an item. On a CPU, vLLM keeps a layer as [block, head, token, K and V], or as
[block, token, vector] if all heads share one vector (MLA). In both, a block is contiguous, and so
is each head in it.
"""

import ctypes
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from pdproto.items.components import KV, Bytes, Component, Heads

HEAD_MAJOR: Final = 1  # heads are the outer axis of a block, and tokens the inner one
WITH_HEADS: Final = 4  # dimensions of a layer


def components(
    caches: Mapping[str, Any], groups: Sequence[Sequence[str]], heads: int
) -> list[Component]:
    """The components of a rank's KV caches.

    caches: a tensor for each layer of this rank, by vLLM's name of the layer. groups: the names of
    the layers of each group. heads: KV heads of the whole model. Raises ValueError for a KV cache
    that cannot be handed over.
    """
    return [_component(f"{KV} group {place}" if len(groups) > 1 else KV,
                       {name: caches[name] for name in names if name in caches}, heads)
            for place, names in enumerate(groups)]


def _component(name: str, caches: Mapping[str, Any], heads: int) -> Component:
    by_memory: dict[int, str] = {}  # layers may share the cache of another
    for layer, tensor in caches.items():
        by_memory.setdefault(tensor.data_ptr(), layer)
    layers = sorted(by_memory.values(), key=layer_number)
    numbers = tuple(map(layer_number, layers))
    with_heads = {caches[layer].dim() == WITH_HEADS for layer in layers}
    if len(with_heads) > 1:
        raise ValueError(f"{name}: some layers have heads and some have none: the connector hands "
                         f"over layers of one kind in a group")
    return Component(name, tuple(_items(layer, caches[layer]) for layer in layers), numbers,
                     Heads(heads, HEAD_MAJOR) if with_heads == {True} else None)


def layer_number(name: str) -> int:
    """The number of a layer, from vLLM's name of it. Raises ValueError for a name without a number.
    """
    found = re.findall(r"(?:^|\.)(\d+)(?:\.|$)", name)
    if not found:
        raise ValueError(f"layer {name!r} has no number in its name")
    return int(found[0])


def _items(layer: str, tensor: Any) -> Bytes:
    """A layer as [block, byte], in vLLM's own memory."""
    if tensor.device.type != "cpu":
        raise ValueError(f"{layer}: its KV cache is on {tensor.device.type}: the connector hands "
                         f"over KV caches in host memory only, yet")
    if tensor.dim() not in (3, WITH_HEADS) or not tensor.is_contiguous():
        raise ValueError(f"{layer}: a KV cache of shape {tuple(tensor.shape)} and strides "
                         f"{tensor.stride()}: want blocks one behind the other")
    blocks, length = tensor.shape[0], tensor.numel() * tensor.element_size()
    memory = (ctypes.c_uint8 * length).from_address(tensor.data_ptr())
    return np.ctypeslib.as_array(memory).reshape(blocks, length // blocks)
