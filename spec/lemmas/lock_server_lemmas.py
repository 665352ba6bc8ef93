"""Why one client at most holds the lock, for any number of clients and rounds: the states of both
sides of a lease.
"""

from typing import Final

from pdproto.spec.examples.lock_server import (
    Lease,
    Phase,
    book,
    c,
    d,
    grant,
    lease,
    phase,
    r,
    release,
    request,
    s,
)
from pdproto.spec.language import Always, all_of, exists, implies

LEMMAS: Final = (
    Always("a_busy_client_has_a_lease",
           implies(phase(c) != Phase.IDLE, exists(r, lease(c, r) == Lease.CURRENT)),
           why="a lease begins when a client leaves idle, and ends when it returns"),
    Always("an_idle_client_has_no_lease",
           implies(phase(c) == Phase.IDLE, lease(c, r) != Lease.CURRENT),
           why="a lease begins when a client leaves idle, and ends when it returns"),
    Always("rounds_are_in_order",
           implies(all_of(s.before(r), lease(c, r) != Lease.UNUSED), lease(c, s) == Lease.SPENT),
           why="a round begins when all earlier ones are over"),
    Always("a_holder_is_booked",
           implies(all_of(phase(c) == Phase.HOLDING, lease(c, r) == Lease.CURRENT),
                   book(c, r) == Lease.CURRENT),
           why="the lease was granted, and the server waits for its release"),
    Always("one_lease_is_booked",
           implies(all_of(book(c, r) == Lease.CURRENT, book(d, s) == Lease.CURRENT),
                   all_of(c.same(d), r.same(s))),
           why="the server gives the lock only when it is free"),
    Always("requests_are_asked_for", implies(request(c, r), lease(c, r) != Lease.UNUSED),
           why="a client asks as its lease begins"),
    Always("booked_when_asked_for",
           implies(book(c, r) != Lease.UNUSED, lease(c, r) != Lease.UNUSED),
           why="the server books only requested leases"),
    Always("grants_are_booked", implies(grant(c, r), book(c, r) != Lease.UNUSED),
           why="the server books a lease when it grants it"),
    Always("releases_are_over",
           implies(release(c, r), all_of(lease(c, r) == Lease.SPENT, book(c, r) != Lease.UNUSED)),
           why="a client releases a lease when it ends, and only a granted one"),
    Always("over_at_the_server_is_over",
           implies(book(c, r) == Lease.SPENT, lease(c, r) == Lease.SPENT),
           why="the server ends a lease on its release"),
)
