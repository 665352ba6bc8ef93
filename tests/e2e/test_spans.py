"""The spans of a hand-over through two processes, at a collector that the test serves."""

import logging
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from pdproto.spec.handoff.poll import KVPoll
from pdproto.transport import spans
from pdproto.transport.http_server import HttpServer
from pdproto.transport.nodes import DecodeNode, PrefillNode
from pdproto.transport.otel import OtelSpans
from pdproto.transport.settings import SettingsError, load
from pdproto.transport.spans import HandoffSpan, Spans
from tests.e2e.release_servers import ABORTED, HERE, ROOMS, Server, hand_over
from tests.node.data_paths import Fabric, SinkDataPath, SourceDataPath, polls, published
from tests.node.work import assert_no_slow_turn, clock_counts_work
from tests.waiting import until

SLACK_NS = 50_000_000  # a span's end is read from another clock than its length
OK, ERROR = Status.STATUS_CODE_OK, Status.STATUS_CODE_ERROR
LOST = range(ROOMS, ROOMS + 4)  # their pages are those of no other room


class SpanCollector(HttpServer):
    """Takes spans over OTLP/HTTP. services: the instances that have sent some."""

    def __init__(self) -> None:
        app = web.Application()
        app.add_routes([web.post("/v1/traces", self._take)])
        super().__init__("collector", app, "127.0.0.1", 0)
        self.spans: list[Span] = []
        self.services: set[str] = set()

    async def _take(self, request: web.Request) -> web.Response:
        sent = ExportTraceServiceRequest.FromString(await request.read())
        for part in sent.resource_spans:
            self.services |= {each.value.string_value for each in part.resource.attributes
                              if each.key == "service.instance.id"}
            for scope in part.scope_spans:
                self.spans += scope.spans
        return web.Response()

    def named(self, name: str) -> list[Span]:
        return [span for span in list(self.spans) if span.name == name]

    def counts(self) -> dict[str, int]:
        """How many hand-overs each server has sent the spans of."""
        return {name: len(self.named(name)) for name in ("prefill", "decode")}


@pytest.fixture(scope="module")
def collector() -> Iterator[SpanCollector]:
    """It has the spans of two servers: of ROOMS, some of them aborted, and of LOST, which prefill
    never opens before it is killed.
    """
    with SpanCollector() as server, pytest.MonkeyPatch.context() as patched:
        patched.setenv("PDPROTO_OTEL", f"http://{server.address}")
        with Server("prefill", HERE) as prefill, Server("decode", HERE) as decode:
            hand_over(prefill, decode, 0)
            decode.ask(LOST, prefill, aborted=0)
            until(lambda: server.counts() == {"prefill": ROOMS, "decode": ROOMS},
                  lambda: str(server.counts()))
            prefill.kill()
            decode.answer()
            until(lambda: len(server.named("decode")) == ROOMS + len(LOST))
        yield server


def told(span: Span) -> dict[str, Any]:
    """The attributes."""
    return {each.key.removeprefix("pdproto."): getattr(each.value, each.value.WhichOneof("value"))
            for each in span.attributes}


def traces(spans: list[Span]) -> dict[int, list[Span]]:
    """The spans of each room. Fails if those of a room are in more than one trace."""
    rooms: dict[int, list[Span]] = {}
    for span in spans:
        rooms.setdefault(told(span)["room"], []).append(span)
    for room, of in rooms.items():
        assert len({span.trace_id for span in of}) == 1, f"room {room} is in several traces"
    assert len({of[0].trace_id for of in rooms.values()}) == len(rooms)
    return rooms


def under(spans: list[Span], whole: Span) -> dict[str, Span]:
    """The spans below that of a rank, by name, without the other rank's; each lies within it."""
    found = {span.name: span for span in spans if span.parent_span_id == whole.span_id
             and span.kind == Span.SPAN_KIND_INTERNAL}
    for span in found.values():
        assert span.start_time_unix_nano >= whole.start_time_unix_nano - SLACK_NS
        assert span.end_time_unix_nano <= whole.end_time_unix_nano + SLACK_NS
    return found


def test_one_trace_joins_both_servers(collector: SpanCollector) -> None:
    """Each hand-over is one trace, with prefill's spans below decode's; aborted ones end in errors.
    """
    assert collector.services == {"prefill", "decode"}
    rooms = traces(collector.spans)
    for room in range(ROOMS):
        [decode] = [span for span in rooms[room] if span.name == "decode"]
        [prefill] = [span for span in rooms[room] if span.name == "prefill"]
        assert (decode.kind, prefill.kind) == (Span.SPAN_KIND_CLIENT, Span.SPAN_KIND_SERVER)
        assert not decode.parent_span_id
        assert prefill.parent_span_id == decode.span_id
        for name in ("room", "incarnation", "generation", "status"):
            assert told(decode)[name] == told(prefill)[name]
        assert (told(decode)["rank"], told(prefill)["rank"]) == ("decode", "prefill")
        ours, theirs = under(rooms[room], decode), under(rooms[room], prefill)
        assert len(ours) + len(theirs) + 2 == len(rooms[room])
        assert ours.keys() & theirs.keys() >= {"bootstrapping", "waiting_for_input"}
        if room < ROOMS - ABORTED:
            assert told(decode)["status"] == "success"
            assert {span.status.code for span in rooms[room]} == {OK}
            assert "verify" in ours
            assert theirs.keys() >= {"transferring", "write"}
            assert (told(theirs["write"])["chunk"], told(theirs["write"])["peer"]) == (0, "decode")
            assert told(decode)["bytes"] > 0
        else:
            assert told(decode)["status"] == "failed"
            assert decode.status.code == prefill.status.code == ERROR
            assert told(prefill)["reason"] == prefill.status.message == "the client has left"
            assert told(decode)["reason"] == "prefill: the client has left"


