"""What deferred release costs, against the light notification that it replaces (M3.4).

    python -m tests.bench.bench_release [REQUESTS]

The same load twice, with 20 % aborts: once by the tables as they are, once by tables in which a
failure gives the lease back at once, as if the abort had been heard everywhere (the checker
refutes those: defect B22). Staging memory is scarce, so what is held longer slows the rest
down. Prints held chunk-seconds, the 99th percentile of a lease's life, and hand-overs/s, each the
median of its runs. Both ways run in turn, each as often first as second; a ratio is the median of
those of the pairs, with the least and the greatest of them, so that a busy machine shows.
"""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import median, quantiles
from time import perf_counter, sleep
from typing import Any, Final

import numpy as np

from pdproto.engine.shared_sink import SharedSink
from pdproto.engine.shared_source import SharedSource
from pdproto.pages.sink_pages import SinkPages
from pdproto.pages.source_pages import SourcePages
from pdproto.runtime.role import SinkRole
from pdproto.runtime.wire import Life
from pdproto.spec.handoff.ends import Receiving, d, h, lease
from pdproto.spec.handoff.poll import KVPoll
from pdproto.spec.handoff.sink import SINK
from pdproto.spec.language import ANY, Table
from pdproto.transport.nodes import DecodeNode, PrefillNode

REQUESTS: Final = 300
PAIRS: Final = 8
IN_FLIGHT: Final = 32
PAGES: Final = 8
LAYERS: Final = 4
PAGE_BYTES: Final = 16_384
LANDING_LEASES: Final = 8  # of which memory is enough for at once
ABORTED: Final = 5  # every fifth

LIGHT: Final = Table(SINK.machine, state=SINK.state, rows=tuple(
    replace(row, do=(*row.do, lease(d, h, ANY).to(False)))
    if row.to is Receiving.FAILED else row for row in SINK.rows
))


class Timed(SinkPages):
    """Notes how long each lease lives."""

    def __init__(self, pools: Mapping[str, Any], engine: SharedSink) -> None:
        super().__init__(pools, engine)
        self.held: list[float] = []
        self._began: dict[Life, float] = {}

    def lease(self, life: Life, pages: Mapping[str, Sequence[int]]) -> dict[str, bytes] | None:
        addresses = super().lease(life, pages)
        if addresses is not None:
            self._began[life] = perf_counter()
        return addresses

    def release(self, life: Life) -> None:
        self.held.append(perf_counter() - self._began.pop(life))
        super().release(life)


def run(role: SinkRole, requests: int) -> tuple[float, float, float]:
    """Held chunk-seconds, p99 of a lease's life in ms, hand-overs/s."""
    shape = (IN_FLIGHT * PAGES, 1, 1, PAGE_BYTES)
    pools = [[np.zeros(shape, np.uint8) for _ in range(LAYERS)] for _ in range(2)]
    capacity = LANDING_LEASES * PAGES * LAYERS * (PAGE_BYTES + 64)
    data_path = Timed({"p": pools[1]}, SharedSink(capacity_bytes=capacity))
    prefill = PrefillNode("p", SourcePages(pools[0], SharedSource()))
    decode = DecodeNode("d", data_path, role=role)
    try:
        began = perf_counter()
        _drive(prefill, decode, requests)
        seconds = perf_counter() - began
        return (decode.metrics.read()["held_chunk_seconds"],
                quantiles(data_path.held, n=100)[98] * 1e3, requests / seconds)
    finally:
        prefill.close()
        decode.close()


def _drive(prefill: PrefillNode, decode: DecodeNode, requests: int) -> None:
    free = [range(i * PAGES, (i + 1) * PAGES) for i in range(IN_FLIGHT)]
    places = [list(free), list(free)]
    open_: dict[int, list[Any]] = {}
    room = done = 0
    while done < requests:
        while room < requests and places[0] and places[1]:
            ours, theirs = places[0].pop(), places[1].pop()
            sender = prefill.open(room, partial(places[0].append, ours))
            receiver = decode.open(room, {"p": prefill.endpoint},
                                   on_released=partial(places[1].append, theirs))
            receiver.publish(theirs, room)
            open_[room] = [sender, receiver, ours, room % ABORTED == 0]
            room += 1
        for number, (sender, receiver, ours, aborts) in list(open_.items()):
            if ours is not None and sender.poll() is KVPoll.WAITING_FOR_INPUT:
                sender.send(list(ours))
                open_[number][2] = None
                if aborts:  # with the write under way
                    receiver.abort()
            if {sender.poll(), receiver.poll()} <= {KVPoll.SUCCESS, KVPoll.FAILED}:
                receiver.close()
                del open_[number]
                done += 1
        sleep(0.0002)


def main(arguments: list[str]) -> int:
    requests = int(arguments[0]) if arguments else REQUESTS
    roles = {"deferred": SinkRole(), "light": SinkRole(LIGHT)}
    runs: dict[str, list[tuple[float, float, float]]] = {name: [] for name in roles}
    for pair in range(PAIRS):
        for name in sorted(roles, reverse=pair % 2 == 1):
            runs[name].append(run(roles[name], requests))
    for name, found in runs.items():
        held, longest, rate = (median(of) for of in zip(*found, strict=True))
        print(f"{name:9} held {held:8.2f} chunk-seconds, "  # noqa: T201 - this is a command
              f"p99 hold {longest:7.1f} ms, {rate:7.0f} hand-overs/s")
    for place, what in enumerate(("held", "p99", "rate")):
        ratios = sorted(one[place] / other[place]
                        for one, other in zip(runs["deferred"], runs["light"], strict=True))
        print(f"deferred / light, {what:5} {median(ratios):5.2f} "  # noqa: T201
              f"({ratios[0]:.2f} to {ratios[-1]:.2f} in {PAIRS} pairs)")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
