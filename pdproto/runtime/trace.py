"""The trace: one JSON line for each row that fires, in the words of the tables.

A line names the machine, its row, the row's parameters and the event that it answered, so that a
run can be replayed against the tables. A full disk ends the trace and nothing else.
"""

import logging
from typing import Any, Final, Protocol

import msgspec

from pdproto.runtime.automaton import Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.spec.handoff.roles import Life, Sink, Source

log = logging.getLogger("pdproto.trace")


class Target(Protocol):
    """Where lines go: a binary file, for instance."""

    def write(self, data: bytes, /) -> object: ...


class Trace:
    """Writes the rows of one node's endpoints. ended: why it has stopped, if it has."""

    def __init__(self, node: str, target: Target) -> None:
        self.node: Final = node
        self.ended: str | None = None
        self._target: Final = target
        self._encoder: Final = msgspec.json.Encoder()
        self._number = 0

    def write(self, endpoint: Endpoint, step: Step) -> None:
        """A line for each row of the step. Never raises."""
        if self.ended is not None or not step.rows:
            return
        table = endpoint.automaton.table
        lines = bytearray()
        for row, indices in step.rows:
            self._number += 1
            line = {"n": self._number, "node": self.node, "machine": table.machine.name,
                    "row": row.name, "on": str(row.on) if row.on is not None else None}
            names = {variable.name: self._element(endpoint, type(variable), index)
                     for variable, index in zip(table.parameters(row), indices, strict=True)}
            lines += self._encoder.encode({**line, "with": names}) + b"\n"
        try:
            self._target.write(bytes(lines))
        except (OSError, ValueError) as error:
            self.ended = str(error)
            log.error("node %s: the trace ends after %d rows: %s", self.node, self._number, error)

    def _element(self, endpoint: Endpoint, sort: type, index: int) -> Any:
        if sort is Life:
            life = endpoint.life
            return None if life is None else [life.room, life.incarnation, life.generation]
        if sort in (Source, Sink):
            own = sort in endpoint.automaton.table.machine.sorts
            return self.node if own else endpoint.peers[index]
        return index
