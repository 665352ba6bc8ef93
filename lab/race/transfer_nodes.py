"""The nodes of a transfer, their applications, and what must hold when all has come to rest.

The nodes are those of servers (node/prefill/node.py, node/decode/node.py). Properties of the tables
are looked for after each step (sim/watch.py), and what the bytes do to memory is seen by
sim/fabric.py.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from functools import partial
from typing import Final, NamedTuple

from lab.race.counterexample import Counterexample
from lab.race.engines import HeldSink, HeldSource
from lab.race.stage import REST_S, CannotArrangeError, Stage
from lab.sim.fabric import Fabric, Pages
from lab.sim.outcome import DRAINED, ENDS, PEERS, STEADY, Roles
from lab.sim.plan import PlannedRequest, Shape
from lab.sim.watch import Telling, Watch
from pdproto.node.decode.node import Decode
from pdproto.node.decode.receiver import Receiver
from pdproto.node.handle import ENDED
from pdproto.node.link import Link
from pdproto.node.prefill.node import Prefill
from pdproto.node.prefill.sender import Sender
from pdproto.runtime.automaton import Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.errors import LocalProtocolError
from pdproto.runtime.trace import TraceWriter
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.roles import Buffer, Chunk, Sink, Source
from pdproto.spec.handoff.roles import Life as LifeSort

GREETING_TURNS: Final = 5
APPLICATION_S: Final = 0.5  # between two looks of the application at its hand-overs
WRITES: Final = 64
PAGES: Final = 64
INCARNATION: Final = 1_000  # of the sinks; all ranks of a server have the same

Told = Callable[[str, Endpoint, Event, Step], None]


class Rank(NamedTuple):
    """A process of the transfer, and the pool of its server."""

    node: Prefill | Decode
    engine: HeldSource | HeldSink
    pages: Pages


class TransferNodes(Stage):
    """The nodes of one counterexample. One room is one life of it. roles: the tables to run."""

    def __init__(self, example: Counterexample, roles: Roles) -> None:
        super().__init__()
        self.example: Final = example
        self._sizes: Final = example.bug.configuration.sizes
        self._roles: Final = roles
        self._feeds: Final = example.related("feeds") or frozenset(
            (p, d) for p in range(self._sizes[Source]) for d in range(self._sizes[Sink]))
        shape = Shape(buffers=self._sizes[Source] * self._sizes[LifeSort], pages=PAGES, slots=PAGES,
                      writes=WRITES)
        self._fabric: Final = Fabric(self.queue, shape, self.blame)
        self.engines: Final[dict[str, HeldSource]] = {}  # of the running sources
        self.departed: Final[list[HeldSource]] = []  # of those that have ended
        self.ranks: Final[dict[str, Rank]] = {}
        self.senders: Final[dict[tuple[str, int], Sender]] = {}
        self.receivers: Final[dict[tuple[str, int], Receiver]] = {}
        self._given: Final[dict[tuple[str, int], tuple[int, ...]]] = {}  # pages of senders
        self._runs: Final[Counter[str]] = Counter()
        self._watch: Final = self._watching()
        for number in range(self._sizes[Source]):
            self.start_source(f"p{number}")
        for number in range(self._sizes[Sink]):
            self._start_sink(f"d{number}")
        self.greet()

    # Processes

    def _watching(self) -> Watch | None:
        """The watch knows one sink of a life."""
        if self._sizes[Sink] > 1:
            return None
        chunks = (1,) * self._sizes[Chunk]
        return Watch(
            {room: PlannedRequest(room, "p", "d", 0.0, 0.0, chunks, 0.0, 0.0)
             for room in range(self._sizes[LifeSort] + 1)}, lambda _: self._sources("d0"),
            (self._roles.source.table, self._roles.sink.table), lambda: self.queue.now, self.blame)

    def _sources(self, sink: str) -> tuple[str, ...]:
        return tuple(f"p{p}" for p, d in sorted(self._feeds) if f"d{d}" == sink)

    def _sinks(self, source: str) -> tuple[str, ...]:
        return tuple(f"d{d}" for p, d in sorted(self._feeds) if f"p{p}" == source)

    def _tracing(self, name: str) -> TraceWriter:
        if self._watch is None:
            return Noting(name, self._note)
        return Telling(name, self._watch, None, lambda _, *step: self._note(*step))

    def _note(self, _node: str, _end: Endpoint, _event: Event, step: Step) -> None:
        self.fired.update(row.name for row, _ in step.rows)

    def start_source(self, name: str) -> None:
        self._runs[name] += 1
        host = self.host(name, self._runs[name])
        pages = Pages(PAGES)
        engine = self.engines[name] = HeldSource(host, self._fabric, pages, self.stream(name))
        node = Prefill(name, engine, link=Link(), incarnation=host.incarnation,
                       waits=self.example.waits, trace=self._tracing(name),
                       role=self._roles.source)
        self.ranks[name] = Rank(node, engine, pages)
        host.run(node.core)

    def _start_sink(self, name: str) -> None:
        host = self.host(name, INCARNATION)
        pages = Pages(PAGES)
        engine = HeldSink(host, self._fabric, pages, self.stream(name), self.engines)
        engine.can_fence = self.example.holds("can_fence", int(name[1:]))
        node = Decode(name, engine, link=Link(), incarnation=host.incarnation,
                      waits=self.example.waits, trace=self._tracing(name), role=self._roles.sink)
        self.ranks[name] = Rank(node, engine, pages)
        host.run(node.core)

    def greet(self) -> None:
        """Hand one request over, so that the processes know each other; then hold all."""
        room = self._sizes[LifeSort]
        self.network.flows = True
        for engine in self.engines.values():
            engine.room = None
        for sink in self._all_sinks():
            self.open_receiver(sink, room)
        self.settle()
        for source in self.engines:
            self.open_sender(source, room)
        self.settle()
        for _ in range(GREETING_TURNS):
            self._serve()
            for source in self.engines:
                if self.senders[source, room].poll() is KVPoll.WAITING_FOR_INPUT:
                    for chunk in range(self._sizes[Chunk]):
                        self.send(source, room, chunk)
            self.settle()
            for engine in self.engines.values():
                engine.land_late()
            self.settle()
        self.senders.clear()
        self.receivers.clear()
        self.fired.clear()
        self.network.flows = False
        for engine in self.engines.values():
            engine.room = 0

    def _all_sinks(self) -> list[str]:
        return [name for name, rank in self.ranks.items() if isinstance(rank.node, Decode)]

    # Applications and engines

    def open_sender(self, name: str, room: int) -> None:
        rank = self.ranks[name]
        pages = rank.pages.take(self._sizes[Chunk], room)
        if pages is None or not isinstance(rank.node, Prefill):
            raise CannotArrangeError(f"{name} has no page")
        self._given[name, room] = pages
        self.senders[name, room] = rank.node.open(room, partial(rank.pages.give, pages), use=0)

    def send(self, name: str, room: int, chunk: int) -> None:
        last = chunk == self._sizes[Chunk] - 1
        try:
            self.sender(name, room).send((self._given[name, room][chunk],), last=last,
                                          metadata=b"token" if last else b"")
        except LocalProtocolError as error:
            raise CannotArrangeError(f"{name} cannot send: {error}") from error

    def open_receiver(self, name: str, room: int) -> None:
        node = self.ranks[name].node
        sources = self._sources(name)
        sinks = self._sinks(sources[0]) if sources else (name,)
        # The greeting has the first generation.
        generation = (room + 1) % (self._sizes[LifeSort] + 1) + 1 if len(sinks) > 1 else None
        if isinstance(node, Decode):
            self.receivers[name, room] = node.open(
                room, {source: source for source in sources}, use=0,
                sinks=sinks if len(sinks) > 1 else (), generation=generation)

    def sender(self, name: str, room: int) -> Sender:
        if (name, room) not in self.senders:
            raise CannotArrangeError(f"{name} has not opened room {room}")
        return self.senders[name, room]

    def receiver(self, name: str, room: int) -> Receiver:
        if (name, room) not in self.receivers:
            raise CannotArrangeError(f"{name} has not opened room {room}")
        return self.receivers[name, room]

    def give_memory(self, name: str, receiver: Receiver) -> None:
        """Decode has memory for the request now, if the counterexample has any."""
        is_greeting = receiver.room == self._sizes[LifeSort]
        if receiver.pages is not None or receiver.poll() in ENDED or not (
                is_greeting or self._sizes.get(Buffer, 1)):
            return
        pool = self.ranks[name].pages
        pages = pool.take(self._sizes[Chunk], receiver.room)
        if pages is not None:
            receiver.on_released = partial(pool.give, pages)
            receiver.publish(pages, slot=receiver.room)

    def sink_engine(self, name: str) -> HeldSink:
        engine = self.ranks[name].engine
        if not isinstance(engine, HeldSink):
            raise CannotArrangeError(f"{name} is no sink")
        return engine

    def end(self, name: str) -> None:
        self.kill(name)
        if self._watch is not None:
            self._watch.die(name)
        engine = self.ranks[name].engine
        if isinstance(engine, HeldSource):
            self.departed.append(engine)
        else:
            engine.die()
        for key in [key for key in self.senders if key[0] == name]:
            del self.senders[key]

    def deliver(self, sender: str, target: str) -> None:
        """All frames between two processes arrive, in their order."""
        for held in [one for one in self.network.held
                     if one.sender.name == sender and one.target == target]:
            self.network.let_go(held)
            self.settle()

    # Afterwards

    def rest(self) -> None:
        """See Stage. A write that has not landed by now hangs."""
        self.network.flow()
        for engine in self.engines.values():
            engine.room = None
            engine.take_any()
        for name in self._all_sinks():
            self.sink_engine(name).let_all()
        until = self.queue.now + REST_S
        while self.queue.now < until and (self._open_ends() or self._held()):
            self._serve()
            for engine in self.engines.values():
                engine.refuse_dead()
            self.queue.run(self.queue.now + APPLICATION_S)
        self._check_end()

    def _serve(self) -> None:
        """What the application of decode surely does."""
        for (name, _), receiver in self.receivers.items():
            if name not in self.dead:
                self.give_memory(name, receiver)
                if receiver.poll() is KVPoll.SUCCESS:
                    receiver.close()

    def _open_ends(self) -> list[str]:
        """The requests that have not ended."""
        ends: Mapping[tuple[str, int], Sender | Receiver] = {**self.senders, **self.receivers}
        return [f"room {room} at {name}" for (name, room), end in ends.items()
                if name not in self.dead and end.poll() not in ENDED]

    def _living(self) -> list[Rank]:
        return [rank for name, rank in self.ranks.items() if name not in self.dead]

    def _held(self) -> str:
        """A resource that is not free; "" if all are."""
        for node, engine, pages in self._living():
            for gauge, value in node.metrics.read().items():
                if gauge.startswith("num_") and value:
                    return f"{node.core.name}: {gauge} is {value:g}"
            if pages.owner:
                return f"{node.core.name}: {len(pages.owner)} pages"
            if isinstance(engine, HeldSink) and engine.leased:
                return f"{node.core.name}: {engine.leased} staging buffers"
        return ""

    def _check_end(self) -> None:
        for end in self._open_ends():
            self.blame(ENDS, f"{end} has not ended, {REST_S:g} s after the race")
        if held := self._held():
            self.blame(DRAINED, f"{held}, {REST_S:g} s after the race")
        for node, *_ in self._living():
            refused = node.metrics.read()["refused_frames"]
            if refused:
                self.blame(PEERS, f"{node.core.name} has refused {refused:g} messages")
            if node.core.mistakes:
                self.blame(STEADY, f"{node.core.name}: {node.core.mistakes} calls that the tables "
                           f"refuse")


class Noting(TraceWriter):
    """A trace that only notes the rows of a node."""

    def __init__(self, name: str, told: Told) -> None:
        self._name: Final = name
        self._told: Final = told

    def write(self, endpoint: Endpoint, event: Event, step: Step) -> None:
        """Note a step."""
        self._told(self._name, endpoint, event, step)

    def over(self, endpoint: Endpoint) -> None:
        """See TraceWriter. Nothing is kept of an end."""
