"""Real nodes with real engines, a network that goes wrong between them, and eyes on every step.

What the nodes do is put together, life by life, into states of the tables, in which the properties
of the spec are looked for (lab/sim/watch.py). A node tells of a step before it sends anything
of it, so what is seen has an order in which it can have happened.
"""

import threading
from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from hashlib import blake2b
from itertools import count
from operator import methodcaller
from time import monotonic, sleep
from typing import Final

import numpy as np
from numpy.typing import NDArray

from lab.sim.outcome import Roles, Violation
from lab.sim.picture import Recording
from lab.sim.plan import PlannedRequest
from lab.sim.watch import Watch, Witness
from pdproto.drill.handoff.rank import Pool
from pdproto.engine.contract import (
    Address,
    Buffer,
    DeviceBytes,
    EndedWrite,
    Result,
    SourceCounts,
    SourceEngine,
)
from pdproto.engine.engines import open_sink, open_source
from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.prefill.sender import Sender
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime.automaton import Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.trace import TraceWriter
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode, RunningNode
from tests.node.data_paths import ENDED
from tests.property.network import Network
from tests.waiting import ended

LAYERS, PAGES, PAGE_BYTES = 2, 24, 256
DRAIN_S: Final = 20.0  # on a busy machine; what has not come back by then never will
LINK: Final = Link(sign_of_life_s=0.05, silent_s=0.2, absent_s=0.4, grace_s=0.15, returns_s=2.0)
WAITS: Final = {"bootstrap_timeout": 0.8, "transfer_timeout": 0.8, "no_news": 0.05,
                "no_bytes": 0.05, "no_answer": 0.05, "no_drain": 0.2}
HELD: Final = ("engine_leases", "engine_leased_bytes", "engine_pending_fences",
               "engine_inflight_chunks", "engine_inflight_bytes", "engine_abandoned_bytes")

Pools = NDArray[np.uint8]  # [layer, page, token, head, byte]


