"""Why pages hold the sent bytes without a digest, for any number of each sort.

A sink goes only by the messages of its sources. They are enough while the fence holds: a source
reports its writes when they have landed, and they landed in the one place that the sink leases.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    COMMITTED,
    Claim,
    Receiving,
    address,
    b,
    c,
    claim,
    content,
    d,
    feeds,
    h,
    lease,
    p,
    receiving,
)
from pdproto.spec.language import Always, all_of, implies
from pdproto.spec.lemmas import direct_lemmas, transfer_lemmas
from pdproto.spec.lemmas.transfer_lemmas import LANDED

BELIEVES_ALL: Final = Always(
    "a_committed_sink_counts_all_as_landed",
    implies(COMMITTED & feeds(p, d), claim(d, h, p) == Claim.LANDED),
    why="a sink commits when every source has reported that its part has landed")

_BELIEF: Final = (
    Always("a_landed_write_is_in_memory", implies(all_of(LANDED, feeds(p, d), address(d, h, b)),
                                               content(d, h, b, p, c)),
           why="a write lands at its destination, and no other life's write lands there"),
    BELIEVES_ALL,
    Always("a_lease_of_a_waiting_sink_is_published",
           implies(lease(d, h, b) & receiving(d, h).among(
               Receiving.WAITING, Receiving.TRANSFERRING, Receiving.SUCCESS), address(d, h, b)),
           why="the sink waits for the pages that it has published"),
)

# The place where a write landed tells as much as its destination would.
_IDLE: Final = "writes_go_to_the_address"
_TRANSFER: Final = tuple(one for one in transfer_lemmas.LEMMAS if one.name != _IDLE)

LEMMAS: Final = (*_TRANSFER, *direct_lemmas.LEASES, *_BELIEF)
