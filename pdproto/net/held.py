"""Pages that wait until a write can land no more which the engine of their node has given up on.

Nobody knows how such a write has ended (plane.py), and silence does not tell. What does: the engine
has found out after all; the sink is done with the life, and so has fenced it; or the sink's process
is no more, as it has said itself, as its successor shows by speaking, or as somebody declares who
knows (Node.declare_gone). Until then an operator can see here which pages wait for whom.
"""

from dataclasses import dataclass
from typing import Final

from pdproto.runtime.wire import Life


@dataclass(frozen=True, slots=True)
class Held:
    """The pages of one hand-over that wait for one sink. writes: those given up on, by number.

    since: in seconds of time.monotonic().
    """

    sink: str
    life: Life
    pages: tuple[int, ...]
    writes: tuple[int, ...]
    since: float

    def __str__(self) -> str:
        pages = f"{len(self.pages):,} page{'s' * (len(self.pages) != 1)}"
        return f"{pages} of room {self.life.room} for {self.sink} {self.life.incarnation:x}"


class HeldPages:
    """All that is held in one node. Only the loop's thread changes it; any thread may read it."""

    def __init__(self) -> None:
        self._held: Final[dict[tuple[str, Life], Held]] = {}

    def add(
        self, sink: str, life: Life, write: int, *, pages: tuple[int, ...], now: float
    ) -> None:
        """The engine has given up on this write to the sink, and it may still read these pages."""
        held = self._held.get((sink, life))
        writes, since = (held.writes, held.since) if held is not None else ((), now)
        self._held[sink, life] = Held(sink, life, pages, (*writes, write), since)

    def drop(self, sink: str, life: Life, write: int) -> None:
        """The engine has found out how this write has ended, if it had ever given up on it."""
        held = self._held.pop((sink, life), None)
        if held is None:
            return
        writes = tuple(other for other in held.writes if other != write)
        if writes:
            self._held[sink, life] = Held(sink, life, held.pages, writes, held.since)

    def take(self, sink: str, incarnation: int, floor: int) -> tuple[int, ...]:
        """The writes to a sink that can land no more, since this incarnation of it is done with all
        its lives below that generation. They are held no longer.
        """
        ended = [key for key in self._held if key[0] == sink
                 and key[1].incarnation == incarnation and key[1].generation < floor]
        return tuple(write for key in ended for write in self._held.pop(key).writes)

    def incarnations(self, sink: str) -> set[int]:
        """Those of the sink that something is held for."""
        return {life.incarnation for name, life in self._held if name == sink}

    def __len__(self) -> int:
        """How many there are, of hand-overs and sinks."""
        return len(self._held)

    def all(self) -> tuple[Held, ...]:
        """What is held now, what has been held longest first. For any thread."""
        return tuple(sorted(self._held.values(), key=lambda held: held.since))

    def count(self) -> int:
        """The pages that are held, each once. For any thread."""
        return len({page for held in self.all() for page in held.pages})

    def longest_s(self, now: float) -> float:
        """For how many seconds what has been held longest is held. For any thread."""
        return max((now - held.since for held in self.all()), default=0.0)
