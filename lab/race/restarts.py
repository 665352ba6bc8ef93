"""Restarts of a source during a hand-over, on the nodes of a transfer.

The system (spec/handoff/incarnations.py) has fewer events of a hand-over than the transfer. Each of
its rows is a few events of nodes: `write` opens the sender, hands a chunk over and posts it.
"""

from dataclasses import replace
from typing import Final

from lab.race.counterexample import Counterexample
from lab.race.stage import CannotArrangeError, Step
from lab.race.transfer import Transfer
from lab.sim.outcome import SHIPPED
from pdproto.node.prefill.node import Prefill
from pdproto.spec.handoff.roles import Chunk, Incarnation, Sink

OPENS: Final = ("expect", "begin_met")
GREETS: Final = ("meet_early", "meet", "meet_last")
PLACES: Final = ("place", "place_and_ask")


class Restarts(Transfer):
    """The nodes of one counterexample, with one sink."""

    def __init__(self, example: Counterexample) -> None:
        sizes = {**example.bug.configuration.sizes, Sink: 1, Chunk: 1}
        configuration = replace(example.bug.configuration, sizes=sizes)
        super().__init__(replace(example, bug=replace(example.bug, configuration=configuration)),
                         SHIPPED)

    def greet(self) -> None:
        """See TransferNodes. Processes that the counterexample lets meet know each other."""
        if self.example.rows[0].row.name == "greet":
            super().greet()
        self.network.holds_signs = True

    @staticmethod
    def tells(_row: object) -> bool:
        """See Stage. No trace tells the rows of this system."""
        return False

    def cause(self, row: object) -> None:
        """See Stage. Every row is mapped by its name."""
        step = Step(row)  # type: ignore[arg-type]
        source, sink, room = self.names(step)
        match step.name:
            case name if name in OPENS:
                self.open_receiver(sink, room)
            case name if name in PLACES:
                self.give_memory(sink, self.receiver(sink, room))
            case "greet":
                pass  # a sign of life is under way
            case name if name in GREETS:
                self.network.let_sign(source, sink)
            case "grant":
                self.deliver(sink, source)
            case "write":
                self._write_chunk(source, room)
            case "restart":
                self.end(source)
                self.dead.discard(source)
                self.start_source(source)
            case "give_up":
                self.receiver(sink, room).abort("the client has left")
            case "answer":
                self._require_run(step, source)
                self.deliver(sink, source)
            case "take":
                self.deliver(source, sink)
            case "release":
                pass  # it follows by itself
            case _:
                raise CannotArrangeError("no node does this")
        self.settle()

    def _require_run(self, step: Step, source: str) -> None:
        node = self.ranks[source].node
        if isinstance(node, Prefill) and node.core.incarnation != step.of(Incarnation) + 1:
            raise CannotArrangeError(f"{source} is another run by then")

    def _write_chunk(self, source: str, room: int) -> None:
        self.open_sender(source, room)
        self.settle()
        self.deliver("d0", source)
        self.send(source, room, 0)
        self.settle()
        self.engines[source].take()
