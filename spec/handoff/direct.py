"""The transfer straight into pages, as nodes run it: no staging buffer, and no copy.

All else is as in transfer.py. A chunk of staging memory stands here for the right to write into the
pages of the life that leases it. The engine has to keep a living source out of single pages.

Rule 1: pages and slot belong to their life until its lease has ended. A failure frees none of them,
        because a source may still be writing there.
Rule 2: the sink compares the digests of the bytes in its pages, and commits if they agree. The
        lease ends at that moment: no source writes there while the answer is generated.

transfer.DIRECT is the same without digests, so its lease lasts as long as the answer does.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.ends import (
    COMMITTED,
    GIVEN_UP,
    Write,
    address,
    b,
    c,
    can_fence,
    content,
    d,
    feeds,
    g,
    h,
    p,
    page,
    slot,
    write,
)
from pdproto.spec.handoff.light import FAILURES
from pdproto.spec.handoff.transfer import PAGES, SAFETY, SYSTEM
from pdproto.spec.handoff.transfer_claims import (
    A_SOURCE_HEARS,
    GRANTED_ONCE,
    LIVENESS,
    LOST_WHEN_OVER,
    SPOILT_ONLY,
    WITHDRAWN,
)
from pdproto.spec.language import (
    ANY,
    AddClause,
    AddEffect,
    Always,
    DropEffect,
    OnRow,
    ReplaceProperties,
    Sometimes,
    System,
    all_of,
    edited,
    exists,
    implies,
)

FREE_PAGES: Final = page(d, h, ANY).to(False)
FREE_SLOTS: Final = slot(d, h, ANY).to(False)
# Pages that are free while a write is under way. This system must have none.
_OF_COPIES: Final = (
    "S1_a_page_is_free_while_a_write_is_under_way", "S6_a_slot_is_free_while_a_write_is_under_way",
)

PROPERTIES: Final = (
    *SAFETY,
    *(claim for claim in PAGES if claim.name not in _OF_COPIES),
    OnRow("S1_writes_stay_in_own_pages", "land", exists(g, page(d, h, g)),
          why="a write lands only where its own life still has the pages"),
    OnRow("S1_a_lease_is_ended_by_a_failure", "end_lease", GIVEN_UP,
          why="a sink that receives needs the lease, and one that succeeded has given it back"),
    Sometimes("S1_pages_are_held_past_a_failure", all_of(
        GIVEN_UP, write(p, h, d, c) == Write.POSTED, page(d, h, g))),
    WITHDRAWN,
    GRANTED_ONCE,
    LOST_WHEN_OVER,
    SPOILT_ONLY,
    Always("S2_complete_while_the_memory_is_read",
           implies(all_of(COMMITTED, page(d, h, g), address(d, h, b), feeds(p, d)),
                   content(d, h, b, p, c)),
           why="the pages of an answer hold every part of this life, and nothing else"),
    *LIVENESS,
    A_SOURCE_HEARS,
)

IN_PLACE: Final[System] = edited(
    SYSTEM, "transfer-in-place",
    AddClause("grant", can_fence(d)),
    *(DropEffect(row, effect) for row in FAILURES for effect in (FREE_PAGES, FREE_SLOTS)),
    AddEffect("end_lease", FREE_PAGES),
    AddEffect("end_lease", FREE_SLOTS),
    ReplaceProperties(PROPERTIES),
    about="The transfer straight into pages that are held until no source can write there.",
    configurations={
        **{name: SYSTEM.configurations[name] for name in ("default", "sources")},
        "deep": replace(SYSTEM.configurations["deep"], faults=("crash",)),
    },
)
