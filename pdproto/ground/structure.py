"""Digests of values by their structure: of every field of every object of the language.

A field that is added to the language later is included too.
"""

import enum
import hashlib
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any, Final

from pdproto.spec.language.machine import Machine, Table
from pdproto.spec.language.numbered import Numbers
from pdproto.spec.language.place import Place
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Rigid, Sizes, Symbol, Tuples

OF_OTHERS: Final = {"sets", "derived"}  # of a sort: a function, which is called, and its inverse
REASONS: Final = frozenset({"why", "about"})  # fields with text for readers alone


class Structure:
    """Digests of values by their structure. Each object is walked once, however often it occurs.

    sizes: at which interpretations count; None for every size. counted: whether it is of a count of
    states, which depends neither on places nor on reasons. Places count where results name them: at
    given sizes, unless counted.
    """

    def __init__(self, sizes: Sizes | None = None, *, counted: bool = False) -> None:
        self._sizes: Final = sizes
        self._places: Final = sizes is not None and not counted
        self._left_out: Final = REASONS if counted else frozenset[str]()
        # By `id`; the object is kept, so that no other object gets its `id`.
        self._known: Final[dict[int, tuple[object, bytes]]] = {}

    def of(self, value: object) -> bytes:
        """The digest of the value. Raises TypeError for one without a structure of its own."""
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        kind = type(value)
        text = hashlib.blake2b(digest_size=16)
        for part in (self._name(kind), *self._parts(value)):
            encoded = part if isinstance(part, bytes) else part.encode()
            text.update(len(encoded).to_bytes(8, "big") + encoded)
        found = text.digest()
        self._known[id(value)] = value, found
        return found

    def _parts(self, value: Any) -> tuple[str | bytes, ...]:
        match value:
            case None | bool() | int() | float() | str() | bytes() if not _is_member(value):
                return (repr(value),)
            case enum.Enum():
                return (value.name, repr(value.value))
            case type():
                about = self._of_sort(value) if issubclass(value, Sort) else ()
                return (self._name(value), *about)
            case Sort():
                return (value.name, self.of(type(value)))
            case Place() if not self._places:
                return ()
            case Machine():
                # Other modules may have declared symbols too; the system lists its own.
                return self._items(value, but={"symbols"})
            case Symbol():
                return self._items(value, but={"given"}) + self._given(value)
            case Mapping():
                return tuple(self.of(part) for item in value.items() for part in item)
            case tuple() | list():
                return tuple(self.of(part) for part in value)
            case set() | frozenset():
                return tuple(sorted(self.of(part) for part in value))
            case _ if is_dataclass(value) and not isinstance(value, type):
                return tuple(self.of(getattr(value, name)) for name in names_of(type(value))
                             if name not in self._left_out)
            case _ if value is ANY:
                return ()
        raise TypeError(f"{value!r} has no identity: it is a {type(value).__name__}")

    def _name(self, kind: type[Any]) -> str:
        # A file that is loaded twice is two modules. A system has one sort of a name, and a symbol
        # has its values beside it.
        own = not self._places and issubclass(kind, Sort | enum.Enum)
        return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"

    def _items(self, value: object, but: Collection[str]) -> tuple[bytes, ...]:
        """The names and values of the object's attributes, without these."""
        return tuple(self.of(part) for item in vars(value).items() if item[0] not in but
                     for part in item)

    def _given(self, symbol: Symbol) -> tuple[bytes, ...]:
        if self._sizes is None or not isinstance(symbol, Rigid) or symbol.given is None:
            return ()
        return (self.of(tuples(symbol.given(self._sizes))),)

    def _of_sort(self, sort: type[Sort]) -> Iterator[bytes]:
        for name in Sort.__annotations__:
            if name not in OF_OTHERS:
                yield self.of((name, getattr(sort, name)))
        if issubclass(sort, Numbers):
            yield self.of(sort.values)
        if sort.of is not None and self._sizes is not None:
            yield self.of(sort.subsets(self._sizes[sort.of]))


def tuples(given: Tuples) -> frozenset[tuple[int, ...]]:
    """The tuples that a user's function gives; the function itself cannot be digested."""
    return frozenset(tuple(indices) for indices in given)


def _is_member(value: object) -> bool:
    return isinstance(value, enum.Enum)


@cache
def names_of(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.init)


_DIGESTS: Final[dict[int, tuple[Table, str]]] = {}  # by `id`: to hash a table takes as long


def table_digest(table: Table) -> str:
    """The digest of a table, for every size, as 16 hex digits: traces name it.

    Computed once for each table of a process: it takes milliseconds.
    """
    known = _DIGESTS.get(id(table))
    if known is None:
        known = _DIGESTS[id(table)] = table, Structure().of(table).hex()[:16]
    return known[1]
