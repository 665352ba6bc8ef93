"""The counts of an engine, as metrics of its node."""

from collections.abc import Mapping
from functools import partial
from typing import Final, TypeAlias

from pdproto.engine.contract import SinkEngine, SourceEngine
from pdproto.node.metrics import Metrics

# By the engine's name of a count: the metric, its description, and whether it only ever grows.
Counts: TypeAlias = Mapping[str, tuple[str, str, bool]]
SOURCE_COUNTS: Final[Counts] = {
    "landed_bytes": ("transfer_bytes", "Bytes that have landed", True),
    "landed_writes": ("landed_chunks", "Chunks that have landed", True),
    "refused_writes": ("engine_refused_writes", "Writes that sinks have refused", True),
    "failed_writes": ("engine_failed_writes", "Writes whose end is unknown", True),
    "writes": ("engine_inflight_chunks", "Chunks that are under way", False),
    "bytes": ("engine_inflight_bytes", "Bytes of chunks that are under way", False),
    "connections": ("engine_connections", "Connections to sinks", False),
}
SINK_COUNTS: Final[Counts] = {
    "landed_bytes": ("transfer_bytes", "Bytes that have landed", True),
    "landed_writes": ("landed_chunks", "Chunks that have landed", True),
    "refused_writes": ("engine_refused_writes", "Writes that were refused, as late ones are", True),
    "fences": ("engine_fences", "Fences that the engine has been asked for", True),
    "fences_pending": ("engine_pending_fences", "Fences that are not up yet", False),
    "leases": ("engine_leases", "Parts of staging memory that are leased to a source", False),
    "leased_bytes": ("engine_leased_bytes", "Staging memory that is leased", False),
    "target_bytes": ("engine_page_bytes", "Bytes of pages that are leased to a source", False),
    "pooled_bytes": ("engine_pooled_bytes", "Staging memory that is free, and kept", False),
    "abandoned_bytes": ("engine_abandoned_bytes", "Memory that fenced writers may reach", False),
    "connections": ("engine_connections", "Connections of sources", False),
    "dropped_peers": ("engine_dropped_peers", "Connections ended after a protocol error", True),
}


def add_engine_counts(metrics: Metrics, engine: SourceEngine | SinkEngine, counts: Counts) -> None:
    """Add the counts of the engine to the metrics of its node."""
    for field, (name, about, grows) in counts.items():
        describe = metrics.counter if grows else metrics.gauge
        describe(name, about, partial(_count, engine, field))


def _count(engine: SourceEngine | SinkEngine, field: str) -> float:
    count: float = getattr(engine.counts(), field)
    return count
