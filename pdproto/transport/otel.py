"""Spans of hand-overs for an OpenTelemetry collector, over OTLP/HTTP. They need `pdproto[otel]`.

The loop of a node puts a span into a bounded queue. A thread makes a span of the library from it,
and sends that. If the queue is full, the oldest spans are dropped. The variables of OpenTelemetry
hold: `OTEL_TRACES_SAMPLER` and its `_ARG`, `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES`,
`OTEL_EXPORTER_OTLP_HEADERS`, `OTEL_BSP_MAX_QUEUE_SIZE` and others. All ranks of a hand-over sample
alike if their variables are the same.
"""

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import local
from time import monotonic, time_ns
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_INSTANCE_ID, SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision
from opentelemetry.sdk.util.instrumentation import InstrumentationScope
from opentelemetry.trace import SpanContext, SpanKind, Status, StatusCode, TraceFlags

from pdproto.transport.spans import HandoffSpan, Kind, Spans

log = logging.getLogger("pdproto.transport")

PATH: Final = "/v1/traces"
DELAY_MS: Final = 1000  # how long a span waits for others, at most
TIMEOUT_S: Final = 2.0  # of a request to the collector, with its repetitions
UNNAMED: Final = "unknown_service"  # how the name of a service begins if nobody has set it
SERVICE: Final = "pdproto"
KINDS: Final[dict[Kind, SpanKind]] = {
    "client": SpanKind.CLIENT, "server": SpanKind.SERVER, "internal": SpanKind.INTERNAL}
SCOPE: Final = InstrumentationScope(SERVICE)
LOGGERS: Final = ("opentelemetry.exporter.otlp.proto.http.trace_exporter",
                  "opentelemetry.sdk._shared_internal")
_quiet: Final = local()
SAMPLED: Final = SpanContext(1, 1, False, TraceFlags(TraceFlags.SAMPLED))


class Queued(ReadableSpan):
    """A span in the queue, which asks only whether it is sampled. `made` is the library's span."""

    def __init__(self, span: HandoffSpan, resource: Resource) -> None:
        self._context = SAMPLED
        self._handoff: Final = span
        self._of: Final = resource

    def made(self) -> ReadableSpan:
        """The span of the library."""
        span = self._handoff
        parent = _context(span.trace, span.parent, is_remote=span.kind == "server")
        status = (Status(StatusCode.OK) if span.error is None
                  else Status(StatusCode.ERROR, span.error))
        return ReadableSpan(
            span.name, _context(span.trace, span.id), parent if span.parent else None, self._of,
            span.attributes, kind=KINDS[span.kind], status=status, start_time=span.began_ns,
            end_time=span.ended_ns, instrumentation_scope=SCOPE)


class Collector(SpanExporter):
    """The collector at this address. It is logged once that it takes no spans, and once that it
    does again; the library's own lines about it are left out.
    """

    def __init__(self, node: str, url: str) -> None:
        self._node: Final = node
        self._url: Final = url
        self._exporter: Final = OTLPSpanExporter(f"{url.rstrip('/')}{PATH}", timeout=TIMEOUT_S)
        self._is_down = False
        for name in LOGGERS:
            logging.getLogger(name).addFilter(_is_loud)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans. Called in the thread of the queue."""
        with quiet():
            result = self._exporter.export(
                [span.made() if isinstance(span, Queued) else span for span in spans])
        is_down = result is not SpanExportResult.SUCCESS
        if is_down and not self._is_down:
            log.warning("node %s: no collector takes spans at %s: they are dropped until one does",
                        self._node, self._url)
        elif self._is_down and not is_down:
            log.info("node %s: the collector at %s takes spans again", self._node, self._url)
        self._is_down = is_down
        return result

    def shutdown(self) -> None:
        """See SpanExporter."""
        self._exporter.shutdown()  # type: ignore[no-untyped-call]


class OtelSpans(Spans):
    """The spans of a node, for a collector. node: its name. url: of the collector.

    When the process ends, the spans in the queue are sent; `close` does it before.
    """

    def __init__(self, node: str, url: str) -> None:
        resource = Resource.create({SERVICE_INSTANCE_ID: node})
        if str(resource.attributes.get(SERVICE_NAME, UNNAMED)).startswith(UNNAMED):
            resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
        self._provider: Final = TracerProvider(resource=resource)
        self._queue: Final = BatchSpanProcessor(
            Collector(node, url), schedule_delay_millis=DELAY_MS)
        self._provider.add_span_processor(self._queue)
        super().__init__(node, self._put, clock=monotonic, wall_ns=time_ns, sampled=self._is_kept)

    def flush(self) -> None:
        """Send the spans in the queue, in this thread."""
        self._queue.force_flush()

    def close(self) -> None:
        """Send the spans in the queue, for a few seconds at most."""
        self._provider.shutdown()

    def _is_kept(self, trace: int) -> bool:
        told = self._provider.sampler.should_sample(None, trace, SERVICE)
        return told.decision is Decision.RECORD_AND_SAMPLE

    def _put(self, span: HandoffSpan) -> None:
        with quiet():
            self._queue.on_end(Queued(span, self._provider.resource))


def _context(trace: int, span: int, *, is_remote: bool = False) -> SpanContext:
    return SpanContext(trace, span, is_remote, TraceFlags(TraceFlags.SAMPLED))


@contextmanager
def quiet() -> Iterator[None]:
    """Leave out what the library logs in this thread meanwhile."""
    _quiet.on = True
    try:
        yield
    finally:
        _quiet.on = False


def _is_loud(_: logging.LogRecord) -> bool:
    return not getattr(_quiet, "on", False)
