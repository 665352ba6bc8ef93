"""What the composed systems take of the transfer: its tables, less what is called from outside."""

from typing import Final

from pdproto.spec.handoff.ends import Receiving, d, h, receiving
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.source import SOURCE
from pdproto.spec.language import Call, Completion, Row, Table, all_of
from pdproto.spec.language.symbols import Sent


def without(table: Table, *names: str, triggers: tuple[str, ...] = ()) -> Table:
    """The table without the rows of these names, and without what else answers these triggers."""
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


# Who opens them is the host, when the other part has come so far.
SENDER: Final = without(SOURCE, triggers=("open_sender",))
RECEIVER: Final = without(SINK, triggers=("open_receiver",))

_BEGIN: Final = SINK.row("begin_receive")
# When a receiver may be opened; what that does, and what it says.
UNOPENED: Final = all_of(receiving(d, h) == Receiving.UNKNOWN, *_BEGIN.conditions)
OPENED: Final = (receiving(d, h).to(Receiving.BOOTSTRAPPING), *_BEGIN.do)
INTRODUCED: Final = tuple(_BEGIN.send)
