"""The transfer where each source hears of the end of a life, also of one that it has never met.

A source may stand still for as long as a sink waits, and longer: a stopped process, or a connection
that is cut. The sink gives up, fences the source, and has its memory back. When the source goes on,
a request may have come to it, and no introduction. No clock of this system ends such a request, so
the sink has to tell the source (sink.py, rule 6).

A process that stands still is one that takes no step. So it needs no fault: every order of steps is
explored.

The properties of states are proved for every size. The two `LeadsTo` are explored with one source,
and with no more: two have over 155,819,603 states, where delivery takes the message off the
network, and that search had not ended. Where messages stay there and none is lost, they hold of two
sources: `pdproto check transfer-told --size Source=2 --faults none --fairness timers`.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    GIVEN_UP,
    SENDING_ENDED,
    Claim,
    Sending,
    aware,
    can_fence,
    claim,
    d,
    feeds,
    gone,
    h,
    p,
    sending,
)
from pdproto.spec.handoff.transfer import GIVE_UP, LOSS
from pdproto.spec.handoff.transfer_claims import ONCE_TOO
from pdproto.spec.language import (
    Always,
    Configuration,
    DropRow,
    LeadsTo,
    ReplaceProperties,
    Sometimes,
    System,
    all_of,
    any_of,
    edited,
    implies,
)

SOURCE_HEARS: Final = LeadsTo(
    "L2_a_source_hears_of_the_end_of_every_life", GIVEN_UP & feeds(p, d) & ~SENDING_ENDED,
    SENDING_ENDED, under=ONCE_TOO,
    why="a sink that has fenced a source goes on to tell it, also if they have never met")

TOLD: Final[System] = edited(
    LOSS, "transfer-told",
    *(DropRow(row) for row in GIVE_UP if row != "fence_silent"),
    ReplaceProperties((
        SOURCE_HEARS,
        LeadsTo("L2_a_fenced_source_becomes_aware",
                claim(d, h, p).among(Claim.FENCING, Claim.FENCED),
                aware(d, h, p) | claim(d, h, p).among(Claim.LANDED, Claim.DRAINED), under=ONCE_TOO,
                why="only then may the sink forget the life, also if the fence never comes"),
        Always("a_source_that_counts_as_aware_has_ended",
               implies(aware(d, h, p), SENDING_ENDED | gone(p, h, d)),
               why="a sink that forgets the life tells the source no more"),
        Sometimes("a_source_hears_after_the_fence", all_of(
            any_of(claim(d, h, p) == Claim.FENCED,
                   ~can_fence(d) & (claim(d, h, p) == Claim.FENCING)),
            aware(d, h, p), sending(p, h) == Sending.FAILED)),
    )),
    about="The transfer where no clock ends an end, and sinks fence sources that stand still.",
    configurations={
        "default": Configuration(
            LOSS.configurations["default"].sizes, faults=("lossy", "crash", "restart"),
            dead_bits=True),
        "no-fence": LOSS.configurations["no-fence"],
    },
)
