"""The values of one symbol over unbounded sorts: its cells that are not initial, with indices.

Rule 1: a cell with its initial value is not stored, so only open hand-overs take memory.
Rule 2: every write updates the indices, so no read searches.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from operator import itemgetter
from typing import Any, Final, TypeAlias

from pdproto.runtime.errors import LocalProtocolError
from pdproto.spec.language.formula import Value
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Symbol, Update

Element: TypeAlias = Hashable
Key: TypeAlias = tuple[Any, ...]


class Index:
    """The stored cells that have one of these values, by the elements in the bound positions.

    values: a tuple, because members of an enum are found faster by identity than by hash.
    buckets: bound elements -> cells, in the order of their first write. No bucket is empty. Most
    have one cell, and are a tuple: a dict takes four times the memory.
    """

    __slots__ = ("bound", "bucket_of", "buckets", "values")

    def __init__(self, bound: tuple[int, ...], values: frozenset[Value]) -> None:
        self.bound: Final = bound
        self.values: Final = tuple(values)
        self.bucket_of: Final = projection(bound)
        self.buckets: Final[dict[Key, tuple[Key] | dict[Key, None]]] = {}

    def add(self, key: Key) -> None:
        """Add a cell."""
        at = self.bucket_of(key)
        bucket = self.buckets.get(at)
        if bucket is None:
            self.buckets[at] = (key,)
        elif isinstance(bucket, tuple):
            self.buckets[at] = {bucket[0]: None, key: None}
        else:
            bucket[key] = None

    def discard(self, key: Key) -> None:
        """Remove a cell, which the index must have."""
        at = self.bucket_of(key)
        bucket = self.buckets[at]
        if not isinstance(bucket, tuple):
            del bucket[key]
        if isinstance(bucket, tuple) or not bucket:
            del self.buckets[at]

    def clear(self) -> None:
        """Remove all cells."""
        self.buckets.clear()


class Tally:
    """How many stored cells an index would have in each bucket: enough to know which it has.

    A second dict of all cells would grow in the same step as that of the values, which takes
    milliseconds with a hundred thousand of them.
    """

    __slots__ = ("bucket_of", "buckets", "values")

    def __init__(self, bound: tuple[int, ...], values: frozenset[Value]) -> None:
        self.values: Final = tuple(values)
        self.bucket_of: Final = projection(bound)
        self.buckets: Final[dict[Key, int]] = {}

    def add(self, key: Key) -> None:
        """Count a cell."""
        at = self.bucket_of(key)
        self.buckets[at] = self.buckets.get(at, 0) + 1

    def discard(self, key: Key) -> None:
        """Count a cell no longer, which was counted."""
        at = self.bucket_of(key)
        if self.buckets[at] == 1:
            del self.buckets[at]
        else:
            self.buckets[at] -= 1

    def clear(self) -> None:
        """Count no cell any longer."""
        self.buckets.clear()


class Floor:
    """The first element at which a relation over an ordered sort does not hold.

    There is one floor for each choice of the other arguments. Elements are 0, 1, 2, ... Cells below
    the floor are true and not stored. Only a relation that no row makes false can have a floor.
    """

    __slots__ = ("at", "place", "rest_of")

    def __init__(self, place: int, arity: int) -> None:
        self.place: Final = place
        self.rest_of: Final = projection(tuple(i for i in range(arity) if i != place))
        self.at: Final[dict[Key, int]] = {}

    def holds(self, key: Key) -> bool:
        """Whether the cell lies below the floor, so that it is true."""
        return bool(key[self.place] < self.at.get(self.rest_of(key), 0))

    def covers(self, element: Any) -> bool:
        """Whether there is a floor, and the element lies below every floor."""
        return bool(self.at) and all(element < at for at in self.at.values())


class Cells:
    """The values of one symbol.

    fixed: the elements in the places of the machine's own variables. free: the other places, by
    sort. bounded: the sorts of which no element is ever forgotten. default: the value of the cells
    that are not stored, at first the symbol's first value. Read `values`, but change it only by
    `write`, which updates every index.
    """

    __slots__ = ("_places", "default", "fixed", "floor", "free", "indices", "symbol", "values")

    def __init__(
        self, symbol: Symbol, fixed: Mapping[int, Element], bounded: Collection[type[Sort]] = ()
    ) -> None:
        self.symbol: Final = symbol
        self.fixed: Final = fixed
        self.default: Value = symbol.values[0]
        self.values: Final[dict[Key, Value]] = {}
        # By the bound places and the values, and whether it only counts.
        self.indices: Final[
            dict[tuple[tuple[int, ...], frozenset[Value], bool], Index | Tally]] = {}
        self.floor: Floor | None = None
        free = [place for place in range(len(symbol.sorts)) if place not in fixed]
        # With one free place, the element alone gives the key: no index is needed.
        # Elements of a bounded sort stay, so nothing asks for the cells of one.
        many = [i for i in free if symbol.sorts[i] not in bounded] if len(free) > 1 else []
        self._places: Final = {place: Index((place,), frozenset()) for place in many}
        self.free: Final[dict[type[Sort], tuple[int, ...]]] = {}
        for place in free:
            sort = symbol.sorts[place]
            self.free[sort] = (*self.free.get(sort, ()), place)

    def index(
        self, bound: tuple[int, ...], values: frozenset[Value], *, counted: bool = False
    ) -> Index | Tally:
        """The index of the cells with these values, by these places. counted: it need only count
        them. Ask before the first write.
        """
        if len(bound) == 1 and bound[0] in self._places and values == {*self.symbol.values[1:]}:
            return self._places[bound[0]]  # no guard reads an index where a row writes every cell
        new = Tally(bound, values) if counted else Index(bound, values)
        return self.indices.setdefault((bound, values, counted), new)

    def read(self, key: Key) -> Value:
        """The value of a cell."""
        if self.floor is not None and self.floor.holds(key):
            return True
        return self.values.get(key, self.default)

    def write(self, key: Key, value: Value) -> bool:
        """Give the cell a value, and update every index. Returns whether it had another value."""
        if self.floor is not None:
            return self._write_above(self.floor, key)
        before = self.values.get(key, self.default)
        if before is value:
            return False
        for index in self.indices.values():
            if value in index.values:
                if before not in index.values:
                    index.add(key)
            elif before in index.values:
                index.discard(key)
        if value is self.default:
            self._take_out(key)
        else:
            self._put_in(key, value)
        return True

    def write_everywhere(self, value: Value) -> None:
        """Give every cell this value, also the cells of elements that no event has named yet."""
        self.values.clear()
        self.default = value
        for index in (*self.indices.values(), *self._places.values()):
            index.clear()

    def matching(self, key: Key, value: Value) -> list[Key]:
        """The cell; or, where ANY stands for every element, the stored cells that it includes.

        Raises LocalProtocolError if all these get a value that has to be stored.
        """
        if ANY not in key:
            return [key]
        if value is not self.default:
            raise LocalProtocolError(f"{self.symbol}: {value} for every element cannot be stored")
        return [one for one in self.values
                if all(a is ANY or a == b for a, b in zip(key, one, strict=True))]

    def last_of(self, arguments: Key) -> Element | None:
        """The last element of a stored cell that begins with these arguments; None without one."""
        return next((key[-1] for key in self.values if key[:-1] == arguments), None)

    def of_element(self, sort: type[Sort], element: Element) -> Collection[Key]:
        """The stored cells with this element."""
        places = self.free.get(sort, ())
        if len(places) == 1:
            return self._at(places[0], element)
        return dict.fromkeys(key for place in places for key in self._at(place, element))

    def _at(self, place: int, element: Element) -> Collection[Key]:
        """The stored cells with this element in this place, in the order of their first write."""
        if place in self._places:
            return self._places[place].buckets.get((element,), ())
        key = self._only(place, element)
        return (key,) if key in self.values else ()

    def drop(self, key: Key) -> None:
        """Remove the cell from the store."""
        for index in self.indices.values():
            if self.values[key] in index.values:
                index.discard(key)
        self._take_out(key)

    def drop_floor(self, sort: type[Sort], element: Element) -> None:
        """Drop the floor of an element. The symbol has no free place but this one and the floor's.
        """
        if self.floor is not None:
            for place, its_sort in enumerate(self.symbol.sorts):
                if its_sort is sort and place not in self.fixed and place != self.floor.place:
                    self.floor.at.pop(self.floor.rest_of(self._only(place, element)), None)

    def _only(self, place: int, element: Element) -> Key:
        """The key with the element in this place, and fixed elements in all others (or None)."""
        places = range(len(self.symbol.sorts))
        return tuple([element if i == place else self.fixed.get(i) for i in places])

    def _put_in(self, key: Key, value: Value) -> None:
        if key not in self.values:
            for index in self._places.values():
                index.add(key)
        self.values[key] = value

    def _take_out(self, key: Key) -> None:
        del self.values[key]
        for index in self._places.values():
            index.discard(key)

    def _write_above(self, floor: Floor, key: Key) -> bool:
        rest = floor.rest_of(key)
        at = floor.at.get(rest, 0)
        if key[floor.place] < at or key in self.values:
            return False
        if key[floor.place] > at:
            self._put_in(key, True)
            return True
        above = list(key)
        above[floor.place] = at + 1
        while tuple(above) in self.values:
            self._take_out(tuple(above))
            above[floor.place] += 1
        floor.at[rest] = above[floor.place]
        return True


def fault_key(row: str, update: Update, elements: Mapping[str, Element]) -> Key:
    """The cells of an update in a row of the world, with ANY for every element.

    elements: by variable name. Raises LocalProtocolError for an update with a `where`: it may read
    the variables of all machines.
    """
    if update.variables:
        raise LocalProtocolError(f"row {row!r}: {update!r}: the world knows its cells, and this "
                                 "machine does not: give each its value by `set`")
    return tuple([ANY if v is ANY else elements[v.name] for v in update.arguments])


def projection(places: tuple[int, ...]) -> Callable[[Key], Key]:
    """A function from a key to the key of its elements in these places."""
    if not places:
        return lambda _: ()
    if len(places) == 1:
        place = places[0]
        return lambda key: (key[place],)
    return itemgetter(*places)


def element_text(sort: type[Sort], element: Hashable) -> str:
    """The text of an element: a number as in a trace ("p0"), any other value in brackets."""
    return sort.element(element) if isinstance(element, int) else f"{sort.prefix}[{element}]"
