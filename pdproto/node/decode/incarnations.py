"""The incarnations of a hand-over's sources: when decode asks for memory, and whose frames count.

Rule 1: the table decides (REQUEST in spec/handoff/incarnations.py). Here batches, frames and the
        pages of the application become its events.
Rule 2: the table counts the incarnations of a source in the order in which the hand-over has heard
        of them.
"""

from functools import lru_cache
from typing import Final, TypeAlias

from pdproto.ground.layout import Indices
from pdproto.runtime.automaton import Event, Step
from pdproto.runtime.errors import RemoteProtocolError
from pdproto.runtime.limits import INCARNATIONS_MAX
from pdproto.runtime.local_rows import AnyMessage
from pdproto.runtime.role import INCARNATIONS_ROLE
from pdproto.spec.handoff import incarnations as tables
from pdproto.spec.handoff.incarnations import Asking
from pdproto.spec.handoff.roles import Incarnation

_ASKING: Final = {(tables.asking, Asking.ASKED)}  # the change that asks for memory
_ASKS: Final[dict[Step, bool]] = {}  # whether a step has it
Heard: TypeAlias = tuple[tuple[int, ...], ...]  # the incarnations of each source, in order


class KnownIncarnations:
    """See the rules above. sources: the names of the nodes.

    Many hand-overs are open at a time, and most have heard the same: they share one tuple.
    """

    __slots__ = ("_automaton", "_heard", "_sources", "_state")

    def __init__(self, sources: tuple[str, ...]) -> None:
        self._sources: Final = sources
        self._automaton = INCARNATIONS_ROLE.automaton(len(sources), 1)
        self._state = self._automaton.initial
        self._heard: Heard = _nothing(len(sources))

    def expect(self, source: str) -> None:
        """Nothing has been heard of this source yet."""
        self._take(self._automaton.call("expect", (self._sources.index(source),)))

    def greet(self, source: str, incarnation: int) -> bool:
        """A batch of this incarnation has come. Returns whether the hand-over asks for memory."""
        return self._asks(self._said(tables.greeting, source, incarnation))

    def place(self) -> bool:
        """The hand-over has its pages. Returns whether it asks for memory now."""
        return self._asks(self._automaton.call("place"))

    def counts(self, source: str, incarnation: int) -> bool:
        """Whether a frame counts that this incarnation has sent about the hand-over."""
        event = self._said(tables.answer, source, incarnation)
        return self._take(event).rows[0][0].kind != "ignore"

    def _said(self, message: AnyMessage, source: str, incarnation: int) -> Event:
        of = self._sources.index(source)
        heard = self._heard[of]
        if incarnation not in heard:
            if len(heard) == INCARNATIONS_MAX:
                raise RemoteProtocolError(f"{source} has been started more than {INCARNATIONS_MAX} "
                                          f"times during one hand-over")
            self._heard = _and(self._heard, of, incarnation)
            heard = self._heard[of]
            if len(heard) > self._automaton.sizes[Incarnation]:
                wider = INCARNATIONS_ROLE.automaton(len(self._sources), len(heard))
                self._state = self._automaton.translate(self._state, wider)
                self._automaton = wider
        place: Indices = of, heard.index(incarnation), 0
        return self._automaton.message(message, place)

    def _asks(self, event: Event) -> bool:
        step = self._take(event)
        known = _ASKS.get(step)
        if known is None:  # to look through the changes takes longer than the step
            known = any((symbol, value) in _ASKING for symbol, _, value in step.changed)
            _ASKS[step] = known
        return known

    def _take(self, event: Event) -> Step:
        step = event.steps.get(self._state) or self._automaton.take(event, self._state)
        self._state = step.state
        return step


@lru_cache
def _nothing(sources: int) -> Heard:
    return ((),) * sources


@lru_cache
def _and(heard: Heard, source: int, incarnation: int) -> Heard:
    """And this incarnation of the source."""
    return *heard[:source], (*heard[source], incarnation), *heard[source + 1:]
