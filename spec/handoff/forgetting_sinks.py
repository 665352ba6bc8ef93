"""When a sink may forget a life: as soon as no later event could make it act.

A source that forgets still has to answer (forgetting.py). A sink has not: once it is over
(poll.py), no message, timer or step of its own is left, except to give the page of an answer back,
which its caller asks for. So a sink may forget such a life completely. The property covers every
row by which an ended sink acts: such a row is taken only while the sink is not yet over.
"""

from typing import Final

from pdproto.spec.handoff.ends import Receiving
from pdproto.spec.handoff.poll import SINK_IS_OVER
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.handoff.transfer import LOSS
from pdproto.spec.language import OnRow, ReplaceProperties, System, edited

# At SUCCESS only `finish` does anything, and the caller calls it.
ACTING: Final = tuple(
    row.name for row in SINK.rows if row.kind == "row" and row.at == Receiving.FAILED
)

SINKS_FORGET: Final[System] = edited(
    LOSS, "transfer-forgetful-sinks",
    ReplaceProperties(tuple(
        OnRow(f"{row}_is_not_forgotten", row, ~SINK_IS_OVER,
              why="a sink that is over has no work left")
        for row in ACTING
    )),
    about="The transfer with loss, whose sinks may forget a life that is over.",
)
