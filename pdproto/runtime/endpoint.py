"""One end of one hand-over: a state of an automaton, with the names of its peers."""

from typing import Any

from pdproto.ground.layout import Indices
from pdproto.runtime.automaton import Automaton, Event, Places, Step
from pdproto.runtime.wire import Life
from pdproto.spec.language.formula import Value
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Sizes, Symbol


class Endpoint:
    """Takes events and returns steps, without I/O and clock. Hundreds of thousands may be open.

    life: None at a source that no sink has named yet. peers: the nodes at the other end, in the
    order in which the automaton counts them. owner: the node's own object for this hand-over.
    alone: the processes of the peers are gone. armed: the running timers with their deadlines;
    repeats: consecutive timeouts without an answer; the node keeps the three. traced: what trace.py
    has written about this endpoint so far.
    """

    __slots__ = ("alone", "armed", "automaton", "life", "owner", "peers", "repeats", "state",
                 "timers", "traced")

    def __init__(
        self, automaton: Automaton, life: Life | None, peers: tuple[str, ...], owner: Any
    ) -> None:
        self.automaton = automaton
        self.state = automaton.initial
        self.life = life
        self.peers = peers
        self.owner = owner
        self.alone = False
        self.timers: tuple[str, ...] = ()
        self.armed: dict[str, float] = {}
        self.repeats = 0
        self.traced: Any = None

    def take(self, event: Event) -> Step:
        """Let the event happen. If it raises ProtocolError, nothing has changed."""
        step = event.steps.get(self.state) or self.automaton.take(event, self.state)
        self.state = step.state
        return step

    def value(self, symbol: Symbol, indices: Indices) -> Value:
        """The value of a cell in the present state."""
        return self.automaton.layout.value(self.state, symbol, indices)

    def move(self, automaton: Automaton, places: Places = None) -> None:
        """Go on in an automaton for another number of peers or chunks (`Automaton.translate`)."""
        self.state = self.automaton.translate(self.state, automaton, places)
        self.automaton = automaton

    @property
    def sizes(self) -> Sizes:
        """The number of elements of each sort that the trace tells of this endpoint."""
        return self.automaton.sizes

    def number(self, _sort: type[Sort], index: int) -> int:
        """The number that the trace uses for an element. index: its index in the automaton."""
        return index

    def __repr__(self) -> str:
        machine, words = self.automaton.table.machine, self.automaton.words(self.state)
        return f"<{machine} of {self.life or 'no life yet'}: {words}>"
