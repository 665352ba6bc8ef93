"""Why a decode scheduler of vLLM gets its answers by the rules, for any number of requests."""

from typing import Final

from pdproto.spec.handoff.load import Handoff, Heard, h, handoff, heard, reached
from pdproto.spec.language import Always, all_of, implies

LEMMAS: Final = (
    Always("blocks_are_reached_while_it_lasts",
           implies(reached(h), handoff(h).among(Handoff.UNDER_WAY, Handoff.BROKEN))),
    Always("blocks_are_reached_once_placed",
           implies(reached(h), heard(h).among(Heard.LOADING, Heard.FAILED))),
    Always("a_failure_has_ended", implies(
        heard(h) == Heard.FAILED, all_of(~reached(h), handoff(h) != Handoff.UNDER_WAY))),
)
