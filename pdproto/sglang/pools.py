"""What SGLang's KVArgs point to, as arrays: the KV cache, its states, and the rows of metadata.

Words: a *component* is what shares one list of indices: the KV cache, or one of the states beside
it (SGLang's state_types). Each of its buffers belongs to a layer and consists of *items*, which for
the KV cache are pages. Items of all components are numbered through, so that one number says both:
the hand-over moves items, and knows no components.
"""

import ctypes
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

Bytes: TypeAlias = NDArray[np.uint8]

KV: Final = "kv"
UNEXPRESSED: Final = ("dsa_tail",)  # states whose indices are no items but parts of one


def _memory(pointer: int, length: int) -> Bytes:
    """The bytes at an address of this process; they belong to whoever gave it."""
    return np.ctypeslib.as_array((ctypes.c_uint8 * length).from_address(pointer))


def _items(pointer: int, length: int, item: int, what: str) -> Bytes:
    """Those bytes as [item, byte]."""
    if item < 1 or length % item:
        raise ValueError(f"{what}: {length} bytes are not a whole number of items of {item} bytes")
    return _memory(pointer, length).reshape(-1, item)


@dataclass(frozen=True, slots=True)
class Heads:
    """How an item splits by heads: `total` of them in the model, `tokens` rows of each."""

    total: int
    tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """Buffers [item, byte] that one list of indices is about.

    layers: of each buffer; () if SGLang names none, and then buffers go by their place. heads: None
    if every rank of the tensor parallelism holds the same. sliceable: whether ranks of another
    tensor parallelism can take a part of it.
    """

    name: str
    buffers: tuple[Bytes, ...]
    layers: tuple[int, ...]
    heads: Heads | None = None
    sliceable: bool = True

    @property
    def items(self) -> int:
        return len(self.buffers[0]) if self.buffers else 0

    @property
    def item_bytes(self) -> int:
        return sum(buffer.shape[1] for buffer in self.buffers)


def kv_component(args: Any, *, is_latent: bool) -> Component:
    """The KV cache in SGLang's order: all K, then all V. is_latent: MLA, the same on every rank."""
    buffers = zip(args.kv_data_ptrs, args.kv_data_lens, args.kv_item_lens, strict=True)
    found = tuple(_items(*of, f"kv_data_ptrs[{i}]") for i, of in enumerate(buffers))
    heads = None if is_latent else Heads(args.total_kv_head_num, args.page_size)
    return Component(KV, found, tuple(args.kv_layer_ids), heads)


def state_components(args: Any, *, is_latent: bool) -> list[Component]:
    """The states, in SGLang's order. Raises ValueError for one that the backend cannot take."""
    return [_state(args, place, is_latent) for place in range(len(args.state_types))]


def _state(args: Any, place: int, is_latent: bool) -> Component:
    name = str(getattr(args.state_types[place], "value", args.state_types[place]))
    if name in UNEXPRESSED:
        raise ValueError(f"the pdproto backend does not transfer state buffers of type {name} yet")
    buffers = zip(args.state_data_ptrs[place], args.state_data_lens[place],
                  args.state_item_lens[place], strict=True)
    found = tuple(_items(*of, f"{name} state_data_ptrs[{place}][{i}]")
                  for i, of in enumerate(buffers))
    layers = args.state_layer_ids[place] if place < len(args.state_layer_ids) else ()
    window = name == "swa" and args.swa_kv_cache_layout in (None, "nhd")
    heads = Heads(args.total_kv_head_num, args.page_size) if window and not is_latent else None
    return Component(name, found, tuple(layers), heads,
                     sliceable=window or (is_latent and name != "mamba"))


class Numbering:
    """One number for each item of each component."""

    def __init__(self, components: Sequence[Component]) -> None:
        self._sizes: Final = [component.items for component in components]
        self._names: Final = [component.name for component in components]
        self._bases: Final = [0, *accumulate(self._sizes)]

    def numbers(self, component: int, indices: Any) -> list[int]:
        """Of these items of a component. Raises ValueError for an item that there is not."""
        found = np.asarray(indices, np.int64).ravel()
        if found.size and not 0 <= int(found.min()) <= int(found.max()) < self._sizes[component]:
            raise ValueError(f"{self._names[component]}: items {int(found.min())} to "
                             f"{int(found.max())} of {self._sizes[component]}")
        return (found + self._bases[component]).tolist()

    def check(self, numbers: Sequence[int]) -> None:
        """Raise ValueError for a number that no item has."""
        if numbers and not 0 <= min(numbers) <= max(numbers) < self._bases[-1]:
            raise ValueError(f"items {min(numbers)} to {max(numbers)} of {self._bases[-1]}")

    def chunks(self, states: Sequence[Any] | None) -> list[list[int]]:
        """The items of every state that has any, component by component."""
        listed = [self.numbers(place, indices) for place, indices in enumerate(states or (), 1)
                  if indices is not None]
        return [numbers for numbers in listed if numbers]

    def component(self, number: int) -> int:
        return bisect_right(self._bases, number) - 1

    def counts(self, numbers: Sequence[int]) -> dict[int, int]:
        """How many of these items are of each component."""
        if not numbers or max(numbers) < self._bases[1]:
            return {0: len(numbers)}
        return Counter(map(self.component, numbers))

    def split(self, numbers: Sequence[int]) -> tuple[int, Sequence[int]]:
        """The component of the items of one chunk, and their indices there.

        Raises ValueError if they are not all of one.
        """
        component = self.component(numbers[0])
        base = self._bases[component]
        if not base <= min(numbers) <= max(numbers) < self._bases[component + 1]:
            raise ValueError(f"a chunk of {len(numbers)} items that are not all "
                             f"{self._names[component]}: the two ends have different states")
        return component, [number - base for number in numbers] if base else numbers


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
