"""Why decode asks the rank that runs a room, also where frames are lost."""

from typing import Final

from pdproto.spec.handoff.routing import Phase, h, met, phase, refuse, target, x
from pdproto.spec.language import Always, implies
from pdproto.spec.lemmas import dp_rank_lemmas

# A refusal that was lost is still noted.
_LOST: Final = "a_refusal_is_noted"

LEMMAS: Final = (
    *(lemma for lemma in dp_rank_lemmas.LEMMAS if lemma.name != _LOST),
    Always("one_answer", ~(met(x, h) & refuse(x, h)),
           why="a rank meets decode or turns it away"),
    Always("a_met_room_is_not_refused",
           implies((phase(h) == Phase.MET) & target(h, x), ~refuse(x, h)),
           why="a rank meets decode or turns it away"),
)
