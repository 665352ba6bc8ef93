"""When a sink may forget a life: as soon as nothing that may still come could make it act.

The counterpart of forgetting.py, where a source still has to answer for what it forgot. A sink need
not: once it is over (poll.py), no message, timer or step of its own is left to it but to give the
page of an answer back, which its caller asks for. So it may be forgotten without a trace. Said of
every row by which a sink that has ended acts: it is taken only while the sink is not yet over.
"""

from typing import Final

from pdproto.spec.handoff.ends import Receiving
from pdproto.spec.handoff.poll import SINK_IS_OVER
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.transfer import LOSS
from pdproto.spec.language import OnRow, ReplaceProperties, System, edited

# At SUCCESS only `finish` does anything, which is the caller's.
ACTING: Final = tuple(
    row.name for row in SINK.rows if row.kind == "row" and row.at == Receiving.FAILED
)

SINKS_FORGET: Final[System] = edited(
    LOSS, "transfer-forgetful-sinks",
    ReplaceProperties(tuple(
        OnRow(f"{row}_is_not_forgotten", row, ~SINK_IS_OVER,
              why="a sink that is over has nothing left to do")
        for row in ACTING
    )),
    about="The lossy transfer, whose sinks may forget a life that is over.",
)
