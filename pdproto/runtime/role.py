"""A role: a table, and an automaton for each choice of the sizes that depend on the hand-over.

All hand-overs of one topology share an automaton, and so do all nodes of a process.
"""

from collections.abc import Collection, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Final, NamedTuple, TypeAlias

from pdproto.runtime.automaton import Automaton, Event
from pdproto.runtime.local_rows import AnyRigid, Conditions
from pdproto.spec.handoff import binding_prompts
from pdproto.spec.handoff.binding_ordered import earlier
from pdproto.spec.handoff.binding_prompts import BY_PROMPT, REQUEST_IS_OVER, differ
from pdproto.spec.handoff.binding_tables import LIFE_IS_OVER, binds, rank
from pdproto.spec.handoff.incarnations import REQUEST
from pdproto.spec.handoff.presence import WATCHER
from pdproto.spec.handoff.roles import (
    Buffer,
    Chunk,
    Incarnation,
    Life,
    Page,
    Prompt,
    Sink,
    Slot,
    Source,
    Use,
)
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.handoff.window import WINDOW as CHUNKS
from pdproto.spec.language.machine import Table
from pdproto.spec.language.sorts import Sort

WINDOW: Final = 2  # lives and requests of a prompt in a room that an automaton counts
PREPARED: Final = 1, 2  # ranks at the other end, for which automata are made before they are needed
# Where each rank decides for itself; and where the caller has named the request.
RANK_ALONE, RANK_NAMED = (
    system.table(rank) for system in (binding_prompts.ORDERED, binding_prompts.NAMED))


class Role:
    """The automata of one table, by their sizes.

    fixed: the sizes that are always the same. varied: the sorts with other sizes for each
    hand-over. paced: rows that wait for the node (automaton.py, rule 3). orders: see Conditions.
    """

    def __init__(
        self, table: Table, fixed: Mapping[type[Sort], int], varied: Sequence[type[Sort]],
        paced: Sequence[str] = (), orders: Collection[AnyRigid] = (),
    ) -> None:
        self.table: Final = table
        self._fixed: Final = dict(fixed)
        self._paced: Final = tuple(paced)
        self._varied: Final = tuple(varied)
        self._automata: Final[dict[tuple[int, ...], Automaton]] = {}
        self._conditions = Conditions(table, orders)

    def automaton(self, *sizes: int) -> Automaton:
        """The automaton for these numbers of elements of the varied sorts, in their order."""
        known = self._automata.get(sizes)
        if known is None:
            given = dict(zip(self._varied, sizes, strict=True))
            known = Automaton(self.table, {**self._fixed, **given}, self._paced,
                              self._conditions)
            self._automata[sizes] = known
        return known

    def forget(self) -> None:
        """Make the automata anew when they are asked for: the table has other rows."""
        self._automata.clear()
        self._conditions = Conditions(self.table, self._conditions.orders)

    def _prepare_sizes(self, *sizes: int) -> None:
        """Make the automaton for these sizes with all its rows, if it does not exist yet."""
        if sizes not in self._automata:
            self.automaton(*sizes).rows.prepare()

    def prepare(self) -> None:
        """Make the automata that most hand-overs need, so that no hand-over waits for one."""
        raise NotImplementedError


class SourceRole(Role):
    """The source's end: its sizes are the numbers of sinks and of chunks."""

    def __init__(self, table: Table = SOURCE) -> None:
        super().__init__(table, {Source: 1, Life: 1, Buffer: 1}, (Sink, Chunk), paced=("post",))
        self._posts: Final[dict[tuple[Automaton, int, int], Event]] = {}

    def automaton_for(self, *, sinks: int, chunks: int) -> Automaton:
        """The automaton for this number of sinks and of chunks."""
        return self.automaton(sinks, chunks)

    def post(self, automaton: Automaton, sink: int, chunks: int) -> Event:
        """The permission for the row `post` to fire once, to this sink, for one of so many chunks.
        """
        key = automaton, sink, chunks
        known = self._posts.get(key)
        if known is None:  # to look for ranges takes long
            known = self._posts[key] = automaton.pace(
                "post", d=range(sink, sink + 1), c=range(chunks))
        return known

    def forget(self) -> None:
        """See Role.forget."""
        super().forget()
        self._posts.clear()

    def prepare(self) -> None:
        """The automata for any number of chunks that sending.py counts at once."""
        for sinks, chunks in product(PREPARED, range(1, CHUNKS + 3)):
            self._prepare_sizes(sinks, chunks)


class SinkRole(Role):
    """The sink's end: its size is the number of sources.

    All memory of a life counts as one element. So do all chunks of a source, because their digests
    are compared together.
    """

    def __init__(self, table: Table = SINK) -> None:
        fixed = {Sink: 1, Life: 1, Buffer: 1, Page: 1, Slot: 1, Chunk: 1}
        super().__init__(table, fixed, (Source,))

    def automaton_for(self, *, sources: int) -> Automaton:
        """The automaton for this number of sources."""
        return self.automaton(sources)

    def prepare(self) -> None:
        """See Role.prepare."""
        for sources in PREPARED:
            self._prepare_sizes(sources)


Pairs: TypeAlias = tuple[tuple[int, int], ...]  # a life and a request


