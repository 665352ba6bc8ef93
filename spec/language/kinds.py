"""The kinds of arguments: a value of the wrong kind is refused where the user has written it.

A type checker finds these mistakes before anything runs. Python itself would find them later, in
our own lines and words.
"""

from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from enum import Enum
from typing import Final

from .place import Place, SpecError, here

NEAR: Final = 0.7  # similarity of a mistyped name to a suggested one, from 0 to 1


def shown(value: object) -> str:
    """A value as a spec writes it: `Phase.IDLE`, `Worker`, `'idle'`."""
    if isinstance(value, Enum) and isinstance(value.value, int):
        return str(value.value)
    if isinstance(value, Enum):
        return f"{type(value).__name__}.{value.name}"
    if isinstance(value, type):
        return value.__name__
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    if isinstance(value, tuple):
        return f"({', '.join(map(shown, value))}{',' if len(value) == 1 else ''})"
    if isinstance(value, Mapping):
        return f"{{{', '.join(f'{shown(k)}: {shown(v)}' for k, v in value.items())}}}"
    if isinstance(value, Iterator):
        return "a generator"
    if getattr(value, "__name__", "") == "<lambda>":
        return "a lambda"
    text = repr(value)
    # The generated text of an edit or a configuration has the fields and the place.
    return f"{type(value).__name__}(...)" if text.startswith(f"{type(value).__name__}(") and (
        "=" in text) else text


def require(right: bool, problem: str, place: Place | None = None) -> None:
    """Raise SpecError with this problem, at the caller's line, if it is not right."""
    if not right:
        raise SpecError(place or here(), problem)


def require_name(of: str, name: object, place: Place | None = None) -> None:
    """Raise SpecError unless the name is a text with at least one character."""
    if not isinstance(name, str):
        raise SpecError(place or here(), f"the name of a {of} comes first, as text, "
                                         f"and not {shown(name)}")
    require(bool(name.strip()), f"the name of a {of} is empty", place)


def no_value(value: object, signature: str, values: Iterable[object]) -> str:
    """The problem with a value that a variable never has."""
    known = list(values)
    if isinstance(value, list | tuple):
        meant = ", ".join(map(shown, value))
        return f"{shown(value)} is no value of {signature}: write {meant}, without brackets"
    by_name = {text.lower(): one for one in known if isinstance(one, Enum)
               for text in (one.name, str(one.value))}
    near = by_name.get(str(value).lower())
    advice = f"write {shown(near)}" if near else f"it has {', '.join(map(shown, known))}"
    return f"{shown(value)} is no value of {signature}: {advice}"


def suggestion(name: str, known: Iterable[str]) -> str:
    """` (perhaps NAME?)` for a mistyped name; "" if no known name is similar."""
    by_lower = {other.lower(): other for other in known}
    near = get_close_matches(name.lower(), by_lower, n=2, cutoff=NEAR)
    return f" (perhaps {' or '.join(by_lower[other] for other in near)}?)" if near else ""


def require_mapping(value: object, word: str, example: str, place: Place) -> None:
    """Raise SpecError unless the value is a mapping from names."""
    right = isinstance(value, Mapping) and all(isinstance(key, str) for key in value)
    require(right, f"{word}= is {shown(value)}: write {word}={example}", place)
