"""The tables of the transfer for the composed systems, without the calls from outside."""

from typing import Final

from pdproto.spec.handoff.ends import Receiving, d, h, receiving
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.language import Call, Completion, Row, Table, all_of
from pdproto.spec.language.symbols import Sent


def without(table: Table, *names: str, triggers: tuple[str, ...] = ()) -> Table:
    """The table without these rows, and without all other rows on these triggers."""
    answers = (row.name for row in table.rows
               if row.name not in names and _trigger(row) in triggers)
    return table.without(*names, *answers)


def _trigger(row: Row) -> str:
    match row.on:
        case Call(name=name) | Completion(name=name):
            return name
        case Sent(symbol=symbol):
            return symbol.name
        case _:
            return ""


# The host opens them, when the other part has come to that point.
SENDER: Final = without(SOURCE, triggers=("open_sender",))
RECEIVER: Final = without(SINK, triggers=("open_receiver",))

_BEGIN: Final = SINK.row("begin_receive")
# When a receiver may be opened, its updates, and its messages.
UNOPENED: Final = all_of(receiving(d, h) == Receiving.UNKNOWN, *_BEGIN.conditions)
OPENED: Final = (receiving(d, h).to(Receiving.BOOTSTRAPPING), *_BEGIN.do)
INTRODUCED: Final = tuple(_BEGIN.send)
