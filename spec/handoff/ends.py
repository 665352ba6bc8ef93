"""The two ends of a transfer: the variables of each, and the messages between them.

One life of a room is one hand-over. Every variable and every message names its life, so nothing of
one life is taken for another's. A source runs once per (prefill rank, life), a sink once per
(decode rank, life). The memory of a decode rank is a pool that its hand-overs share. The tables are
in source.py, sink.py and engine.py.
"""

from typing import Final

from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.language import Machine, Message, Rigid, Sizes, State, Tuples, auto


class Sending(State):
    """The state of a source, from which its poll answers. UNKNOWN: the request has not come.

    GONE: the process with which this life began has died. A successor may run in its place, and
    answer messages for the dead one. Lives that begin later begin with the successor.
    """

    UNKNOWN = auto()
    BOOTSTRAPPING = auto()
    TRANSFERRING = auto()
    SUCCESS = auto()
    FAILED = auto()
    GONE = auto()


class Receiving(State):
    """The state of a sink, from which its poll answers. WAITING: its memory is published
    (WaitingForInput).

    GONE: the process that began this life has died, and its memory is gone with it.
    """

    UNKNOWN = auto()
    BOOTSTRAPPING = auto()
    WAITING = auto()
    TRANSFERRING = auto()
    SUCCESS = auto()
    FAILED = auto()
    GONE = auto()


class Write(State):
    """One source's write of one of its chunks to one sink."""

    NONE = auto()
    POSTED = auto()
    # the engine has given the write up and reads no page; the write may still land
    IN_DOUBT = auto()
    LANDED = auto()
    REFUSED = auto()
    SKIPPED = auto()  # the write had not begun when the hand-over failed, and never begins


class Drain(State):
    """Whether a sink has asked this source to stop, and whether the source has answered DRAINED."""

    UNASKED = auto()
    ASKED = auto()
    SAID = auto()


class Claim(State):
    """What the sink knows of a source's right to write into the memory of this life."""

    NONE = auto()  # the source does not know this life
    TOLD = auto()  # the source knows the life, and no address
    OUT = auto()  # the source may write
    STOPPING = auto()  # the source has received the abort; the writes that it began may still land
    FENCING = auto()  # the sink has asked its engine to keep the source out
    LANDED = auto()  # all bytes of the source have landed
    DRAINED = auto()  # the source says that it writes no more
    FENCED = auto()  # the engine keeps the source out


class Memory(State):
    """A life's request to its decode rank for memory: staging buffer, page and metadata slot."""

    UNASKED = auto()
    ASKED = auto()
    GIVEN = auto()


p, d, h, k = Source("p"), Sink("d"), Life("h"), Life("k")
b, g, m, c = Buffer("b"), Page("g"), Slot("m"), Chunk("c")


def _all_pairs(sizes: Sizes) -> Tuples:
    return [(i, j) for i in range(sizes[Source]) for j in range(sizes[Sink])]


def _all_sinks(sizes: Sizes) -> Tuples:
    return [(j,) for j in range(sizes[Sink])]


# Each source writes its own part of the KV into each sink that it feeds.
feeds: Final = Rigid("feeds", p, d, given=_all_pairs)
# This sink's engine can keep a living source out. Otherwise the chunk goes into quarantine.
can_fence: Final = Rigid("can_fence", d, given=_all_sinks)

source = Machine("source", p, h)
sink = Machine("sink", d, h)
pool = Machine("pool", d)
# The network adapters of both sides. An adapter writes into the memory of a process that does not
# know of it at that moment. Locality forbids this to all other machines.
engine = Machine("engine", world=True)

sending = source.function("sending", Sending, edges={
    Sending.UNKNOWN: (Sending.BOOTSTRAPPING, Sending.FAILED, Sending.GONE),
    Sending.BOOTSTRAPPING: (Sending.TRANSFERRING, Sending.FAILED, Sending.GONE),
    Sending.TRANSFERRING: (Sending.SUCCESS, Sending.FAILED, Sending.GONE),
    Sending.SUCCESS: (Sending.GONE,),
    Sending.FAILED: (Sending.GONE,),
})
# the sink has introduced itself, and must be told of a failure
known = source.relation("known", Sink)
kv = source.relation("kv")  # the source holds the pages that the engine reads
drain = source.function("drain", Drain, Sink, edges={
    Drain.UNASKED: (Drain.ASKED,), Drain.ASKED: (Drain.SAID,),
})
handed = source.relation("handed", Chunk)  # the caller has handed this chunk over
target = source.relation("target", Sink, Buffer)  # the address that this sink has published
write = source.function("write", Write, Sink, Chunk, edges={
    Write.NONE: (Write.POSTED,),
    Write.POSTED: (Write.IN_DOUBT, Write.LANDED, Write.REFUSED, Write.SKIPPED),
    Write.IN_DOUBT: (Write.LANDED, Write.REFUSED),
})
write.shared_with(engine, writes=(Write.LANDED, Write.REFUSED))
UNDER_WAY: Final = (Write.POSTED, Write.IN_DOUBT)  # these writes may still land

