"""The engine: the network adapters of both sides, their writes, and their faults.

Rule 1: A posted write lands, or is refused, at a time that only the engine decides, or never.
Rule 2: Once a fence is done, no write of the fenced source lands in that life's chunk.
Rule 3: The engine may give up a posted write. It then reads no more pages for it, but bytes that
        have left may still land.
Rule 4: A fence takes time: a write that lands before the fence is done has landed. An engine
        without a fence can only tell when the writer is gone for good. Until then the chunk is in
        quarantine.

The faults: the network loses messages; a source or a sink dies with writes under way, and perhaps
comes back; and (`stray`) an engine breaks rule 2. Then only the digest keeps such a write out of a
committed page.

A process dies with every life that has begun. The rows below end one life each, so the death of a
process is one of the runs that they allow. A life that has not begun will begin with the process
that runs then. A message about a life names the process with which the life began, so a successor
can tell the difference.

A sink is over for the source if it dies, or if it has fenced the source and is done with the life.
The source learns this without a message that could be lost (`sink_over` in ends.py).
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
        why="a write may land late, or never: no end counts on it"),
    Row("refuse", choose=(p, h, d, c),
        when=[write(p, h, d, c).among(*UNDER_WAY),
              (claim(d, h, p) == Claim.FENCED) | (receiving(d, h) == Receiving.GONE)],
        do=[write(p, h, d, c).to(Write.REFUSED)],
        why="the sink has fenced this source, or its connections have ended with it"),
    Row("finish_fence", choose=(d, h, p),
        when=[claim(d, h, p) == Claim.FENCING, can_fence(d) | (sending(p, h) == Sending.GONE)],
        do=[claim(d, h, p).to(Claim.FENCED), sink_over(d, h, p).to(True)],
        why="an engine that cannot fence a living source waits for the end of its connections"),
))

LOSSY: Final = Table(world, rows=tuple(
    lose(message)
    for message in (introduce, expecting, publish, abort, done, failed, abort_ack, drained)
))

# One end has begun this life; the other end finds its result later.
BEGUN: Final = (sending(p, h) != Sending.UNKNOWN) | exists(d, receiving(d, h) != Receiving.UNKNOWN)

CRASH: Final = Table(world, rows=(
    Row("vanish", choose=(p, h), when=[sending(p, h) != Sending.GONE, BEGUN],
        do=[sending(p, h).to(Sending.GONE), gone(p, h, ANY).to(True)],
        fair=False, why="the process dies; its adapter may still be writing"),
))

RESTART: Final = Table(world, rows=(
    Row("supersede", choose=(p, h), when=[sending(p, h) != Sending.GONE, BEGUN],
        do=[sending(p, h).to(Sending.GONE)],
        fair=False,
        why="the process dies, and a successor takes its place before any peer notices"),
))

SINK_CRASH: Final = Table(world, rows=(
    Row("vanish_sink", choose=(d, h),
        when=~receiving(d, h).among(Receiving.UNKNOWN, Receiving.GONE),
        do=[receiving(d, h).to(Receiving.GONE), memory(d, h).to(Memory.UNASKED),
            lease(d, h, ANY).to(False), page(d, h, ANY).to(False), slot(d, h, ANY).to(False),
            sink_over(d, h, ANY).to(True)],
        fair=False, why="the process dies, and its memory goes with it"),
))

STRAY: Final = Table(world, rows=(
    Row("stray", choose=(p, h, d, b, k, c),
        when=[h.differs(k), write(p, h, d, c) == Write.REFUSED, target(p, h, d, b),
              lease(d, k, b)],
        do=[content(d, k, b, p, c).to(False)], fair=False,
        why="a refused write lands all the same, in a chunk that holds another life's bytes"),
))
