"""A lock server: clients take turns, although the network loses and repeats messages.

Rule 1: A client holds the lock only on a grant of the very lease that it asked for.
Rule 2: The server has at most one lease out, and grants each lease at most once.
Rule 3: Only the release of that lease brings the lock back. No clock does.

A message may arrive late and more than once, so the network may still hold the grant and the
release of an old round when the next round runs. Each round of a client is therefore a lease of its
own, in order, and every message names its lease. Both sides write down the state of each lease, and
neither acts on a lease that has ended.

A message may also be lost. A client that waits asks again. A server that waits for the lock grants
again, and a client that has given this lease back answers with another release. Each client asks
finitely often, so every client gets its turn, although the server grants in no fixed order.
"""

from typing import Final

from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    Drains,
    Fairness,
    Ignore,
    LeadsTo,
    Machine,
    Message,
    Reject,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    Timer,
    all_of,
    auto,
    forall,
    implies,
    lose,
)


class Client(Sort):
    """A process that sometimes wants the lock."""


class Round(Sort, ordered=True):
    """The first, second, ... time that a client wants the lock: with the client, one lease."""


class Phase(State):
    IDLE = auto()
    WAITING = auto()
    HOLDING = auto()


class Lock(State):
    FREE = auto()
    TAKEN = auto()


class Lease(State):
    """The state of a lease, as one side knows it."""

    UNUSED = auto()
    CURRENT = auto()
    SPENT = auto()


c, d = Client("c"), Client("d")
r, s = Round("r"), Round("s")

client = Machine("client", c)
server = Machine("server")
network = Machine("network", world=True)

ONCE: Final = {Lease.UNUSED: (Lease.CURRENT,), Lease.CURRENT: (Lease.SPENT,)}

phase = client.function("phase", Phase, edges={
    Phase.IDLE: (Phase.WAITING,),
    Phase.WAITING: (Phase.HOLDING,),
    Phase.HOLDING: (Phase.IDLE,),
})
lease = client.function("lease", Lease, Round, edges=ONCE)
lock = server.function("lock", Lock)
book = server.function("book", Lease, Client, Round, edges=ONCE)

request = Message("request", c, r, sender=client, receiver=server)
grant = Message("grant", c, r, sender=server, receiver=client)
release = Message("release", c, r, sender=client, receiver=server)

CLIENT: Final = Table(client, state=phase, rows=(
    Row("ask", on=Call("lock"), at=Phase.IDLE, to=Phase.WAITING, choose=(r,),
        when=[lease(c, r) == Lease.UNUSED,
              forall(s, implies(s.before(r), lease(c, s) == Lease.SPENT))],
        do=[lease(c, r).to(Lease.CURRENT)], send=[request(c, r)]),
    Row("ask_again", on=Timer("no_grant"), at=Phase.WAITING, choose=(r,),
        when=lease(c, r) == Lease.CURRENT, send=[request(c, r)],
        why="the request may have been lost"),
    Row("enter", on=grant(c, r), at=Phase.WAITING, to=Phase.HOLDING,
        when=lease(c, r) == Lease.CURRENT),
    Ignore(grant(c, r), at=Phase.HOLDING, when=lease(c, r) == Lease.CURRENT,
           why="the server repeats a grant until the lock comes back"),
    Row("leave", on=Call("unlock"), at=Phase.HOLDING, to=Phase.IDLE, choose=(r,),
        when=lease(c, r) == Lease.CURRENT,
        do=[lease(c, r).to(Lease.SPENT)], send=[release(c, r)], fair=True,
        why="the specification assumes that every client gives the lock back"),
    Row("leave_again", on=grant(c, r), when=lease(c, r) == Lease.SPENT, send=[release(c, r)],
        why="the lease is over, but the server may not know: the release may have been lost"),
    Reject(grant(c, r), at=Phase.IDLE, when=lease(c, r) != Lease.SPENT,
           why="an idle client waits for no lease, so only old leases can be granted"),
    Reject(grant(c, r), at=(Phase.WAITING, Phase.HOLDING), when=lease(c, r) == Lease.UNUSED,
           why="the client has not asked for this lease yet"),
))

SERVER: Final = Table(server, state=lock, rows=(
    Row("give", on=request(c, r), at=Lock.FREE, to=Lock.TAKEN, when=book(c, r) == Lease.UNUSED,
        do=[book(c, r).to(Lease.CURRENT)], send=[grant(c, r)]),
    Ignore(request(c, r), at=Lock.FREE, when=book(c, r) != Lease.UNUSED,
           why="this request is old: a lease is granted once"),
    Ignore(request(c, r), at=Lock.TAKEN,
           why="the lock is out; a client that still waits when it is back asks again"),
    Row("give_again", on=Timer("no_release"), at=Lock.TAKEN, choose=(c, r),
        when=book(c, r) == Lease.CURRENT, send=[grant(c, r)],
        why="the grant, or the release that answers it, may have been lost"),
    Row("take_back", on=release(c, r), at=Lock.TAKEN, to=Lock.FREE,
        when=book(c, r) == Lease.CURRENT, do=[book(c, r).to(Lease.SPENT)]),
    Ignore(release(c, r), when=book(c, r) == Lease.SPENT,
           why="this release is old: the lock has been back since, and another client may have it"),
    Reject(release(c, r), at=Lock.FREE, when=book(c, r) != Lease.SPENT,
           why="every granted lease is over"),
    Reject(release(c, r), at=Lock.TAKEN, when=book(c, r) == Lease.UNUSED,
           why="this lease has not been granted yet"),
))

LOSSY: Final = Table(network, rows=(lose(request), lose(grant), lose(release)))

PROPERTIES: Final = (
    Always("mutual_exclusion",
           implies(all_of(phase(c) == Phase.HOLDING, phase(d) == Phase.HOLDING), c.same(d)),
           why="two clients never hold the lock at once"),
    Sometimes("the_lock_is_held", phase(c) == Phase.HOLDING),
    Always("free_means_free",
           implies(lock() == Lock.FREE, book(c, r) != Lease.CURRENT),
           why="no client holds a free lock"),
    Sometimes("the_last_round_is_over", forall((c, r), book(c, r) == Lease.SPENT)),
    LeadsTo("a_waiting_client_gets_the_lock", phase(c) == Phase.WAITING, phase(c) == Phase.HOLDING,
            why="a timer alone makes up for a lost message",
            under=(Fairness.TIMERS, Fairness.CONSUMED)),
    Drains("the_lock_comes_back", lock() == Lock.FREE, under=(Fairness.TIMERS, Fairness.CONSUMED),
           why="under any loss"),
)

SYSTEM: Final = System(
    "lock-server",
    "A lock server: clients take turns, although the network loses and repeats messages.",
    tables=(CLIENT, SERVER),
    properties=PROPERTIES,
    final=forall((c, r), all_of(lease(c, r) == Lease.SPENT, book(c, r) == Lease.SPENT)),
    faults={"lossy": (LOSSY,)},
    configurations={
        # Two of each: an old message does harm only in a later round, or to another client. The
        # remains of old rounds are dead, and would make 37,401 states out of 1,001.
        "default": Configuration({Client: 2, Round: 2}, faults=("lossy",), dead_bits=True),
        "no-loss": Configuration({Client: 2, Round: 2}),
        "three-clients": Configuration({Client: 3, Round: 1}, faults=("lossy",)),
    },
)
