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
class Adrift:
    """What may still land of one hand-over at one sink. writes: by number.

    since: in seconds of time.monotonic().
    """

    sink: str
    life: Life
    writes: tuple[int, ...]
    since: float


class AdriftWrites:
    """All of one node. Only the loop's thread changes it; any thread may read it."""

    def __init__(self) -> None:
        self._adrift: Final[dict[tuple[str, Life], Adrift]] = {}

    def add(self, sink: str, life: Life, write: int, now: float) -> None:
        """The engine has given up on this write to the sink."""
        adrift = self._adrift.get((sink, life))
        writes, since = (adrift.writes, adrift.since) if adrift is not None else ((), now)
        self._adrift[sink, life] = Adrift(sink, life, (*writes, write), since)

    def drop(self, sink: str, life: Life, write: int) -> None:
        """The engine has found out how this write has ended, if it had ever given up on it."""
        adrift = self._adrift.get((sink, life))
        if adrift is None:
            return
        writes = tuple(other for other in adrift.writes if other != write)
        if writes:  # in one step: who reads meanwhile never finds that nothing is adrift
            self._adrift[sink, life] = Adrift(sink, life, writes, adrift.since)
        else:
            del self._adrift[sink, life]

    def take(self, sink: str, incarnation: int, floor: int) -> tuple[int, ...]:
        """The writes to a sink that can land no more, since this incarnation of it is done with all
        its lives below that generation. They are adrift no longer.
        """
        ended = [key for key in self._adrift if key[0] == sink
                 and key[1].incarnation == incarnation and key[1].generation < floor]
        return tuple(write for key in ended for write in self._adrift.pop(key).writes)

    def incarnations(self, sink: str) -> set[int]:
        """Those of the sink at which something may still land."""
        return {life.incarnation for name, life in self._adrift if name == sink}

    def __len__(self) -> int:
        """How many there are, of hand-overs and sinks."""
        return len(self._adrift)

    def all(self) -> tuple[Adrift, ...]:
        """What is adrift now, what has been so longest first. For any thread."""
        return tuple(sorted(self._adrift.values(), key=lambda adrift: adrift.since))

    def count(self) -> int:
        """The writes. For any thread."""
        return sum(len(adrift.writes) for adrift in self.all())

    def longest_s(self, now: float) -> float:
        """For how many seconds the first of them has been adrift. For any thread."""
        return max((now - adrift.since for adrift in self.all()), default=0.0)
