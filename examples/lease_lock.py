"""A lock that is lent for a time: `pdproto check examples/lease_lock.py:SYSTEM`.

The server lends the lock with a fencing token, each greater than all before. A lease ends when the
client gives it back or when its time is over; the client may not know that, and still write. So the
store keeps the last token, and takes no write with an earlier one. lease_processes.py runs it.
"""

from pdproto.spec.language import (
    Always,
    Call,
    Configuration,
    DropClause,
    DropRow,
    Ignore,
    Machine,
    Message,
    Row,
    Sometimes,
    Sort,
    System,
    Table,
    Timer,
    edited,
    forall,
    implies,
)


class Client(Sort):
    """A process that writes while it has the lock."""


class Token(Sort, ordered=True):
    """The number of a lease."""


c, d = Client("c"), Client("d")
t, u = Token("t"), Token("u")

client = Machine("client", c)
server = Machine("server")
store = Machine("store")

has = client.relation("has", Token)
spent = client.relation("spent", Token)
wanted = server.relation("wanted", Client)
lent = server.relation("lent", Client, Token)
issued = server.relation("issued", Token)
last = store.function("last", Token)
wrote = store.relation("wrote", Token)

want = Message("want", c, sender=client, receiver=server)
grant = Message("grant", c, t, sender=server, receiver=client)
back = Message("back", c, t, sender=client, receiver=server)
write = Message("write", c, t, sender=client, receiver=store)

CLIENT = Table(client, rows=(
    Row("ask", on=Call("lock"), send=[want(c)]),
    Row("enter", on=grant(c, t), when=~spent(c, t), do=[has(c, t).to(True)]),
    Ignore(grant(c, t), when=spent(c, t), why="the client has given this lease back"),
    Row("put", on=Call("write"), choose=(t,), when=has(c, t), send=[write(c, t)]),
    Row("leave", on=Call("unlock"), choose=(t,), when=has(c, t),
        do=[has(c, t).to(False), spent(c, t).to(True)], send=[back(c, t)]),
))  # fmt: skip

SERVER = Table(server, rows=(
    Row("note", on=want(c), do=[wanted(c).to(True)]),
    Row("lend", choose=(c, t), do=[wanted(c).to(False), lent(c, t).to(True), issued(t).to(True)],
        when=[wanted(c), forall((d, u), ~lent(d, u)), forall(u, implies(issued(u), u.before(t)))],
        send=[grant(c, t)]),
    Row("take_back", on=back(c, t), when=lent(c, t), do=[lent(c, t).to(False)]),
    Ignore(back(c, t), when=~lent(c, t), why="the time of this lease was over before"),
    Row("expire", on=Timer("lease_over"), choose=(c, t), when=lent(c, t), do=[lent(c, t).to(False)],
        why="the client may have died"),
))  # fmt: skip

STORE = Table(store, rows=(
    Row("put_in", on=write(c, t), when=~last().after(t), do=[last().to(t), wrote(t).to(True)]),
    Ignore(write(c, t), when=last().after(t),
           why="a later lease has written, so this one is over"),
))  # fmt: skip

SYSTEM = System(
    "lease-lock", "A lock that is lent for a time, with fencing tokens.",
    tables=(CLIENT, SERVER, STORE),
    properties=(
        Always("one_lease", implies(lent(c, t) & lent(d, u), c.same(d) & t.same(u)),
               why="the server lends the lock to one client at a time"),
        Sometimes("the_lock_is_lent", lent(c, t)),
        Always("one_client_a_token", implies(has(c, t) & has(d, t), c.same(d))),
        Always("no_write_comes_late", implies((last() == u) & wrote(t), ~u.before(t)),
               why="a client whose time is over cannot undo the write of its successor"),
        Sometimes("two_leases_wrote", wrote(t) & last().after(t)),
        Sometimes("two_believe_in_it", has(c, t) & has(d, u) & c.differs(d)),
    ),
    final=forall((c, t), ~lent(c, t)),
    configurations={"default": Configuration({Client: 2, Token: 2})},
)  # fmt: skip

BROKEN = edited(
    SYSTEM, "lease-lock-unfenced",
    DropClause("put_in", ~last().after(t)), DropRow("ignore_write"),
)  # fmt: skip

LEMMAS = (
    Always("a_write_is_followed", implies(wrote(t), last().is_set)),
    Always("a_grant_is_issued", implies(grant(c, t), issued(t))),
    Always("a_grant_has_one_client", implies(grant(c, t) & grant(d, t), c.same(d))),
    Always("a_holder_was_granted", implies(has(c, t), grant(c, t))),
    Always("a_lease_is_issued", implies(lent(c, t), issued(t))),
)
