"""The identity of a question to the checker or the prover: a digest of all that decides its answer.

Every cache, record and shard is named by it, so an answer is never given to another question. It is
made of the objects of the language themselves: of every field of every object, so a field that is
added to the language later is included too. There are two kinds of questions:

* At given sizes (`identity`). Two systems have the same identity if and only if their tables,
  properties, faults, interpretations and places are the same. A place is a file and a line; results
  name places.
* For every size (`Structure()`). A proof names no place, and assumes no interpretation (`given=`,
  `sets=`), so these are left out.
"""

import enum
import hashlib
import os
from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pdproto
from pdproto.check import native
from pdproto.spec.language.machine import Machine
from pdproto.spec.language.place import Place
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Rigid, Sizes, Symbol, Tuples
from pdproto.spec.language.system import Configuration, System

# A result depends on the code that computes it: the checker, the ground form, and the language.
CODE: Final = ("check", "ground", "spec/language")
SUFFIXES: Final = (".py", ".c", ".h")
LEFT_OUT: Final = {"configurations"}  # the explored configuration is a separate argument
OF_OTHERS: Final = {"sets", "derived"}  # of a sort: a function, which is called, and its inverse


def identity(system: System, configuration: Configuration, *rest: object) -> str:
    """A digest of the system at these sizes, of the checker's code, and of `rest`, as hex.

    Raises TypeError for a value that cannot be compared by content, such as a function.
    """
    parts = (
        content(system),
        {symbol: _tuples(given(configuration.sizes))
         for symbol, given in configuration.given.items()},
        tuple(getattr(configuration, name) for name in _names(Configuration) if name != "given"),
        rest,
        code(),
        native.available(),
    )
    return Structure(configuration.sizes).of(parts).hex()


def content(system: System) -> tuple[object, ...]:
    """Every part of the system, without its configurations: a value for `Structure.of`."""
    own = {name: getattr(system, name) for name in _names(System) if name not in LEFT_OUT}
    return own, system.variables, system.rigids, system.sorts


def name_of(system: System, configuration: Configuration, *rest: object) -> str | None:
    """The identity as the name of a kept value (store.py); None if the question has none."""
    try:
        return identity(system, configuration, *rest)
    except Exception:
        return None  # the check reports the error, for example in the user's own `given=`


class Structure:
    """Digests of values by their structure. Each object is walked once, however often it occurs.

    sizes: at which interpretations count, and with them places; None for every size.
    """

    def __init__(self, sizes: Sizes | None = None) -> None:
        self._sizes: Final = sizes
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
            case Place() if self._sizes is None:
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
                return tuple(self.of(getattr(value, name)) for name in _names(type(value)))
            case _ if value is ANY:
                return ()
        raise TypeError(f"{value!r} has no identity: it is a {type(value).__name__}")

    def _name(self, kind: type[Any]) -> str:
        # A file that is loaded twice is two modules. A system has one sort of a name, and a symbol
        # has its values beside it.
        own = self._sizes is None and issubclass(kind, Sort | enum.Enum)
        return kind.__qualname__ if own else f"{kind.__module__}.{kind.__qualname__}"

    def _items(self, value: object, but: Collection[str]) -> tuple[bytes, ...]:
        """The names and values of the object's attributes, without these."""
        return tuple(self.of(part) for item in vars(value).items() if item[0] not in but
                     for part in item)

    def _given(self, symbol: Symbol) -> tuple[bytes, ...]:
        if self._sizes is None or not isinstance(symbol, Rigid) or symbol.given is None:
            return ()
        return (self.of(_tuples(symbol.given(self._sizes))),)

    def _of_sort(self, sort: type[Sort]) -> Iterator[bytes]:
        for name in Sort.__annotations__:
            if name not in OF_OTHERS:
                yield self.of((name, getattr(sort, name)))
        if sort.of is not None and self._sizes is not None:
            yield self.of(sort.subsets(self._sizes[sort.of]))


def _tuples(given: Tuples) -> frozenset[tuple[int, ...]]:
    """The tuples that a user's function gives; the function itself cannot be digested."""
    return frozenset(tuple(indices) for indices in given)


def _is_member(value: object) -> bool:
    return isinstance(value, enum.Enum)


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.init)


@cache
def code() -> str:
    """A digest of the code that computes results, and of its version."""
    text = hashlib.blake2b(pdproto.__version__.encode())
    root = Path(pdproto.__file__).parent
    for folder in CODE:
        for inner, _, names in sorted(os.walk(root / folder)):
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    text.update(Path(inner, name).read_bytes())
    return text.hexdigest()
