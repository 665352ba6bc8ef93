"""Defects of the wait for decode's memory, each an edit of the table of decode_memory.py."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.decode_memory import (
    COMES_BACK,
    GIVEN_TWICE,
    NONE_HOLDS,
    SOME_HOLDS,
    SYSTEM,
)
from pdproto.spec.handoff.roles import Life, Page
from pdproto.spec.language import Configuration, DropClause, DropProperty, DropRow, edited

TWO: Final = Configuration({Life: 2, Page: 1})

BUGS: Final[tuple[Bug, ...]] = (
    Bug("memory-refuses-what-comes-back", "pdproto, before a request waited for a file: its loop "
        "failed the turn, and later the request",
        "A process without a free file failed each request that needed staging memory, although "
        "hand-overs that were about to end held enough of it.",
        edited(SYSTEM, "memory-refuses-what-comes-back", DropClause("refuse", NONE_HOLDS),
               DropRow("ignore_system_refuses")),
        TWO, "no_request_is_refused_while_another_holds_memory"),
    Bug("memory-waits-for-nothing", "pdproto, the first design of this wait",
        "A request waited for staging memory that the system refused while no other one held any: "
        "nothing ended its wait but its client.",
        edited(SYSTEM, "memory-waits-for-nothing", DropRow("refuse"),
               DropClause("ignore_system_refuses", SOME_HOLDS),
               DropProperty("no_request_is_refused_while_another_holds_memory"),
               DropProperty("no_request_is_refused_for_memory_that_there_is")),
        Configuration({Life: 1, Page: 1}), "L5_a_request_that_waits_gets_memory_or_ends"),
    Bug("memory-refuses-pages-that-settle", "pdproto, case 5 of the reports of its edges: pages "
        "that a success had given back were refused to the next request",
        "A request that took the pages of a hand-over right after its success failed, because the "
        "last copy into them was still being looked at: 66 of 150 did.",
        edited(SYSTEM, "memory-refuses-pages-that-settle",
               DropClause("refuse_given_twice", GIVEN_TWICE), DropRow("ignore_find_owned")),
        TWO, "no_request_is_refused_for_a_page_that_comes_back"),
    Bug("memory-waits-for-a-page-given-twice", "no report; no other defect of it does this",
        "An application gave a page to a second request by mistake, and that request waited as "
        "long as the first one kept its page.",
        edited(SYSTEM, "memory-waits-for-a-page-given-twice", DropRow("refuse_given_twice"),
               DropClause("ignore_find_owned", COMES_BACK),
               DropProperty("no_request_is_refused_for_a_page_that_comes_back")),
        TWO, "L5_a_request_that_waits_gets_memory_or_ends"),
)
