"""The share of one rank in the data of another: which ranks hand over, and which bytes they send.

Rule 1: both ends compute the share by themselves, from their own pools and the other's place, and
        must get the same bytes. So a source first writes a description of them (`Share.header`),
        and the key of the digests depends on it.
Rule 2: no two ranks send the same bytes, except heads that several ranks hold.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, TypeAlias

import numpy as np

from pdproto.items.components import DRAFT_LAYER, Bytes, Component
from pdproto.kernels.chunk import KVLayout, register
from pdproto.pages.chunks import chunk_bytes
from pdproto.runtime.limits import LAYOUT_TOLD_MAX
from pdproto.runtime.wire import DIGEST_BYTES, PageLayout

ALIGNMENT_BYTES: Final = 128
WORD: Final = np.dtype("<u4")

# How items lie: heads of the model and rows of each in an item (zeros if every rank holds the same
# bytes), and buffers of a layer (0 if that is not known).
Split: TypeAlias = tuple[int, int, int]


@dataclass(frozen=True, slots=True)
class TpRank:
    """A rank of a tensor parallelism."""

    size: int
    rank: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.size:
            raise ValueError(f"rank {self.rank} does not exist in a tensor parallelism of "
                             f"{self.size}")

    def heads(self, total: int) -> range:
        """The heads that it holds. With more ranks than heads, several ranks hold the same one."""
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
class SentPart:
    """The part of one component that is sent.

    entries: the buffers of this rank. heads: of the model. layout: of the bytes; None if no byte is
    sent.
    """

    entries: tuple[int, ...] = ()
    layers: tuple[int, ...] = ()
    heads: range = range(0)
    layout: KVLayout | None = None

    def bytes(self, items: int) -> int:
        """The bytes of this number of items in a lease, digests included."""
        return chunk_bytes(self.layout, items) if self.layout is not None and items else 0

    @property
    def sizes(self) -> tuple[int, ...]:
        """The bytes of an item in each entry."""
        if self.layout is None:
            return ()
        return tuple(shape.page_bytes for entries, shape in self.layout.shapes
                     for _ in range(entries))


@dataclass(frozen=True, slots=True)
class Share:
    """The data that a source sends to one sink, and the header that describes it in a lease."""

    parts: tuple[SentPart, ...]
    header: bytes
    signature: int


def share_for(components: Sequence[Component], us: TpRank, sink: TpRank) -> Share:
    """The share that a source at `us` sends to a sink.

    Raises ValueError if it cannot be split so.
    """
    parts = tuple(_sent(component, us, sink) for component in components)
    words = [us.size, us.rank, len(parts)]
    for component, part in zip(components, parts, strict=True):
        words += [len(part.entries), len(part.layers), *_split_of(component), *part.layers,
                  *part.sizes]
    return Share(parts, header := _padded(words), _signature(header))


def share_of(
    components: Sequence[Component], us: TpRank, header: bytes
) -> tuple[Share, frozenset[tuple[int, int, int]]]:
    """The share that a sink at `us` takes from the source that wrote this header.

    Also returns the pieces that it covers: component, buffer and head of each. Raises ValueError
    with the difference if the two ends do not fit.
    """
    words = _Words(header)
    _, size, rank, count = words.take(4)
    if count != len(components):
        raise ValueError(f"{count} components there and {len(components)} here: want the same "
                         f"model and the same states at both ends")
    parts = []
    for component in components:
        entries, names, total, rows, each = words.take(5)
        told = Told(TpRank(size, rank), words.take(names), words.take(entries), (total, rows, each))
        parts.append(_taken(component, us, told))
    covered = frozenset((number, entry, head) for number, part in enumerate(parts)
                        for entry in part.entries for head in part.heads)
    return Share(tuple(parts), header, _signature(header)), covered


@dataclass(frozen=True, slots=True)
class Told:
    """The description of one component in a source's header.

    layers: of its buffers; () if they have no names. sizes: bytes of an item in each buffer. split:
    see Split.
    """

    source: TpRank
    layers: tuple[int, ...]
    sizes: tuple[int, ...]
    split: Split


class _Words:
    """The words of a header, taken one by one."""

    def __init__(self, header: bytes) -> None:
        self._words: Final = np.frombuffer(header, WORD)
        self._next = 0

    def take(self, count: int) -> tuple[int, ...]:
        """The next `count` words. Raises ValueError if fewer are left."""
        taken = self._words[self._next:self._next + count].tolist()
        if len(taken) < count:
            raise ValueError(f"a header of {len(self._words)} words ends within {count} of them")
        self._next += count
        return tuple(taken)


def everything(components: Sequence[Component], us: TpRank) -> frozenset[tuple[int, int, int]]:
    """The pieces that the sources of a sink have to cover together."""
    return frozenset((number, entry, head) for number, component in enumerate(components)
                     for entry in range(len(component.buffers))
                     for head in _held(component, us))


def header_bytes_max(components: Sequence[Component]) -> int:
    """The length of the longest header that is read: of a source with twice as many buffers. So a
    source with more layers still gets an error that names the difference.
    """
    words = 4 + sum(5 + 4 * len(component.buffers) for component in components)
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


def _held(component: Component, us: TpRank) -> range:
    return range(1) if component.heads is None else us.heads(component.heads.total)


def _split_of(component: Component) -> Split:
    heads = component.heads
    each = set(Counter(layer for layer in component.layers if layer < DRAFT_LAYER).values())
    return (*((heads.total, heads.tokens) if heads is not None else (0, 0)),
            each.pop() if len(each) == 1 else 0)


def layout_told(components: Sequence[Component]) -> PageLayout:
    """The layout of the items of all components, for the peers of a rank (node/prefill/sinks.py).
    Ranks of every tensor parallelism and pipeline stage of a server have the same.
    """
    splits = [_split_of(component) for component in components]
    told = "; ".join(f"{component.name}: {_told(split)}"
                     for component, split in zip(components, splits, strict=True))
    rows = [(total, rows) for total, rows, _ in splits]
    return PageLayout(blake2b(repr(rows).encode(), digest_size=DIGEST_BYTES).digest(),
                  told[:LAYOUT_TOLD_MAX], tuple(each for _, _, each in splits))


def check_split(component: Component, there: Split, here: Split) -> None:
    """Raise ValueError with both splits unless they are the same. A number of buffers that one end
    does not know is not compared.
    """
    if there[:2] != here[:2] or (there[2] != here[2] and there[2] and here[2]):
        raise ValueError(f"{component.name}: {_told(there)} there and {_told(here)} here: want the "
                         f"same engine, model and page size at both ends")


def _told(split: Split) -> str:
    total, rows, each = split
    told = [_count(total, "head"), _count(rows, "row") + " a page"] if total else ["no heads"]
    return ", ".join(told + ([_count(each, "buffer") + " a layer"] if each else []))


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"


def _sent(component: Component, us: TpRank, sink: TpRank) -> SentPart:
    entries = tuple(range(len(component.buffers)))
    ranks = us.size // sink.size  # that hold the same, where every rank of a server does
    is_copy = component.heads is None and ranks > 1 and us.rank % ranks
    if not entries or is_copy:
        return SentPart()
    return SentPart(entries, component.layers, *_between(component, entries, us, sink))


def _taken(component: Component, us: TpRank, told: Told) -> SentPart:
    if not told.sizes:
        return SentPart()
    check_split(component, told.split, _split_of(component))
    entries = _paired(component, told)
    part = SentPart(entries, told.layers, *_between(component, entries, us, told.source))
    if part.sizes != told.sizes:
        raise ValueError(f"{component.name}: items of {sum(told.sizes)} bytes there and "
                         f"{sum(part.sizes)} here: want the same model, dtype and page size at "
                         f"both ends")
    return part


def _paired(component: Component, told: Told) -> tuple[int, ...]:
    """Our buffers for those of a source: by their layers if both ends name them, else by place.

    Raises ValueError if a buffer there has none here.
    """
    if not told.layers or not component.layers:
        if len(told.sizes) != len(component.buffers):
            raise ValueError(f"{component.name}: {len(told.sizes)} buffers there and "
                             f"{len(component.buffers)} here, of layers without names: want the "
                             f"same model and pipeline stages at both ends")
        return tuple(range(len(component.buffers)))
    places = {tag: place for place, tag in enumerate(_tags(component.layers))}
    unknown = [tag[0] for tag in _tags(told.layers) if tag not in places]
    if unknown:
        first, last = (layer_name(pick(component.layers)) for pick in (min, max))
        raise ValueError(f"{component.name}: {layer_name(unknown[0])} is there, and here are "
                         f"{first} to {last}: want the same model and the same speculative "
                         f"settings at both ends")
    return tuple(places[tag] for tag in _tags(told.layers))


def layer_name(layer: int) -> str:
    """A layer as messages name it."""
    return f"layer {layer}" if layer < DRAFT_LAYER else f"draft buffer {layer - DRAFT_LAYER}"


def _tags(layers: Sequence[int]) -> list[tuple[int, int]]:
    """A name for each buffer: its layer, and which of those of its layer it is (K comes first)."""
    seen: Counter[int] = Counter()
    tags = []
    for layer in layers:
        tags.append((layer, seen[layer]))
        seen[layer] += 1
    return tags


def _between(
    component: Component, entries: Sequence[int], us: TpRank, them: TpRank
) -> tuple[range, KVLayout]:
    """The heads that both ranks hold, and our bytes of them."""
    held = _held(component, us)
    buffers = [component.buffers[entry] for entry in entries]
    if us.size == them.size:
        return held, register([buffer[:, None, None, :] for buffer in buffers])
    if component.unsplit:
        raise ValueError(f"tensor parallelism {them.size} there and {us.size} here: the pdproto "
                         f"backend does not split {component.unsplit} yet")
    if component.heads is None:
        return held, register([buffer[:, None, None, :] for buffer in buffers])
    theirs = them.heads(component.heads.total)
    common = range(max(held.start, theirs.start), min(held.stop, theirs.stop))
    first, last = common.start - held.start, common.stop - held.start
    rows = component.heads.tokens * len(held)
    for buffer in buffers:
        if buffer.shape[1] % rows:
            raise ValueError(f"{component.name}: an item of {buffer.shape[1]} bytes is not "
                             f"{component.heads.tokens} tokens of {len(held)} heads")
    shape = -1, component.heads.tokens, len(held)
    views = [buffer.reshape(*shape, buffer.shape[1] // rows)[:, :, first:last]
             for buffer in buffers]
    return common, register(views)
