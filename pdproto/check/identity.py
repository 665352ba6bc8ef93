"""The identity of a question to the checker: a digest of everything on which its result depends.

Two systems have the same identity if and only if their tables, properties, faults and places are
the same. A place is a file and a line; results name places. The digest includes every field of
every object with which it is made, so a field that is added to the language later is included too.
"""

import enum
import hashlib
import os
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

import pdproto
from pdproto.check import native
from pdproto.spec.language.machine import Machine
from pdproto.spec.language.sorts import ANY, Sort
from pdproto.spec.language.symbols import Rigid, Sizes, Symbol, Tuples
from pdproto.spec.language.system import Configuration, System

# A result depends on the code that computes it: the checker, the ground form, and the language.
CODE: Final = ("check", "ground", "spec/language")
SUFFIXES: Final = (".py", ".c", ".h")
LEFT_OUT: Final = {"configurations"}  # the explored configuration is a separate argument


def identity(system: System, configuration: Configuration, *rest: object) -> str:
    """A digest of the system at these sizes, of the checker's code, and of `rest`, as hex.

    Raises TypeError for a value that cannot be compared by content, such as a function.
    """
    digest = _Digest(configuration.sizes)
    parts = (
        tuple(digest.of(getattr(system, name)) for name in _names(System)
              if name not in LEFT_OUT),
        system.variables,
        {symbol: _tuples(given(configuration.sizes))
         for symbol, given in configuration.given.items()},
        tuple(getattr(configuration, name) for name in _names(Configuration) if name != "given"),
        rest,
        _code(),
        native.available(),
    )
    return digest.of(parts).hex()


def name_of(system: System, configuration: Configuration, *rest: object) -> str | None:
    """The identity as the name of a kept value (store.py); None if the question has none."""
    try:
        return identity(system, configuration, *rest)
    except Exception:
        return None  # the check reports the error, for example in the user's own `given=`


class _Digest:
    """Digests of values at these sizes. Each object is walked once, however often it occurs."""

    def __init__(self, sizes: Sizes) -> None:
        self._sizes: Final = sizes
        # By `id`; the object is kept, so that no other object gets its `id`.
        self._known: Final[dict[int, tuple[object, bytes]]] = {}

    def of(self, value: object) -> bytes:
        known = self._known.get(id(value))
        if known is not None:
            return known[1]
        kind = type(value)
        head = f"{kind.__module__}.{kind.__qualname__}"
        text = hashlib.blake2b(digest_size=16)
        for part in (head, *self._parts(value)):
            text.update(part if isinstance(part, bytes) else part.encode())
            text.update(b"\0")
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
                return (value.__module__, value.__qualname__, *about)
            case Sort():
                return (value.name,)
            case Machine():
                # Other modules may have declared symbols too; the system lists its own.
                return (value.name, *map(
                    self.of, (value.own, value.world, value.host, value.place)))
            case Symbol():
                return tuple(self.of(part) for part in self._fields(value).items())
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

    def _of_sort(self, sort: type[Sort]) -> tuple[str | bytes, ...]:
        sets = () if sort.of is None else (self.of(sort.subsets(self._sizes[sort.of])),)
        return (str(sort.ordered), sort.prefix, *sets)

    def _fields(self, symbol: Symbol) -> Mapping[str, object]:
        found = dict(vars(symbol))
        if isinstance(symbol, Rigid) and symbol.given is not None:
            found["given"] = _tuples(symbol.given(self._sizes))
        return found


def _tuples(given: Tuples) -> frozenset[tuple[int, ...]]:
    """The tuples that a user's function gives; the function itself cannot be digested."""
    return frozenset(tuple(indices) for indices in given)


def _is_member(value: object) -> bool:
    return isinstance(value, enum.Enum)


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(one.name for one in fields(kind) if one.init)


@cache
def _code() -> str:
    """A digest of the code that computes results."""
    text = hashlib.blake2b(pdproto.__version__.encode())
    root = Path(pdproto.__file__).parent
    for folder in CODE:
        for inner, _, names in sorted(os.walk(root / folder)):
            for name in sorted(names):
                if name.endswith(SUFFIXES):
                    text.update(Path(inner, name).read_bytes())
    return text.hexdigest()
