"""The rules for the arguments of public calls: one function for each kind of argument.

Each returns the argument in the form that the call uses, and raises TypeError or ValueError with
the name, the value and the rule. A caller learns of a mistake in its own thread, and nothing has
changed: what a loop would first look at could end more than the call.

The usual types come first: a hand-over makes a dozen of these checks, and to ask for an abstract
class takes as long as a step of its table.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from itertools import islice
from math import inf, isinf
from operator import index
from sys import maxsize
from typing import Any, Final, SupportsIndex, TypeVar

import msgspec

from pdproto.runtime.limits import (
    METADATA_MAX,
    NAME_BYTES_MAX,
    NAME_MAX,
    PAGES_MAX,
    PROMPT_BYTES_MAX,
    REASON_MAX,
    ROOM_MAX,
)

T = TypeVar("T")
S = TypeVar("S", bound=msgspec.Struct)

PATH_MAX: Final = 4_096
SHOWN_MAX: Final = 60  # characters of a value in an error
_INTEGERS: Final = {int}
_RULES: Final = {str: "text", bool: "True or False", int: "a whole number", float: "a number"}
_NUMBER_MAX: Final = 1 << 64
NUMBERS: Final = "a sequence of whole numbers"
ELEMENTS: Final = f"a collection of at most {PAGES_MAX:,} values that can be hashed"


def whole(name: str, value: object, least: int = 0, most: int = ROOM_MAX) -> int:
    """A whole number from `least` to `most`. A bool is none."""
    number = value if type(value) is int else _whole(name, value)  # a protocol takes long to ask
    if not least <= number <= most:
        raise ValueError(f"{name} {shown(number)}: want {least:,} to {most:,}")
    return number


def whole_or_none(name: str, value: object, least: int = 0, most: int = ROOM_MAX) -> int | None:
    """The same, or None."""
    return None if value is None else whole(name, value, least, most)


def _whole(name: str, value: object) -> int:
    rule = "a whole number"
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise _type(name, value, rule)
    try:
        return index(value)  # an array is one if it has no dimensions
    except Exception as error:
        raise _type(name, value, rule) from error


def room(value: object) -> int:
    """The number of a room."""
    return whole("room", value)


def prompt(value: object) -> bytes | None:
    """The name of a prompt, or None."""
    if value is None:
        return None
    if not isinstance(value, bytes):
        raise _type("prompt", value, "bytes, such as a digest")
    if not 0 < len(value) <= PROMPT_BYTES_MAX:
        raise ValueError(f"prompt: {len(value):,} bytes; want 1 to {PROMPT_BYTES_MAX}, such as a "
                         f"digest of all that the KV depends on")
    return bytes(value)


def numbers(name: str, value: object, most: int = PAGES_MAX) -> Sequence[int]:
    """A sequence of whole numbers from 0 on, or an array of them; by default of pages. A tuple of
    integers is returned as it is.
    """
    if not isinstance(value, tuple) or not _INTEGERS.issuperset(map(type, value)):
        value = _indices(name, value, most)
    if len(value) > most:
        raise _too_many(name, len(value), most)
    if value and min(value) < 0:
        raise ValueError(f"{name}: {shown(min(value))}: want 0 or more")
    return value


def within(name: str, given: Sequence[int], count: int) -> None:
    """Raise ValueError for a number that is not below `count`."""
    if given and max(given) >= count:
        raise ValueError(f"{name}: {shown(max(given))}: want 0 to {count - 1}")


def _indices(name: str, value: Any, most: int) -> tuple[int, ...]:
    if isinstance(value, str | bytes | bytearray | Mapping | Set) or not hasattr(value, "__len__"):
        raise _type(name, value, NUMBERS)
    try:
        length = len(value)
        if length <= most:
            return tuple(map(index, value))
    except OverflowError:  # a range may be longer than any list
        length = maxsize
    except Exception as error:
        raise _type(name, value, NUMBERS) from error
    raise _too_many(name, length, most)


def _too_many(name: str, count: int, most: int) -> ValueError:
    return ValueError(f"{name}: {count:,} numbers; {most:,} is the limit")


def text(name: str, value: object, most: int = NAME_MAX) -> str:
    """Text of 1 to `most` characters that can be written in UTF-8."""
    if not isinstance(value, str):
        raise _type(name, value, "text")
    if not 0 < len(value) <= most:
        raise ValueError(f"{name} {shown(value)}: want 1 to {most} characters")
    _bytes_of(name, value)
    return value if type(value) is str else str.__str__(value)  # no frame has one of a subclass


def path(name: str, value: object) -> str:
    """The path of a file or a folder. The kernel takes none that is longer, or has a zero byte."""
    told = text(name, value, PATH_MAX)
    if "\0" in told:
        raise ValueError(f"{name} {shown(told)}: want a path, without a zero byte")
    return told


def node_name(name: str, value: object) -> str:
    """The name of a node. ZeroMQ takes names of so many bytes."""
    told = text(name, value)
    if not told.isascii() and (size := len(told.encode())) > NAME_BYTES_MAX:
        raise ValueError(f"{name} {shown(value)}: want 1 to {NAME_MAX} characters, and at most "
                         f"{NAME_BYTES_MAX} bytes in UTF-8: it has {size}")
    return told


def _bytes_of(name: str, value: str) -> int:
    try:
        return len(value) if value.isascii() else len(value.encode())
    except UnicodeEncodeError as error:
        raise ValueError(f"{name} {shown(value)}: want text that can be written in UTF-8, without "
                         f"{value[error.start]!r}") from None


def node_names(
    name: str, value: object, most: int, each: Callable[[str, object], str] = node_name
) -> tuple[str, ...]:
    """A sequence of names, each once. each: checks one of them."""
    if type(value) is tuple and not value:
        return ()
    if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
        raise _type(name, value, "a sequence of names")
    try:
        given = tuple(islice(value, most + 1))  # an iterator may have no end
    except Exception as error:
        raise _type(name, value, "a sequence of names") from error
    told = tuple(each(name, one) for one in given)
    if len(told) > most or len(set(told)) != len(told):
        raise ValueError(f"{name} {shown(told)}: want at most {most}, each once")
    return told


def strings(name: str, value: object) -> Sequence[str]:
    """A list or tuple of text."""
    if not isinstance(value, list | tuple) or not all(isinstance(one, str) for one in value):
        raise _type(name, value, "a list of text")
    return value


def mapping(name: str, value: object) -> Mapping[Any, Any]:
    """A mapping."""
    if type(value) is not dict and not isinstance(value, Mapping):
        raise _type(name, value, "a mapping")
    return value


def hashable(name: str, value: T) -> T:
    """A value that can be a key."""
    try:
        hash(value)
    except Exception as error:
        raise _type(name, value, "what has a hash") from error
    return value


def elements(name: str, value: object) -> tuple[Any, ...]:
    """A sized collection of values that can be keys: the elements of a sort, or of an instance."""
    try:
        if isinstance(value, Collection) and not isinstance(value, str) and len(value) <= PAGES_MAX:
            return hashable(name, tuple(value))
    except Exception as error:
        raise _type(name, value, ELEMENTS) from error
    raise _type(name, value, ELEMENTS)


def endpoints(name: str, value: object) -> Mapping[str, str]:
    """Endpoints by the names of their nodes; one or more."""
    if type(value) is not dict and not isinstance(value, Mapping):
        raise _type(name, value, "a mapping of endpoints by the names of nodes")
    if not value:
        raise ValueError(f"{name}: want one or more endpoints, by the names of nodes")
    return {node_name(name, node): _endpoint(name, node, where) for node, where in value.items()}


def _endpoint(name: str, node: str, where: object) -> str:
    if type(where) is str and 0 < len(where) <= NAME_MAX and where.isascii():
        return where
    return text(f"{name}[{node!r}]", where)


def reason(value: object) -> str:
    """The reason of a failure. What cannot be written in UTF-8 is escaped, and what is too long is
    cut off: `str(OSError)` may be either.
    """
    if not isinstance(value, str):
        raise _type("reason", value, "text")
    return encodable(value)[:REASON_MAX]


def encodable(value: str) -> str:
    """The text, with what cannot be written in UTF-8 escaped."""
    return value if value.isascii() else value.encode("utf-8", "backslashreplace").decode()


def row(name: str, value: object, most: int = METADATA_MAX) -> bytes:
    """Bytes, copied if they may change."""
    if not isinstance(value, bytes | bytearray | memoryview):
        raise _type(name, value, "bytes")
    try:
        data = value if type(value) is bytes else bytes(value)
    except Exception as error:  # a view may have been released
        raise _type(name, value, "bytes") from error
    if len(data) > most:
        raise ValueError(f"{name} of {len(data):,} bytes; {most:,} is the limit")
    return data


def function(name: str, value: object) -> Callable[..., Any]:
    """A function."""
    if not callable(value):
        raise _type(name, value, "a function")
    return value


def flag(name: str, value: object) -> bool:
    """True or False."""
    if value is not True and value is not False:
        raise _type(name, value, "True or False")
    return value


def seconds(name: str, value: object, *, most: float = inf, or_0: bool = False) -> float:
    """A number of seconds above 0, or also 0; without a bound, infinity is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _type(name, value, "a number of seconds")
    if or_0 and value == 0:
        return 0.0
    try:
        if 0.0 < value <= most:
            return float(value)
    except OverflowError:  # no number of that size is a float
        pass
    bound = "" if isinf(most) else f", and at most {most:,g}"
    raise ValueError(f"{name} {shown(value)}: want a number of seconds above 0{bound}")


