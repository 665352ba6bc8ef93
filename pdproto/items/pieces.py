"""The items of one call, cut into parts: while a part is sent, the next one is packed."""

from collections.abc import Sequence
from typing import Final

PIECES_MAX: Final = 4  # each part costs turns of the loop at both ends
PIECE_BYTES_MIN: Final = 2 << 20


def pieces(items: Sequence[int], item_bytes: int) -> list[Sequence[int]]:
    """Cut the items into at least one part. item_bytes: of one item. Only the part of an empty list
    is empty.
    """
    count = max(1, min(PIECES_MAX, len(items) * item_bytes // PIECE_BYTES_MIN))
    length = max(1, -(-len(items) // count))
    return [items[first:first + length] for first in range(0, len(items), length)] or [items]
