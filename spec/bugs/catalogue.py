"""Every historical defect of the tables, by part."""

from typing import Final

from pdproto.spec.bugs import (
    agreement,
    binding,
    decode_memory,
    dp_rank,
    drain,
    end_to_end,
    ended,
    group_attempts,
    incarnations,
    keep,
    offered,
    optimistic,
    registry,
    sink_group,
    transfer,
)
from pdproto.spec.bugs.bug import Bug

BUGS: Final[tuple[Bug, ...]] = (
    *registry.BUGS,
    *dp_rank.BUGS,
    *binding.BUGS,
    *transfer.BUGS,
    *agreement.BUGS,
    *optimistic.BUGS,
    *group_attempts.BUGS,
    *end_to_end.BUGS,
    *sink_group.BUGS,
    *drain.BUGS,
    *incarnations.BUGS,
    *decode_memory.BUGS,
    *keep.BUGS,
    *ended.BUGS,
    *offered.BUGS,
)
