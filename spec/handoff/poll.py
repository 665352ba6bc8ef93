"""The answers of a poll at either end of a hand-over, and when a process may forget the end.

The five answers of a poll are those that serving engines know from SGLang's KVPoll.
"""

from enum import IntEnum
from typing import Final

from pdproto.spec.handoff.ends import (
    Claim,
    Receiving,
    Sending,
    aware,
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

    The numbers are SGLang's, so the minimum over all ranks means the same as there.
    """

    FAILED = 0
    BOOTSTRAPPING = 1
    WAITING_FOR_INPUT = 2
    TRANSFERRING = 3
    SUCCESS = 4


# The first line whose formula holds gives the answer.
SENDING_POLL: Final = (
    (sending(p, h).among(Sending.FAILED, Sending.GONE), KVPoll.FAILED),
    (sending(p, h) == Sending.SUCCESS, KVPoll.SUCCESS),
    (sending(p, h) == Sending.TRANSFERRING, KVPoll.TRANSFERRING),
    ((sending(p, h) == Sending.BOOTSTRAPPING) & ALL_PUBLISHED, KVPoll.WAITING_FOR_INPUT),
    (all_of(), KVPoll.BOOTSTRAPPING),
)
# For a scheduler that takes the pages back when the life ends: no end before they are free.
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

# The source has no work left for this life. It keeps the result for as long as a sink may ask.
SOURCE_IS_OVER: Final = all_of(
    sending(p, h).among(Sending.SUCCESS, Sending.FAILED), ~kv(p, h), QUIESCENT
)
# Later lives of its room name this one when they introduce themselves (binding_ordered.py).
SINK_IS_NAMED: Final = receiving(d, h) != Receiving.FAILED
# The sink has no work left for this life, and sends no more messages: each source knows its end.
SINK_IS_OVER: Final = all_of(
    receiving(d, h).among(Receiving.SUCCESS, Receiving.FAILED),
    forall(_q, ~claim(d, h, _q).among(*UNANSWERED, Claim.FENCING)),
    forall(_q, (claim(d, h, _q) != Claim.FENCED) | aware(d, h, _q)),
    forall(b, ~lease(d, h, b)),
)