def test_the_spans_of_a_killed_server_s_peer_end_in_errors(collector: SpanCollector) -> None:
    """Decode's span of a hand-over, and that of the state in which it failed, say why they end."""
    rooms = traces(collector.spans)
    for room in LOST:
        [whole] = [span for span in rooms[room] if span.name == "decode"]
        failed = under(rooms[room], whole)["waiting_for_input"]
        for span in (whole, failed):
            assert span.status.code == ERROR
            assert span.status.message.startswith("lost connection to prefill: ")


def opened(node: PrefillNode, rooms: range) -> None:
    """Open these rooms, and abort them."""
    senders = [node.open(room) for room in rooms]
    for sender in senders:
        sender.abort("a test")
    until(lambda: all(sender.poll() is KVPoll.FAILED for sender in senders))


@pytest.mark.parametrize("kept", [True, False])
def test_the_identity_of_a_hand_over_is_computed_once(
    kept: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And nothing more for one that the sampler does not keep. Each rank needs three digests, and
    one for each span below its own.
    """
    digests, given, right = list[int](), list[HandoffSpan](), spans._digest

    def counted(size: int, *parts: str) -> int:
        digests.append(size)
        return right(size, *parts)

    monkeypatch.setattr(spans, "_digest", counted)
    own = {name: Spans(name, given.append, clock=time.monotonic, wall_ns=time.time_ns,
                       sampled=lambda _: kept) for name in ("p0", "d0")}
    fabric = Fabric()
    with (closing(PrefillNode("p0", SourceDataPath("p0", fabric), trace=own["p0"])) as prefill,
          closing(DecodeNode("d0", SinkDataPath("d0", fabric), trace=own["d0"])) as decode):
        receivers = published(decode.open(room, {"p0": prefill.endpoint}) for room in range(20))
        until(polls(receivers, KVPoll.WAITING_FOR_INPUT))  # so each sender knows its life at once
        senders = [prefill.open(room) for room in range(20)]
        until(polls(senders, KVPoll.WAITING_FOR_INPUT))
        for sender in senders:
            sender.send([0], last=False)
            sender.send([1, 2])
        until(polls([*senders, *receivers], KVPoll.SUCCESS))
        for receiver in receivers:
            receiver.close()
        until(lambda: not any(each._identities for each in own.values()))
    below = [span for span in given if span.kind == "internal"]
    assert bool(given) == kept
    assert len(digests) == 2 * 20 * 3 + len(below)


def test_closing_sends_the_spans_in_the_queue() -> None:
    """Also when a sender has met no sink: it is in a trace of its own. Nothing is kept."""
    with SpanCollector() as server:
        spans = OtelSpans("prefill-0", f"http://{server.address}")
        node = PrefillNode("prefill-0", SourceDataPath("prefill-0", Fabric()), trace=spans)
        opened(node, range(3))
        node.close()
        spans.close()
        assert sorted(traces(server.spans)) == [0, 1, 2]
        assert {span.status.message for span in server.named("prefill")} == {"a test"}
        assert not spans._open
        assert not spans._identities


def test_a_collector_that_is_not_there_costs_one_warning(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when the queue overflows. No turn of the loop waits for it."""
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "512")
    caplog.set_level(logging.WARNING)
    spans = OtelSpans("prefill-0", "http://127.0.0.1:9")
    with clock_counts_work():
        node = PrefillNode("prefill-0", SourceDataPath("prefill-0", Fabric()), trace=spans)
        opened(node, range(2000))
        assert node.metrics.read()["turn_errors"] == 0
        until(lambda: any("no collector" in record.message for record in caplog.records))
        opened(node, range(2000, 2100))
        node.close()
    assert_no_slow_turn(node.name, node._loop.pace)
    began = time.monotonic()
    spans.close()
    assert time.monotonic() - began < 20
    other = [record for record in caplog.records if "a test" not in record.message]
    assert [record.getMessage() for record in other] == [
        "node prefill-0: no collector takes spans at http://127.0.0.1:9: they are dropped until "
        "one does"]


def test_without_the_setting_nothing_of_it_is_loaded() -> None:
    """A module that is not loaded cannot run: a node without spans calls no code of theirs."""
    program = ("import sys\n"
               "from tests.e2e import release\n"
               "spans = release.load({}).spans('prefill')\n"
               "assert spans is None\n"
               "node = release.PrefillNode('prefill', release.SourcePages("
               "[release.SENT], release.open_source('tcp')), trace=spans)\n"
               "node.close()\n"
               "print([name for name in sys.modules if 'telemetry' in name or 'spans' in name])")
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True,
                         cwd=HERE.parent, timeout=60, check=True)
    assert ran.stdout.strip() == "[]"


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pdproto.transport.otel", None)
    with pytest.raises(SettingsError, match=r"pip install 'pdproto\[otel\]'"):
        load({"PDPROTO_OTEL": "http://127.0.0.1:4318"}).spans("prefill-0")
