"""A role: a table with the sizes that depend on the hand-over left open.

All hand-overs of one topology share an automaton, and so do all nodes of a process.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pdproto.runtime.automaton import Automaton
from pdproto.spec.handoff.roles import Chunk, Landing, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.handoff.window import WINDOW
from pdproto.spec.language.machine import Table
from pdproto.spec.language.sorts import Sort


class Role:
    """The automata of one table, by their sizes. fixed: the sizes that are always the same.

    varied: the sorts whose sizes are not.
    """

    def __init__(
        self, table: Table, fixed: Mapping[type[Sort], int], varied: Sequence[type[Sort]],
        paced: Sequence[str] = (),
    ) -> None:
        self.table: Final = table
        self._fixed: Final = dict(fixed)
        self._paced: Final = tuple(paced)
        self._varied: Final = tuple(varied)
        self._automata: Final[dict[tuple[int, ...], Automaton]] = {}

    def automaton(self, *sizes: int) -> Automaton:
        """The automaton for so many elements of each of the varied sorts, in their order."""
        known = self._automata.get(sizes)
        if known is None:
            given = dict(zip(self._varied, sizes, strict=True))
            known = Automaton(self.table, {**self._fixed, **given}, self._paced)
            self._automata[sizes] = known
        return known

    def prepared(self, *sizes: int) -> None:
        """Make an automaton with all its rows, unless it is there."""
        if sizes not in self._automata:
            self.automaton(*sizes).rows.prepare()

    def prepare(self) -> None:
        """Make the automata of most hand-overs, before a hand-over waits for one."""
        raise NotImplementedError


class SourceRole(Role):
    """A source's end: so many sinks, so many chunks."""

    def __init__(self, table: Table = SOURCE) -> None:
        super().__init__(table, {Source: 1, Life: 1, Landing: 1}, (Sink, Chunk), paced=("post",))

    def of(self, *, sinks: int, chunks: int) -> Automaton:
        return self.automaton(sinks, chunks)

    def prepare(self) -> None:
        """For one sink, and any number of chunks."""
        for chunks in range(1, WINDOW + 3):
            self.prepared(1, chunks)


class SinkRole(Role):
    """A sink's end: so many sources. What a life has of memory counts as one, and so do all chunks
    of a source, since their digests are compared together.
    """

    def __init__(self, table: Table = SINK) -> None:
        fixed = {Sink: 1, Life: 1, Landing: 1, Page: 1, Slot: 1, Chunk: 1}
        super().__init__(table, fixed, (Source,))

    def of(self, *, sources: int) -> Automaton:
        return self.automaton(sources)

    def prepare(self) -> None:
        """For one source."""
        self.prepared(1)


SOURCE_ROLE: Final = SourceRole()
SINK_ROLE: Final = SinkRole()
