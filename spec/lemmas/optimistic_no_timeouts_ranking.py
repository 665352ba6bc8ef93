"""Why optimistic prefill ends every request under any loss, although its sinks never give up.

A source without its bootstrap fails by its time-out, and so makes room for all others. A sink that
has published repeats its address until the source knows it, and then until the source answers.
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
            why="a request with a running slot goes on, or fails because its bootstrap is missing"),
    Ranking("L4_slots_and_running_slots_come_back", _ENDS, witnesses=WITNESSES,
            why="a request with a slot ends, and an ended request gives it back"),
)
RANKINGS: Final = (
    *SOURCE,
    Ranking("L1_a_sink_ends", (*_ENDS, *_ANSWERED, GRANT), witnesses=_BOTH,
            why="a sink repeats an address until it gets an answer"),
    Ranking("L4_pages_come_back", (*_ENDS, *_ANSWERED), witnesses=_BOTH,
            why="every sink ends, and every answer ends"),
)
