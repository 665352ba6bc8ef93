"""Why a life, and a request, of the binding end under any loss: each has a clock."""

from typing import Final

from pdproto.spec.language import Always
from pdproto.spec.language.ranking import Help, Monotone, Ranking

LEMMAS: Final[tuple[Always, ...]] = ()
MONOTONE: Final[tuple[Monotone, ...]] = ()

RANKINGS: Final = (
    Ranking("L1_a_life_ends", (Help("give_up"),), why="the sink has a clock"),
    Ranking("L1_a_request_waits_no_longer", (Help("give_up_waiting"),), why="the rank has a clock"),
)
