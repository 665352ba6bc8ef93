"""The cost of spans: python -m tests.bench.bench_spans [HAND-OVERS]

A prefill and a decode node in this process hand over without bytes, in turns without spans and with
them. The spans go to a collector that is not there, as the queue and its thread cost the same
then. It prints the processor time of a hand-over at both ends, and the ratio.
"""

import sys
import time
from collections.abc import Mapping
from statistics import median
from typing import Final

from pdproto.node.spans import Spans
from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport.nodes import DecodeNode, PrefillNode
from pdproto.transport.otel import OtelSpans
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath, polls, published, until

HANDOVERS: Final = 1_000
ROUNDS: Final = 5
NOBODY: Final = "http://127.0.0.1:9"


def seconds(handovers: int, spans: Mapping[str, Spans | None]) -> float:
    """The processor seconds of one hand-over."""
    fabric = Fabric()
    prefill = PrefillNode("p0", SourceDataPath("p0", fabric), trace=spans["p0"])
    decode = DecodeNode("d0", SinkDataPath("d0", fabric), trace=spans["d0"])
    began = time.process_time()
    senders = [prefill.open(room) for room in range(handovers)]
    receivers = published([decode.open(room, {"p0": prefill.endpoint})
                           for room in range(handovers)])
    until(polls(senders, KVPoll.WAITING_FOR_INPUT))
    for sender in senders:
        sender.send([1, 2, 3])
    until(polls([*senders, *receivers], KVPoll.SUCCESS))
    took = (time.process_time() - began) / handovers
    decode.close()
    prefill.close()
    return took


def main() -> None:
    handovers = int(sys.argv[1]) if len(sys.argv) > 1 else HANDOVERS
    spans = {name: OtelSpans(name, NOBODY) for name in ("p0", "d0")}
    without, with_them = [], []
    for _ in range(ROUNDS):
        without.append(seconds(handovers, dict.fromkeys(spans)))
        with_them.append(seconds(handovers, spans))
    for each in spans.values():
        each.close()
    print(f"without spans {median(without) * 1e6:,.0f} us a hand-over, with spans "  # noqa: T201
          f"{median(with_them) * 1e6:,.0f} us: {median(with_them) / median(without):.2f} x")


if __name__ == "__main__":
    main()
