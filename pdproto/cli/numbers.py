"""Numbers among the arguments of verbs. Each function raises ArgumentTypeError for other text."""

import argparse
from math import inf, isfinite
from typing import Final

PORTS_END: Final = 1 << 16
NONE: Final = "none"  # a list without numbers


def natural(text: str) -> int:
    """A number of 0 or more, of which a run is made."""
    return _natural(text, "a seed of 0 or more")


def naturals(text: str) -> frozenset[int]:
    """Numbers of 0 or more, with commas between them; "none" for none."""
    return frozenset(_natural(part, f"numbers, as in 3,17, or {NONE}")
                     for part in text.split(",") if text != NONE)


def port(text: str) -> int:
    """The number of a port; 0 stands for a free one."""
    number = int(text) if text.isascii() and text.isdecimal() and len(text) < 6 else PORTS_END
    if number >= PORTS_END:
        raise argparse.ArgumentTypeError(
            f"want a port from 0 to {PORTS_END - 1:,}, not {text[:40]!r}")
    return number


def positive(text: str) -> float:
    """A number above 0, such as of seconds."""
    number = _real(text)
    if number <= 0:
        raise argparse.ArgumentTypeError(f"want a number above 0, not {text[:40]!r}")
    return number


def amount(text: str) -> float:
    """A number of 0 or more, such as of milliseconds."""
    number = _real(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"want a number of 0 or more, not {text[:40]!r}")
    return number


def _natural(text: str, wanted: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"want {wanted}, not {text[:40]!r}")
    return number


def _real(text: str) -> float:
    """The number; below 0 for text that is none, and for what is not finite."""
    try:
        number = float(text)
    except ValueError:
        return -inf
    return number if isfinite(number) else -inf
