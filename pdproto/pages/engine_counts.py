"""What engines count, as metrics of the node that has one."""

from collections.abc import Mapping
from functools import partial
from typing import Final, TypeAlias

from pdproto.engine.contract import SinkEngine, SourceEngine
from pdproto.node.metrics import Metrics

# What engines count, by their name of it: ours, what it says, and whether it only ever grows.
Counts: TypeAlias = Mapping[str, tuple[str, str, bool]]
SOURCE_COUNTS: Final[Counts] = {
    "landed_bytes": ("transfer_bytes", "Bytes that have landed", True),
    "landed_writes": ("landed_chunks", "Chunks that have landed", True),
    "refused_writes": ("engine_refused_writes", "Writes that sinks have refused", True),
    "failed_writes": ("engine_failed_writes", "Writes of which nobody knows how they ended", True),
    "writes": ("engine_inflight_chunks", "Chunks that are under way", False),
    "bytes": ("engine_inflight_bytes", "Bytes of chunks that are under way", False),
    "connections": ("engine_connections", "Connections to sinks", False),
}
SINK_COUNTS: Final[Counts] = {
    "landed_bytes": ("transfer_bytes", "Bytes that have landed", True),
    "landed_writes": ("landed_chunks", "Chunks that have landed", True),
    "refused_writes": ("engine_refused_writes", "Late writes that could not land any more", True),
    "fences": ("engine_fences", "Fences that the engine has been asked for", True),
    "fences_pending": ("engine_pending_fences", "Fences that are not up yet", False),
    "leases": ("engine_leases", "Parts of landing memory that are leased to a source", False),
    "leased_bytes": ("engine_leased_bytes", "Landing memory that is leased", False),
    "target_bytes": ("engine_page_bytes", "Pages that are leased to a source as they lie", False),
    "pooled_bytes": ("engine_pooled_bytes", "Landing memory that is free, and kept", False),
    "abandoned_bytes": ("engine_abandoned_bytes", "Memory in the reach of fenced writers", False),
    "connections": ("engine_connections", "Connections of sources", False),
    "dropped_peers": ("engine_dropped_peers", "Connections ended for what they sent", True),
}


def measured(metrics: Metrics, engine: SourceEngine | SinkEngine, counts: Counts) -> None:
    """Have what the engine counts read among the node's numbers."""
    for field, (name, about, grows) in counts.items():
        describe = metrics.counter if grows else metrics.gauge
        describe(name, about, partial(_count, engine, field))


def _count(engine: SourceEngine | SinkEngine, field: str) -> float:
    count: float = getattr(engine.counts(), field)
    return count