class AfterEvent(NamedTuple):
    """A room after an event. bound: lives with their requests. differ: those that were compared,
    and have different prompts. over_requests, over_lives: those that `state` counts no more. All
    are places in the state before; of one prompt, the highest first.
    """

    state: int
    bound: Pairs
    differ: Pairs
    over_requests: tuple[int, ...]
    over_lives: tuple[int, ...]


class RankRole(Role):
    """The part of a prefill rank in binding the lives of one room to its requests.

    Its sizes are the number of sinks of a life, and that of prompts: 1, or 2 for the rows that
    compare two (`together`). The first lives and requests are of the first prompt, WINDOW of each.
    """

    def __init__(self, table: Table = RANK_ALONE) -> None:
        super().__init__(table, {Source: 1}, (Sink, Prompt, Life, Use),
                         orders=(earlier, *BY_PROMPT))
        self._after: Final[dict[tuple[Event, int], AfterEvent]] = {}

    @cached_property
    def alone(self) -> Automaton:
        """The automaton for lives with one sink, of one prompt: each room begins with it."""
        return self.automaton_for(sinks=1)

    def automaton_for(self, *, sinks: int, prompts: int = 1) -> Automaton:
        """The automaton for lives with this number of sinks, of this number of prompts."""
        return self.automaton(sinks, prompts, WINDOW * prompts, WINDOW * prompts)

    def forget(self) -> None:
        """See Role.forget."""
        super().forget()
        self._after.clear()
        vars(self).pop("alone", None)

    def prepare(self) -> None:
        """See Role.prepare."""
        for sinks in PREPARED:
            for prompts in PREPARED:
                self._prepare_sizes(sinks, prompts, WINDOW * prompts, WINDOW * prompts)

    def after(self, automaton: Automaton, event: Event, state: int) -> AfterEvent:
        """The step of an event, without the lives and requests that are over after it."""
        known = self._after.get((event, state))
        if known is None:
            known = self._after[event, state] = self._step(automaton, event, state)
        return known

    def _step(self, automaton: Automaton, event: Event, before: int) -> AfterEvent:
        step = automaton.take(event, before)
        places = range(automaton.sizes[Life] - 1, -1, -1)
        state = step.state
        requests = tuple(u for u in places if automaton.holds(REQUEST_IS_OVER, state, u=u))
        lives = tuple(h for h in places if automaton.holds(LIFE_IS_OVER, state, h=h))
        for sort, over in ((Use, requests), (Life, lives)):
            for place in over:
                state = self.without(automaton, state, sort, place)
        bound, other = (
            tuple((indices[1], indices[2]) for symbol, indices, value in step.changed
                  if symbol is relation and value is True) for relation in (binds, differ))
        return AfterEvent(state, bound, other, requests, lives)

    def together(self, sinks: int, one: int, other: int) -> tuple[Automaton, int]:
        """The states of two prompts as one, and its automaton."""
        alone = self.automaton_for(sinks=sinks)
        both = self.automaton_for(sinks=sinks, prompts=2)
        second = _renumbered(both, alone.translate(other, both), _SECOND)
        return both, alone.translate(one, both) | second

    def apart(self, sinks: int, state: int) -> tuple[int, int]:
        """The states of the two prompts in one."""
        alone = self.automaton_for(sinks=sinks)
        both = self.automaton_for(sinks=sinks, prompts=2)
        one, other = (both.translate(_renumbered(both, state, places), alone)
                      for places in (_FIRST_ALONE, _SECOND_ALONE))
        return one, other

    @staticmethod
    def without(automaton: Automaton, state: int, sort: type[Sort], place: int) -> int:
        """The state without a life or a request. The later ones of its prompt move up."""
        last = place - place % WINDOW + WINDOW
        places = tuple(None if i == place else i - (place < i < last)
                       for i in range(automaton.sizes[sort]))
        return automaton.translate(state, automaton, (sort, places))


# For each life, and for each request, of two prompts: its place with the others left out.
_FIRST_ALONE: Final = (*range(WINDOW), *(None,) * WINDOW)
_SECOND_ALONE: Final = (*(None,) * WINDOW, *range(WINDOW))
_SECOND: Final = (*range(WINDOW, 2 * WINDOW), *(None,) * WINDOW)  # those of one, as the second


def _renumbered(automaton: Automaton, state: int, places: tuple[int | None, ...]) -> int:
    for sort in (Life, Use):
        state = automaton.translate(state, automaton, (sort, places))
    return state


class IncarnationsRole(Role):
    """What a hand-over knows of the incarnations of its sources. Its sizes: the number of sources,
    and the greatest number of incarnations that it has heard of one of them.
    """

    def __init__(self, table: Table = REQUEST) -> None:
        super().__init__(table, {Life: 1}, (Source, Incarnation))

    def prepare(self) -> None:
        """The automata for sources of which each has been heard of once."""
        for sources in PREPARED:
            self._prepare_sizes(sources, 1)


SOURCE_ROLE: Final = SourceRole()
RANK_ROLE: Final = RankRole()
NAMED_ROLE: Final = RankRole(RANK_NAMED)
SINK_ROLE: Final = SinkRole()
INCARNATIONS_ROLE: Final = IncarnationsRole()
# What a node knows of a run of a peer's process.
PRESENCE_ROLE: Final = Role(WATCHER, {Incarnation: 1, Life: 1}, ())
