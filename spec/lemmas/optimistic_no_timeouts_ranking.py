"""Why optimistic prefill ends every request whatever is lost, although its sinks never give up.

A source that does not hear of its bootstrap fails in time, and so makes room for all others. A sink
that has published repeats its address until it is known, and then until it is answered.
"""

from typing import Final

from pdproto.spec.handoff.attempts import done, failed, h, publish
from pdproto.spec.language.ranking import Help, Ranking
from pdproto.spec.lemmas.optimistic_ranking import (
    FINISH,
    GOES_ON,
    GRANT,
    LEMMAS,
    MONOTONE,
    PUBLISHED,
    RESERVE,
    SINKS,
    WITNESSES,
    unready,
)

__all__ = ["LEMMAS", "MONOTONE", "RANKINGS"]

_ENDS: Final = (Help("give_up_waiting", at={h: unready}), *GOES_ON)
_ANSWERED: Final = (
    Help("submit", at=PUBLISHED), Help("publish_again", ~publish(h), PUBLISHED),
    Help("done_again", ~done(h), PUBLISHED), Help("refuse", ~failed(h), PUBLISHED),
    Help("take", at=PUBLISHED), Help("hear_failure", at=PUBLISHED), FINISH, RESERVE,
)
_BOTH: Final = (*WITNESSES, *SINKS)

SOURCE: Final = (
    Ranking("L5_no_capacity_deadlock", (*_ENDS, RESERVE), witnesses=WITNESSES,
            why="who has a running slot goes on, or fails for want of its bootstrap"),
    Ranking("L4_slots_and_running_slots_come_back", _ENDS, witnesses=WITNESSES,
            why="who has one ends, and who has ended gives it back"),
)
RANKINGS: Final = (
    *SOURCE,
    Ranking("L1_a_sink_ends", (*_ENDS, *_ANSWERED, GRANT), witnesses=_BOTH,
            why="an address is repeated until it is answered"),
    Ranking("L4_pages_come_back", (*_ENDS, *_ANSWERED), witnesses=_BOTH,
            why="every sink ends, and no answer is generated for ever"),
)
