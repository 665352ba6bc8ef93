"""The time of a hand-over while another decode server floods the prefill node with messages.

    python -m tests.bench.bench_flood [COUNT]

Prefill runs here, and decode and the flooder in processes of their own, over loopback and shared
memory. COUNT hand-overs of two pages (default: 100) are made one after the other: without a flood;
while the flooder repeats a batch of 256 introductions of one life; and while it begins lives
without end, 100 in each batch. Prints the median, the 99th percentile and the longest time of each,
as decode sees them. Exit status: 1 if one fails.
"""

import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import count
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.synchronize import Event
from statistics import quantiles
from typing import Final

import zmq

from pdproto.engine.engines import open_sink, open_source
from pdproto.node.handle import ENDED
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime.batches import encode
from pdproto.runtime.limits import FRAMES_MAX
from pdproto.runtime.wire import Introduce, Life
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from tests import waiting
from tests.e2e.pairs import layers

COUNT: Final = 100
FLOODER: Final = "flooder"
BEGUN_S: Final = 3.0  # of a flood, before the first hand-over
LOOK_S: Final = 0.000_3
WAIT_S: Final = 60.0
BEGINS: Final = 100  # lives in a batch
# Less often than elsewhere: the processes share cores with the flood.
until = partial(waiting.until, within_s=WAIT_S, look_s=LOOK_S)


def decode(pipe: Connection, endpoint: str) -> None:
    """Receive each room of the pipe, and say how long it took and whether it succeeded."""
    node = DecodeNode("d", SinkPages(layers(), open_sink("shm")))
    while (room := pipe.recv()) is not None:
        began = time.perf_counter()
        receiver = node.open(room, {"p": endpoint}, pages=[3, 4])
        until(lambda of=receiver: of.poll() in ENDED)  # type: ignore[misc]
        pipe.send((time.perf_counter() - began, receiver.poll() is KVPoll.SUCCESS))
        receiver.close()
        until(lambda of=receiver: of.released)  # type: ignore[misc]
    node.close()


def repeated(address: str) -> Iterator[bytes]:
    """The same batch again and again."""
    life = Life(10**9, 5, 1)
    batch = encode(FLOODER, 5, 0, [Introduce(life, (FLOODER,), address)] * FRAMES_MAX)
    while True:
        yield batch


def begun(address: str) -> Iterator[bytes]:
    """Lives without end."""
    for first in count(0, BEGINS):
        lives = (Life(10**9 + number, 5, number) for number in range(first, first + BEGINS))
        yield encode(FLOODER, 5, 0, [Introduce(life, (FLOODER,), address) for life in lives])


FLOODS: Final = {"no flood": None, "a batch again and again": repeated, "lives without end": begun}


def flood(name: str, endpoint: str, stop: Event) -> None:
    """Send as many batches as the node takes, until it is told to stop."""
    with zmq.Context() as context, context.socket(zmq.DEALER) as out, \
            context.socket(zmq.ROUTER) as own:
        out.setsockopt_string(zmq.IDENTITY, FLOODER)
        out.setsockopt(zmq.LINGER, 0)
        address = f"tcp://127.0.0.1:{own.bind_to_random_port('tcp://127.0.0.1')}"
        out.connect(endpoint)
        make = FLOODS[name]
        assert make is not None
        for batch in make(address):
            while not stop.is_set() and not out.poll(10, zmq.POLLOUT):
                pass
            if stop.is_set():
                return
            out.send(batch)


def hand_over(node: PrefillNode, pipe: Connection, room: int) -> tuple[float, bool]:
    """Seconds that it took, and whether it succeeded."""
    sender = node.open(room)
    pipe.send(room)
    until(lambda: sender.poll() in (KVPoll.WAITING_FOR_INPUT, *ENDED))
    if sender.poll() is KVPoll.WAITING_FOR_INPUT:
        sender.send([1, 2])
    assert pipe.poll(WAIT_S), "decode does not answer"
    told: tuple[float, bool] = pipe.recv()
    until(lambda: sender.released)
    return told


def main(arguments: list[str]) -> int:
    """Measure each flood."""
    many, rooms, are_right = int(arguments[0]) if arguments else COUNT, count(1), True
    context = get_context("spawn")
    node = PrefillNode("p", SourcePages(layers(), open_source("shm")))
    pipe, there = context.Pipe()
    process = context.Process(target=decode, args=(there, node.endpoint))
    process.start()
    for name, make in FLOODS.items():
        stop = context.Event()
        flooder = context.Process(target=flood, args=(name, node.endpoint, stop))
        if make is not None:
            flooder.start()
            time.sleep(BEGUN_S)
        took = [hand_over(node, pipe, next(rooms)) for _ in range(many)]
        stop.set()
        if make is not None:
            flooder.join(WAIT_S)
        are_right &= all(is_right for _, is_right in took)
        times = sorted(seconds * 1e3 for seconds, _ in took)
        parts = quantiles(times, n=100)
        sys.stdout.write(f"{name:24} p50 {parts[49]:8.1f} ms  p99 {parts[98]:8.1f} ms  longest "
                         f"{times[-1]:8.1f} ms\n")
        sys.stdout.flush()
    pipe.send(None)
    process.join(WAIT_S)
    node.close()
    return int(not are_right)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
