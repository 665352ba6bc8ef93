"""The answers of a source for a life that it has forgotten.

A node remembers lives that are over by a floor, and by a bounded list above it. So a source cannot
keep the result of each. It may forget an ended life as soon as no write of it is under way. It then
answers every question about this life in the same way: failed, and drained.

Here a source may do so at any time after that, or answer from memory as source.py does. That covers
every way to forget, and the transfer keeps all its promises. There is one cost: if a `done` is
lost, its sink gives up a hand-over that succeeded at the source.
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

# No write of this life can land any more, and the engine reads no page of it.
OVER: Final = (~kv(p, h), QUIESCENT)
# The variables that a source loses when it forgets.
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
    about="The transfer with loss, whose sources may forget a life that is over.",
)
