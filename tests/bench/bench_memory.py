"""How much memory an open hand-over takes, and whether 100,000 at once go as fast as the first.

    python -m tests.bench.bench_memory [HANDOVERS]

A prefill and a decode node in one process open hand-overs (default: 100,000) up to the point where
every sender waits for input, in halves of equal size; then all are sent, closed and forgotten. It
prints the bytes by which the process has grown for each, both nodes and both handles included, and
the seconds of the processor that each half took: a ratio near 1 means that nothing is quadratic.
"""

import gc
import sys
import time
from typing import Final

import psutil

from pdproto.net.decode import DecodeNode
from pdproto.net.prefill import PrefillNode
from pdproto.net.receiver import Receiver
from pdproto.net.sender import Sender
from pdproto.net.shell import Link
from pdproto.spec.handoff.poll import KVPoll
from tests.bench.bench_control import NoBytes

HANDOVERS: Final = 100_000
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
        _wait(lambda: all(s.poll() is KVPoll.WAITING_FOR_INPUT for s, _ in ends[-STEP:]))
    return ends


def finished(nodes: tuple[PrefillNode, DecodeNode], ends: Ends) -> None:
    """Send and close all, and wait until both nodes have forgotten them."""
    for first in range(0, len(ends), STEP):
        some = ends[first:first + STEP]
        for sender, _ in some:
            sender.send((sender.room,), metadata=b"a token")
        _wait(lambda some=some: all(r.poll() is KVPoll.SUCCESS for _, r in some))
        for _, receiver in some:
            receiver.close()
    _wait(lambda: not any(node.lives for node in nodes))


def _wait(holds: object) -> None:
    assert callable(holds)
    while not holds():
        time.sleep(0.001)


def main(arguments: list[str]) -> int:
    """Exit status: 0 if an open hand-over takes no more than the goal, or else 1."""
    half = (int(arguments[0]) if arguments else HANDOVERS) // 2
    prefill = PrefillNode("prefill", NoBytes(), link=LINK, waits=WAITS)
    decode = DecodeNode("decode", NoBytes(), link=LINK, waits=WAITS)
    nodes = prefill, decode
    try:
        finished(nodes, opened(prefill, decode, range(STEP)))  # what is found once and kept
        gc.collect()
        before = psutil.Process().memory_info().rss
        ends: Ends = []
        took: list[float] = []
        for first in (STEP, STEP + half):
            began = time.process_time()
            ends += opened(prefill, decode, range(first, first + half))
            took.append(time.process_time() - began)
        assert len(prefill.lives) == len(decode.lives) == 2 * half
        gc.collect()
        each = (psutil.Process().memory_info().rss - before) / len(ends)
        began = time.process_time()
        finished(nodes, ends)
        ended = time.process_time() - began
    finally:
        for node in nodes:
            node.close()
    print(f"{2 * half:,} open at once: {each:,.0f} bytes each (goal: {GOAL_BYTES:,})")  # noqa: T201
    print(f"opened in {took[0]:.1f} s and {took[1]:.1f} s of the processor: "  # noqa: T201
          f"{took[1] / took[0]:.2f} times as long for the second half")
    print(f"sent, closed and forgotten in {ended:.1f} s")  # noqa: T201
    return int(each > GOAL_BYTES)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
