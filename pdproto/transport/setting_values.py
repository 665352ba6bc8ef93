"""The value of a setting in its type, from the text of an environment or a command line, and from a
table of TOML or JSON.
"""

from collections.abc import Collection, Mapping
from typing import Any, Final

from pdproto.runtime import checked

PATH_MAX: Final = 4_096  # characters, as Linux takes them
WORDS: Final = {"1": True, "true": True, "yes": True, "0": False, "false": False, "no": False}


def table(told: object, source: str, rule: str = "settings by their names") -> Mapping[str, Any]:
    """Values by name. Raises ValueError for anything else."""
    if not isinstance(told, Mapping) or not all(isinstance(name, str) for name in told):
        raise ValueError(f"{source}: want {rule}")
    return told


def typed(name: str, value: Any, source: str, kind: Any, choices: Collection[str] | None) -> Any:
    """The value in the type of its setting. Raises ValueError, with name, value and source."""
    where = f"{name}={checked.shown(value)} ({source})"
    if not isinstance(value, str | int | float) or (isinstance(value, bool) and kind is not bool):
        raise ValueError(f"{where}: want {_wanted(name, kind)}")
    if kind is str and (not isinstance(value, str) or len(value) > PATH_MAX):
        raise ValueError(f"{where}: want text of at most {PATH_MAX:,} characters")
    if isinstance(value, str) and "\0" in value:  # a file may have one, where a variable cannot
        raise ValueError(f"{where}: want text without a zero byte")
    try:
        told = _bool(value) if kind is bool else kind(value)
        if kind is int and (told < 1 or (isinstance(value, float) and told != value)):
            raise ValueError
    except (OverflowError, ValueError):
        raise ValueError(f"{where}: want {_wanted(name, kind)}") from None
    if choices is not None and told not in choices:
        raise ValueError(f"{where}: want one of {', '.join(choices)}")
    try:
        checked.kind(name, told, kind)
    except ValueError as error:
        raise ValueError(f"{error} ({source})") from None
    return told


def _bool(value: str | float) -> bool:
    if isinstance(value, bool):
        return value
    told = WORDS.get(value.lower() if isinstance(value, str) else checked.shown(value))
    if told is None:
        raise ValueError
    return told


def _wanted(name: str, kind: type) -> str:
    if kind is int:
        return f"a whole number{' of bytes' if name.endswith('_bytes') else ''} above 0"
    return "1 or 0" if kind is bool else "seconds, a number" if kind is float else "text"
