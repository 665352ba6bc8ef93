"""Writes that the engine of their node has given up on, and that may still land.

Nobody knows how such a write has ended (data_path.py), and silence does not tell. Three events do:
the engine finds out after all; the sink is done with the life, and so has fenced it; or the sink's
process is no more: it has said so, its successor speaks, or somebody who knows declares it
(Node.declare_gone). Until then the node remembers the life, and does not say DRAINED of it.
The pages do not wait for that: the engine reads them no more.
"""

from dataclasses import dataclass
from typing import Final

from pdproto.runtime.wire import Life


@dataclass(frozen=True, slots=True)
class InDoubtAtSink:
    """What may still land of one hand-over at one sink. writes: by number.

    since: in seconds of time.monotonic().
    """

    sink: str
    life: Life
    writes: tuple[int, ...]
    since: float


class InDoubtWrites:
    """All of one node. Only the loop's thread changes it; any thread may read it."""

    def __init__(self) -> None:
        self._in_doubt: Final[dict[tuple[str, Life], InDoubtAtSink]] = {}

    def add(self, sink: str, life: Life, write: int, now: float) -> None:
        """The engine has given up on this write to the sink."""
        in_doubt = self._in_doubt.get((sink, life))
        writes, since = (in_doubt.writes, in_doubt.since) if in_doubt is not None else ((), now)
        self._in_doubt[sink, life] = InDoubtAtSink(sink, life, (*writes, write), since)

    def drop(self, sink: str, life: Life, write: int) -> None:
        """The engine has found out how this write has ended, if it had ever given up on it."""
        in_doubt = self._in_doubt.get((sink, life))
        if in_doubt is None:
            return
        writes = tuple(other for other in in_doubt.writes if other != write)
        if writes:  # in one step: who reads meanwhile never finds that nothing is in doubt
            self._in_doubt[sink, life] = InDoubtAtSink(sink, life, writes, in_doubt.since)
        else:
            del self._in_doubt[sink, life]

    def take(self, sink: str, incarnation: int, floor: int) -> tuple[int, ...]:
        """The writes to a sink that can land no more, since this incarnation of it is done with all
        its lives below that generation. They are in doubt no longer.
        """
        ended = [key for key in self._in_doubt if key[0] == sink
                 and key[1].incarnation == incarnation and key[1].generation < floor]
        return tuple(write for key in ended for write in self._in_doubt.pop(key).writes)

    def incarnations(self, sink: str) -> set[int]:
        """Those of the sink at which something may still land."""
        return {life.incarnation for name, life in self._in_doubt if name == sink}

    def __len__(self) -> int:
        """How many there are, of hand-overs and sinks."""
        return len(self._in_doubt)

    def all(self) -> tuple[InDoubtAtSink, ...]:
        """What is in doubt now, what has been so longest first. For any thread."""
        return tuple(sorted(self._in_doubt.values(), key=lambda in_doubt: in_doubt.since))

    def count(self) -> int:
        """The writes. For any thread."""
        return sum(len(in_doubt.writes) for in_doubt in self.all())

    def longest_s(self, now: float) -> float:
        """For how many seconds the first of them has been in doubt. For any thread."""
        return max((now - in_doubt.since for in_doubt in self.all()), default=0.0)
