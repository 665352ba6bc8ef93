"""A lock server with a mistake, to show a counterexample.

The mistake is a plausible one. A client that holds the lock may die, and then all others wait. So a
developer gives the server a clock, and after a while the lock counts as returned. But a clock
proves nothing about the client: it may only be slow, and still at work when the next one enters.

Rule 3 of lock_server.py forbids it: a lease ends when its holder releases it, or when it is certain
that the holder can do no more harm. A time-out by itself gives no such certainty.
"""

from typing import Final

from pdproto.spec.examples.lock_server import SYSTEM as LOCK_SERVER
from pdproto.spec.examples.lock_server import Client, Lease, Lock, Round, book, c, r, server
from pdproto.spec.language import AddRow, Configuration, Row, System, Timer, edited

SYSTEM: Final[System] = edited(
    LOCK_SERVER,
    "lock-server-broken",
    AddRow(server, Row(
        "expire", on=Timer("lease_over"), at=Lock.TAKEN, to=Lock.FREE, choose=(c, r),
        when=book(c, r) == Lease.CURRENT, do=[book(c, r).to(Lease.SPENT)],
        why="the holder has been silent for so long that it must be dead",
    )),
    about="A lock server that takes the lock back on a timeout, which is a mistake.",
    # Two clients in their first round show the mistake, on a network that loses nothing.
    configurations={"default": Configuration({Client: 2, Round: 1})},
)
