"""Engines of which every write, error and fence waits for the race: see sim/fabric.py."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from lab.sim.fabric import Fabric, Pages, SimulatedSink, SimulatedSource, Write
from lab.sim.host import Host
from pdproto.node.data_path import Posted, WriteOutcome
from pdproto.runtime.wire import Life
from pdproto.testing.chance import Stream


class HeldSource(SimulatedSource):
    """A source's engine. room: how many more writes it takes; None for any number.

    A write ends when the race says so, or when its sink has fenced it.
    """

    room: int | None = 0

    @property
    def has_room(self) -> bool:
        """See SourceDataPath."""
        return self.room is None or self.room > 0

    def post(
        self, number: int, life: Life, address: bytes, offset: int, pages: Sequence[int],
        _is_wanted: Callable[[], bool],
    ) -> Posted:
        """See SourceDataPath. Nothing is written yet."""
        if self.room is not None:
            self.room -= 1
        self._under_way[number] = Write(number, life, self.host.name, address, offset, pages)
        return Posted(0, offset + 1)

    def take(self) -> None:
        """Take one more write."""
        self.room = 1
        self._wake()

    def take_any(self) -> None:
        """Take every write from now on."""
        self.room = None
        self._wake()

    def under_way(self, life: Life, sink: str, chunk: int) -> Write | None:
        """The write of this chunk to this sink, if it has not ended."""
        return next((write for write in self._under_way.values()
                     if write.life == life and write.chunk == chunk
                     and self.fabric.buffers[write.address].sink.host.name == sink), None)

    def land(self, write: Write) -> None:
        """The bytes arrive, wherever their memory belongs by now."""
        self._end(write)

    def give_up(self, write: Write) -> None:
        """Say that nobody knows how the write ends."""
        self._give_up(write)

    def skip(self, write: Write) -> None:
        """Say that the write never began."""
        write.ended = True
        del self._under_way[write.number]
        self._report(write, WriteOutcome.SKIPPED)

    def refuse_dead(self) -> None:
        """End the writes to processes that have ended: no connection is left."""
        for write in list(self._under_way.values()):
            if self.fabric.buffers[write.address].sink.host.dead:
                self._end(write)

    def land_late(self) -> None:
        """All that is still under way arrives, long after."""
        for write in list(self._under_way.values()):
            self._end(write)


class HeldSink(SimulatedSink):
    """A sink's engine. can_fence: it keeps out a source that lives. compares: it compares what has
    landed at once.
    """

    can_fence = True
    compares = True

    def __init__(
        self, host: Host, fabric: Fabric, pages: Pages, stream: Stream,
        sources: Mapping[str, SimulatedSource],
    ) -> None:
        super().__init__(host, fabric, pages, stream, sources)
        self._waiting: Final[list[tuple[Life, str]]] = []
        self._holds = True
        self._unread: Final[list[tuple[Life, str, Sequence[int], Sequence[int]]]] = []

    def verify(self, life: Life, source: str, chunks: Sequence[int], pages: Sequence[int]) -> None:
        """See SinkDataPath."""
        if self.compares:
            super().verify(life, source, chunks, pages)
        else:
            self._unread.append((life, source, chunks, pages))

    def compare(self) -> None:
        """Compare all that has landed, now and from now on."""
        self.compares = True
        for unread in self._unread:
            super().verify(*unread)
        self._unread.clear()

    def fence(self, life: Life, source: str) -> None:
        """See SinkDataPath. It is complete when the race says so."""
        self._waiting.append((life, source))
        if not self._holds:
            self.let_fence(life, source)

    def let_fence(self, life: Life, source: str) -> None:
        """Complete a fence that was asked for, if the engine can."""
        if (life, source) in self._waiting and (
                self.can_fence or self.sources[source].host.dead):
            self._waiting.remove((life, source))
            self._fence(life, source)

    def let_all(self) -> None:
        """Complete every fence, now and from now on."""
        self._holds = False
        for life, source in tuple(self._waiting):
            self.let_fence(life, source)
