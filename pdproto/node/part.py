"""A part of a node: it declares, as data, all that it takes. The core calls it for nothing else.

    Part("fences", reactions={(ends.claim, Claim.FENCING): self._fence})

Rule 1: a frame, a message, a changed value, a timer and a call belong to one part. Two parts that
        take the same are refused when the node is made.
Rule 2: what the tables of the node send, wait for or offer, and no part takes, is refused too:
        of the table that the endpoints run (Parts.must_take), and of a table that one part runs
        alone (Part.runs).
Rule 3: events of peers and the phases of a turn reach each part that takes them, in the order of
        the parts.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Final, TypeAlias, TypeVar

from pdproto.ground.layout import Indices
from pdproto.node.peer import Peer
from pdproto.node.ports import Transport
from pdproto.runtime.automaton import Automaton
from pdproto.runtime.batches import Batch
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.local_rows import AnyMessage
from pdproto.runtime.wire import AnyFrame
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Call, Completion, Table, Timer
from pdproto.spec.language.symbols import Each, Sent, State, Symbol

K = TypeVar("K")
V = TypeVar("V")

Reaction: TypeAlias = Callable[[Endpoint, Indices], None]
Writer: TypeAlias = Callable[[Endpoint, int], AnyFrame]


class Turn(Enum):
    """The phases of a turn between the messages of peers and those to peers, in this order."""

    ROOMS = auto()  # waits of rooms and of silent peers that end
    REPORTS = auto()  # of devices
    WAITS = auto()  # of endpoints that end
    ROOM = auto()  # hand-overs that waited for room in the data path
    LAST = auto()  # after a second look at the reports of devices


def _none() -> Mapping[Any, Any]:
    return {}


@dataclass(frozen=True, slots=True)
class Part:
    """See the rules above. name: for errors.

    runs: the table that this part runs alone; its messages, timers and calls are all of this part.

    One part alone takes each of these. frames: by kind, with the peer. replaces: a frame of the
    first kind takes the place of one of the second kind about the same life that waits for the same
    batch. writers: by message, the function that makes its frame for the i-th peer. implied:
    messages that need no frame: every batch says the same, or they come or go another way, as from
    a registry. reactions: by variable and
    value, the action when the variable gets that value. timers: by name, called before the rows of
    the timer. calls, completions: of the tables, by name, the method that gives them to endpoints.

    Each part that has these gets them. states: further reactions to every step into a state for
    which the first function holds. failed: an endpoint fails; with its stage before. forgotten: a
    life is dropped. begin: of the node. greet: the first batch of a stranger; it may refuse the
    batch. connected: a new peer. batch: one has come; before its frames. floor: of the peer's
    lives; after the frames. overdue, lost, ended, returned: no hand-over waits for a peer any
    longer, with the reason; nothing is kept for it, with the reason; its process has ended; it can
    be reached again. unsaid: a message for this peer could not be sent, by a defect at this end,
    with the reason. turns: by phase, with the time. wants_turn: whether another turn must follow at
    once. due: the time of the next turn; None for any time. problem: why no hand-over can make
    progress here; for any thread. drain: refuse the rooms that only peers have begun, for this
    reason. end: the last frames are said now. close: the devices. inherited: this process is a
    child that its parent has forked, and no call works here, for this reason.

    lives_below: the floor of this node's own lives: each of a lower generation is over.
    """

    name: str
    runs: Table | None = None
    frames: Mapping[Any, Callable[[Peer, Any], None]] = field(default_factory=_none)
    replaces: Mapping[Any, Any] = field(default_factory=_none)
    writers: Mapping[AnyMessage, Callable[..., Any]] = field(default_factory=_none)
    implied: Collection[AnyMessage] = ()
    reactions: Mapping[tuple[Symbol, Value], Reaction] = field(default_factory=_none)
    timers: Mapping[str, Callable[..., None]] = field(default_factory=_none)
    calls: Mapping[str, Callable[..., object]] = field(default_factory=_none)
    completions: Mapping[str, Callable[..., object]] = field(default_factory=_none)

    states: Sequence[tuple[Callable[[Automaton, int], bool], Reaction]] = ()
    failed: Callable[[Endpoint, State], None] | None = None
    forgotten: Callable[[Endpoint], None] | None = None
    begin: Callable[[Transport], None] | None = None
    greet: Callable[[Batch], None] | None = None
    connected: Callable[[Peer], None] | None = None
    batch: Callable[[Peer], None] | None = None
    floor: Callable[[Peer, int], None] | None = None
    overdue: Callable[[Peer, str], None] | None = None
    lost: Callable[[Peer, str], None] | None = None
    ended: Callable[[Peer], None] | None = None
    returned: Callable[[Peer], None] | None = None
    unsaid: Callable[[Peer, AnyFrame, str], None] | None = None
    turns: Mapping[Turn, Callable[[float], None]] = field(default_factory=_none)
    wants_turn: Callable[[], bool] | None = None
    due: Callable[[], float | None] | None = None
    problem: Callable[[], str | None] | None = None
    drain: Callable[[str], None] | None = None
    end: Callable[[], None] | None = None
    inherited: Callable[[str], None] | None = None
    close: Callable[[], None] | None = None
    lives_below: Callable[[], int] | None = None


class Parts:
    """The parts of a node, as the core asks them. Raises ValueError as in rule 1."""

    def __init__(self, parts: Sequence[Part]) -> None:
        self.all: Final = tuple(parts)
        self.frames: Final = _alone("frame", parts, lambda part: part.frames)
        self.replaces: Final = _alone("frame", parts, lambda part: part.replaces)
        shared = [part for part in parts if part.runs is None]
        self.writers: Final = _alone("message", shared, lambda part: part.writers)
        self.reactions: Final = _alone("change", shared, lambda part: part.reactions)
        self.timers: Final = _alone("timer", shared, lambda part: part.timers)
        self.calls: Final = _alone("call", shared, lambda part: part.calls)
        self.completions: Final = _alone("completion", shared, lambda part: part.completions)
        self.implied: Final = frozenset(one for part in parts for one in part.implied)
        self.states: Final = tuple(one for part in parts for one in part.states)
        self.failed: Final = _each(part.failed for part in parts)
        self.forgotten: Final = _each(part.forgotten for part in parts)
        self.begin: Final = _each(part.begin for part in parts)
        self.greet: Final = _each(part.greet for part in parts)
        self.connected: Final = _each(part.connected for part in parts)
        self.batch: Final = _each(part.batch for part in parts)
        self.floor: Final = _each(part.floor for part in parts)
        self.overdue: Final = _each(part.overdue for part in parts)
        self.lost: Final = _each(part.lost for part in parts)
        self.ended: Final = _each(part.ended for part in parts)
        self.returned: Final = _each(part.returned for part in parts)
        self.unsaid: Final = _each(part.unsaid for part in parts)
        self.turns: Final = tuple(
            _each(part.turns.get(phase) for part in parts) for phase in Turn)
        self.wants_turn: Final = _each(part.wants_turn for part in parts)
        self.due: Final = _each(part.due for part in parts)
        self.problem: Final = _each(part.problem for part in parts)
        self.drain: Final = _each(part.drain for part in parts)
        self.end: Final = _each(part.end for part in parts)
        self.inherited: Final = _each(part.inherited for part in parts)
        self.close: Final = _each(part.close for part in parts)
        self.lives_below: Final = _each(part.lives_below for part in parts)
        for part in parts:
            if part.runs is not None:
                Parts([replace(part, runs=None)]).must_take(part.runs)

    def must_take(self, table: Table) -> None:
        """Raise ValueError, with the name, for something of this table that no part takes: a
        message that it sends or receives, a timer, a call or a completion.
        """
        heard = {kind.message for kind in self.frames}
        for row in table.rows:
            for message in map(_message, row.send):
                if message not in self.writers and message not in self.implied:
                    raise _untaken(table, f"message {message}, which row {row.name} sends")
            match row.on:
                case Sent(message=message) if message not in heard | self.implied:
                    raise _untaken(table, f"message {message}, for which row {row.name} waits")
                case Timer(name=name) if name not in self.timers:
                    raise _untaken(table, f"timer {name}")
                case Call(name=name) if name not in self.calls:
                    raise _untaken(table, f"call {name}")
                case Completion(name=name) if name not in self.completions:
                    raise _untaken(table, f"completion {name}")


def _message(effect: Sent | Each) -> AnyMessage:
    return effect.sent.message if isinstance(effect, Each) else effect.message


def _untaken(table: Table, about: str) -> ValueError:
    return ValueError(f"{table.machine}: {about}: no part of the node takes it")


def _each(functions: Iterable[V | None]) -> tuple[V, ...]:
    return tuple(function for function in functions if function is not None)


def _alone(
    about: str, parts: Sequence[Part], taken: Callable[[Part], Mapping[K, V]]
) -> dict[K, V]:
    """What one part alone takes, of all parts."""
    found: dict[K, V] = {}
    takers: dict[K, str] = {}
    for part in parts:
        for one, how in taken(part).items():
            if one in takers:
                raise ValueError(f"{about} {_named(one)}: two parts take it: {takers[one]} and "
                                 f"{part.name}")
            found[one], takers[one] = how, part.name
    return found


def _named(one: object) -> str:
    return one.__name__ if isinstance(one, type) else str(one)
