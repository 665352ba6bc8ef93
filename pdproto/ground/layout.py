"""The layout of a packed state: only this module knows the bits of each variable.

A *cell* is a symbol at given elements. Its value is stored as an index into `symbol.values`. The
first value is the initial one, so the initial state is 0. Each cell lies within one 64-bit word.
The cells of one element of a *column sort* lie together, as Stripe (program.py) needs them.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Final, TypeAlias

from pdproto.ground.program import WORD_BITS, Literal, Stripe
from pdproto.spec.language.elements import UNSET, ElementFunction
from pdproto.spec.language.formula import Value
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Sizes, Symbol, Variable

Indices: TypeAlias = tuple[int, ...]
Cell: TypeAlias = tuple[Symbol, Indices]

CELLS_MAX: Final = 1 << 16  # 1,024 words a state: far more than can be explored


class TooLargeError(Exception):
    """The ground form at these sizes is larger than any machine could explore."""


@dataclass(frozen=True, slots=True)
class Field:
    """The place of a cell in a state: bit offset, width in bits, and the mask of these bits."""

    offset: int
    width: int
    mask: int = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "mask", ((1 << self.width) - 1) << self.offset)


def cells(symbols: tuple[Symbol, ...], sizes: Sizes) -> Iterator[Cell]:
    """Every cell, symbol by symbol in declaration order."""
    for symbol in symbols:
        for indices in product(*(range(sizes[sort]) for sort in symbol.sorts)):
            yield symbol, indices


class Layout:
    """The packed state of a system at given sizes. Raises TooLargeError above CELLS_MAX cells."""

    def __init__(self, symbols: tuple[Symbol, ...], sizes: Sizes) -> None:
        self.symbols: Final = symbols
        self.sizes: Final = sizes
        count = sum(_size(symbol, sizes) for symbol in symbols)
        if count > CELLS_MAX:
            raise TooLargeError(f"a state would have {count:,} cells; {CELLS_MAX:,} is the limit")
        self.stripes: Final[dict[type[Sort], Stripe]] = {}
        self._fields: Final[dict[Cell, Field]] = {}
        self.bits = 0
        for sort in self._column_sorts():
            self._place_columns(sort)
        for cell in cells(symbols, sizes):
            if cell not in self._fields:
                self._place(cell)

    @cached_property
    def fields(self) -> Mapping[Cell, Field]:
        """Every cell with its field, in declaration order."""
        return {cell: self._fields[cell] for cell in cells(self.symbols, self.sizes)}

    def field(self, symbol: Symbol, indices: Indices) -> Field:
        """The field of a cell. Raises KeyError for a cell that the layout lacks."""
        return self._fields[symbol, indices]

    def literal(self, symbol: Symbol, indices: Indices, value: Value) -> Literal:
        """The literal `symbol(indices) == value`."""
        field = self._fields[symbol, indices]
        return Literal(field.mask, symbol.values.index(value) << field.offset)

    def value(self, state: int, symbol: Symbol, indices: Indices) -> Value:
        """The value of a cell in a state."""
        field = self._fields[symbol, indices]
        return symbol.values[(state & field.mask) >> field.offset]

    def decode(self, state: int) -> dict[Cell, Value]:
        """The value of every cell in a state."""
        return {cell: self.value(state, *cell) for cell in self.fields}

    def text(self, state: int, symbol: Symbol, arguments: Indices) -> str:
        """The value of a symbol at its arguments, as text: `idle`, `true`, `t1`, `unset`."""
        if not isinstance(symbol, ElementFunction):
            return value_name(self.value(state, symbol, arguments))
        sort = symbol.sorts[-1]
        elements = (sort.element(i) for i in range(self.sizes[sort])
                    if self.value(state, symbol, (*arguments, i)))
        return next(elements, UNSET)

    def texts(self, *states: int) -> Iterator[tuple[Variable, Indices, tuple[str, ...]]]:
        """Every variable at its arguments, with its text in each of the states."""
        for symbol in self.symbols:
            if not isinstance(symbol, Variable):
                continue
            for at in product(*(range(self.sizes[sort]) for sort in symbol.domain)):
                yield symbol, at, tuple(self.text(state, symbol, at) for state in states)

    def on_network(self, state: int) -> Iterator[Cell]:
        """Every message that is on the network and waits in no channel."""
        for symbol in self.symbols:
            if isinstance(symbol, Message) and symbol.fifo is None:
                for at in product(*(range(self.sizes[sort]) for sort in symbol.domain)):
                    if self.value(state, symbol, at) is True:
                        yield symbol, at

    def encode(self, values: Mapping[Cell, Value]) -> int:
        """The state with these values; all other cells have their initial value."""
        return sum(self.literal(*cell, value).value for cell, value in values.items())

    def _column_sorts(self) -> Iterator[type[Sort]]:
        """Unordered sorts whose elements never meet another unordered sort's in a cell."""
        for sort in dict.fromkeys(s for symbol in self.symbols for s in symbol.sorts):
            if sort.ordered or self.sizes[sort] == 1:
                continue
            # Sets are renamed with their elements, so neither have columns of their own.
            meets = [
                [s for s in symbol.sorts if not s.ordered and self.sizes[s] > 1]
                for symbol in self.symbols
                if sort in symbol.sorts or any(s.of is sort for s in symbol.sorts)
            ]
            if sort.of is None and all(sorts == [sort] for sorts in meets):
                yield sort

    def _place_columns(self, sort: type[Sort]) -> None:
        columns: list[list[Cell]] = [[] for _ in range(self.sizes[sort])]
        for symbol, indices in cells(self.symbols, self.sizes):
            if sort in symbol.sorts:
                columns[indices[symbol.sorts.index(sort)]].append((symbol, indices))
        width = sum(_width(symbol) for symbol, _ in columns[0])
        if width > WORD_BITS:
            return
        offsets: list[int] = []
        for column in columns:
            self._skip_to_fit(width)
            offsets.append(self.bits)
            for cell in column:
                self._place(cell)
        self.stripes[sort] = Stripe(tuple(offsets), width)

    def _place(self, cell: Cell) -> None:
        width = _width(cell[0])
        self._skip_to_fit(width)
        self._fields[cell] = Field(self.bits, width)
        self.bits += width

    def _skip_to_fit(self, width: int) -> None:
        if self.bits % WORD_BITS + width > WORD_BITS:
            self.bits += -self.bits % WORD_BITS


def _width(symbol: Symbol) -> int:
    return max(1, (len(symbol.values) - 1).bit_length())


def _size(symbol: Symbol, sizes: Sizes) -> int:
    count = 1
    for sort in symbol.sorts:
        count *= sizes[sort]
    return count


def at_sizes(sizes: Sizes) -> str:
    """The sizes as `Client=3 Round=2`; a system without sorts has one size."""
    return " ".join(f"{sort.__name__}={size}" for sort, size in sizes.items()) or "its one size"


def cell_name(symbol: Symbol, indices: Indices) -> str:
    """The text of a cell: `vote(p0)`; without arguments just the name.

    A function into a sort may have the index of its value behind those of its arguments.
    """
    if not indices:
        return symbol.name
    sorts = symbol.sorts[: max(len(indices), len(symbol.domain))]
    elements = (sort.element(i) for sort, i in zip(sorts, indices, strict=True))
    return f"{symbol.name}({', '.join(elements)})"


def value_name(value: Value) -> str:
    """The text of a value: an enum member by its value, a boolean in lower case."""
    return str(value).lower() if isinstance(value, bool) else str(value.value)
