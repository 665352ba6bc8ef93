"""The cost of spans: python -m tests.bench.bench_spans [HAND-OVERS]

A prefill and a decode node in this process hand over without bytes, in turns without spans, with
those of a hundredth of the hand-overs, and with all. A process beside it is the collector, which
takes them and does nothing. It prints the processor time of a hand-over at both ends, with the
ratios: of the loops of the nodes, which hand-overs wait for, and of the process, in which threads
send the spans.
"""

import multiprocessing
import sys
import threading
import time
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing.connection import Connection
from statistics import median
from typing import Any, Final

import pytest

from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from pdproto.transport.otel import OtelSpans
from pdproto.transport.spans import Spans
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath, polls, published
from tests.waiting import until

HANDOVERS: Final = 1_000
ROUNDS: Final = 5
KINDS: Final = ("no spans", "1 % of the spans", "all spans")


class Taker(BaseHTTPRequestHandler):
    """Takes spans over one connection, and does nothing with them."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, format: str, *arguments: Any) -> None:  # noqa: A002
        """Print nothing."""


def collector(told: "Connection[int, int]") -> None:
    """Serve a collector, and tell its port."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Taker) as server:
        told.send(server.server_port)
        server.serve_forever()


def busy_s() -> tuple[float, float]:
    """The processor seconds of the loops of the nodes, and of the process."""
    loops = [time.pthread_getcpuclockid(thread.ident) for thread in threading.enumerate()
             if thread.name in ("pdproto-p0", "pdproto-d0") and thread.ident is not None]
    return sum(map(time.clock_gettime, loops)), time.process_time()


def seconds(handovers: int, spans: Mapping[str, Spans | None]) -> tuple[float, float]:
    """The processor seconds of one hand-over: of the loops, and of the process."""
    fabric = Fabric()
    prefill = PrefillNode("p0", SourceDataPath("p0", fabric), trace=spans["p0"])
    decode = DecodeNode("d0", SinkDataPath("d0", fabric), trace=spans["d0"])
    before = busy_s()
    senders = [prefill.open(room) for room in range(handovers)]
    receivers = published([decode.open(room, {"p0": prefill.endpoint})
                           for room in range(handovers)])
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    for sender in senders:
        sender.send([1, 2, 3])
    until(polls([*senders, *receivers], KVPoll.SUCCESS))
    for sent in spans.values():
        if isinstance(sent, OtelSpans):
            sent.flush()
    loops, process = (now - then for now, then in zip(busy_s(), before, strict=True))
    decode.close()
    prefill.close()
    return loops / handovers, process / handovers


def main() -> None:
    handovers = int(sys.argv[1]) if len(sys.argv) > 1 else HANDOVERS
    ours, theirs = multiprocessing.Pipe()
    process = multiprocessing.Process(target=collector, args=(theirs,), daemon=True)
    process.start()
    url = f"http://127.0.0.1:{ours.recv()}"
    spans: dict[str, Mapping[str, Spans | None]] = {KINDS[0]: dict.fromkeys(("p0", "d0"))}
    with pytest.MonkeyPatch.context() as patched:
        spans[KINDS[2]] = {name: OtelSpans(name, url) for name in ("p0", "d0")}
        patched.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
        patched.setenv("OTEL_TRACES_SAMPLER_ARG", "0.01")
        spans[KINDS[1]] = {name: OtelSpans(name, url) for name in ("p0", "d0")}
    took: dict[str, list[tuple[float, float]]] = {kind: [] for kind in KINDS}
    for _ in range(ROUNDS):
        for kind in KINDS:
            took[kind].append(seconds(handovers, spans[kind]))
    plain = [median(each) for each in zip(*took[KINDS[0]], strict=True)]
    for kind in KINDS:
        told = ", ".join(
            f"{what} {median(each) * 1e6:,.0f} us, {median(each) / base:.2f} x"
            for what, each, base in zip(("loops", "process"), zip(*took[kind], strict=True), plain,
                                        strict=True))
        print(f"{kind}: {told}")  # noqa: T201
    for named in spans.values():
        for sent in named.values():
            if isinstance(sent, OtelSpans):
                sent.close()
    process.terminate()


if __name__ == "__main__":
    main()
