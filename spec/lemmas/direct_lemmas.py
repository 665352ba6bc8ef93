"""Why a write straight into pages reaches only pages of its own life, for any number of each sort.

The lemmas of every transfer hold. These tie pages to leases: a life that leases memory has pages,
and one that has committed leases none.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    COMMITTED,
    Memory,
    Receiving,
    address,
    b,
    c,
    content,
    d,
    feeds,
    g,
    h,
    lease,
    memory,
    p,
    page,
    receiving,
)
from pdproto.spec.language import Always, all_of, exists, implies
from pdproto.spec.lemmas import transfer_lemmas
from pdproto.spec.lemmas.transfer_lemmas import spot

# These hold for every transfer straight into pages, with digests or without.
LEASES: Final = (
    Always("memory_is_asked_for_while_bootstrapping",
           implies(memory(d, h) == Memory.ASKED, receiving(d, h) == Receiving.BOOTSTRAPPING),
           why="a life asks for memory once, and a failure withdraws the request"),
    Always("no_memory_before_the_life",
           implies(lease(d, h, b), receiving(d, h) != Receiving.UNKNOWN),
           why="only a life that has begun asks for memory"),
    Always("one_lease", implies(lease(d, h, b) & lease(d, h, spot), b.same(spot)),
           why="memory is granted once, and a piece at a time"),
)

_PAGES: Final = (
    Always("a_published_address_was_granted",
           implies(address(d, h, b), memory(d, h) != Memory.ASKED),
           why="a sink publishes the memory that it leases"),
    Always("a_lease_is_of_the_published_address",
           implies(lease(d, h, b) & address(d, h, spot), b.same(spot)),
           why="a sink publishes the memory that it leases"),
    Always("a_lease_has_pages", implies(lease(d, h, b), exists(g, page(d, h, g))),
           why="pool and sink take and free both together"),
    Always("a_committed_sink_leases_nothing", implies(COMMITTED, ~lease(d, h, b)),
           why="the lease ends with the commit"),
    Always("committed_memory_stays",
           implies(all_of(COMMITTED, address(d, h, b), feeds(p, d)), content(d, h, b, p, c)),
           why="no life leases the memory while the answer is generated"),
)

LEMMAS: Final = (*transfer_lemmas.LEMMAS, *LEASES, *_PAGES)
