"""Why a suspicion ends: by the bound of the operator, unless the process comes back before."""

from typing import Final

from pdproto.spec.language import Always
from pdproto.spec.language.ranking import Help, Monotone, Ranking

LEMMAS: Final[tuple[Always, ...]] = ()
MONOTONE: Final[tuple[Monotone, ...]] = ()

RANKINGS: Final = (
    Ranking("L7_a_silent_process_is_overdue", (Help("give_up", ends=True),)),
)
