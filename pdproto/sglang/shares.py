"""What one rank has of another's: which ranks a hand-over joins, and which bytes go between them.

Rule 1: both ends compute this by themselves, from their own pools and the other's place, and must
        come to the same bytes: what a source wrote says first what it is (`Share.header`), and the
        digests are keyed by it.
Rule 2: nobody sends what another rank sends as well, but for heads that several ranks hold.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final

import numpy as np

from pdproto.engine.chunks import chunk_bytes
from pdproto.kernels.chunk import KVLayout, register
from pdproto.sglang.pools import Bytes, Component

ALIGNMENT_BYTES: Final = 128
WORD: Final = np.dtype("<u4")


@dataclass(frozen=True, slots=True)
class Place:
    """A rank of a tensor parallelism."""

    size: int
    rank: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise ValueError(f"rank {self.rank} of a tensor parallelism of {self.size}")

    def heads(self, total: int) -> range:
        """Those that it holds; several ranks hold the same where there are more ranks than heads.
        """
        first = self.rank * total // self.size
        return range(first, first + max(1, total // self.size))

    def partners(self, size: int) -> range:
        """The ranks, of another tensor parallelism, that hold what this one does.

        Raises ValueError where neither size is a multiple of the other.
        """
        if max(size, self.size) % min(size, self.size):
            raise ValueError(f"tensor parallelism {size} there and {self.size} here: want one to "
                             f"be a multiple of the other")
        each = max(1, size // self.size)
        first = self.rank * size // self.size
        return range(first, first + each)


@dataclass(frozen=True, slots=True)
class Part:
    """What goes of one component. entries: which of our buffers; heads: of the model; layout: of
    those bytes, None if nothing goes.
    """

    entries: tuple[int, ...] = ()
    layers: tuple[int, ...] = ()
    heads: range = range(0)
    layout: KVLayout | None = None

    def bytes(self, items: int) -> int:
        """What so many items take in a lease, digests included."""
        return chunk_bytes(self.layout, items) if self.layout is not None and items else 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """Bytes of an item, entry by entry."""
        if self.layout is None:
            return ()
        return tuple(shape.page_bytes for entries, shape in self.layout.shapes
                     for _ in range(entries))


@dataclass(frozen=True, slots=True)
class Share:
    """What a source sends to one sink, and the bytes that say so at the head of a lease."""

    parts: tuple[Part, ...]
    header: bytes
    signature: int


def share_for(components: Sequence[Component], us: Place, sink: Place) -> Share:
    """What a source at `us` sends to a sink. Raises ValueError for what cannot be split so."""
    parts = tuple(_sent(component, us, sink) for component in components)
    words = [us.size, us.rank, len(parts)]
    for part in parts:
        words += [len(part.layers), *part.layers, *part.sizes]
    return Share(parts, header := _padded(words), _signature(header))


def share_of(
    components: Sequence[Component], us: Place, header: bytes
) -> tuple[Share, frozenset[tuple[int, int, int]]]:
    """What a sink at `us` takes from the source that wrote this header, and what that covers: the
    component, the buffer and the head of each piece.

    Raises ValueError in which words the two ends do not fit.
    """
    _, size, rank, count, *words = np.frombuffer(header, WORD).tolist()
    if count != len(components):
        raise ValueError(f"{count} components there and {len(components)} here")
    parts = []
    for component in components:
        entries = words[0] if words else 0
        layers, sizes = tuple(words[1:1 + entries]), tuple(words[1 + entries:1 + 2 * entries])
        words = words[1 + 2 * entries:]
        parts.append(_taken(component, us, Place(size, rank), layers, sizes))
    covered = frozenset((number, entry, head) for number, part in enumerate(parts)
                        for entry in part.entries for head in part.heads)
    return Share(tuple(parts), header, _signature(header)), covered


def everything(components: Sequence[Component], us: Place) -> frozenset[tuple[int, int, int]]:
    """What the sources of a sink have to cover together."""
    return frozenset((number, entry, head) for number, component in enumerate(components)
                     for entry in range(len(component.buffers))
                     for head in _held(component, us))


def header_bytes_max(components: Sequence[Component]) -> int:
    """No header is longer that fits to these: a source has no entry that its sink has not."""
    words = 4 + sum(1 + 2 * len(component.buffers) for component in components)
    return -(-words * WORD.itemsize // ALIGNMENT_BYTES) * ALIGNMENT_BYTES


def header_in(landed: Bytes, length_max: int) -> bytes:
    """The header at the beginning of a lease. Raises ValueError if there is none."""
    length = int(landed[:WORD.itemsize].view(WORD)[0]) if landed.size >= WORD.itemsize else 0
    if not 0 < length <= length_max or length % ALIGNMENT_BYTES:
        raise ValueError(f"a header of {length} bytes, at most {length_max}: want the same layers "
                         f"and states at both ends")
    return landed[:length].tobytes()


def _padded(words: Sequence[int]) -> bytes:
    length = -(-(len(words) + 1) * WORD.itemsize // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
    return np.array([length, *words], WORD).tobytes().ljust(length, b"\0")


def _signature(header: bytes) -> int:
    return int.from_bytes(blake2b(header, digest_size=8).digest(), "little")


def _held(component: Component, us: Place) -> range:
    return range(1) if component.heads is None else us.heads(component.heads.total)


def _sent(component: Component, us: Place, sink: Place) -> Part:
    entries = tuple(range(len(component.buffers)))
    ranks = us.size // sink.size  # that hold the same, where every rank of a server does
    is_copy = component.heads is None and ranks > 1 and us.rank % ranks
    if not entries or is_copy:
        return Part()
    layers = component.layers or entries
    return Part(entries, layers, *_between(component, entries, us, sink))


def _taken(
    component: Component, us: Place, source: Place, layers: tuple[int, ...], sizes: tuple[int, ...]
) -> Part:
    if not layers:
        return Part()
    if not component.layers and len(layers) != len(component.buffers):
        raise ValueError(f"{component.name}: {len(layers)} buffers there and "
                         f"{len(component.buffers)} here, of layers that nobody names")
    places = {tag: place for place, tag in enumerate(
        _tags(component.layers or tuple(range(len(component.buffers)))))}
    unknown = [tag[0] for tag in _tags(layers) if tag not in places]
    if unknown:
        raise ValueError(f"{component.name}: layer {unknown[0]} is there and not here")
    entries = tuple(places[tag] for tag in _tags(layers))
    part = Part(entries, layers, *_between(component, entries, us, source))
    if part.sizes != sizes:
        raise ValueError(f"{component.name}: items of {sum(sizes)} bytes there and "
                         f"{sum(part.sizes)} here")
    return part


def _tags(layers: Sequence[int]) -> list[tuple[int, int]]:
    """A name for each buffer: its layer, and which of those of its layer it is (K comes first)."""
    seen: Counter[int] = Counter()
    tags = []
    for layer in layers:
        tags.append((layer, seen[layer]))
        seen[layer] += 1
    return tags


def _between(
    component: Component, entries: Sequence[int], us: Place, them: Place
) -> tuple[range, KVLayout]:
    """The heads that both ranks hold, and our bytes of them."""
    held = _held(component, us)
    buffers = [component.buffers[entry] for entry in entries]
    if us.size == them.size:
        return held, register([buffer[:, None, None, :] for buffer in buffers])
    if not component.sliceable:
        raise ValueError(f"tensor parallelism {them.size} there and {us.size} here: the pdproto "
                         f"backend does not split {component.name} states yet")
    if component.heads is None:
        return held, register([buffer[:, None, None, :] for buffer in buffers])
    theirs = them.heads(component.heads.total)
    common = range(max(held.start, theirs.start), min(held.stop, theirs.stop))
    first, last = common.start - held.start, common.stop - held.start
    shape = -1, component.heads.tokens, len(held)
    views = [buffer.reshape(*shape, buffer.shape[1] // (shape[1] * shape[2]))[:, :, first:last]
             for buffer in buffers]
    return common, register(views)
