"""Why a request for memory gets it or ends, for any number of requests and pages.

The page that it wants has no owner, or one that has given it back, or one that has not: then it
comes free, or the request is refused. Hand-overs that hold staging memory end, one after the other.
When none holds any, the system hands memory out, or the request is refused.
"""

from typing import Final

from pdproto.spec.handoff.decode_memory import Staging, g, h, owns, short, staging, wants
from pdproto.spec.handoff.roles import Life, Page
from pdproto.spec.language import Always
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness

wanted, owner, holder = Page("wanted"), Life("owner"), Life("holder")

LEMMAS: Final[tuple[Always, ...]] = ()
MONOTONE: Final = (
    Monotone("the_system_refuses", short(),
             why="only memory that comes back ends it, and each request gives its own back once"),
    Monotone("a_page_is_free", ~owns(h, g), why="each request gets pages once"),
)

RANKINGS: Final = (
    Ranking("L5_a_request_that_waits_gets_memory_or_ends", (
        Help("lease", at={g: wanted}), Help("refuse"), Help("refuse_given_twice", at={g: wanted}),
        Help("free", at={h: owner, g: wanted}), Help("end_lease", at={h: holder}),
    ), witnesses=(
        Witness(wanted, wants(h, wanted)), Witness(owner, owns(owner, wanted)),
        Witness(holder, staging(holder) == Staging.HELD)),
        using=(Use("a_request_that_waits_wants_a_page", {h: h}),),
        why="pages and memory come back, one after the other, or the request is refused"),
)
