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

    life: None at a source that nobody has met yet. peers: the nodes at the other end, in the order
    in which the automaton counts them. owner: what the shell keeps beside it. armed: the timers
    that run, with their deadlines; repeats: how often in a row one of them was in vain: both the
    shell's. traced: what the trace has said of it (trace.py).
    """

    __slots__ = ("armed", "automaton", "life", "owner", "peers", "repeats", "state", "timers",
                 "traced")

    def __init__(
        self, automaton: Automaton, life: Life | None, peers: tuple[str, ...], owner: Any
    ) -> None:
        self.automaton = automaton
        self.state = automaton.initial
        self.life = life
        self.peers = peers
        self.owner = owner
        self.timers: tuple[str, ...] = ()
        self.armed: dict[str, float] = {}
        self.repeats = 0
        self.traced: Any = None

    def take(self, event: Event) -> Step:
        """Let the event happen. Raises ProtocolError, and then nothing has changed."""
        step = event.steps.get(self.state) or self.automaton.take(event, self.state)
        self.state = step.state
        return step

    def value(self, symbol: Symbol, indices: Indices) -> Value:
        return self.automaton.layout.value(self.state, symbol, indices)

    def move(self, automaton: Automaton, places: Places = None) -> None:
        """Go on in an automaton for another number of peers or chunks; see `Automaton.moved`."""
        self.state = self.automaton.moved(self.state, automaton, places)
        self.automaton = automaton

    @property
    def sizes(self) -> Sizes:
        """How many elements of each sort it counts."""
        return self.automaton.sizes

    def number(self, _sort: type[Sort], index: int) -> int:
        """The number of an element, by its index in the automaton."""
        return index

    def __repr__(self) -> str:
        machine, words = self.automaton.table.machine, self.automaton.words(self.state)
        return f"<{machine} of {self.life or 'no life yet'}: {words}>"
