"""Why what a node hears of a process, or does not hear, decides about it, for any number of runs.

Each of these waits ends by one row, which stays enabled for as long as the wait lasts. So nothing
need only go forward: a process may be suspected, and come back, any number of times.
"""

from typing import Final

from pdproto.spec.language import Always
from pdproto.spec.language.ranking import Help, Monotone, Ranking

LEMMAS: Final[tuple[Always, ...]] = ()
MONOTONE: Final[tuple[Monotone, ...]] = ()

RANKINGS: Final = (
    Ranking("L7_a_refusal_loses_a_process", (Help("lose", ends=True),)),
    Ranking("L7_a_proof_ends_a_process", (Help("end", ends=True),)),
    Ranking("L7_a_suspected_process_goes_on", (Help("hear_again", ends=True),)),
    Ranking("L7_a_lost_process_goes_on", (Help("begin_again", ends=True),)),
)
