"""The race of a transfer: its rows as events of real nodes (transfer_nodes.py)."""

from functools import partial

from lab.race.engines import HeldSource
from lab.race.network import Held
from lab.race.stage import CannotArrangeError, Step
from lab.race.transfer_nodes import TransferNodes
from lab.sim.defects import ANY_CLOCK
from lab.sim.fabric import Write
from pdproto.ground.grounding import GroundRow
from pdproto.node.decode.node import Decode
from pdproto.node.prefill.node import Prefill
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.roles import Chunk, Sink, Source
from pdproto.spec.handoff.roles import Life as LifeSort
from pdproto.spec.handoff.timers import WAITS


class Transfer(TransferNodes):
    """The nodes of one counterexample, of which each event waits for the race."""

    @staticmethod
    def tells(row: GroundRow) -> bool:
        """See Stage. The memory of decode is given by no table here."""
        return row.table.machine in (ends.source, ends.sink)

    def frame(self, step: Step, message: str) -> Held:
        """See Stage."""
        source, sink, room = self.names(step)
        for held in self.network.under_way:
            if (held.frame.message.name == message and held.frame.life.room == room
                    and {held.sender.name, held.target} == {source, sink}):
                return held
        raise CannotArrangeError(f"no frame {message} of room {room} is under way between {source} "
                                 f"and {sink}")

    @staticmethod
    def names(step: Step) -> tuple[str, str, int]:
        """The source, the sink and the room of a row."""
        return f"p{step.of(Source)}", f"d{step.of(Sink)}", step.of(LifeSort)

    def call(self, step: Step, name: str) -> None:
        """See Stage."""
        source, sink, room = self.names(step)
        match name:
            case "open_sender":
                self.open_sender(source, room)
            case "send":
                self.send(source, room, step.of(Chunk))
            case "abort_sender":
                self.sender(source, room).abort("the client has left")
            case "open_receiver":
                self.open_receiver(sink, room)
            case "abort_receiver":
                self.receiver(sink, room).abort("the client has left")
            case "finish":
                self.receiver(sink, room).close()
            case _:
                raise CannotArrangeError(f"an application has no call {name}")

    def happen(self, step: Step) -> None:
        """See Stage."""
        source, sink, room = self.names(step)
        match step.name:
            case "grant":
                self.give_memory(sink, self.receiver(sink, room))
            case "post":
                self.engines[source].take()
            case "land":
                engine, write = self._write(source, sink, room, step.of(Chunk))
                engine.land(write)
            case "finish_fence":
                self.sink_engine(sink).let_fence(self._life(room), source)
            case "vanish":
                self.end(source)
            case "supersede":
                self.end(source)
                self.dead.discard(source)
                self.start_source(source)
            case "vanish_sink":
                self.end(sink)
            case _ if step.machine.world:
                raise CannotArrangeError("no engine does this")

    def _write(self, source: str, sink: str, room: int, chunk: int) -> tuple[HeldSource, Write]:
        life = self._life(room)
        for engine in (self.engines[source], *self.departed):
            write = engine.under_way(life, sink, chunk)
            if write is not None:
                return engine, write
        raise CannotArrangeError(f"no write of {source} for room {room} is under way")

    def complete(self, step: Step, name: str) -> None:
        """See Stage."""
        engine, write = self._write(*self.names(step), step.of(Chunk))
        if name == "error":
            engine.give_up(write)
        else:
            engine.skip(write)

    def _life(self, room: int) -> Life:
        found = [one.life for (_, known), one in self.receivers.items() if known == room]
        if not found:
            raise CannotArrangeError(f"no decode rank has opened room {room}")
        return found[0]

    def end_wait(self, step: Step, name: str) -> None:
        """See Stage."""
        source, sink, room = self.names(step)
        is_source = step.machine is ends.source
        ours, peer = (source, sink) if is_source else (sink, source)
        node = self.ranks[ours].node
        if name == "heartbeat":
            self._detect(node, peer)
            return
        known = name if name in WAITS else ANY_CLOCK.name
        endpoint = self._endpoint(node, room)
        if known not in endpoint.armed:
            raise CannotArrangeError(f"no clock {known} runs for room {room} at {ours}")
        node.endpoints._timers.end(endpoint, known, self.hosts[ours].clock())
        self.hosts[ours].wake()

    def _endpoint(self, node: Prefill | Decode, room: int) -> Endpoint:
        if isinstance(node, Decode):
            return self.receiver(node.core.name, room).endpoint
        if (node.core.name, room) in self.senders:
            return self.senders[node.core.name, room].endpoint
        endpoint = node.lives.get(self._life(room))
        if endpoint is None:
            raise CannotArrangeError(f"{node.core.name} does not know room {room}")
        return endpoint

    def _detect(self, node: Prefill | Decode, peer: str) -> None:
        """The detector of a node reports its peer."""
        if peer in self.dead:
            self.hosts[node.core.name].ask(partial(node.core.declare_gone, peer))
        elif isinstance(node, Prefill):
            other = self.ranks[peer].node.core
            self.network.tell_floor(
                self.hosts[peer], node.core.name, other.incarnation, other.floor())
        else:
            raise CannotArrangeError(f"{peer} has not ended")
