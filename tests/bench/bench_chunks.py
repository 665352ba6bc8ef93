"""What a chunk costs, whatever the number of chunks of its hand-over; and what others notice of it.

One hand-over in 8, 64, 512 and 4,096 chunks of a page each, all handed over at once, between two
nodes of one process over shared memory. Meanwhile bystanders, hand-overs of one page, go on one
after the other between the same nodes. The goal: a chunk of 4,096 costs at most twice as much as
one of 64, and the 99th percentile of the bystanders' latency is at most three times what it is
without (one interpreter runs all of it).

Then what a turn costs in processor time in which a frame comes that names many sinks: at most 1 ms
(a node lives with SINKS_MAX of them; a frame with more is refused when it is decoded).

    python -m tests.bench.bench_chunks
"""

import gc
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median, quantiles
from typing import Final

import numpy as np

from pdproto.engine.engines import open_sink, open_source
from pdproto.node.handle import ENDED
from pdproto.node.link import Link
from pdproto.node.prefill.node import Prefill
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime.batches import encode
from pdproto.runtime.limits import SINKS_MAX
from pdproto.runtime.wire import Introduce, Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests.node.data_paths import Fabric, SourceDataPath
from tests.node.offline import Offline
from tests.waiting import until

COUNTS: Final = (8, 64, 512, 4_096)
PAGE_BYTES: Final = 4_096
GOAL_RATIO: Final = 2.0
GOAL_P99: Final = 3.0
SINKS: Final = (1, SINKS_MAX, 1_024)
GOAL_FRAME_S: Final = 1e-3
FRAMES: Final = 200


class Pair:
    """Both nodes. The last page of either pool is the bystanders'."""

    def __init__(self) -> None:
        shape = (COUNTS[-1] + 1, 1, 1, PAGE_BYTES)
        self.prefill: Final = PrefillNode(
            "p", SourcePages([np.ones(shape, np.uint8)], open_source("shm")))
        self.decode: Final = DecodeNode(
            "d", SinkPages({"p": [np.zeros(shape, np.uint8)]}, open_sink("shm")))
        self.rooms: Final[Iterator[int]] = iter(range(1 << 30))
        self.lock: Final = threading.Lock()

    def hand_over(self, pages: range, slot: int) -> float:
        """A chunk a page. Returns the seconds from the first chunk to Success."""
        with self.lock:
            room = next(self.rooms)
        sender = self.prefill.open(room)
        receiver = self.decode.open(room, {"p": self.prefill.endpoint}, pages=pages, slot=slot)
        until(lambda: sender.poll() is KVPoll.WAITING_FOR_INPUT)
        began = time.perf_counter()
        for page in pages:
            sender.send([page], last=page == pages[-1])
        until(lambda: receiver.poll() in ENDED)
        took = time.perf_counter() - began
        assert receiver.poll() is KVPoll.SUCCESS, receiver.failure
        receiver.close()
        until(lambda: receiver.released)
        return took

    @contextmanager
    def bystanders(self) -> Iterator[list[float]]:
        """The latencies of hand-overs of one page that go on meanwhile, in seconds."""
        latencies: list[float] = []
        is_over = threading.Event()

        def go_on() -> None:
            while not is_over.is_set():
                latencies.append(self.hand_over(range(COUNTS[-1], COUNTS[-1] + 1), slot=1))

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield latencies
        finally:
            is_over.set()
            thread.join()

    def close(self) -> None:
        self.prefill.close()
        self.decode.close()


def seconds_of_a_frame(sinks: int) -> float:
    """The median processor time of the turn of a source that is introduced to so many sinks."""
    waits = {"bootstrap_timeout": 20.0, "transfer_timeout": 20.0, "no_news": 1.0}
    node = Prefill("p0", SourceDataPath("p0", Fabric()), incarnation=5, waits=waits,
                   link=Link(sign_of_life_s=1_000.0, silent_s=2_000.0))
    offline = Offline(node.core)
    names = tuple(f"d{number}" for number in range(sinks))
    costs = []
    for room in range(FRAMES):
        frame = encode("d0", 17, 0, [Introduce(Life(room, 17, 0), names, "tcp://127.0.0.1:1")])
        began = time.process_time()
        offline.turn(("d0", frame))
        costs.append(time.process_time() - began)
    return median(costs)


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201 - this is a command


def p99(seconds: list[float]) -> float:
    return quantiles(seconds, n=100, method="inclusive")[98] if len(seconds) > 1 else seconds[0]


def main(arguments: list[str]) -> int:
    """Exit status: 0 if all goals are met. arguments: the numbers of chunks, if others."""
    counts = [int(one) for one in arguments] or [*COUNTS]
    pair = Pair()
    gc.freeze()
    try:
        for _ in range(3):
            pair.hand_over(range(8), slot=0)
        with pair.bystanders() as alone:
            time.sleep(1.0)
        say(f"bystanders alone: {len(alone)}, p99 {p99(alone) * 1e3:.1f} ms")
        per_chunk: dict[int, float] = {}
        worst = 0.0
        for count in counts:
            with pair.bystanders() as latencies:
                per_chunk[count] = pair.hand_over(range(count), slot=0) / count
            worst = max(worst, p99(latencies))
            say(f"{count:5} chunks: {per_chunk[count] * 1e3:.3f} ms a chunk; bystanders "
                f"{len(latencies)}, p99 {p99(latencies) * 1e3:.1f} ms")
        slow = {node.name: node._loop.pace.slow for node in (pair.prefill, pair.decode)}
        one, other = counts[-1], counts[min(1, len(counts) - 1)]
        ratio = per_chunk[one] / per_chunk[other]
        say(f"a chunk of {one:,} costs {ratio:.2f} times one of {other:,}; turns of over 50 ms: "
            f"{slow}")
        frames = {sinks: seconds_of_a_frame(sinks) for sinks in SINKS}
        for sinks, seconds in frames.items():
            say(f"a frame that names {sinks:5,} sinks: {seconds * 1e6:.0f} us")
        is_met = (ratio <= GOAL_RATIO and worst <= GOAL_P99 * p99(alone)
                  and max(frames.values()) <= GOAL_FRAME_S)
        return 0 if is_met else 1
    finally:
        pair.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