def each_seconds(name: str, value: object, most: int) -> tuple[float, ...]:
    """A sequence of numbers of seconds above 0."""
    if isinstance(value, str | bytes | Mapping | Set) or not isinstance(value, Iterable):
        raise _type(name, value, "a sequence of numbers of seconds")
    try:
        told = tuple(islice(value, most + 1))
    except Exception as error:
        raise _type(name, value, "a sequence of numbers of seconds") from error
    if len(told) > most:
        raise ValueError(f"{name}: over {most:,} numbers")
    return tuple(seconds(name, one) for one in told)


def one_of(name: str, value: object, kind: type[T], told: str = "") -> T:
    """An instance of this class."""
    if not isinstance(value, kind):
        raise _type(name, value, told or f"a {kind.__name__}")
    return value


def parts(name: str, value: object, protocol: type) -> None:
    """An object with all that this protocol names."""
    lacking = [part for part in dir(protocol) if not part.startswith("_") and not _has(value, part)]
    if lacking:
        raise TypeError(f"{name} {shown(value)}: want a {protocol.__name__}; it lacks "
                        f"{', '.join(lacking)}")


def _has(value: object, part: str) -> bool:
    try:
        return hasattr(value, part)
    except Exception:  # of a property
        return False


def kinds(owner: object, of: Mapping[str, Any]) -> None:
    """The attributes of these names have values of these kinds."""
    for name, wanted in of.items():
        kind(name, getattr(owner, name), wanted)


