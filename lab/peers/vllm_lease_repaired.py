"""Two repairs of vLLM's lease (vllm_lease.py): decode asks after its read, or before it."""

from typing import Final

from lab.peers.vllm_lease import (
    FREE,
    KEPT,
    SYSTEM,
    Fetched,
    Lease,
    Load,
    Request,
    decode,
    done,
    fetched,
    lease,
    prefill,
    r,
)
from pdproto.spec.language import (
    AddClause,
    AddRow,
    Call,
    Ignore,
    Message,
    Reject,
    ReplaceRow,
    Row,
    edited,
)

pinned = prefill.relation("pinned", Request)
asked = decode.relation("asked")

ask = Message("ask", r, sender=decode, receiver=prefill)
may_read = Message("may_read", r, sender=prefill, receiver=decode)
was_kept = Message("was_kept", r, sender=prefill, receiver=decode)
expired = Message("expired", r, sender=prefill, receiver=decode)

UNREAD: Final = (Load.ABSENT, Load.WAITING)
ENDED: Final = (Load.SUCCESS, Load.FAILED)

# A load succeeds when prefill has answered that the lease ran until the end of the read. It costs
# one round trip, and prefill waits for no message: a clock still ends the lease.
CONFIRMED: Final = edited(
    SYSTEM, "vllm-lease-confirmed",
    ReplaceRow("finish", Row("finish", at=Load.READING,
        when=[fetched(r) != Fetched.NOTHING, ~asked(r)], do=[asked(r).to(True)], send=[done(r)])),
    ReplaceRow("hear_done", Row("hear_done", on=done(r), when=lease(r).among(*KEPT),
        do=[lease(r).to(Lease.READ), FREE], send=[was_kept(r)])),
    ReplaceRow("log_late_read", Row("refuse_late_read", on=done(r),
        when=lease(r) == Lease.EXPIRED, send=[expired(r)])),
    AddRow(decode, Row("succeed", on=was_kept(r), at=Load.READING, to=Load.SUCCESS)),
    AddRow(decode, Row("fail", on=expired(r), at=Load.READING, to=Load.FAILED)),
    *(AddRow(decode, row) for answer in (was_kept(r), expired(r)) for row in (
        Ignore(answer, at=ENDED, why="the load has ended"),
        Reject(answer, at=UNREAD, why="decode has asked nothing"))),
    about="vLLM's lease where decode asks after its read whether the lease had lasted.",
)

# Decode reads when prefill has consented, and from then on no clock ends the lease: the rule of the
# hand-over in transfer.py. It needs a fence for a decode that dies while it reads.
CONSENTED: Final = edited(
    SYSTEM, "vllm-lease-consented",
    ReplaceRow("schedule", Row("ask_prefill", on=Call("schedule"), at=Load.WAITING,
        when=~asked(r), do=[asked(r).to(True)], send=[ask(r)])),
    AddRow(prefill, Row("consent", on=ask(r), when=lease(r).among(*KEPT),
        do=[lease(r).to(Lease.RUNNING), pinned(r).to(True)], send=[may_read(r)])),
    AddRow(prefill, Row("refuse", on=ask(r), when=lease(r) == Lease.EXPIRED, send=[expired(r)])),
    AddRow(prefill, Ignore(ask(r), when=lease(r) == Lease.READ, why="the lease is over")),
    AddRow(prefill, Reject(ask(r), when=lease(r) == Lease.NONE,
                           why="decode does not know a request before prefill")),
    AddClause("clock", ~pinned(r)),
    AddRow(decode, Row("begin", on=may_read(r), at=Load.WAITING, to=Load.READING)),
    AddRow(decode, Ignore(may_read(r), at=(Load.READING, *ENDED),
                          why="the read has begun, or ended")),
    AddRow(decode, Reject(may_read(r), at=Load.ABSENT, why="decode has asked nothing")),
    AddRow(decode, Row("fail", on=expired(r), at=Load.WAITING, to=Load.FAILED)),
    AddRow(decode, Ignore(expired(r), at=Load.FAILED, why="the load has ended")),
    AddRow(decode, Reject(expired(r), at=(Load.ABSENT, Load.READING, Load.SUCCESS),
                          why="the lease does not end once prefill has consented")),
    about="vLLM's lease where decode asks before it reads, and no clock ends a read.",
)
