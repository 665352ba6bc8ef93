"""The port of a store: one log that several registries write and read (etcd.py is one).

Rule 1: the log has one order, the same for every reader, without gaps. It may show an entry late.
Rule 2: an entry that is written twice may stand there twice. Readers take the first: each writer
        numbers its entries.
Rule 3: the beginning of the log may be replaced by the state that it leads to.
"""

from collections.abc import AsyncIterator, Mapping
from typing import NamedTuple, Protocol, TypeAlias


class Start(NamedTuple):
    """The log begins here, with a state (kept.py); b"" is that of a new registry."""

    kept: bytes


class LogEntry(NamedTuple):
    """One entry. writer, number: which of its writer."""

    writer: str
    number: int
    body: bytes


class Trimmed(NamedTuple):
    """A registry has replaced the beginning of the log by a state."""


Item: TypeAlias = Start | LogEntry | Trimmed


class Log(Protocol):
    """A store as its registry uses it, in one event loop."""

    def follow(self) -> AsyncIterator[Item]:
        """A Start, and all that comes after it, for ever. Another Start comes if entries after the
        last one are lost to this reader.
        """

    async def append(self, writer: str, number: int, body: bytes) -> None:
        """Write an entry. Returns when it is in the log, which may take long."""

    async def keep(self, kept: bytes, applied: Mapping[str, int]) -> None:
        """Replace the beginning by a state. applied: the last entry in it of each writer. Does
        nothing if another registry has done it meanwhile. Raises OSError.
        """

    async def close(self) -> None:
        """Close the connections."""
