"""What is read off an end of a hand-over: what a poll answers, and when it may be forgotten.

The five words of a poll are those that serving engines know from SGLang's KVPoll.
"""

from enum import IntEnum
from typing import Final

from pdproto.spec.handoff.ends import (
    Claim,
    Receiving,
    Sending,
    b,
    claim,
    d,
    h,
    kv,
    lease,
    p,
    receiving,
    sending,
)
from pdproto.spec.handoff.roles import Source
from pdproto.spec.handoff.sink import UNANSWERED
from pdproto.spec.handoff.source import ALL_PUBLISHED, QUIESCENT
from pdproto.spec.language import all_of, forall


class KVPoll(IntEnum):
    """The answers of `poll()`.

    The numbers are SGLang's, so that a minimum over ranks means what it means there.
    """

    FAILED = 0
    BOOTSTRAPPING = 1
    WAITING_FOR_INPUT = 2
    TRANSFERRING = 3
    SUCCESS = 4


# The first whose formula holds.
SENDING_POLL: Final = (
    (sending(p, h).among(Sending.FAILED, Sending.GONE), KVPoll.FAILED),
    (sending(p, h) == Sending.SUCCESS, KVPoll.SUCCESS),
    (sending(p, h) == Sending.TRANSFERRING, KVPoll.TRANSFERRING),
    ((sending(p, h) == Sending.BOOTSTRAPPING) & ALL_PUBLISHED, KVPoll.WAITING_FOR_INPUT),
    (all_of(), KVPoll.BOOTSTRAPPING),
)
# As a scheduler hears it that takes the pages back with the end: no end before they are free.
SENDING_SETTLED: Final = (
    (sending(p, h).among(Sending.FAILED, Sending.SUCCESS) & kv(p, h), KVPoll.TRANSFERRING),
    *SENDING_POLL,
)
RECEIVING_POLL: Final = (
    (receiving(d, h).among(Receiving.FAILED, Receiving.GONE), KVPoll.FAILED),
    (receiving(d, h) == Receiving.SUCCESS, KVPoll.SUCCESS),
    (receiving(d, h) == Receiving.TRANSFERRING, KVPoll.TRANSFERRING),
    (receiving(d, h) == Receiving.WAITING, KVPoll.WAITING_FOR_INPUT),
    (all_of(), KVPoll.BOOTSTRAPPING),
)

_q: Final = Source("q")

# A source has nothing left to do about the life. It remembers how it ended for as long as a sink
# may ask.
SOURCE_IS_OVER: Final = all_of(
    sending(p, h).among(Sending.SUCCESS, Sending.FAILED), ~kv(p, h), QUIESCENT
)
# A sink has nothing left to do about the life, and says nothing more to anybody.
SINK_IS_OVER: Final = all_of(
    receiving(d, h).among(Receiving.SUCCESS, Receiving.FAILED),
    forall(_q, ~claim(d, h, _q).among(*UNANSWERED, Claim.FENCING)),
    forall(b, ~lease(d, h, b)),
)
