"""Why a prefill scheduler of vLLM gets blocks back by the rules, for any number of requests."""

from typing import Final

from pdproto.spec.handoff.offered import (
    Passing,
    Told,
    h,
    passing,
    reading,
    reused,
    taken,
    told,
    unread,
)
from pdproto.spec.language import Always, all_of, implies

LEMMAS: Final = (
    Always("blocks_are_read_while_it_lasts", implies(
        reading(h), all_of(unread(h), passing(h) != Passing.SETTLED))),
    Always("nothing_is_unread_in_the_end", implies(passing(h) == Passing.SETTLED, ~unread(h))),
    Always("blocks_of_others_are_not_granted", implies(reused(h), ~unread(h))),
    Always("taken_blocks_are_with_others", implies(reused(h), taken(h))),
    Always("an_answered_hand_over_has_settled", implies(
        told(h) == Told.FREE, passing(h) == Passing.SETTLED)),
)
