"""A source's end: any number of chunks, in an automaton that counts a few.

Rule 1: spec/handoff/window.py says which chunk may be left out of the automaton. This module asks
        it, and counts the chunks that are left out. In front these have landed at every sink.
        Behind, they still wait.
Rule 2: the table gets each chunk when the caller hands it over. Until the last chunk, the automaton
        counts one chunk more. So it answers as if it counted all chunks.
"""

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

from pdproto.runtime.automaton import Event
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import SINKS_MAX
from pdproto.runtime.role import SourceRole
from pdproto.spec.handoff.roles import Chunk
from pdproto.spec.handoff.window import CALLED_OFF, FOLLOWS, LANDED, OVER, WINDOW
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Sizes


class SendingEndpoint(Endpoint):
    """A source's endpoint; see the rules above. handed: the chunks handed over so far.

    The automaton counts `_held` of these chunks, from number `_first` on. The `_waiting` chunks
    behind them are left out. `_total`: the number of all chunks; 0 until it is known.
    """

    __slots__ = ("_first", "_held", "_role", "_total", "_waiting", "handed")

    def __init__(self, role: SourceRole, owner: Any) -> None:
        super().__init__(role.automaton_for(sinks=1, chunks=1), None, (), owner)
        self._role: Final = role
        self._first = self._held = self._waiting = self._total = self.handed = 0

    # Calls by the node

    def meet(self, sinks: Iterable[str]) -> None:
        """Count these sinks too.

        When the first chunk is handed over, every sink has published, so all sinks are known.
        Raises RemoteProtocolError for a new sink after that, and for more than SINKS_MAX.
        """
        peers = _joined(self.peers, tuple(sinks))
        if len(peers) == len(self.peers):
            return
        if self.handed:
            new = ", ".join(peers[len(self.peers):])
            raise RemoteProtocolError(
                f"{new} was not a sink of this source when its first chunk was handed over; the "
                f"sinks are {', '.join(self.peers)}")
        if len(peers) > SINKS_MAX:
            raise RemoteProtocolError(
                f"{len(peers)} sinks of one source; {SINKS_MAX} is the limit")
        self.peers = peers
        self._count(self.automaton.sizes[Chunk])

    def hand_over(self, *, last: bool) -> Event:
        """The event by which the caller hands over the next chunk. After it, call `handed_over`.

        last: it is the last chunk of the hand-over.
        """
        if self._held >= WINDOW:
            self._leave_out_landed()
        self._total = self.handed + 1 if last else 0
        self._count(self._size(self._held + 1))
        return self.automaton.call("send", (self._held,))

    def handed_over(self) -> None:
        """Count the chunk after its event was taken, and leave it out if the window is full."""
        place = self._held
        self.handed += 1
        if self.automaton.holds(OVER, self.state, c=place):
            self._waiting += 1
        elif place >= WINDOW and self.automaton.holds(
                FOLLOWS, self.state, before=place - 1, c=place):
            self._waiting += 1
            self._leave_out(place, 1, left=self._held)
        else:
            self._held += 1

    def landed(self) -> None:
        """After a write has ended: take waiting chunks into the automaton while there is room."""
        if not self._waiting or self.automaton.holds(CALLED_OFF, self.state):
            return
        self._leave_out_landed()
        for _ in range(min(self._waiting, WINDOW - self._held)):
            self._count(self._size(self._held + 1))
            self.take(self.automaton.call("send", (self._held,)))
            self._held += 1
            self._waiting -= 1

    def post_to(self, sink: int) -> Event:
        """The event that lets the table post a chunk to this sink.

        sink: its index. A chunk with a left-out chunk right behind it is not posted yet.
        """
        is_all = self._total and not self._waiting
        posted = self._held if is_all else min(self._held, WINDOW - 1)
        return self._role.post(self.automaton, sink, posted)

    def place(self, chunk: int) -> int:
        """The index in the automaton of a chunk that is being sent."""
        return chunk - self._first

    # Calls by the trace

    def number(self, sort: type[Sort], index: int) -> int:
        if sort is not Chunk:
            return index
        return self._first + index + (self._waiting if index >= self._held else 0)

    @property
    def sizes(self) -> Sizes:
        """The sizes for the trace. They count all chunks, also those that are left out.

        Until the last chunk is known, the number of chunks is the next power of two, so that the
        trace writes a new size only a few times.
        """
        chunks = self._total or 1 << (self.handed + 1).bit_length()
        return {**self.automaton.sizes, Chunk: chunks}

    # How chunks are left out

    def _size(self, held: int) -> int:
        """The number of chunks that the automaton counts while it holds `held` of them.

        Until the last chunk it is greater than `held`. Most hand-overs get the same number, so that
        few automata are made.
        """
        return held if self._total else max(held + 1, WINDOW + 2)

    def _leave_out_landed(self) -> None:
        landed = 0
        while landed < self._held and self.automaton.holds(LANDED, self.state, c=landed):
            landed += 1
        if landed:
            self._first += landed
            self._held -= landed
            self._leave_out(0, landed, left=self._held)

    def _leave_out(self, first: int, count: int, *, left: int) -> None:
        """Go on without `count` chunks of the automaton, from index `first` on.

        left: how many chunks it holds afterwards.
        """
        size = self.automaton.sizes[Chunk]
        places = (*range(first), *(None,) * count, *range(first, size - count))
        chunks = max(1, self._size(left))
        self.move(self._role.automaton_for(sinks=self._sinks, chunks=chunks), (Chunk, places))

    def _count(self, chunks: int) -> None:
        automaton = self._role.automaton_for(sinks=self._sinks, chunks=chunks)
        if automaton is not self.automaton:
            self.move(automaton)

    @property
    def _sinks(self) -> int:
        return max(1, len(self.peers))


@lru_cache(1_024)
def _joined(known: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """All these names. Most hand-overs of a sink name the same, and share one tuple."""
    return tuple(dict.fromkeys((*known, *more)))