receiving = sink.function("receiving", Receiving, edges={
    Receiving.UNKNOWN: (Receiving.BOOTSTRAPPING,),
    Receiving.BOOTSTRAPPING: (Receiving.WAITING, Receiving.FAILED, Receiving.GONE),
    Receiving.WAITING: (Receiving.TRANSFERRING, Receiving.FAILED, Receiving.GONE),
    Receiving.TRANSFERRING: (Receiving.SUCCESS, Receiving.FAILED, Receiving.GONE),
    Receiving.SUCCESS: (Receiving.GONE,),
    Receiving.FAILED: (Receiving.GONE,),
})
has_met = sink.relation("has_met", Source)  # the source has confirmed that it has the request
memory = sink.function("memory", Memory)
memory.shared_with(pool, writes=(Memory.GIVEN,))
lease = sink.relation("lease", Buffer)
lease.shared_with(pool, writes=(True,))
page = sink.relation("page", Page)
page.shared_with(pool, writes=(True,))
slot = sink.relation("slot", Slot)
slot.shared_with(pool, writes=(True,))
address = sink.relation("address", Buffer)  # the chunk that this life has or had, for `publish`
# This source's part of the staging buffer holds the bytes of this life.
content = sink.relation("content", Buffer, Source, Chunk)
content.shared_with(engine, writes=(True,))
_OVER: Final = (Claim.LANDED, Claim.DRAINED)
claim = sink.function("claim", Claim, Source, edges={
    Claim.NONE: (Claim.TOLD,),
    Claim.TOLD: (Claim.OUT, Claim.FENCING, Claim.DRAINED),
    Claim.OUT: (Claim.STOPPING, Claim.FENCING, *_OVER),
    Claim.STOPPING: (Claim.FENCING, *_OVER),
    Claim.FENCING: (Claim.FENCED, *_OVER),
})
claim.shared_with(engine, writes=(Claim.FENCED,))
# This source, which the sink fences, knows that the life has ended, or its process is gone.
aware = sink.relation("aware", Source)

introduce = Message("introduce", d, h, p, sender=sink, receiver=source)
publish = Message("publish", d, h, p, sender=sink, receiver=source, carries=(address,))
abort = Message("abort", d, h, p, sender=sink, receiver=source)

expecting = Message("expecting", p, h, d, sender=source, receiver=sink)
done = Message("done", p, h, d, sender=source, receiver=sink)
failed = Message("failed", p, h, d, sender=source, receiver=sink)
abort_ack = Message("abort_ack", p, h, d, sender=source, receiver=sink)
drained = Message("drained", p, h, d, sender=source, receiver=sink)
# The process with which this life began is gone. The transport reports it when the connection
# breaks, and a successor reports it for a life that it does not know. Only a crash leads to it: the
# detector is never wrong here. A wrong one would have the same effect as a time-out.
gone = Message("gone", p, h, d, sender=source, receiver=sink, reliable=True)
# This sink expects nothing more of the source. Either its process is gone: the transport reports
# the broken connection, or a successor sends a message. Or the sink has fenced the source and is
# done with the life: every batch that it sends says so (Batch.floor).
sink_over = Message("sink_over", d, h, p, sender=sink, receiver=source, reliable=True)

# The state of an end.
COMMITTED: Final = receiving(d, h) == Receiving.SUCCESS
GIVEN_UP: Final = receiving(d, h) == Receiving.FAILED
SENDING_NOW: Final = sending(p, h).among(Sending.BOOTSTRAPPING, Sending.TRANSFERRING)
SENDING_ENDED: Final = sending(p, h).among(Sending.SUCCESS, Sending.FAILED, Sending.GONE)
RECEIVING_NOW: Final = receiving(d, h).among(
    Receiving.BOOTSTRAPPING, Receiving.WAITING, Receiving.TRANSFERRING
)
RECEIVING_ENDED: Final = receiving(d, h).among(Receiving.SUCCESS, Receiving.FAILED, Receiving.GONE)
