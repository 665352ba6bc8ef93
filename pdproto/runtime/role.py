"""A role: a table with the sizes that depend on the hand-over left open.

All hand-overs of one topology share an automaton, and so do all nodes of a process.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from pdproto.runtime.automaton import Automaton
from pdproto.spec.handoff.roles import Chunk, Landing, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.language.machine import Table
from pdproto.spec.language.sorts import Sort


class Role:
    """The automata of one table, by their sizes. fixed: the sizes that are always the same."""

    def __init__(
        self, table: Table, fixed: Mapping[type[Sort], int], paced: Sequence[str] = ()
    ) -> None:
        self.table: Final = table
        self._fixed: Final = dict(fixed)
        self._paced: Final = tuple(paced)
        self._automata: Final[dict[tuple[tuple[type[Sort], int], ...], Automaton]] = {}

    def automaton(self, *sizes: tuple[type[Sort], int]) -> Automaton:
        """The automaton for so many elements of the sorts that are open."""
        known = self._automata.get(sizes)
        if known is None:
            known = Automaton(self.table, {**self._fixed, **dict(sizes)}, self._paced)
            self._automata[sizes] = known
        return known


class SourceRole(Role):
    """A source's end: so many sinks, so many chunks."""

    def __init__(self, table: Table = SOURCE) -> None:
        super().__init__(table, {Source: 1, Life: 1, Landing: 1}, paced=("post",))

    def of(self, *, sinks: int, chunks: int) -> Automaton:
        return self.automaton((Sink, sinks), (Chunk, chunks))


class SinkRole(Role):
    """A sink's end: so many sources. What a life has of memory counts as one, and so do all chunks
    of a source, since their digests are compared together.
    """

    def __init__(self, table: Table = SINK) -> None:
        super().__init__(table, {Sink: 1, Life: 1, Landing: 1, Page: 1, Slot: 1, Chunk: 1})

    def of(self, *, sources: int) -> Automaton:
        return self.automaton((Source, sources))


SOURCE_ROLE: Final = SourceRole()
SINK_ROLE: Final = SinkRole()
