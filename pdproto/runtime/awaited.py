"""The events for which one end of a hand-over waits, read from its table.

An end waits for a message, a call or a completion if a row on it would fire in this state and
change something. A row that leads to failure would end the hand-over, any other moves it on. An end
also waits for another machine, if a shared variable has a value from which only that machine can
move it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pdproto.ground.layout import Indices
from pdproto.runtime.automaton import Automaton
from pdproto.runtime.local_rows import LocalRow
from pdproto.spec.handoff.roles import Sink, Source
from pdproto.spec.language.formula import Value
from pdproto.spec.language.machine import Call, Completion, Row
from pdproto.spec.language.sorts import Sort
from pdproto.spec.language.symbols import Message, Sent, Variable

APPLICATION: Final = "its application"
NODE: Final = "its node"  # which notes how long a peer is silent
AUTOMATA: Final = 64  # whose rows are kept; a node has one for each number of peers and of chunks


@dataclass(frozen=True, slots=True)
class Awaited:
    """One awaited event.

    event: the name of the message, call, completion or variable. peer: the index of the peer that
    sends the message or owns the variable; None if no peer does. part: the part of this process
    that makes the event; empty if the peer sends it. row: the name of the row that fires; "" for a
    variable. why: the reason in the table. fails: the row ends the hand-over with failure.
    """

    event: str
    peer: int | None
    part: str
    row: str
    why: str
    fails: bool


def awaited(automaton: Automaton, state: int, failed: Value) -> tuple[Awaited, ...]:
    """The events for which an end in this state waits, each once, in the order of the table.

    Any thread may call it. failed: the value of the table's state variable after a failure.
    """
    moving = (told for told, local, carried in _triggers(automaton, failed)
              if automaton.moves_on(local, state | carried))
    return tuple(dict.fromkeys((*moving, *_devices(automaton, state))))


@lru_cache(AUTOMATA)
def _triggers(automaton: Automaton, failed: Value) -> tuple[tuple[Awaited, LocalRow, int], ...]:
    """The rows on an event, each with the bits that its message may carry."""
    found = []
    for row in automaton.table.rows:
        if row.kind != "row" or not isinstance(row.on, Sent | Call | Completion):
            continue
        variables = automaton.table.parameters(row)
        for local in automaton.rows.instances(row):
            indices = dict(zip(variables, local.parameters, strict=True))
            found.append((_of(row, indices, fails=row.to is failed), local,
                          _carried(automaton, row, indices)))
    return tuple(found)


def _carried(automaton: Automaton, row: Row, indices: dict[Sort, int]) -> int:
    """The bits that the message of the row may carry."""
    bits = 0
    if isinstance(row.on, Sent) and isinstance(row.on.symbol, Message):
        sender = indices[row.on.arguments[0]]
        for symbol, cell in automaton.layout.fields:
            if symbol in row.on.symbol.carries and cell[0] == sender:
                bits |= automaton.bits(symbol, cell)
    return bits


def _of(row: Row, indices: dict[Sort, int], *, fails: bool) -> Awaited:
    if isinstance(row.on, Sent):
        sender = indices[row.on.arguments[0]]
        return Awaited(row.on.symbol.name, sender, "", row.name, row.why, fails)
    assert isinstance(row.on, Call | Completion)  # noqa: S101 - see the caller
    if isinstance(row.on, Completion):
        return Awaited(row.on.name, None, "its engine", row.name, row.why, fails)
    missed = next((indices[a] for a in row.on.parameters if isinstance(a, Source | Sink)), None)
    part = APPLICATION if missed is None else NODE
    return Awaited(row.on.name, missed, part, row.name, row.why, fails)


def _devices(automaton: Automaton, state: int) -> Iterator[Awaited]:
    for (symbol, indices), value in automaton.layout.decode(state).items():
        if not isinstance(symbol, Variable) or symbol.engine is None or not symbol.engine_writes:
            continue
        if value == symbol.values[0] or value in symbol.engine_writes:
            continue
        allowed = symbol.values if symbol.edges is None else symbol.edges.get(value, ())
        if set(allowed) & set(symbol.engine_writes):
            peer = _peer(symbol, indices)
            yield Awaited(symbol.name, peer, f"its {symbol.engine.name}", "", "", fails=False)


def _peer(symbol: Variable, indices: Indices) -> int | None:
    """The index of the peer of a cell: its first element that is not the machine's own."""
    own = len(symbol.owner.sorts)
    return indices[own] if len(indices) > own else None
