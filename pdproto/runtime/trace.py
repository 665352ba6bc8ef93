"""The trace: JSON lines that say which rows fire, in the names of the tables.

Every line has `n`, which counts the lines of its process from 1; `node`; `machine`; and `end`, the
number of the endpoint within its process, also before it belongs to a life. There are four kinds:

* `begins`: an endpoint begins. For each other sort: the number of elements, or the names of the
  nodes. While no peer is known, one without a name counts. `tables`: the digest of its table
  (ground/structure.py). `elements`: these numbers have changed.
* `row`, `on`, `with`: a row that fired, its trigger, and its parameters by name. A rank is written
  as its node, a life as [room, incarnation, generation], or null while it is not known. The last
  row of an event adds `state`: the machine's state after it.
* `device`: the values that another owner has written into variables shared with this machine, each
  as [variable, arguments, value].
* `heard`, `of`: a message that triggers no row, with its arguments. Rows read that it has arrived.

So `pdproto trace` can replay a run against the tables without guessing. If the disk is full, the
trace ends and the node goes on.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Protocol

import msgspec

from pdproto.ground.layout import Indices, value_name
from pdproto.ground.structure import table_digest
from pdproto.runtime import checked
from pdproto.runtime.automaton import Event, Step
from pdproto.runtime.endpoint import Endpoint
from pdproto.spec.handoff.roles import Life, Sink, Source
from pdproto.spec.language.symbols import Message, Symbol, Variable

log = logging.getLogger("pdproto.trace")

# Names of two rows that automaton.py makes, and that no table has:
DEVICE: Final = "device"  # another owner writes
MARK: Final = "mark"  # a message arrives that triggers no row


class TraceTarget(Protocol):
    """Takes the lines: a binary file, for example."""

    def write(self, data: bytes, /) -> object: ...


class StepObserver(Protocol):
    """Sees each step of a node's endpoints: the argument `trace` of a node. Called in the loop."""

    def write(self, endpoint: Endpoint, event: Event, step: Step, /) -> None:
        """The endpoint has taken this step. Its owner does not show the result yet. Never raises.
        """

    def over(self, endpoint: Endpoint, /) -> None:
        """The node has forgotten this endpoint."""


class Lines:
    """Writes the lines of one process, in order. ended: why the trace ended; None if it goes on."""

    def __init__(self, node: str, target: TraceTarget) -> None:
        checked.parts("target", target, TraceTarget)
        self.node: Final = checked.text("node", node)
        self.ended: str | None = None
        self._target: Final = target
        self._encoder: Final = msgspec.json.Encoder()
        self._lines = 0

    def put(self, machine: str, end: int, told: Iterable[Mapping[str, Any]]) -> None:
        """Write lines about an endpoint. Writes nothing after the trace has ended. Never raises."""
        if self.ended is not None:
            return
        lines, number = bytearray(), self._lines
        try:
            for number, rest in enumerate(told, self._lines + 1):
                line = {"n": number, "node": self.node, "machine": machine, "end": end, **rest}
                lines += self._encoder.encode(line) + b"\n"
            taken = self._target.write(bytes(lines))
            if isinstance(taken, int) and taken < len(lines):  # an unbuffered file, at its limit
                raise OSError(f"only {taken} of {len(lines)} bytes were written")
        except Exception as error:  # of the file; or an element that no JSON has
            self.ended = str(error)
            log.error("node %s: the trace ends after %d lines, and hand-overs go on without it: %s",
                      self.node, self._lines, error)
            return
        self._lines = number


class TraceWriter(Lines):
    """Writes the steps of one node's endpoints."""

    def __init__(self, node: str, target: TraceTarget) -> None:
        super().__init__(node, target)
        self._ends = 0

    def write(self, endpoint: Endpoint, event: Event, step: Step) -> None:
        """Write the lines of an event. Never raises."""
        if self.ended is not None:
            return
        told = [*self._written(endpoint, event), *self._rows(endpoint, step)]
        if told:
            before = [*self._elements(endpoint)]
            number, _, _ = endpoint.traced
            self.put(endpoint.automaton.table.machine.name, number, [*before, *told])

    def over(self, endpoint: Endpoint) -> None:
        """The node has forgotten this endpoint. A trace in a file writes nothing."""

    def _elements(self, endpoint: Endpoint) -> Iterator[Mapping[str, Any]]:
        """The line with the endpoint's sizes, if the trace does not have them yet."""
        sizes, peers = endpoint.sizes, endpoint.peers
        begins = endpoint.traced is None
        if begins:
            self._ends += 1
            endpoint.traced = (self._ends, None, None)
        number, *said = endpoint.traced
        if said == [sizes, peers]:
            return
        endpoint.traced = (number, sizes, peers)
        own = endpoint.automaton.table.machine.sorts
        counts = {sort.__name__: peers if sort in (Source, Sink) else size
                  for sort, size in sizes.items() if sort not in own}
        if begins:
            yield {"begins": counts, "tables": table_digest(endpoint.automaton.table)}
        else:
            yield {"elements": counts}

    def _rows(self, endpoint: Endpoint, step: Step) -> Iterator[Mapping[str, Any]]:
        table = endpoint.automaton.table
        for place, (row, indices) in enumerate(step.rows, start=1):
            names = {variable.name: self._element(endpoint, type(variable), index)
                     for variable, index in zip(table.parameters(row), indices, strict=True)}
            line = {"row": row.name, "on": str(row.on) if row.on is not None else None,
                    "with": names}
            if table.state is not None and place == len(step.rows):
                state = endpoint.value(table.state, (0,) * len(table.state.sorts))
                line["state"] = value_name(state)
            yield line

    def _written(self, endpoint: Endpoint, event: Event) -> Iterator[Mapping[str, Any]]:
        """The line of the changes that an event makes without a row; most events make none."""
        layout = endpoint.automaton.layout
        kind = event.rows[0].row.name if event.rows else ""
        if kind == DEVICE:
            action = event.rows[0].action
            yield {"device": [
                [symbol.name, self._named(endpoint, symbol, indices),
                 value_name(layout.value(action.assign, symbol, indices))]
                for (symbol, indices), place in layout.fields.items()
                if action.clear & place.mask and isinstance(symbol, Variable)
            ]}
        elif kind == MARK:
            for (symbol, indices), place in layout.fields.items():
                if event.before & place.mask and isinstance(symbol, Message):
                    yield {"heard": symbol.name, "of": self._named(endpoint, symbol, indices)}

    def _named(self, endpoint: Endpoint, symbol: Symbol, indices: Indices) -> list[Any]:
        return [self._element(endpoint, sort, index)
                for sort, index in zip(symbol.sorts, indices, strict=True)]

    def _element(self, endpoint: Endpoint, sort: type, index: int) -> Any:
        if sort is Life:
            life = endpoint.life
            return None if life is None else [life.room, life.incarnation, life.generation]
        if sort in (Source, Sink):
            own = sort in endpoint.automaton.table.machine.sorts
            return self.node if own else endpoint.peers[index]
        return endpoint.number(sort, index)
