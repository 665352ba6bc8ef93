"""The two ends of a transfer: what each of them knows, and what they say to each other.

One life of a room is one hand-over: every variable and every message names it, so that nothing
of one life can be taken for another's. A source runs once per (prefill rank, life), a sink once
per (decode rank, life); a decode rank's memory is a pool that its hand-overs share. The tables are
in source.py, sink.py and engine.py.
"""

from typing import Final

from pdproto.spec.handoff.roles import Chunk, Landing, Life, Page, Sink, Slot, Source
from pdproto.spec.language import Machine, Message, Rigid, Sizes, State, Tuples, auto


class Sending(State):
    """What a source's poll answers. UNKNOWN: the request has not come.

    GONE: the process died that this life was begun with. Another may have come in its place, and
    answers what is meant for the dead one; lives that begin after that are begun with it.
    """

    UNKNOWN = auto()
    BOOTSTRAPPING = auto()
    TRANSFERRING = auto()
    SUCCESS = auto()
    FAILED = auto()
    GONE = auto()


class Receiving(State):
    """What a sink's poll answers. WAITING: its memory is published (that is WaitingForInput).

    GONE: the process died that this life was begun by, and its memory with it.
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
    IN_DOUBT = auto()  # the engine has given it up, and reads no page: it may still land
    LANDED = auto()
    REFUSED = auto()
    SKIPPED = auto()  # it had not begun when the hand-over failed, and never does


class Drain(State):
    """Whether a sink has asked this source to stop, and has been told that it did."""

    UNASKED = auto()
    ASKED = auto()
    SAID = auto()


class Claim(State):
    """What a source may still do to the memory of a sink's life, as the sink knows it."""

    NONE = auto()  # it has not heard of this life
    TOLD = auto()  # it knows the life, and no address
    OUT = auto()  # it may write
    STOPPING = auto()  # it has heard the abort; what it began may still land
    FENCING = auto()  # the sink's engine has been asked to keep it out
    LANDED = auto()  # all its bytes are here
    DRAINED = auto()  # it says that it writes nothing any more
    FENCED = auto()  # it is kept out


class Memory(State):
    """A life's request for memory of its decode rank: landing chunk, page and metadata slot."""

    UNASKED = auto()
    ASKED = auto()
    GIVEN = auto()


p, d, h, k = Source("p"), Sink("d"), Life("h"), Life("k")
b, g, m, c = Landing("b"), Page("g"), Slot("m"), Chunk("c")


def _all_pairs(sizes: Sizes) -> Tuples:
    return [(i, j) for i in range(sizes[Source]) for j in range(sizes[Sink])]


def _all_sinks(sizes: Sizes) -> Tuples:
    return [(j,) for j in range(sizes[Sink])]


# Each source writes its own part of the KV into each sink that it feeds.
feeds: Final = Rigid("feeds", p, d, given=_all_pairs)
# This sink's engine can keep a living source out. Another keeps the chunk in quarantine.
can_fence: Final = Rigid("can_fence", d, given=_all_sinks)

source = Machine("source", p, h)
sink = Machine("sink", d, h)
pool = Machine("pool", d)
# The network adapters of both sides. One writes into the memory of a process that knows nothing
# of it at that moment, which is what locality forbids to everybody else.
engine = Machine("engine", world=True)

