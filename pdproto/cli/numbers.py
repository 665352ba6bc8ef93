"""Numbers among the arguments of verbs."""

import argparse


def natural(text: str) -> int:
    """A number of 0 or more, of which a run is made."""
    return _natural(text, "a seed of 0 or more")


def naturals(text: str) -> frozenset[int]:
    """Numbers of 0 or more, with commas between them; also none."""
    return frozenset(_natural(part, "numbers, as in 3,17") for part in text.split(",") if part)


def _natural(text: str, wanted: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = -1
    if number < 0:
        raise argparse.ArgumentTypeError(f"want {wanted}, not {text[:40]!r}")
    return number
