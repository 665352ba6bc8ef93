"""A store in memory, which can be late and say things twice."""

import asyncio
from collections.abc import AsyncIterator, Mapping

from pdproto.registry.log import Item, LogEntry, Start, Trimmed


class MemoryStore:
    """What the logs of several registries share. Use it in one event loop."""

    def __init__(self) -> None:
        self.kept = b""
        self.entries: list[tuple[int, LogEntry]] = []
        self.position = 0  # of the last entry
        self.trims = 0
        self.grown = asyncio.Event()

    def add(self, writer: str, number: int, body: bytes) -> None:
        """Append an entry, and show it to the readers."""
        self.position += 1
        self.entries.append((self.position, LogEntry(writer, number, body)))
        self.show()

    def show(self) -> None:
        """Wake the readers up."""
        self.grown.set()
        self.grown = asyncio.Event()


class MemoryLog:
    """The log of one registry. shows: whether it shows what comes. twice: each entry stands twice.
    takes: whether it takes what is written.
    """

    def __init__(self, store: MemoryStore, *, twice: bool = False) -> None:
        self.store = store
        self.shows = True
        self.takes = True
        self._twice = twice
        self._trims = 0  # that were shown

    async def follow(self) -> AsyncIterator[Item]:
        """See Log."""
        yield Start(self.store.kept)
        at, self._trims = 0, self.store.trims
        while True:
            if self.shows:
                if self._trims < self.store.trims:
                    self._trims = self.store.trims
                    yield Trimmed()
                for position, entry in [one for one in self.store.entries if one[0] > at]:
                    at = position
                    yield entry
            await self.store.grown.wait()

    async def append(self, writer: str, number: int, body: bytes) -> None:
        """See Log."""
        while not self.takes:
            await self.store.grown.wait()
        self.store.add(writer, number, body)
        if self._twice:
            self.store.add(writer, number, body)

    async def keep(self, kept: bytes, applied: Mapping[str, int]) -> None:
        """See Log."""
        if self._trims < self.store.trims:
            return
        self.store.kept = kept
        self.store.entries = [(position, one) for position, one in self.store.entries
                              if one.number > applied.get(one.writer, 0)]
        self.store.trims += 1
        self.store.show()

    async def close(self) -> None:
        """See Log."""
