"""Many hand-overs are closed at once: python -m tests.bench.bench_closing [HANDOVERS]

A decode node opens hand-overs (default: 100,000) with a prefill node in another process, which has
no request for them, and closes all of them at once. Then it opens one that is to succeed. Printed
are the seconds until that one has succeeded, and until both have forgotten all; the aborts that
decode has sent, of which one for each hand-over is the least; and the longest turn of each loop.
"""

import logging
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Final

from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.bench.bench_control import NoBytes
from tests.waiting import until

if TYPE_CHECKING:
    Pipe = Connection[object, object]

HANDOVERS: Final = 100_000
WAITS: Final = {"bootstrap_timeout": 3_600.0}
LIMIT_S: Final = 240.0


def serve(pipe: "Pipe", room: int) -> None:
    """The prefill node, in a process of its own: it has a request for this room alone."""
    logging.disable()
    node = PrefillNode("prefill", NoBytes(), waits=WAITS)
    pipe.send(node.endpoint)
    pipe.recv()
    sender = node.open(room)
    until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT, "decode publishes its memory",
          within_s=LIMIT_S)
    sender.send((room,), metadata=b"a token")
    pipe.recv()
    pipe.send(node._loop.pace.longest_s)
    node.close()


def main(handovers: int) -> None:
    """Print a line."""
    logging.disable()
    context = multiprocessing.get_context("spawn")
    ours, theirs = context.Pipe()
    child = context.Process(target=serve, args=(theirs, handovers), daemon=True)
    child.start()
    sources = {"prefill": str(ours.recv())}
    node = DecodeNode("decode", NoBytes(), waits=WAITS)
    waiting = [node.open(room, sources) for room in range(handovers)]
    until(lambda: len(node._node.lives) == handovers, "all are open",
          within_s=LIMIT_S)
    began = time.monotonic()
    for receiver in waiting:
        receiver.abort("the client has left")
    late = node.open(handovers, sources)
    late.publish((handovers,), handovers)
    ours.send("go on")
    until(lambda: late.poll() is KVPoll.SUCCESS, "the late one succeeds",
          within_s=LIMIT_S)
    late_s = time.monotonic() - began
    late.close()
    until(lambda: not node._node.lives, "all are forgotten", within_s=LIMIT_S)
    over_s = time.monotonic() - began
    ours.send("end")
    longest = node._loop.pace.longest_s, ours.recv()
    aborts = node.metrics.read()["aborts_sent"]
    print(f"{handovers:,} closed at once: the late one after {late_s:.1f} s, "  # noqa: T201
          f"all forgotten after {over_s:.1f} s, {aborts:,.0f} aborts, longest turns "
          f"{longest[0] * 1e3:.0f} ms of decode and {float(str(longest[1])) * 1e3:.0f} of prefill")
    node.close()
    child.join(10.0)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else HANDOVERS)
