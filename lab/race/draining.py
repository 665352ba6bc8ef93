"""The drain of a source during a hand-over, on the nodes of a transfer (node/drain.py).

The system (spec/handoff/drain.py) has fewer events of a hand-over than the transfer. Each of its
rows is a few events of nodes: `end` hands the pages over and lets them land.
"""

from dataclasses import replace
from typing import Final

from lab.race.counterexample import Counterexample
from lab.race.engines import HeldSink
from lab.race.stage import CannotArrangeError, Step
from lab.race.transfer import Transfer
from lab.sim.outcome import SHIPPED
from pdproto.ground.grounding import GroundRow
from pdproto.node.drain import Drain
from pdproto.spec.handoff.drain import REGISTRY
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.roles import Buffer, Chunk, Sink, Source

SOURCE: Final = "p0"
SINK: Final = "d0"
SERVED: Final = "a_stop_after_empty_fails_no_request"


class Draining(Transfer):
    """The nodes of one counterexample: a source that drains, and a sink."""

    def __init__(self, example: Counterexample) -> None:
        sizes = {**example.bug.configuration.sizes, Source: 1, Sink: 1, Chunk: 1, Buffer: 1}
        configuration = replace(example.bug.configuration, sizes=sizes)
        super().__init__(replace(example, bug=replace(example.bug, configuration=configuration)),
                         SHIPPED)
        self._drain: Drain | None = None

    @staticmethod
    def tells(_row: GroundRow) -> bool:
        """See Stage. No trace tells the rows of this system."""
        return False

    def cause(self, row: GroundRow) -> None:
        """See Stage. Every row is mapped by its name."""
        step = Step(row)
        room = self.names(step)[2]
        match step.name:
            case "begin":
                self.open_receiver(SINK, room)
                self.give_memory(SINK, self.receiver(SINK, room))
            case "accept":
                self.open_sender(SOURCE, room)
                self.settle()
                self.deliver(SINK, SOURCE)
            case "end":
                self._end_request(room)
            case "drain":
                self._drain = Drain(self.ranks[SOURCE].node)
                self.hosts[SOURCE].ask(self._drain.begin)
            case "read":
                self._sink().compares = False
                self.deliver(SOURCE, SINK)
            case "stop":
                self._stop()
            case "be_empty" | "be_done" | "go":
                pass  # the nodes do so by themselves
            case _ if step.machine is not REGISTRY.machine:
                raise CannotArrangeError("no node does this")
        self.settle()

    def _end_request(self, room: int) -> None:
        """The hand-over ends at its source: everything has landed."""
        self.send(SOURCE, room, 0)
        self.settle()
        self.engines[SOURCE].take()
        self.settle()
        self.engines[SOURCE].land_late()

    def _stop(self) -> None:
        """The operator ends the process, if it says that it is empty."""
        if self._drain is None or not self._drain.emptied.done():
            raise CannotArrangeError(f"{SOURCE} does not say that it is empty")
        self.end(SOURCE)

    def _sink(self) -> HeldSink:
        return self.sink_engine(SINK)

    def rest(self) -> None:
        """See Stage. The sink hears of the stop while it still reads what has landed."""
        if SOURCE in self.dead:
            self.hosts[SINK].ask(lambda: self.ranks[SINK].node.core.declare_gone(SOURCE))
            self.settle()
        self._sink().compare()
        ends = {room: end.poll() for (_, room), end in self.receivers.items()}
        super().rest()
        for room, before in ends.items():
            if KVPoll.FAILED in (before, self.receiver(SINK, room).poll()):
                self.blame(SERVED, f"the request failed at {SINK}, and nobody aborted it", room)
