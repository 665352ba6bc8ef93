"""Pins of blocks that are handed over while their request is computed, in prefill's scheduler."""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final


@dataclass(slots=True)
class _Pinned:
    """The pins of a request. grants: how often blocks have been granted. blocks: of each grant that
    may be read. read: by rank, of how many grants it reads nothing any more.
    """

    grants: int = 0
    blocks: deque[tuple[int, list[Any]]] = field(default_factory=deque)
    read: dict[int, int] = field(default_factory=dict)


class Pins:
    """A pinned block counts as used by one request more. pool: vLLM's; None before it is known, and
    then nothing can be pinned. ranks: of this server; each must say that it has read a block.
    """

    def __init__(self) -> None:
        self.pool: Any = None
        self.ranks = 1
        self._of: Final[dict[str, _Pinned]] = {}

    def pin(self, request: str, blocks: Iterable[int]) -> None:
        """Pin the blocks of a grant."""
        of = self._of.setdefault(request, _Pinned())
        of.grants += 1
        found = [self.pool.blocks[number] for number in sorted(set(blocks))]
        self.pool.touch(found)
        of.blocks.append((of.grants, found))

    def read(self, ranks: Mapping[str, Mapping[int, int]]) -> None:
        """Ranks read nothing of so many grants any more, by request."""
        for request, by_rank in ranks.items():
            of = self._of.get(request)
            if of is None:
                continue
            of.read.update(by_rank)
            if len(of.read) >= self.ranks:
                over = min(of.read.values())
                while of.blocks and of.blocks[0][0] <= over:
                    self.pool.free_blocks(reversed(of.blocks.popleft()[1]))

    def release(self, request: str) -> None:
        """Nothing of the request is read any more."""
        of = self._of.pop(request, None)
        for _, found in of.blocks if of is not None else ():
            self.pool.free_blocks(reversed(found))
