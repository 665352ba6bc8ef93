"""The spans of a node's hand-overs, for distributed tracing: they follow from the steps of the
tables.

Rule 1: the identity of a trace is a digest of the life, which both servers know. So the spans of
        all ranks of a hand-over are in one trace, and no message carries a trace context. A sender
        that no sink has met is in a trace of its own.
Rule 2: a rank has one span for a hand-over, from its opening until a poll answers Success or
        Failed. Prefill's lies below that of its first decode rank. Below it lie a span for each
        answer of a poll, in the words of KVPoll, and one for each write, verification and fence.
Rule 3: a span is given away when it ends. A process that is killed gives away no open one: the
        spans of its peers end with the reason.
"""

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Final, Literal, NamedTuple, TypeAlias

from pdproto.ground.layout import Indices, value_name
from pdproto.node.decode.receiver import Receiver
from pdproto.node.handle import ENDED, Handle
from pdproto.node.sides import DECODE, PREFILL
from pdproto.runtime.automaton import Assignment, Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Claim, Write
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.roles import Chunk, Sink, Source
from pdproto.spec.language.formula import Value
from pdproto.spec.language.symbols import Symbol

TRACE_BYTES: Final = 16  # of an identity, as W3C Trace Context has it
SPAN_BYTES: Final = 8
WRITES_MAX: Final = 64  # spans of writes to one sink; the chunks behind them are only counted
STEPS_MAX: Final = 1 << 16  # steps whose changes are kept; a full cache is cleared

# A span of this name begins when the cell gets the value, and ends with the cell's next change.
OPENS: Final[Mapping[tuple[Symbol, Value], str]] = {
    (ends.write, Write.POSTED): "write",
    (ends.write, Write.IN_DOUBT): "write_in_doubt",
    (ends.claim, Claim.FENCING): "fence",
}
# The values with which such a span ends well. Any other is its error.
GOOD: Final = frozenset((Write.LANDED, Claim.FENCED, Claim.LANDED, Claim.DRAINED))
FOLLOWED: Final = frozenset((*(symbol for symbol, _ in OPENS), ends.content))

# Decode calls prefill, so that a view of services draws an arrow between them.
Kind: TypeAlias = Literal["client", "server", "internal"]
KINDS: Final[Mapping[str, Kind]] = {DECODE.name: "client", PREFILL.name: "server"}
Told: TypeAlias = str | int | tuple[str, ...]
Attributes: TypeAlias = Mapping[str, Told]


@dataclass(frozen=True, slots=True)
class HandoffSpan:
    """A span that has ended. trace, id, parent: identities of 128, 64 and 64 bits; parent: 0 for
    none. began_ns, ended_ns: since 1970. error: why it ended badly; None if it ended well.
    """

    name: str
    trace: int
    id: int
    parent: int
    kind: Kind
    began_ns: int
    ended_ns: int
    error: str | None
    attributes: Attributes


class _Changes(NamedTuple):
    """The changes of a step that begin or end spans."""

    poll: KVPoll
    cells: tuple[Assignment, ...]


@dataclass(frozen=True, slots=True)
class _Identity:
    """What all spans of a hand-over at a rank have in common, while it has this life and this first
    peer. whole: what digests are made of. own: of the rank's span. above: of the first decode
    rank's; 0 if there is none. kept: whether the sampler keeps the trace.
    """

    life: Life | None
    first: str
    whole: str
    trace: int
    own: int
    above: int
    kept: bool
    about: Attributes


