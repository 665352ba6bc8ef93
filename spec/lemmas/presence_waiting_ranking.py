"""Why no request waits for a process that is over: it is missed, unless the process goes on."""

from typing import Final

from pdproto.spec.language import Always
from pdproto.spec.language.ranking import Help, Monotone, Ranking

LEMMAS: Final[tuple[Always, ...]] = ()
MONOTONE: Final[tuple[Monotone, ...]] = ()

RANKINGS: Final = (
    Ranking("L7_no_request_waits_for_a_process_that_is_over", (Help("miss", ends=True),)),
)
