"""Why optimistic prefill ends every request under any loss: each side has a clock."""

from typing import Final

from pdproto.spec.handoff.attempts import h
from pdproto.spec.language.ranking import Help, Ranking
from pdproto.spec.lemmas.optimistic_no_timeouts_ranking import SOURCE
from pdproto.spec.lemmas.optimistic_ranking import FINISH, LEMMAS, MONOTONE, TENANT

__all__ = ["LEMMAS", "MONOTONE", "RANKINGS"]

RANKINGS: Final = (
    *SOURCE,
    Ranking("L1_a_sink_ends", (Help("give_up_transfer"),),
            why="a sink gives up when its clock runs out"),
    Ranking("L4_pages_come_back", (Help("give_up_transfer", at={h: TENANT.variable}), FINISH),
            witnesses=(TENANT,), why="every sink ends, and every answer ends"),
)
