"""The sizes at which the defects of the transfer show, and the faults that they need."""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.language import Configuration

ONE: Final = Configuration(
    {Source: 1, Sink: 1, Life: 1, Buffer: 1, Chunk: 1, Page: 1, Slot: 1}, dead_bits=True
)
TWO_LIVES: Final = replace(ONE, sizes={**ONE.sizes, Life: 2})
TWO_SOURCES: Final = replace(ONE, sizes={**ONE.sizes, Source: 2})
TWO_CHUNKS: Final = replace(ONE, sizes={**ONE.sizes, Chunk: 2})
TWO_SINKS: Final = replace(ONE, sizes={**ONE.sizes, Sink: 2})
CRASHING: Final = replace(ONE, faults=("crash",))
RESTARTING: Final = replace(ONE, faults=("restart",))
SINK_CRASHING: Final = replace(ONE, faults=("sink-crash",))
LOSSY: Final = replace(ONE, faults=("lossy",))

WRITE: Final = "S1_writes_stay_in_own_memory"  # the property that most of them break