sending = source.function("sending", Sending, edges={
    Sending.UNKNOWN: (Sending.BOOTSTRAPPING, Sending.FAILED, Sending.GONE),
    Sending.BOOTSTRAPPING: (Sending.TRANSFERRING, Sending.FAILED, Sending.GONE),
    Sending.TRANSFERRING: (Sending.SUCCESS, Sending.FAILED, Sending.GONE),
    Sending.SUCCESS: (Sending.GONE,),
    Sending.FAILED: (Sending.GONE,),
})
known = source.relation("known", Sink)  # it has introduced itself, and is to hear of a failure
kv = source.relation("kv")  # the pages from which the engine reads
drain = source.function("drain", Drain, Sink, edges={
    Drain.UNASKED: (Drain.ASKED,), Drain.ASKED: (Drain.SAID,),
})
handed = source.relation("handed", Chunk)  # the caller has handed this chunk over
target = source.relation("target", Sink, Landing)  # the address that this sink has published
write = source.function("write", Write, Sink, Chunk, edges={
    Write.NONE: (Write.POSTED,),
    Write.POSTED: (Write.IN_DOUBT, Write.LANDED, Write.REFUSED, Write.SKIPPED),
    Write.IN_DOUBT: (Write.LANDED, Write.REFUSED),
})
write.shared_with(engine, writes=(Write.LANDED, Write.REFUSED))
UNDER_WAY: Final = (Write.POSTED, Write.IN_DOUBT)  # what may still land

receiving = sink.function("receiving", Receiving, edges={
    Receiving.UNKNOWN: (Receiving.BOOTSTRAPPING,),
    Receiving.BOOTSTRAPPING: (Receiving.WAITING, Receiving.FAILED, Receiving.GONE),
    Receiving.WAITING: (Receiving.TRANSFERRING, Receiving.FAILED, Receiving.GONE),
    Receiving.TRANSFERRING: (Receiving.SUCCESS, Receiving.FAILED, Receiving.GONE),
    Receiving.SUCCESS: (Receiving.GONE,),
    Receiving.FAILED: (Receiving.GONE,),
})
has_met = sink.relation("has_met", Source)  # it has said that the request is there too
memory = sink.function("memory", Memory)
memory.shared_with(pool, writes=(Memory.GIVEN,))
lease = sink.relation("lease", Landing)
lease.shared_with(pool, writes=(True,))
page = sink.relation("page", Page)
page.shared_with(pool, writes=(True,))
slot = sink.relation("slot", Slot)
slot.shared_with(pool, writes=(True,))
address = sink.relation("address", Landing)  # the chunk that this life ever had, for `publish`
# The place of this source's chunk in our landing chunk holds the bytes of our life.
content = sink.relation("content", Landing, Source, Chunk)
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

introduce = Message("introduce", d, h, p, sender=sink, receiver=source)
publish = Message("publish", d, h, p, sender=sink, receiver=source, carries=(address,))
abort = Message("abort", d, h, p, sender=sink, receiver=source)

expecting = Message("expecting", p, h, d, sender=source, receiver=sink)
done = Message("done", p, h, d, sender=source, receiver=sink)
failed = Message("failed", p, h, d, sender=source, receiver=sink)
abort_ack = Message("abort_ack", p, h, d, sender=source, receiver=sink)
drained = Message("drained", p, h, d, sender=source, receiver=sink)
# The process that this life was begun with is no more: the transport says so of a broken
# connection, and its successor of a life that it does not know. Only a crash leads to it: a
# detector is never wrong here, since a wrong one does nothing that a time-out does not do too.
gone = Message("gone", p, h, d, sender=source, receiver=sink, reliable=True)
# This sink waits for nothing of the source any more: its process is no more, as the transport says
# of a broken connection and its successor by speaking, or it has kept the source out and is done
# with the life, as it says with everything that it sends (Batch.floor).
sink_over = Message("sink_over", d, h, p, sender=sink, receiver=source, reliable=True)

# Where an end stands.
COMMITTED: Final = receiving(d, h) == Receiving.SUCCESS
GIVEN_UP: Final = receiving(d, h) == Receiving.FAILED
SENDING_NOW: Final = sending(p, h).among(Sending.BOOTSTRAPPING, Sending.TRANSFERRING)
SENDING_ENDED: Final = sending(p, h).among(Sending.SUCCESS, Sending.FAILED, Sending.GONE)
RECEIVING_NOW: Final = receiving(d, h).among(
    Receiving.BOOTSTRAPPING, Receiving.WAITING, Receiving.TRANSFERRING
)
RECEIVING_ENDED: Final = receiving(d, h).among(Receiving.SUCCESS, Receiving.FAILED, Receiving.GONE)
