"""Writes in doubt: the engine has given up on them, and they may still land.

The end of such a write is unknown (data_path.py), and silence of the sink proves nothing. Three
events settle it: the engine reports the end after all; the sink is done with the life, and so has
fenced it; or the sink's process has ended, because it said so, its successor has sent a batch, or
the application declares it (Core.declare_gone). Until then the node remembers the life, and does
not send DRAINED for it. The pages are free before that, because the engine no longer reads them.
"""

from dataclasses import dataclass
from typing import Final

from pdproto.runtime.wire import Life


@dataclass(frozen=True, slots=True)
class InDoubtAtSink:
    """The writes in doubt of one hand-over at one sink.

    writes: their numbers. since: of the first, in seconds of time.monotonic().
    """

    sink: str
    life: Life
    writes: tuple[int, ...]
    since: float


class InDoubtWrites:
    """The writes in doubt of one node. The loop's thread changes them; any thread may read them."""

    def __init__(self) -> None:
        self._in_doubt: Final[dict[tuple[str, Life], InDoubtAtSink]] = {}

    def add(self, sink: str, life: Life, write: int, now: float) -> None:
        """The engine has given up on this write to the sink."""
        in_doubt = self._in_doubt.get((sink, life))
        writes, since = (in_doubt.writes, in_doubt.since) if in_doubt is not None else ((), now)
        self._in_doubt[sink, life] = InDoubtAtSink(sink, life, (*writes, write), since)

    def drop(self, sink: str, life: Life, write: int) -> None:
        """Remove a write, if it is in doubt: the engine has reported its end."""
        in_doubt = self._in_doubt.get((sink, life))
        if in_doubt is None:
            return
        writes = tuple(other for other in in_doubt.writes if other != write)
        if writes:  # in one step, so that another thread never reads an empty record
            self._in_doubt[sink, life] = InDoubtAtSink(sink, life, writes, in_doubt.since)
        else:
            del self._in_doubt[sink, life]

    def take(self, sink: str, incarnation: int, floor: int) -> tuple[int, ...]:
        """Remove the writes that can no longer land at the sink, because this incarnation of it is
        done with all lives below generation `floor`. Returns their numbers.
        """
        ended = [key for key in self._in_doubt if key[0] == sink
                 and key[1].incarnation == incarnation and key[1].generation < floor]
        return tuple(write for key in ended for write in self._in_doubt.pop(key).writes)

    def incarnations(self, sink: str) -> set[int]:
        """The incarnations of the sink that have writes in doubt."""
        return {life.incarnation for name, life in self._in_doubt if name == sink}

    def __len__(self) -> int:
        """The number of pairs of hand-over and sink."""
        return len(self._in_doubt)

    def all(self) -> tuple[InDoubtAtSink, ...]:
        """All records, the oldest first. For any thread."""
        return tuple(sorted(self._in_doubt.values(), key=lambda in_doubt: in_doubt.since))

    def count(self) -> int:
        """The number of writes. For any thread."""
        return sum(len(in_doubt.writes) for in_doubt in self.all())

    def longest_s(self, now: float) -> float:
        """For how many seconds the oldest write has been in doubt; 0 for none. For any thread."""
        return max((now - in_doubt.since for in_doubt in self.all()), default=0.0)
