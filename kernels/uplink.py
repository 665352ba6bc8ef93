"""A ring of memory, made once, that carries page numbers from the host to the device.

The ring is memory in the host (pinned) and in the device. Each chunk takes the part that it needs
for one turn. The turn is over when the kernel that reads the numbers has ended. Until then neither
copy of the numbers may change, on any stream.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

ROOM: Final = 1 << 19
"""Numbers in a ring: 4 MiB on each side, 32 chunks of 16,000 pages. One chunk may need more."""


class RingMemory:
    """The ring: pinned and device memory for the same count of numbers."""

    def __init__(self, numbers: int, device: torch.device) -> None:
        cuda = device.type == "cuda"
        self.size: Final = numbers
        self.pinned: Final = torch.empty(numbers, dtype=torch.int64, pin_memory=cuda)
        self.placed: Final = torch.empty(numbers, dtype=torch.int64, device=device)
        self.host: Final[NDArray[np.int64]] = self.pinned.numpy()


@dataclass(eq=False)
class Turn:
    """The part of the ring that one chunk has, and the event after which it is free again."""

    memory: RingMemory
    first: int
    read: Any  # the event after the kernel that reads the numbers, or None without a GPU
    launching: bool = True

    @property
    def over(self) -> bool:
        """Whether the kernel that reads the numbers has ended."""
        return not self.launching and (self.read is None or self.read.query())


class Uplink:
    """The ring and its turns, in the order in which they began.

    chunk_max: the numbers of the largest chunk. There is always room for one of those, and for
    `in_flight` chunks if their numbers fit the ring. The ring has 16 bytes for each page of the
    largest chunk, and at least 4 MiB.
    """

    def __init__(self, chunk_max: int, device: torch.device, in_flight: int) -> None:
        self.chunk_max: Final = chunk_max
        self.device: Final = device
        self.in_flight = 0
        self.memory = RingMemory(0, device)
        self.next = 0  # where in the ring the next turn begins, if there is room
        self.events: list[Any] = []  # of turns that are still to begin
        self.turns: deque[Turn] = deque()  # under way, the oldest first
        self.lock: Final = Lock()  # threads may pack from one layout at a time, each on its stream
        self.provide(in_flight)

    def provide(self, in_flight: int) -> None:
        """Make room for `in_flight` chunks. Chunks under way keep their part of the old ring."""
        with self.lock:
            if in_flight <= self.in_flight:
                return
            # One chunk more: up to a chunk stays free at the end of the ring.
            wanted = min((in_flight + 1) * self.chunk_max, max(ROOM, 2 * self.chunk_max))
            if wanted > self.memory.size:
                self.memory, self.next = RingMemory(wanted, self.device), 0
            while self.in_flight < in_flight:
                cuda = self.device.type == "cuda"
                self.events.append(torch.cuda.Event() if cuda else None)  # type: ignore[no-untyped-call]
                self.in_flight += 1

    def send(self, numbers: Sequence[NDArray[np.int64]]) -> tuple[torch.Tensor, Turn]:
        """Enqueue one copy of `numbers`, back to back; return where they will be, and the turn.

        The caller launches the kernel that reads them, and then calls `launched`. Raises
        BlockingIOError if the ring is full: the device is behind, and enqueueing more would hide
        it.
        """
        needed = sum(piece.size for piece in numbers)
        if needed > self.chunk_max:
            raise ValueError(f"pages: {needed} numbers to send, room for {self.chunk_max}")
        with self.lock:
            turn = self._begin(needed)
        end = first = turn.first
        try:
            for piece in numbers:
                turn.memory.host[end : end + piece.size] = piece
                end += piece.size
            placed = turn.memory.placed[first:end]
            placed.copy_(turn.memory.pinned[first:end], non_blocking=True)
        except BaseException:
            turn.launching = False  # the copy failed, so no kernel follows: its event has happened
            raise
        return placed, turn

    def _begin(self, needed: int) -> Turn:
        """The next turn, of `needed` numbers. The caller holds the lock."""
        while self.turns and self.turns[0].over:
            self.events.append(self.turns.popleft().read)
        oldest = next((turn.first for turn in self.turns if turn.memory is self.memory), None)
        first = self.next
        if oldest is None:
            first, end = 0, self.memory.size
        elif first > oldest:
            end = self.memory.size
            if end - first < needed:
                first, end = 0, oldest
        else:
            end = oldest
        if not self.events or end - first < needed:
            full = f", and a ring of {self.memory.size} numbers full" if self.events else ""
            raise BlockingIOError(
                f"{len(self.turns)} chunks are under way{full}: let one finish, or make room for"
                " more with warmup(in_flight=)"
            )
        self.next = first + needed
        turn = Turn(self.memory, first, self.events.pop())
        self.turns.append(turn)
        return turn

    @staticmethod
    def launched(turn: Turn, stream: Any) -> None:
        """End the turn after the work that is on `stream` now."""
        if turn.read is not None:
            turn.read.record(stream)
        turn.launching = False
