"""Every historical defect, in the order of the parts of the protocol that they break."""

from typing import Final

from pdproto.spec.bugs import (
    agreement,
    binding,
    complete,
    dp_rank,
    group_attempts,
    optimistic,
    registry,
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
    *complete.BUGS,
)
