"""How much memory an open hand-over takes, and whether 100,000 at once go as fast as the first.

    python -m tests.bench.bench_memory [HANDOVERS]

A prefill and a decode node in one process open hand-overs (default: 100,000) up to the point where
every sender waits for input, in ten equal parts; then all are sent, closed and forgotten. It
prints the bytes by which the process has grown for each, both nodes and both handles included, and
how long the processor was busy in the loops of both nodes for each hand-over, a tenth at a time:
where the last tenth takes as long as the first nothing is quadratic. Python's own collector of
garbage is off while that is measured: it runs in whichever thread allocates, for all of them.
"""

import gc
import sys
import threading
import time
from statistics import median
from typing import Final

import psutil

from pdproto.node.decode.receiver import Receiver
from pdproto.node.link import Link
from pdproto.node.prefill.sender import Sender
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.bench.bench_control import NoBytes
from tests.waiting import until

HANDOVERS: Final = 100_000
PARTS: Final = 10
STEP: Final = 1_000  # opened at a time, as requests arrive
WAITS: Final = {"bootstrap_timeout": 3_600.0, "transfer_timeout": 3_600.0}  # none ends here
LINK: Final = Link(silent_s=600.0)  # collecting garbage of this size stops both nodes for a while
GOAL_BYTES: Final = 4_096

Ends = list[tuple[Sender, Receiver]]


def opened(prefill: PrefillNode, decode: DecodeNode, rooms: range) -> Ends:
    """Hand-overs that wait for their pages to be sent."""
    ends: Ends = []
    for first in rooms[::STEP]:
        for room in range(first, min(first + STEP, rooms.stop)):
            sender = prefill.open(room)
            receiver = decode.open(room, {"prefill": prefill.endpoint})
            receiver.publish((room,), room)
            ends.append((sender, receiver))
        until(lambda: all(s.poll() is KVPoll.WAITING_FOR_INPUT for s, _ in ends[-STEP:]))
    return ends


def finished(nodes: tuple[PrefillNode, DecodeNode], ends: Ends) -> None:
    """Send and close all, and wait until both nodes have forgotten them."""
    for first in range(0, len(ends), STEP):
        some = ends[first:first + STEP]
        for sender, _ in some:
            sender.send((sender.room,), metadata=b"a token")
        until(lambda: all(r.poll() is KVPoll.SUCCESS for _, r in some))  # noqa: B023
        for _, receiver in some:
            receiver.close()
    until(lambda: not any(node._node.lives for node in nodes))


def busy_s() -> float:
    """The processor's time of the loops of all nodes. What waits for them is not counted."""
    loops = [t for t in threading.enumerate() if t.name in ("pdproto-prefill", "pdproto-decode")]
    clocks = [time.pthread_getcpuclockid(loop.ident) for loop in loops if loop.ident is not None]
    return sum(map(time.clock_gettime, clocks))


def main(arguments: list[str]) -> int:
    """Exit status: 0 if an open hand-over takes no more than the goal, or else 1."""
    part = (int(arguments[0]) if arguments else HANDOVERS) // PARTS
    prefill = PrefillNode("prefill", NoBytes(), link=LINK, waits=WAITS)
    decode = DecodeNode("decode", NoBytes(), link=LINK, waits=WAITS)
    nodes = prefill, decode
    try:
        finished(nodes, opened(prefill, decode, range(STEP)))  # what is found once and kept
        gc.collect()
        before = psutil.Process().memory_info().rss
        gc.disable()
        ends: Ends = []
        took: list[float] = []
        for first in range(STEP, STEP + PARTS * part, part):
            began = busy_s()
            ends += opened(prefill, decode, range(first, first + part))
            took.append((busy_s() - began) / part * 1e6)
        assert len(prefill._node.lives) == len(decode._node.lives) == len(ends)
        each = (psutil.Process().memory_info().rss - before) / len(ends)
        began = busy_s()
        finished(nodes, ends)
        ended = (busy_s() - began) / len(ends) * 1e6
    finally:
        for node in nodes:
            node.close()
    print(f"{len(ends):,} open at once: {each:,.0f} bytes each (goal: {GOAL_BYTES:,})")  # noqa: T201
    print("opened, us of the processor each, by tenths: "  # noqa: T201
          + " ".join(f"{one:.0f}" for one in took))
    first_half, second_half = took[:PARTS // 2], took[PARTS // 2:]
    print(f"the second half: {median(second_half) / median(first_half):.2f} times the first")  # noqa: T201
    print(f"sent, closed and forgotten: {ended:.0f} us of the processor each")  # noqa: T201
    return int(each > GOAL_BYTES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
