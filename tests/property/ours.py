"""Our own endpoints as an engine under test: the automata that servers run, without I/O."""

from collections.abc import Iterable

from pdproto.node.decode.pool import Pool
from pdproto.runtime.automaton import Automaton, Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.role import SINK_ROLE, SOURCE_ROLE
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Claim, Memory, Receiving, Sending, Write
from pdproto.spec.handoff.poll import RECEIVING_POLL, SENDING_POLL, KVPoll
from pdproto.spec.language.symbols import Message, Variable
from pdproto.testing.adapter import GONE, WRITE, Said, Side
from pdproto.testing.observer import CHUNKS, ROOMS

MESSAGES = {message.name: message for message in (
    ends.introduce, ends.expecting, ends.publish, ends.abort, ends.done, ends.failed,
    ends.abort_ack, ends.drained)}
HERE = (0, 0, 0)  # the only source, life and sink that an endpoint counts


class Ours:
    """See the top of the file. Staging memory is there for one room at a time."""

    def __init__(self) -> None:
        source = SOURCE_ROLE.automaton_for(sinks=1, chunks=CHUNKS)
        sink = SINK_ROLE.automaton_for(sources=1)
        rooms = range(ROOMS)
        self.sources = {r: Endpoint(source, Life(r, 1, r), ("d",), None) for r in rooms}
        self.sinks = {r: Endpoint(sink, Life(r, 1, r), ("p",), None) for r in rooms}
        self.pool = Pool()
        self.lease: int | None = None
        self.waiting: list[int] = []
        self.landed = dict.fromkeys(rooms, 0)
        self.out: list[Said] = []

    def said(self) -> list[Said]:
        self.settle()
        out, self.out = self.out, []
        return out

    def take(self, room: int, endpoint: Endpoint, event: Event) -> Step:
        step = endpoint.take(event)
        self.out.extend(Said(message.name, room) for message, _ in step.sent)
        for symbol, _, value in step.changed:
            if symbol is ends.lease and value is False:
                self.lease = None
            elif symbol is ends.page and value is False:
                self.pool.free_pages([room])
                self.pool.free_slot(room)
            elif symbol is ends.claim and value is Claim.FENCING:
                fenced = endpoint.automaton.device((ends.claim, HERE, Claim.FENCED))
                self.take(room, endpoint, fenced)
        return step

    def settle(self) -> None:
        """What a server's loop does after every event: it finds sinks gone, writes begin, memory is
        given.
        """
        for room, source in self.sources.items():
            if source.value(ends.sink_over, HERE):
                self.take(room, source, source.automaton.timer("heartbeat"))
            while posted := self.take(room, source, source.automaton.pace("post")).rows:
                self.out.append(Said(WRITE, room, posted[0][1][-1]))
        for room in tuple(self.waiting):
            sink = self.sinks[room]
            if sink.value(ends.memory, HERE[:2]) is not Memory.ASKED:
                self.waiting.remove(room)
            elif self.lease is None:
                self.lease = room
                self.waiting.remove(room)
                given = self.pool.grant(Life(room, 1, room), [room], room)
                self.take(room, sink, sink.automaton.device(*given))

    def end(self, side: Side, room: int) -> Endpoint:
        return (self.sources if side is Side.PREFILL else self.sinks)[room]

    def call(self, side: Side, room: int, name: str, *arguments: int) -> Iterable[Said]:
        endpoint = self.end(side, room)
        self.take(room, endpoint, endpoint.automaton.call(name, arguments))
        return self.said()

    def open(self, side: Side, room: int) -> Iterable[Said]:
        if side is Side.DECODE:
            return self.call(side, room, "open_receiver")
        return self.call(side, room, "open_sender")

    def publish(self, room: int) -> Iterable[Said]:
        self.waiting.append(room)
        return self.said()

    def send(self, room: int, chunk: int, last: bool) -> Iterable[Said]:
        assert last == (chunk == CHUNKS - 1)
        return self.call(Side.PREFILL, room, "send", chunk)

    def poll(self, side: Side, room: int) -> KVPoll:
        endpoint = self.end(side, room)
        table = SENDING_POLL if side is Side.PREFILL else RECEIVING_POLL
        return endpoint.automaton.first_value(table, endpoint.state)

    def pages(self, side: Side, room: int) -> list[int]:
        if side is Side.DECODE:
            return [page for page, life in self.pool.pages.items() if life.room == room]
        return [room] if self.sources[room].value(ends.kv, HERE[:2]) else []

    def close(self, room: int) -> Iterable[Said]:
        return self.call(Side.DECODE, room, "finish")

    def abort(self, side: Side, room: int) -> Iterable[Said]:
        name = "abort_sender" if side is Side.PREFILL else "abort_receiver"
        return self.call(side, room, name)

    def deliver(self, said: Said) -> Iterable[Said]:
        room = said.room
        if said.kind == WRITE:
            self.land(room, said.chunk)
        elif said.kind == GONE:
            sink = self.sinks[room]
            self.take(room, sink, sink.automaton.noted_message(ends.gone, HERE))
            # Twice: one heartbeat fails the hand-over, the next finds the writer gone.
            for _ in range(2):
                self.take(room, sink, sink.automaton.timer("heartbeat"))
        else:
            self.tell(room, MESSAGES[said.kind])
        return self.said()

    def tell(self, room: int, message: "Message[*tuple[object, ...]]") -> None:
        to_source = message.receiver.machine is ends.source
        endpoint = (self.sources if to_source else self.sinks)[room]
        carried = 0
        if message is ends.publish:
            carried = endpoint.automaton.bits(ends.address, HERE)
        self.take(room, endpoint, endpoint.automaton.message(message, HERE, carried))

    def land(self, room: int, chunk: int) -> None:
        source, sink = self.sources[room], self.sinks[room]
        shut = (sink.value(ends.claim, HERE) is Claim.FENCED
                or sink.value(ends.receiving, HERE[:2]) is Receiving.GONE)
        outcome = Write.REFUSED if shut else Write.LANDED
        if not shut:
            self.landed[room] += 1
            if self.landed[room] == CHUNKS:  # a sink compares the digests of all chunks together
                written = (ends.content, (0, 0, 0, 0, 0), True)
                self.take(room, sink, sink.automaton.device(written))
        write = (ends.write, (0, 0, 0, chunk), outcome)
        self.take(room, source, source.automaton.device(write))

    def crash(self, side: Side) -> Iterable[Said]:
        for room in range(ROOMS):
            source, sink = self.sources[room], self.sinks[room]
            begun = sink.value(ends.receiving, HERE[:2]) is not Receiving.UNKNOWN
            if side is Side.DECODE and begun:
                die(sink, ends.receiving, Receiving.GONE)
                self.take(room, source, source.automaton.noted_message(ends.sink_over, HERE))
                self.lease = None
                self.waiting.clear()
            elif side is Side.PREFILL and (
                    begun or source.value(ends.sending, HERE[:2]) is not Sending.UNKNOWN):
                die(source, ends.sending, Sending.GONE)
        return self.said()


def die(endpoint: Endpoint, symbol: Variable, value: Sending | Receiving) -> None:
    """What the process after this one knows of the life: that it is gone."""
    automaton: Automaton = endpoint.automaton
    field = automaton.layout.field(symbol, HERE[:2])
    endpoint.state = endpoint.state & ~field.mask | automaton.bits(symbol, HERE[:2], value)