class Spans:
    """Sees the steps of one node, and gives away its spans. Only the node's loop calls the methods.

    node: its name. give: takes a span that has ended; it must not wait. clock: the node's, in
    seconds. wall_ns: nanoseconds since 1970. sampled: whether the trace of this identity is kept,
    with the same answer on all ranks.
    """

    def __init__(
        self, node: str, give: Callable[[HandoffSpan], None], *, clock: Callable[[], float],
        wall_ns: Callable[[], int], sampled: Callable[[int], bool] = lambda _: True,
    ) -> None:
        self._node: Final = node
        self._give: Final = give
        self._clock: Final = clock
        self._wall_ns: Final = wall_ns
        self._sampled: Final = sampled
        self._changes: Final[dict[Step, _Changes]] = {}
        # The open spans of an endpoint: name and beginning, by cell; None: the answer of a poll.
        self._open: Final[dict[Endpoint, dict[Hashable, tuple[str, float]]]] = {}
        self._identities: Final[dict[Endpoint, _Identity]] = {}

    def write(self, endpoint: Endpoint, _event: Event, step: Step, /) -> None:
        """See StepObserver."""
        owner = endpoint.owner
        if not isinstance(owner, Handle):
            return  # the hand-over is over, and this is a late message
        if endpoint.life is not None and not self._identity(endpoint).kept:
            return
        changes = self._changes.get(step) or self._learn(endpoint, step)
        for cell in changes.cells:
            self._follow(endpoint, owner, cell)
        if changes.poll is not owner.status:
            self._move(endpoint, owner, changes.poll)

    def over(self, endpoint: Endpoint, /) -> None:
        """See StepObserver."""
        self._open.pop(endpoint, None)
        self._identities.pop(endpoint, None)

    def _learn(self, endpoint: Endpoint, step: Step) -> _Changes:
        if len(self._changes) >= STEPS_MAX:
            self._changes.clear()
        automaton = endpoint.automaton
        side = PREFILL if _is_source(endpoint) else DECODE
        changes = self._changes[step] = _Changes(
            automaton.first_value(side.polls, step.state),
            tuple(each for each in step.changed if each[0] in FOLLOWED))
        return changes

    def _move(self, endpoint: Endpoint, owner: Handle, poll: KVPoll) -> None:
        """The answer of a poll changes to this one."""
        error = (owner.blame or "failed") if poll is KVPoll.FAILED else None
        begun = self._open.setdefault(endpoint, {})
        name, since = begun.pop(None, (owner.status.name.lower(), owner.opened))
        self._end(endpoint, name, since, error)
        if poll not in ENDED:
            begun[None] = poll.name.lower(), self._clock()
            return
        told: dict[str, Told] = {
            "pdproto.status": poll.name.lower(), "pdproto.peers": endpoint.peers,
            "pdproto.bytes": owner.landed_bytes, "pdproto.chunks": owner.landed_chunks,
            "pdproto.repeats": owner.repeats}
        if error is not None:
            told["pdproto.reason"] = error
        self._end(endpoint, PREFILL.name if _is_source(endpoint) else DECODE.name, owner.opened,
                  error, told)
        if not begun:
            del self._open[endpoint]

    def _follow(self, endpoint: Endpoint, owner: Handle, cell: Assignment) -> None:
        """A cell gets a value: the span that is open for it ends, and another may begin."""
        symbol, indices, value = cell
        peer, chunk = _whereabouts(endpoint, symbol, indices)
        where: dict[str, Told] = {"pdproto.peer": peer}
        if symbol is ends.write:
            where["pdproto.chunk"] = chunk
        elif isinstance(owner, Receiver) and (symbol is ends.content or value is Claim.LANDED):
            self._verified(endpoint, owner, peer, clean=symbol is ends.content)
        begun = self._open.get(endpoint, {})
        name, since = begun.pop((symbol, peer, chunk), ("", 0.0))
        if name:
            self._end(endpoint, name, since, None if value in GOOD else value_name(value), where)
        opens = OPENS.get((symbol, value))
        if opens is not None and chunk < WRITES_MAX:
            self._open.setdefault(endpoint, begun)[symbol, peer, chunk] = opens, self._clock()

    def _verified(self, endpoint: Endpoint, owner: Receiver, source: str, *, clean: bool) -> None:
        """The chunks of a source have been compared, some time after its *done* has come."""
        delivery = owner.deliveries.get(source)
        if delivery is not None and delivery.since:
            since, delivery.since = delivery.since, 0.0
            self._end(endpoint, "verify", since, None if clean else owner.blame or "failed",
                      {"pdproto.peer": source})

    def _end(
        self, endpoint: Endpoint, name: str, since: float, error: str | None,
        told: Attributes | None = None,
    ) -> None:
        """Give a span away that began at this time of the node's clock, and ends now."""
        known, told = self._identity(endpoint), told or {}
        if not known.kept:
            return
        kind: Kind = KINDS.get(name, "internal")
        own, above = known.own, 0
        if kind == "internal":
            own = _digest(SPAN_BYTES, known.whole, self._node, name, *map(str, told.values()))
            above = known.own
        elif kind == "server":
            above = known.above
        lasted, ended_ns = max(0.0, self._clock() - since), self._wall_ns()
        self._give(HandoffSpan(name, known.trace, own, above, kind, ended_ns - int(lasted * 1e9),
                               ended_ns, error, {**known.about, **told}))

    def _identity(self, endpoint: Endpoint) -> _Identity:
        """It is computed once for each life: digests and samplers cost more than a step."""
        known, life = self._identities.get(endpoint), endpoint.life
        first = endpoint.peers[0] if endpoint.peers else ""
        if known is not None and known.life is life and known.first == first:
            return known
        room = endpoint.owner.room
        about: dict[str, Told] = {"pdproto.room": room, "pdproto.rank": self._node}
        whole, above = f"{room} of {self._node} at {endpoint.owner.opened}", 0
        if life is not None:
            whole = f"{life.room}.{life.incarnation}.{life.generation}"
            above = _digest(SPAN_BYTES, whole, first) if first else 0
            about |= {"pdproto.incarnation": life.incarnation,
                      "pdproto.generation": life.generation}
        trace = _digest(TRACE_BYTES, whole)
        known = _Identity(life, first, whole, trace, _digest(SPAN_BYTES, whole, self._node), above,
                          self._sampled(trace), about)
        if life is not None:  # else it may never meet a sink, and the node does not forget it
            self._identities[endpoint] = known
        return known


def _is_source(endpoint: Endpoint) -> bool:
    return Source in endpoint.automaton.table.machine.sorts


def _whereabouts(
    endpoint: Endpoint, symbol: Symbol, indices: Indices
) -> tuple[str, int]:
    """The peer and the chunk that a cell is about."""
    own = endpoint.automaton.table.machine.sorts
    places = dict(zip(symbol.sorts, indices, strict=True))
    peer = next(endpoint.peers[index] for sort, index in places.items()
                if sort in (Source, Sink) and sort not in own)
    return peer, endpoint.number(Chunk, places.get(Chunk, 0))


def _digest(size: int, *parts: str) -> int:
    """An identity of this size in bytes. It is not 0, which means none."""
    told = "\0".join(parts).encode()
    return int.from_bytes(blake2b(told, digest_size=size, person=b"pdproto span").digest()) or 1
