"""The engine: what the network adapters of both sides do with memory, and what can go wrong.

Rule 1: what was posted lands, or is refused, at a time of the engine's own choosing, or never.
Rule 2: once a fence is done, nothing of the fenced source lands in that life's chunk.
Rule 3: it may give up what was posted. From then on it reads no page for it, and what has left
        them may still land.
Rule 4: a fence takes time: what lands before it is done has landed. An engine without one can
        only tell when the writer is gone for good; until then the chunk is in quarantine.

The faults: the network loses messages; a source or a sink dies with writes under way, and perhaps
comes back; and (`stray`) an engine breaks rule 2. The digest is what then stands between such a
write and a committed page.

A process dies with every life that has begun, and the rows below end one life each: what it does is
among what they allow. A life that has not begun is begun with the process that is there then. What
is said of a life names the process that it was begun with, so that a successor can tell.

A sink that dies, or that is done with a life whose source it has kept out, is over for the source:
that needs no message which could be lost (`sink_over` in ends.py).
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    UNDER_WAY,
    Claim,
    Memory,
    Receiving,
    Sending,
    Write,
    abort,
    abort_ack,
    b,
    c,
    can_fence,
    claim,
    content,
    d,
    done,
    drained,
    engine,
    expecting,
    failed,
    gone,
    h,
    introduce,
    k,
    lease,
    memory,
    p,
    page,
    publish,
    receiving,
    sending,
    sink_over,
    slot,
    target,
    write,
)
from pdproto.spec.language import ANY, Machine, Row, Table, exists, lose

world = Machine("world", world=True)

ENGINE: Final = Table(engine, rows=(
    Row("land", choose=(p, h, d, b, c),
        when=[write(p, h, d, c).among(*UNDER_WAY), target(p, h, d, b),
              claim(d, h, p) != Claim.FENCED, receiving(d, h) != Receiving.GONE],
        do=[write(p, h, d, c).to(Write.LANDED), content(d, h, b, p, c).to(True)], fair=False,
        why="late, or never: nobody may count on it"),
    Row("refuse", choose=(p, h, d, c),
        when=[write(p, h, d, c).among(*UNDER_WAY),
              (claim(d, h, p) == Claim.FENCED) | (receiving(d, h) == Receiving.GONE)],
        do=[write(p, h, d, c).to(Write.REFUSED)],
        why="the sink keeps this source out, or its connections have ended with it"),
    Row("finish_fence", choose=(d, h, p),
        when=[claim(d, h, p) == Claim.FENCING, can_fence(d) | (sending(p, h) == Sending.GONE)],
        do=[claim(d, h, p).to(Claim.FENCED), sink_over(d, h, p).to(True)],
        why="where a living source cannot be kept out, the end of its connections is waited for"),
))

LOSSY: Final = Table(world, rows=tuple(
    lose(message)
    for message in (introduce, expecting, publish, abort, done, failed, abort_ack, drained)
))

# One end has begun this life; who comes to the other later finds what became of it.
BEGUN: Final = (sending(p, h) != Sending.UNKNOWN) | exists(d, receiving(d, h) != Receiving.UNKNOWN)

CRASH: Final = Table(world, rows=(
    Row("vanish", choose=(p, h), when=[sending(p, h) != Sending.GONE, BEGUN],
        do=[sending(p, h).to(Sending.GONE), gone(p, h, ANY).to(True)],
        fair=False, why="the process dies; its adapter may still be writing"),
))

RESTART: Final = Table(world, rows=(
    Row("supersede", choose=(p, h), when=[sending(p, h) != Sending.GONE, BEGUN],
        do=[sending(p, h).to(Sending.GONE)],
        fair=False, why="the process dies and another is in its place before anybody has noticed"),
))

SINK_CRASH: Final = Table(world, rows=(
    Row("vanish_sink", choose=(d, h),
        when=~receiving(d, h).among(Receiving.UNKNOWN, Receiving.GONE),
        do=[receiving(d, h).to(Receiving.GONE), memory(d, h).to(Memory.UNASKED),
            lease(d, h, ANY).to(False), page(d, h, ANY).to(False), slot(d, h, ANY).to(False),
            sink_over(d, h, ANY).to(True)],
        fair=False, why="the process dies, and its memory with it"),
))

STRAY: Final = Table(world, rows=(
    Row("stray", choose=(p, h, d, b, k, c),
        when=[h.differs(k), write(p, h, d, c) == Write.REFUSED, target(p, h, d, b),
              lease(d, k, b)],
        do=[content(d, k, b, p, c).to(False)], fair=False,
        why="a write that was refused lands all the same, where somebody else's bytes are"),
))
