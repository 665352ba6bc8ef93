"""vLLM 0.32.0's NixlConnector: prefill keeps blocks under a lease, and decode reads them.

A description, not a proposal. Prefill keeps the blocks of an ended request until decode notifies
that it has read them, or until a clock (`kv_lease_duration`, 30 s) runs out. Heartbeats of decode
restart the clock. Decode reads one-sidedly, when its scheduler reaches the request. No message
tells decode that the lease has ended, and its read cannot fail for that reason, because the memory
is still registered. A later notification is only logged.

Left out: ranks, pages that decode has already, and reads that the network fails. A read is one
step: it shows the contents of one moment.
"""

from typing import Final

from pdproto.spec.language import (
    ANY,
    AddClause,
    Always,
    Call,
    Configuration,
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
    auto,
    edited,
    exists,
    forall,
    implies,
)


class Request(Sort, prefix="r", ordered=True):
    """A request. The order is the one in which prefill computes them."""


class Block(Sort, prefix="b"):
    """A block of prefill's KV cache."""


class Lease(State):
    """Prefill's view of the blocks of a request."""

    NONE = auto()
    RUNNING = auto()
    DUE = auto()  # the clock has run out, and the blocks are not freed yet
    READ = auto()
    EXPIRED = auto()


class Load(State):
    """A request on decode."""

    ABSENT = auto()
    WAITING = auto()
    READING = auto()
    SUCCESS = auto()
    FAILED = auto()


class Fetched(State):
    """The result of a read."""

    NOTHING = auto()
    OWN = auto()
    OTHERS = auto()


r, q, b = Request("r"), Request("q"), Block("b")

prefill = Machine("prefill")
decode = Machine("decode", r)
nixl = Machine("nixl", world=True)

lease = prefill.function("lease", Lease, Request)
owner = prefill.relation("owner", Block, Request)
wrote = prefill.relation("wrote", Block, Request)  # the last request to write is in the block

load = decode.function("load", Load)
block = decode.relation("block", Block)
fetched = decode.function("fetched", Fetched)
fetched.shared_with(nixl, writes=(Fetched.OWN, Fetched.OTHERS))

computed = Message("computed", r, b, sender=prefill, receiver=decode)
heartbeat = Message("heartbeat", r, sender=decode, receiver=prefill)
done = Message("done", r, sender=decode, receiver=prefill)

KEPT: Final = (Lease.RUNNING, Lease.DUE)
FREE: Final = owner(ANY, r).to(False)
WRITTEN_OVER: Final = exists(q, r.before(q) & wrote(b, q))

PREFILL: Final = Table(prefill, rows=(
    Row("compute", on=Call("compute", r), choose=(b,),
        when=[lease(r) == Lease.NONE, forall(q, implies(q.before(r), lease(q) != Lease.NONE)),
              forall(q, ~owner(b, q))],
        do=[lease(r).to(Lease.RUNNING), owner(b, r).to(True), wrote(b, r).to(True)],
        send=[computed(r, b)], why="the numbers of the blocks go to decode with the answer"),
    Row("clock", on=Timer("kv_lease_duration"), choose=(r,), when=lease(r) == Lease.RUNNING,
        do=[lease(r).to(Lease.DUE)]),
    Row("renew", on=heartbeat(r), when=lease(r).among(*KEPT), do=[lease(r).to(Lease.RUNNING)]),
    Row("reap", choose=(r,), when=lease(r) == Lease.DUE, do=[lease(r).to(Lease.EXPIRED), FREE],
        why="in the next step of the engine; decode gets no message"),
    Row("hear_done", on=done(r), when=lease(r).among(*KEPT), do=[lease(r).to(Lease.READ), FREE]),
    Ignore(done(r), when=lease(r) == Lease.READ, name="ignore_done_again", why="the lease is over"),
    Ignore(done(r), when=lease(r) == Lease.EXPIRED, name="log_late_read",
           why="prefill logs \"Potentially invalid KV blocks\""),
    Ignore(heartbeat(r), when=lease(r).among(Lease.READ, Lease.EXPIRED), why="the lease is over"),
    *(Reject(message(r), when=lease(r) == Lease.NONE,
             why="decode does not know a request before prefill")
      for message in (done, heartbeat)),
))

DECODE: Final = Table(decode, state=load, rows=(
    Row("queue", on=computed(r, b), at=Load.ABSENT, to=Load.WAITING,
        do=[block(r, b).to(True)]),
    Row("beat", on=Call("step"), at=(Load.WAITING, Load.READING), send=[heartbeat(r)],
        why="every 5 s, in the loop of the engine; a decode that has died sends none"),
    Row("schedule", on=Call("schedule"), at=Load.WAITING, to=Load.READING,
        why="when there is room, and perhaps never"),
    Row("finish", at=Load.READING, to=Load.SUCCESS,
        when=fetched(r) != Fetched.NOTHING, send=[done(r)]),
    Row("leave", on=Call("abort"), at=Load.WAITING, to=Load.FAILED, send=[done(r)]),
    Ignore(computed(r, b), at=(Load.WAITING, Load.READING, Load.SUCCESS, Load.FAILED),
           name="ignore_computed_again", why="decode knows the blocks already"),
))

NIXL: Final = Table(nixl, rows=(
    Row("read_own", choose=(r, b), do=[fetched(r).to(Fetched.OWN)],
        when=[load(r) == Load.READING, fetched(r) == Fetched.NOTHING, block(r, b),
              ~WRITTEN_OVER]),
    Row("read_others", choose=(r, b), do=[fetched(r).to(Fetched.OTHERS)],
        when=[load(r) == Load.READING, fetched(r) == Fetched.NOTHING, block(r, b),
              WRITTEN_OVER]),
))

SYSTEM: Final = System(
    "vllm-lease",
    "vLLM 0.32.0's NixlConnector, described as its code does it: a lease ends by a clock.",
    tables=(PREFILL, DECODE, NIXL),
    properties=(
        Always("a_load_that_succeeds_is_of_its_own_request",
               implies(load(r) == Load.SUCCESS, fetched(r) == Fetched.OWN),
               why="a read returns no blocks of another request with success"),
        Always("a_block_has_one_owner", implies(owner(b, r) & owner(b, q), r.same(q))),
        LeadsTo("a_lease_that_is_due_ends_or_is_renewed", lease(r) == Lease.DUE,
                lease(r) != Lease.DUE, under=(Fairness.CONSUMED,),
                why="no request waits for the lease of another"),
        Sometimes("a_load_succeeds", load(r) == Load.SUCCESS),
    ),
    final=forall(r, lease(r).among(Lease.READ, Lease.EXPIRED)),
    configurations={"default": Configuration({Request: 2, Block: 1})},
)

# 0.27.1 looked at the oldest lease first, and stopped where one was not due (#58222).
HEAD_FIRST: Final = edited(
    SYSTEM, "vllm-lease-head-first",
    AddClause("reap", forall(q, implies(q.before(r), lease(q) != Lease.RUNNING))),
    about="vLLM 0.27.1's lease: a lease that is due waits for all older ones.",
    configurations={"default": Configuration({Request: 2, Block: 2})},
)