def kind(name: str, value: object, wanted: type) -> None:
    """Text without half a character, True or False, a whole number, or a number."""
    types = int | float if wanted is float else wanted
    if not isinstance(value, types) or (wanted is not bool and isinstance(value, bool)):
        raise _type(name, value, _RULES[wanted])
    if isinstance(value, str):
        _bytes_of(name, value)
    elif isinstance(value, int) and abs(value) > _NUMBER_MAX:
        raise ValueError(f"{name} {shown(value)}: want at most {_NUMBER_MAX:,}")


def lengths(name: str, value: object, known: Mapping[str, object]) -> Mapping[str, float]:
    """Numbers of seconds, by names of timers that are known."""
    given = mapping(name, value)
    for timer, length in given.items():
        if timer not in known:
            raise ValueError(f"{name}: no timer is called {shown(timer)}: want {', '.join(known)}")
        kind(f"{name}[{timer!r}]", length, float)
    return given


def struct(name: str, value: object, kind: type[S]) -> S:
    """A struct of this class whose fields have the types that they are declared with."""
    told = one_of(name, value, kind)
    for one in msgspec.structs.fields(kind):
        field = getattr(told, one.name)
        try:
            msgspec.json.decode(msgspec.json.encode(field), type=one.type)
        except Exception as no:  # the value may raise any
            raise ValueError(f"{one.name} {shown(field)}: {no}") from None
    return told


def shown(value: object) -> str:
    """The value in an error: its beginning, whatever its `repr` does."""
    try:
        told = repr(value)
    except Exception as error:
        told = f"<{type(value).__name__} without a repr: {type(error).__name__}>"
    return one_line(told)


def one_line(text: str, most: int = SHOWN_MAX) -> str:
    """A text that a stranger may have written, for a line of a log or a reason: its beginning, with
    what cannot be printed or written in UTF-8 escaped.
    """
    text = text if len(text) <= most else text[:most] + "..."
    return text if text.isprintable() else "".join(
        one if one.isprintable() else ascii(one)[1:-1] for one in text)


def _type(name: str, value: object, rule: str) -> TypeError:
    return TypeError(f"{name} {shown(value)}: want {rule}, not {type(value).__name__}")
