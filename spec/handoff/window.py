"""The chunks that a source must look at, so that the cost of a chunk does not grow with the number.

A source's table covers all chunks of its hand-over. Chunks are handed over, posted and landed in
order, so at any time only few of them can make a difference. A process keeps a *window* of those,
in an automaton for few chunks, and leaves the others out by one of these rules:

Rule 1: LANDED: the caller has handed the chunk over, and it has landed at every sink.
Rule 2: FOLLOWS: the caller has handed the chunk over, the source has sent no sink any part of it,
        and both hold of an earlier chunk in the window. No chunk is posted before that one. So the
        process takes this chunk back into the window before it posts that one.
Rule 3: OVER: the hand-over has failed, and the source has sent no sink any part of the chunk.

No row of the source answers differently for a chunk outside the window, and no row about such a
chunk changes any state: proofs/chunks_may_be_left_out.py, for any number of sinks and chunks.
"""

from typing import Final

from pdproto.spec.handoff.ends import Sending, Write, c, h, handed, p, sending, write
from pdproto.spec.handoff.roles import Chunk, Sink
from pdproto.spec.language import Formula, all_of, forall

WINDOW: Final = 4  # the number of chunks in a source's automaton; the caller has handed them over

_other: Final = Sink("other")
before: Final = Chunk("before")

CALLED_OFF: Final = sending(p, h).among(Sending.FAILED, Sending.GONE)
_BEGUN: Final = ~sending(p, h).among(Sending.UNKNOWN, Sending.BOOTSTRAPPING)


def _at_every_sink(chunk: Chunk, value: Write) -> Formula:
    return forall(_other, write(p, h, _other, chunk) == value)


LANDED: Final = all_of(_BEGUN, handed(p, h, c), _at_every_sink(c, Write.LANDED))
FOLLOWS: Final = all_of(
    _BEGUN, before.before(c),
    *(part for chunk in (before, c)
      for part in (handed(p, h, chunk), _at_every_sink(chunk, Write.NONE))),
)
OVER: Final = all_of(CALLED_OFF, _at_every_sink(c, Write.NONE))
