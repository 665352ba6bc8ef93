"""The pools of SGLang's KVArgs as components (items/components.py), and the rows of metadata.

A component is the KV cache, or one of the states beside it (SGLang's state_types).
"""

import ctypes
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from pdproto.items.components import DRAFT_LAYER, KV, Bytes, Component, Heads
from pdproto.pages.device import Device
from pdproto.sglang.versions import kv_layout_of

UNEXPRESSED: Final = ("dsa_tail",)  # states whose indices name parts of an item


At: TypeAlias = Callable[[int, int], Any]  # the bytes from an address on, of a length


def _memory(pointer: int, length: int) -> Bytes:
    """The bytes at an address of this process; the caller keeps the memory alive."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * length).from_address(pointer))


def _items(of: tuple[int, int, int], name: str, at: At = _memory) -> Bytes:
    """The bytes at a pointer, of a length, as [item, byte]. of: pointer, length, bytes of an item.
    name: of the buffer, for errors.
    """
    pointer, length, item = of
    if item < 1 or length % item:
        raise ValueError(f"{name}: {length} bytes are not a whole number of items of {item} bytes")
    try:
        found: Bytes = at(pointer, length).reshape(-1, item)
    except ValueError as error:
        raise ValueError(f"{name}: {error}: the pdproto backend wants all pools of a rank on one "
                         f"device") from None
    return found


def _at(device: Device | None) -> At:
    return _memory if device is None else device.at


@dataclass(frozen=True, slots=True)
class Model:
    """Facts about the model that KVArgs do not hold on both sides.

    heads: KV heads of the whole model; None if every rank of the tensor parallelism holds the same
    KV (MLA). stage: the layers of this rank, as a range, if known: SGLang gives them on prefill;
    on decode they are all layers if there is no pipeline.
    """

    heads: int | None
    stage: tuple[int, int | None] | None

    def first_layer(self, count: int) -> int | None:
        """The first of `count` layers with a buffer each; None if it is not known.

        A pool that keeps some layers elsewhere (sliding windows, sparse attention) has fewer
        buffers than its stage has layers: then no buffer can be named by counting.
        """
        first, end = self.stage or (0, None)
        return first if end == first + count else None


def kv_component(
    args: Any, model: Model, device: Device | None = None, parts: int = 1
) -> Component:
    """The KV cache in SGLang's order: all K, then all V (or one buffer a layer for MLA), and then
    the buffers of the draft model of speculative decoding, if there is one.

    device: where the buffers are; None for host memory. parts: of a page (parts.py). Raises
    ValueError for a buffer elsewhere, and for pages without such parts.
    """
    if parts > 1 and (args.mla_compression_ratios is not None or kv_layout_of(args) is not None
                      or any(length % args.page_size for length in args.kv_item_lens)):
        raise ValueError("page_tokens: the pages of this model do not hold tokens one behind "
                         "another, so the pdproto backend does not hand over parts of them: give "
                         "both servers one --page-size")
    lengths = [length // parts for length in args.kv_item_lens]
    buffers = zip(args.kv_data_ptrs, args.kv_data_lens, lengths, strict=True)
    found = tuple(_items(of, f"kv_data_ptrs[{i}]", _at(device)) for i, of in enumerate(buffers))
    is_latent = model.heads is None
    unsplit = "the KV of a draft model" if args.num_draft_entries and not is_latent else ""
    return Component(KV, found, tuple(args.kv_layer_ids) or _counted(args, model, len(found)),
                     _heads(args, model, parts), unsplit, _in_host(args, "kv", found))


def _in_host(
    args: Any, name: str, like: Sequence[Bytes], state: int | None = None
) -> tuple[Bytes, ...]:
    """The buffers of SGLang's host pool for items like these; () if it has none. name: as in
    KVArgs. state: its place among the states. Raises ValueError for items of another size.
    """
    told: list[Any] = [getattr(args, f"host_{name}_{what}", None)  # 0.5.22 has none
                       for what in ("data_ptrs", "data_lens", "item_lens")]
    if None in told:
        return ()
    lists = told if state is None else [one[state] for one in told]
    found = tuple(_items(of, f"host_{name}_data_ptrs[{i}]")
                  for i, of in enumerate(zip(*lists, strict=True)))
    sizes, wanted = ([buffer.shape[1] for buffer in each] for each in (found, like))
    if sizes != wanted:
        raise ValueError(f"host_{name}_item_lens: items of {sizes} bytes, and those of the pool "
                         f"have {wanted}: the pdproto backend wants the same")
    return found


def _counted(args: Any, model: Model, entries: int) -> tuple[int, ...]:
    """The layers of KV buffers without names: SGLang's `kv_layer_ids` is empty except for hybrid
    pools. Returns () unless each layer has one buffer, or one of K and one of V.
    """
    drafts: int = args.num_draft_entries
    each = 1 if model.heads is None else 2
    count, rest = divmod(entries - drafts, each)
    first = model.first_layer(count)
    if first is None or rest or args.mla_compression_ratios is not None:
        return ()
    named = tuple(range(first, first + count)) * each
    return named + tuple(range(DRAFT_LAYER, DRAFT_LAYER + drafts))


def _heads(args: Any, model: Model, parts: int = 1) -> Heads | None:
    return None if model.heads is None else Heads(model.heads, args.page_size // parts)


def state_components(
    args: Any, model: Model, kv: Component, device: Device | None = None
) -> list[Component]:
    """The states, in SGLang's order; see `kv_component`. Raises ValueError for one that the backend
    cannot take.
    """
    return [_state(args, place, model, kv, device) for place in range(len(args.state_types))]


def _state(
    args: Any, place: int, model: Model, kv: Component, device: Device | None
) -> Component:
    name = str(getattr(args.state_types[place], "value", args.state_types[place]))
    if name in UNEXPRESSED:
        raise ValueError(f"the pdproto backend does not transfer state buffers of type {name} yet")
    buffers = zip(args.state_data_ptrs[place], args.state_data_lens[place],
                  args.state_item_lens[place], strict=True)
    found = tuple(_items(of, f"{name} state_data_ptrs[{place}][{i}]", _at(device))
                  for i, of in enumerate(buffers))
    layers = tuple(args.state_layer_ids[place])
    if name == "dsa" and len(found) == len(kv.layers):
        layers = kv.layers  # an index for each layer of the KV cache
    host = _in_host(args, "state", found, place)
    if name == "swa" and args.swa_kv_cache_layout in (None, "nhd"):
        return Component(name, found, layers, _heads(args, model), host=host)
    is_same = model.heads is None and name != "mamba"
    return Component(name, found, layers, unsplit="" if is_same else f"{name} states", host=host)


class MetadataRows:
    """The buffers that SGLang calls aux: item `slot` of each makes up the row of one request."""

    def __init__(self, args: Any) -> None:
        buffers = zip(args.aux_data_ptrs, args.aux_data_lens, args.aux_item_lens, strict=True)
        self._buffers: Final[Sequence[Bytes]] = [
            _items(of, f"aux_data_ptrs[{i}]") for i, of in enumerate(buffers)
        ]
        self.row_bytes: Final = sum(buffer.shape[1] for buffer in self._buffers)

    def read(self, slot: int) -> bytes:
        """The row of this slot."""
        return b"".join(buffer[slot].tobytes() for buffer in self._buffers)

    def write(self, slot: int, row: bytes) -> None:
        """Store a row.

        Raises ValueError for a row of another length: the peer has other buffers.
        """
        if len(row) != self.row_bytes:
            raise ValueError(f"a metadata row of {len(row)} bytes, but rows here have "
                             f"{self.row_bytes}: both servers need the same aux buffers")
        start = 0
        for buffer in self._buffers:
            width = buffer.shape[1]
            buffer[slot] = np.frombuffer(row, np.uint8, width, start)
            start += width
