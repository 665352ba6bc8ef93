"""Why no registry answers with a run whose lease is over, for any number of registries and runs."""

from typing import Final

from pdproto.spec.handoff.replica import (
    Listed,
    LookUp,
    View,
    answered,
    asking,
    beat,
    came_back,
    copied,
    copy,
    counted,
    e,
    ended,
    h,
    lease_over,
    look_up,
    ordered,
    recorded,
    view,
)
from pdproto.spec.language import Always, all_of, any_of, implies

LEMMAS: Final = (
    Always("a_registration_is_shown_after_it_is_ordered",
           implies(recorded(copy, e), ordered(e) != Listed.NEVER)),
    Always("an_end_is_shown_after_it_is_ordered",
           implies(ended(copy, e), ordered(e) == Listed.OVER)),
    Always("a_lease_is_over_after_its_end", implies(lease_over(e), ordered(e) == Listed.OVER)),
    Always("a_current_copy_has_the_end_of_a_lease",
           implies(all_of(lease_over(e), view(copy) == View.CURRENT),
                   copied(copy, e) == Listed.OVER),
           why="a lease is longer than a copy may be late"),
    Always("a_beat_on_its_way_makes_no_late_copy_current",
           implies(all_of(lease_over(e), came_back(copy, beat), ~counted(copy, beat)),
                   copied(copy, e) == Listed.OVER),
           why="a lease is longer than a beat may take"),
    Always("a_client_has_asked", implies(any_of(look_up(h, copy), answered(h, copy)),
                                         asking(h) != LookUp.IDLE)),
)
