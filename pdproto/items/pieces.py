"""Cuts the items of one call into parts: the next is packed while one is on its way."""

from collections.abc import Sequence
from typing import Final

PIECES_MAX: Final = 4  # each costs turns of the loop at both ends
PIECE_BYTES_MIN: Final = 2 << 20


def pieces(items: Sequence[int], item_bytes: int) -> list[Sequence[int]]:
    """At least one, and none without items unless there are none."""
    count = max(1, min(PIECES_MAX, len(items) * item_bytes // PIECE_BYTES_MIN))
    length = max(1, -(-len(items) // count))
    return [items[first:first + length] for first in range(0, len(items), length)] or [items]
