"""The KV cache of a rank and the states beside it, described without the names of any engine.

Words: a *component* is a set of buffers that share one list of indices: the KV cache, or a state
beside it. Each buffer belongs to a layer and consists of *items*; those of the KV cache are pages.
Items of all components are numbered through: one number names component and item. The hand-over
moves items and knows no components.
"""

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
DRAFT_LAYER: Final = 1 << 16  # the name of a draft model's first buffer: larger than any layer


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of an item. total: of the model. tokens: rows of each head."""

    total: int
    tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """Buffers [item, byte] with one list of indices.

    layers: the layer of each buffer in the model; () if they are not known: then buffers are paired
    by their place. heads: None if every rank of the tensor parallelism holds the same bytes.
    unsplit: the reason why ranks of another tensor parallelism cannot take a part of an item; "" if
    they can. host: as many buffers in host memory, of items like these, where a sink may want the
    items of a request; () if there are none.
    """

    name: str
    buffers: tuple[Bytes, ...]
    layers: tuple[int, ...]
    heads: Heads | None = None
    unsplit: str = ""
    host: tuple[Bytes, ...] = ()

    @property
    def items(self) -> int:
        """The number of items of each buffer."""
        return len(self.buffers[0]) if self.buffers else 0

    @property
    def host_items(self) -> int:
        """The number of items of each buffer in host memory."""
        return len(self.host[0]) if self.host else 0

    @property
    def item_bytes(self) -> int:
        """The bytes of one item in all buffers together."""
        return sum(buffer.shape[1] for buffer in self.buffers)


class Numbering:
    """One number for each item of each component. Those in host memory come behind the others of
    their component.
    """

    def __init__(self, components: Sequence[Component]) -> None:
        self._items: Final = [component.items for component in components]
        self._sizes: Final = [component.items + component.host_items for component in components]
        self._names: Final = [component.name for component in components]
        self._bases: Final = [0, *accumulate(self._sizes)]

    def numbers(self, component: int, indices: Any, *, host: bool = False) -> list[int]:
        """The numbers of items of a component. indices: whatever numpy makes an array of. host:
        they count in its host memory.

        Raises ValueError for an item that does not exist.
        """
        found = np.asarray(indices, np.int64).ravel()
        if found.size:
            self._require(component, int(found.min()), int(found.max()), host=host)
        first = self._items[component] if host else 0
        return (found + (self._bases[component] + first)).tolist()

    def numbers_of(self, component: int, indices: Sequence[int]) -> list[int]:
        """The same for Python's integers: numpy takes seven times as long for a few. Raises as
        `numbers` does.
        """
        if indices:
            self._require(component, min(indices), max(indices))
        base = self._bases[component]
        return [base + index for index in indices]

    def _require(
        self, component: int, least: int, greatest: int, *, host: bool = False
    ) -> None:
        items = self._items[component]
        size, where = (self._sizes[component] - items, " in host memory") if host else (items, "")
        if not 0 <= least <= greatest < size:
            raise ValueError(f"{self._names[component]}: items {least} to {greatest}, but it has "
                             f"{size}{where}")

    def check(self, numbers: Sequence[int]) -> None:
        """Raise ValueError for a number that no item has."""
        if numbers and not 0 <= min(numbers) <= max(numbers) < self._bases[-1]:
            raise ValueError(f"items {min(numbers)} to {max(numbers)}, but there are "
                             f"{self._bases[-1]}")

    def chunks(self, states: Sequence[Any] | None, *, host: bool = False) -> list[list[int]]:
        """The numbers of the items of all states, component by component. host: as in `numbers`."""
        listed = [self.numbers(place, indices, host=host)
                  for place, indices in enumerate(states or (), 1) if indices is not None]
        return [numbers for numbers in listed if numbers]

    def on_host(self, numbers: Sequence[int]) -> bool:
        """Whether these items of one request are in host memory."""
        if not numbers:
            return False
        component = self.component(numbers[0])
        return numbers[0] - self._bases[component] >= self._items[component]

    def component(self, number: int) -> int:
        """The place of the component that has this item."""
        return bisect_right(self._bases, number) - 1

    def counts(self, numbers: Sequence[int]) -> dict[int, int]:
        """How many of these items each component has. Components that have none are left out."""
        if not numbers or max(numbers) < self._bases[1]:
            return {0: len(numbers)}
        return Counter(map(self.component, numbers))

    def counted(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """How many of these items each component has, for all components in order."""
        counts = self.counts(numbers)
        return tuple(counts.get(place, 0) for place in range(len(self._sizes)))

    def split(self, numbers: Sequence[int]) -> tuple[int, Sequence[int]]:
        """The component of the items of one chunk, and their indices there, or in its host memory.

        Raises ValueError if they are of several components.
        """
        component = self.component(numbers[0])
        base, end = self._bases[component:component + 2]
        middle = base + self._items[component]
        base, end = (base, middle) if numbers[0] < middle else (middle, end)
        if not base <= min(numbers) <= max(numbers) < end:
            raise ValueError(f"a chunk of {len(numbers)} items that are not all "
                             f"{self._names[component]}: the two ends have different states")
        return component, [number - base for number in numbers] if base else numbers
