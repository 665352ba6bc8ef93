"""Why a request waits or is refused by the rules of decode_memory.py, for any number of them."""

from typing import Final

from pdproto.spec.handoff.decode_memory import Staging, g, h, staging, wants
from pdproto.spec.language import Always, exists, implies

LEMMAS: Final = (
    Always("a_request_that_waits_wants_a_page",
           implies(staging(h) == Staging.WAITING, exists(g, wants(h, g)))),
)
