"""What endpoints write into a trace, held against the tables again, with no network between."""

import io
import json
from pathlib import Path
from typing import Any

import pytest

from pdproto.check.trace.verdict import ReplayResult
from pdproto.check.trace.verify import verify
from pdproto.runtime.endpoint import Endpoint
from pdproto.runtime.role import SINK_ROLE, SOURCE_ROLE
from pdproto.runtime.trace import TraceWriter
from pdproto.runtime.wire import Life
from pdproto.spec.handoff import ends
from pdproto.spec.handoff.ends import Claim, Memory, Write
from pdproto.spec.handoff.transfer import SYSTEM

LIFE = Life(7, 1, 0)
GRANT = ((ends.memory, (0, 0), Memory.GIVEN), (ends.lease, (0, 0, 0), True),
         (ends.page, (0, 0, 0), True), (ends.slot, (0, 0, 0), True))


class Traced:
    """An endpoint that writes down what happens to it."""

    def __init__(self, node: str, endpoint: Endpoint) -> None:
        self.file, self.endpoint = io.BytesIO(), endpoint
        self.trace = TraceWriter(node, self.file)

    def take(self, kind: str, *arguments: Any) -> None:
        automaton = self.endpoint.automaton
        event = getattr(automaton, kind)(*arguments)
        self.trace.write(self.endpoint, event, self.endpoint.take(event))

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.file.getvalue().splitlines()]

    def verify(self, folder: Path, system: Any = SYSTEM) -> ReplayResult:
        path = folder / f"{self.trace.node}.jsonl"
        path.write_bytes(self.file.getvalue())
        return verify(system, [path])


@pytest.fixture
def sink() -> Traced:
    """It has published its memory to two sources."""
    sink = Traced("d0", Endpoint(SINK_ROLE.automaton_for(sources=2), LIFE, ("p0", "p1"), None))
    sink.take("call", "open_receiver")
    sink.take("device", *GRANT)
    return sink


def test_a_source_that_has_gone(sink: Traced, tmp_path: Path) -> None:
    """That it has gone is heard, triggers nothing, and is what the heartbeat then reads."""
    sink.take("noted_message", ends.gone, (1, 0, 0))
    assert "heard" in sink.lines()[-1]
    sink.take("timer", "heartbeat")
    sink.take("timer", "heartbeat")
    sink.take("message", ends.drained, (0, 0, 0))
    sink.take("device", (ends.claim, (0, 0, 1), Claim.FENCED))
    assert [line["row"] for line in sink.lines() if "row" in line] == [
        "begin_receive", "publish_memory", "lose_source", "fence_lost", "note_drained", "end_lease"]
    verified = sink.verify(tmp_path)
    assert verified.is_explained, verified.rejection or verified.missing
    assert verified.assumed == {"p0": 1}


def test_without_the_news_nothing_explains_the_failure(sink: Traced, tmp_path: Path) -> None:
    sink.take("noted_message", ends.gone, (1, 0, 0))
    sink.take("timer", "heartbeat")
    lines = [line for line in sink.lines() if "heard" not in line]
    sink.file = io.BytesIO("".join(
        json.dumps({**line, "n": n}) + "\n" for n, line in enumerate(lines, 1)).encode())
    rejection = sink.verify(tmp_path).rejection
    assert rejection is not None
    assert rejection.why == "lose_source cannot fire here"
    assert rejection.nearest[0].failing == ("gone(p1, h0, d0)",)


@pytest.mark.parametrize(("assignments", "why"), [
    ([(ends.claim, (0, 0, 0), Claim.FENCED)], "finish_fence cannot fire here"),
    ([(ends.memory, (0, 0), Memory.GIVEN)], "no row of a device writes these values"),
    (GRANT, "grant cannot fire here"),
    (GRANT[1:], "no row of a device writes these values"),
])
def test_a_device_that_does_what_its_table_lacks(
    sink: Traced, tmp_path: Path, assignments: list[Any], why: str
) -> None:
    """A fence that nobody asked for, memory in parts or twice."""
    line = {"n": len(sink.lines()) + 1, "node": "d0", "machine": "sink", "end": 1, "device": [
        [symbol.name, ["d0", [7, 1, 0], *(["p0"] if symbol is ends.claim else [0] * (
            len(at) - 2))], str(value).lower() if value is True else value.value]
        for symbol, at, value in assignments]}
    sink.file.write((json.dumps(line) + "\n").encode())
    rejection = sink.verify(tmp_path).rejection
    assert rejection is not None
    assert rejection.why == why


def test_a_source_counts_more_as_it_goes(tmp_path: Path) -> None:
    """Chunks that come while it runs, and a sink that it did not know when it began."""
    endpoint = Endpoint(SOURCE_ROLE.automaton_for(sinks=1, chunks=2), None, (), None)
    source = Traced("p0", endpoint)
    source.take("call", "open_sender")
    endpoint.life, endpoint.peers = LIFE, ("d0",)
    bits = endpoint.automaton.bits(ends.address, (0, 0, 0))
    source.take("message", ends.publish, (0, 0, 0), bits)
    source.take("call", "send", (0,))
    endpoint.move(SOURCE_ROLE.automaton_for(sinks=1, chunks=3))
    source.take("call", "send", (1,))
    source.take("pace", "post")
    source.take("pace", "post")
    source.take("device", (ends.write, (0, 0, 0, 0), Write.REFUSED))
    verified = source.verify(tmp_path)
    assert verified.is_explained, verified.rejection or verified.missing
    kinds = [next(k for k in ("begins", "elements", "row", "device") if k in line)
             for line in source.lines()]
    assert kinds == ["begins", "row", "elements", "row", "row", "elements", "row", "row", "row",
                     "device", "row", "row"]


def test_two_endpoints_are_never_one(tmp_path: Path) -> None:
    """A life is begun once at a node."""
    first = Traced("d0", Endpoint(SINK_ROLE.automaton_for(sources=1), LIFE, ("p0",), None))
    first.take("call", "open_receiver")
    again = Endpoint(SINK_ROLE.automaton_for(sources=1), LIFE, ("p0",), None)
    first.endpoint = again
    first.take("call", "open_receiver")
    rejection = first.verify(tmp_path).rejection
    assert rejection is not None
    assert rejection.why == "endpoint 1 is d0, [7, 1, 0] already"