def content(room: int, source: str, index: int) -> NDArray[np.uint8]:
    """What a page of a request holds, in all layers of a source: uint8 [layer, byte]."""
    words = (blake2b(repr((room, source, index, n)).encode(), digest_size=64).digest()
             for n in range(LAYERS * PAGE_BYTES // 64))
    return np.frombuffer(b"".join(words), np.uint8).reshape(LAYERS, PAGE_BYTES)


def empty() -> Pools:
    return np.zeros((LAYERS, PAGES, 1, 1, PAGE_BYTES), np.uint8)


class SlowSource:
    """A source's engine of which writes begin only when they are let go, while it holds them.

    So bytes can land at whatever time is the worst, or after the engine has given them up.
    """

    def __init__(self, engine: SourceEngine) -> None:
        self.holds = False
        self._engine: Final = engine
        self._lock: Final = threading.Lock()
        self._numbers: Final = count(1)
        self._held: Final[deque[tuple[int, Callable[[], int]]]] = deque()
        self._begun: Final[dict[int, int]] = {}  # ours, by the engine's number
        self._given_up: Final[deque[EndedWrite]] = deque()
        self._wake: Callable[[], None] = lambda: None

    def attach(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._engine.attach(wake)

    def connect(self, address: Address) -> None:
        self._engine.connect(address)

    @property
    def has_room(self) -> bool:
        return self._engine.has_room

    def post(
        self, address: Address, offset: int, views: Sequence[Buffer],
        carried: DeviceBytes | None = None,
    ) -> int:
        with self._lock:
            number = next(self._numbers)
            begin = partial(self._engine.post, address, offset, views, carried)
            if self.holds:
                self._held.append((number, begin))
            else:
                self._begun[begin()] = number
            return number

    def hold(self) -> None:
        self.holds = True

    def let_go(self) -> None:
        """Have all writes begin that are held now."""
        with self._lock:
            while self._held:
                number, begin = self._held.popleft()
                self._begun[begin()] = number

    def give_up(self) -> None:
        """Say of the oldest write that nobody knows how it ended; and then it begins."""
        with self._lock:
            if not self._held:
                return
            number, begin = self._held.popleft()
            self._given_up.append(EndedWrite(number, Result.ERROR, "nobody knows"))
            begin()
        self._wake()

    def flow(self) -> None:
        """Hold nothing any more."""
        self.holds = False
        self.let_go()

    @property
    def has_held(self) -> bool:
        """Whether there are writes that wait to be let go."""
        return bool(self._held)

    def completed(self) -> list[EndedWrite]:
        ended = [self._given_up.popleft() for _ in range(len(self._given_up))]
        with self._lock:
            for outcome in self._engine.completed():
                number = self._begun.pop(outcome.write, None)
                if number is not None:  # of the others an outcome has been told
                    ended.append(replace(outcome, write=number))
        return ended

    def counts(self) -> SourceCounts:
        counts = self._engine.counts()
        return replace(counts, writes=counts.writes + len(self._held))

    def close(self) -> None:
        self._engine.close()


class Eyes:
    """See the top of the file. blamed: what was seen that must not be. fired: how often
    each row has. Of every room there is a recording, to be drawn.
    """

    def __init__(self, roles: Roles) -> None:
        self.roles: Final = roles
        self.blamed: Final[list[Violation]] = []
        self.fired: Final[Counter[str]] = Counter()
        self.recordings: Final[dict[int, Recording]] = {}
        self._requests: Final[dict[int, PlannedRequest]] = {}
        self._lock: Final = threading.Lock()
        self._began = monotonic()
        self._watch: Final = Watch(
            self._requests, lambda request: tuple(request.prefill.split("+")),
            (roles.source.table, roles.sink.table), monotonic, self._blame)

    def begin(self) -> None:
        """Forget what was seen, but for the rows that fired."""
        for kept in (self.blamed, self.recordings, self._requests):
            kept.clear()
        self._began = monotonic()

    def expect(self, room: int, sources: Sequence[str], chunks: int) -> None:
        """There will be a hand-over of this room."""
        self.recordings[room] = Recording(room)
        self._requests[room] = PlannedRequest(room, "+".join(sources), "d", 0.0, 0.0, (1,) * chunks,
                                              allocation_s=0.0, generates_s=0.0)

    def of(self, name: str) -> TraceWriter:
        """What a node takes for its trace."""
        return Looking(name, self._see)

    def bury(self, name: str) -> None:
        """A process has died."""
        with self._lock:
            self._watch.die(name)

    def _see(self, node: str, end: Endpoint, event: Event, step: Step) -> None:
        with self._lock:
            self.fired.update(row.name for row, _ in step.rows)
            if end.life is not None:
                recording = self.recordings[end.life.room]
                recording.see(monotonic() - self._began, node, end, event, step)
            Witness(node, self._watch).write(end, event, step)

    def _blame(self, name: str, about: str, room: int) -> None:
        self.blamed.append(Violation(name, about, monotonic() - self._began, room))


class Looking(TraceWriter):
    """What a node takes for its trace. Each step of any node is looked at on its own."""

    def __init__(self, name: str, see: Callable[[str, Endpoint, Event, Step], None]) -> None:
        self._name: Final = name
        self._see: Final = see

    def write(self, endpoint: Endpoint, event: Event, step: Step) -> None:
        self._see(self._name, endpoint, event, step)


@dataclass(slots=True)
class Rank:
    """A process, from its start to its death. listener: of the network, before it."""

    node: RunningNode
    pool: Pool
    pages: dict[str, Pools]  # by source
    listener: str
    engine: SlowSource | None = None


@dataclass(slots=True)
class HandOver:
    """A request at all its ranks. chunks: pages of each. asked: the ranks that were asked to open
    it. wanted: chunks that prefill has computed, by source. finishes: decode has its answer.
    """

    room: int
    sources: tuple[str, ...]
    sink: str
    chunks: tuple[int, ...]
    asked: set[str] = field(default_factory=set)
    senders: dict[str, Sender] = field(default_factory=dict)
    given: dict[str, tuple[int, ...]] = field(default_factory=dict)  # pages, by rank
    wanted: Counter[str] = field(default_factory=Counter)
    sent: Counter[str] = field(default_factory=Counter)
    receiver: Receiver | None = None
    published: bool = False
    finishes: bool = False
    verified: bool = False
    closed: bool = False

    @property
    def pages(self) -> int:
        return sum(self.chunks)

    @property
    def ends(self) -> list[Sender | Receiver]:
        """Those that live."""
        return [*self.senders.values(), *([self.receiver] if self.receiver is not None else [])]


class Nodes:
    """The cluster. What is asked of it is done as a server's scheduler would: it polls, and never
    waits. `drained` is the end of every run.
    """

    def __init__(
        self, net: Network, eyes: Eyes, *, sources: int = 1, sinks: int = 1, engine: str = "shm"
    ) -> None:
        self.net: Final = net
        self.eyes: Final = eyes
        self.ranks: Final[dict[str, Rank]] = {}
        self.rooms: Final[dict[int, HandOver]] = {}
        self.sources: Final = tuple(f"p{i}" for i in range(sources))
        self.sinks: Final = tuple(f"d{i}" for i in range(sinks))
        self._engine: Final = engine
        self._listeners: Final = count()
        for name in (*self.sources, *self.sinks):
            self.start(name)

    # Processes

    def start(self, name: str) -> None:
        """A process of this name, the first or the next."""
        listener = f"{name}.{next(self._listeners)}"
        link = replace(LINK, advertise=self.net.do(methodcaller("open", listener)))
        looking, roles = self.eyes.of(name), self.eyes.roles
        node: RunningNode
        slow = None
        if name in self.sources:
            pages = {name: empty()}
            slow = SlowSource(open_source(self._engine))
            node = PrefillNode(name, SourcePages(list(pages[name]), slow), link=link, waits=WAITS,
                               trace=looking, role=roles.source)
        else:
            pages = {source: empty() for source in self.sources}
            data_path = SinkPages({source: list(of) for source, of in pages.items()},
                              open_sink(self._engine))
            node = DecodeNode(name, data_path, link=link, waits=WAITS, trace=looking,
                              role=roles.sink)
        self.net.do(methodcaller("aim", listener, node.bound))
        self.ranks[name] = Rank(node, Pool(PAGES), pages, listener, slow)

    def crash(self, name: str) -> None:
        """The process dies without a word, between two turns of its loop; another is started."""
        rank = self.ranks.pop(name)
        node = rank.node

        def stop() -> None:
            node._core.farewells = lambda *_: iter(())  # type: ignore[method-assign]
            node._loop._closing = True

        node._core.ask(stop)
        ended(node._loop._thread)
        self.eyes.bury(name)
        node._loop._closing = False
        node.close()
        self.net.do(methodcaller("shut", rank.listener))
        for hand in self.rooms.values():
            hand.senders.pop(name, None)
            if hand.sink == name:
                hand.receiver = None
        self.start(name)

    def pause(self, name: str, seconds: float) -> None:
        """Its loop stands still, and goes on as if nothing had been."""
        self.ranks[name].node._core.ask(partial(sleep, seconds))

    # What an application asks

    def expect(self, sink: str, chunks: tuple[int, ...]) -> int:
        """A request comes. Returns its room."""
        room = len(self.rooms)
        self.rooms[room] = HandOver(room, self.sources, sink, chunks)
        self.eyes.expect(room, self.sources, len(chunks))
        return room

    def open_sender(self, room: int, source: str) -> None:
        """Nothing comes of it while there are no pages."""
        hand, rank = self.rooms[room], self.ranks[source]
        hand.asked.add(source)
        pages = rank.pool.take(hand.pages)
        if pages is None or not isinstance(rank.node, PrefillNode):
            return
        for index, page in enumerate(pages):
            rank.pages[source][:, page, 0, 0] = content(room, source, index)
        hand.given[source] = pages
        hand.senders[source] = rank.node.open(room, partial(rank.pool.give, pages))

    def open_receiver(self, room: int) -> None:
        """Nothing comes of it while there are no pages."""
        hand = self.rooms[room]
        rank = self.ranks[hand.sink]
        hand.asked.add(hand.sink)
        pages = rank.pool.take(hand.pages)
        if pages is None or not isinstance(rank.node, DecodeNode):
            return
        where = {source: self.ranks[source].node.endpoint for source in hand.sources}
        hand.given[hand.sink] = pages
        hand.receiver = rank.node.open(room, where, on_released=partial(rank.pool.give, pages))

    def publish(self, room: int) -> None:
        hand = self.rooms[room]
        hand.published = True
        if hand.receiver is not None:
            hand.receiver.publish(hand.given[hand.sink], slot=room)

    def pump(self) -> None:
        """What waits for a poll to say something, and may be done now."""
        for hand in self.rooms.values():
            for source, sender in hand.senders.items():
                while hand.sent[source] < hand.wanted[source] and sender.poll() in (
                        KVPoll.WAITING_FOR_INPUT, KVPoll.TRANSFERRING):
                    self._send(hand, source, sender)
            receiver = hand.receiver
            if receiver is not None and receiver.poll() is KVPoll.SUCCESS and not hand.verified:
                hand.verified = True
                self._verify(hand, receiver)
            if receiver is not None and hand.verified and hand.finishes and not hand.closed:
                hand.closed = True
                receiver.close()

    def rest(self, milliseconds: int) -> None:
        """Let the nodes work, and do what can be done meanwhile."""
        for _ in range(1 + milliseconds):
            self.pump()
            sleep(0.001)

    @staticmethod
    def _send(hand: HandOver, source: str, sender: Sender) -> None:
        number = hand.sent[source]
        hand.sent[source] += 1
        first, last = sum(hand.chunks[:number]), number == len(hand.chunks) - 1
        pages = hand.given[source][first:first + hand.chunks[number]]
        sender.send(pages, last=last, metadata=f"{hand.room} of {source}".encode() * last)

    def _verify(self, hand: HandOver, receiver: Receiver) -> None:
        """Every byte of a success."""
        for source in hand.sources:
            pools = self.ranks[hand.sink].pages[source]
            assert receiver.metadata[source] == f"{hand.room} of {source}".encode()
            for index, page in enumerate(hand.given[hand.sink]):
                np.testing.assert_array_equal(
                    pools[:, page, 0, 0], content(hand.room, source, index),
                    f"room {hand.room}, page {index} of {source}")

    # The end

    def drained(self, *, patiently: bool, within_s: float = DRAIN_S) -> None:
        """Let everything come to its end. Fails if it does not, or if something is left then."""
        self.net.do(methodcaller("heal"))
        for rank in self.ranks.values():
            if rank.engine is not None:
                rank.engine.flow()
        for hand in self.rooms.values():
            hand.finishes = True
            if hand.receiver is not None and not hand.published:
                hand.receiver.abort("it gets no memory")  # no clock ends that wait
            for end in hand.ends if not patiently else ():
                end.abort("the run is over")
        deadline = monotonic() + within_s
        while self.held() and monotonic() < deadline:
            self.pump()
            sleep(0.002)
        assert not self.held(), f"{within_s:g} s after all faults: {'; '.join(self.held())}"
        for name, rank in self.ranks.items():
            counted = rank.node.metrics.read()
            assert not counted["spoilt_chunks"], f"{name}: a digest does not agree"
            assert not counted["refused_frames"], f"{name} has refused a message"

    def held(self) -> list[str]:
        """What is not at its end, or not given back, each in words."""
        return [
            *(f"room {hand.room} has not ended at {end!r}" for hand in self.rooms.values()
              for end in hand.ends if end.poll() not in ENDED or not end.released),
            *(f"{name} holds {what}" for name, rank in self.ranks.items() for what in held(rank)),
        ]

    def check(self) -> None:
        """Nothing that was seen may be wrong, and nobody at fault."""
        for violation in self.eyes.blamed:
            raise AssertionError(f"{violation.name}, room {violation.room}: {violation.about}")
        for name, rank in self.ranks.items():
            assert rank.node._loop.turn_errors == 0, f"{name}: a turn of its loop has failed"
            mistakes = rank.node._core.mistakes
            assert mistakes == 0, f"{name}: the tables refuse {mistakes} calls"

    def close(self) -> None:
        for rank in self.ranks.values():
            rank.node.close()
            self.net.do(methodcaller("shut", rank.listener))


def held(rank: Rank) -> Iterator[str]:
    """What a process has not given back."""
    node = rank.node
    for name, value in node.metrics.read().items():
        if value and (name.startswith("num_") or name in HELD):
            yield f"{name} {value:g}"
    if len(rank.pool) != PAGES:
        yield f"{PAGES - len(rank.pool)} pages"
    waiting = []
    if isinstance(node, PrefillNode):
        waiting = [*node._node.unbound, *node._node.binding.early]
    for what, number in (("lives", len(node._node.lives)), ("unmet senders", len(waiting))):
        if number:
            yield f"{number} {what}"
