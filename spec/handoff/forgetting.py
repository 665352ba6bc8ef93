"""What a source may answer for a life that it has forgotten.

Lives that are over are remembered below a floor, and in a bounded list above it, so a source cannot
keep how each of them ended. It may forget an ended life as soon as nothing of it is under way. Of
such a life it says from then on, whatever is asked: failed, and drained.

Here a source may do so at any time after that, or answer from memory as source.py does. That is
more than any one way of forgetting, and all that the transfer promises still holds. What it costs:
a sink whose `done` was lost gives up a hand-over that its source has seen succeed.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    Sending,
    abort,
    d,
    drained,
    failed,
    h,
    introduce,
    kv,
    p,
    publish,
    source,
)
from pdproto.spec.handoff.source import ENDED, QUIESCENT
from pdproto.spec.handoff.transfer import LOSS
from pdproto.spec.language import AddRow, ReplaceProperties, Row, System, edited

# Nothing of this life can land any more, and the engine reads no page of it.
OVER: Final = (~kv(p, h), QUIESCENT)
# What only a source keeps that remembers.
REMEMBERED: Final = (
    "a_drained_answer_is_noted", "a_drained_claim_was_asked_for",
)

FORGETFUL: Final[System] = edited(
    LOSS, "transfer-forgetful",
    AddRow(source, Row("refuse_forgotten_meeting", on=introduce(d, h, p), at=Sending.SUCCESS,
                       when=OVER, send=[failed(p, h, d)])),
    AddRow(source, Row("refuse_forgotten_address", on=publish(d, h, p), at=Sending.SUCCESS,
                       when=OVER, send=[failed(p, h, d)])),
    AddRow(source, Row("drain_forgotten", on=abort(d, h, p), at=ENDED,
                       when=OVER, send=[drained(p, h, d)])),
    ReplaceProperties(tuple(one for one in LOSS.properties if one.name not in REMEMBERED)),
    about="The lossy transfer, whose sources may forget a life that is over.",
)
