"""Defects of the resolution of the data-parallel rank, each an edit of the tables of dp_rank.py."""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.handoff.dp_rank import SYSTEM
from pdproto.spec.handoff.roles import Life
from pdproto.spec.handoff.routing import (
    Group,
    Mode,
    Phase,
    Runs,
    alone,
    disown,
    enroll_published,
    enroll_rule,
    h,
    heard,
    keeps_list,
    keeps_rule,
    modulo,
    prompt,
    publishes,
    queried,
    query,
    several,
    unlisted,
    x,
    y,
)
from pdproto.spec.language import (
    FALSE,
    AddClause,
    Configuration,
    DropClause,
    DropEffect,
    DropProperty,
    DropRow,
    ReplaceRow,
    Rigid,
    Row,
    Sizes,
    System,
    Tuples,
    all_of,
    any_of,
    each,
    edited,
)
from pdproto.spec.language.edit import Edit

NO_FAULTS: Final = Configuration({Group: 2, Life: 1})
DRAINED: Final = Configuration({Group: 2, Life: 1}, faults=("drained",))


def wrong(name: str, *edits: Edit) -> System:
    """The resolution of the rank with these edits."""
    return edited(SYSTEM, name, *edits)


def first_remainder(sizes: Sizes) -> Tuples:
    """The rooms that the rule gives to rank 0."""
    return {(life,) for life in range(sizes[Life]) if life % sizes[Group] == 0}


remainder_is_0 = Rigid("remainder_is_0", h, given=first_remainder)

GUESSED: Final = wrong(
    "rank-guessed",
    AddClause("fail_conflict", FALSE),
    DropClause("serve_by_rule", any_of(alone, all_of(~publishes(x), modulo(h, x)))),
    AddClause("serve_by_rule", any_of(alone, ~publishes(x))),
)

OTHER_NUMBER: Final = wrong(
    "other-rank-number",
    ReplaceRow("serve_by_rule", Row("serve_by_rule", on=prompt(h, x), at=Runs.ABSENT,
        to=Runs.WAITING, when=any_of(alone, all_of(~publishes(x), remainder_is_0(h))),
        why="every rank takes itself for rank 0: without attention DP its attention rank is 0")),
    DropClause("fail_conflict", ~modulo(h, x)),
    AddClause("fail_conflict", ~remainder_is_0(h)),
)

QUERY_IGNORED: Final = wrong(
    "query-ignored", DropClause("resolve_by_rule", keeps_rule()), DropRow("ask")
)

QUERY_IN_VAIN: Final = wrong(
    "query-in-vain",
    DropRow("resolve_by_rule"),
    ReplaceRow("ask", Row("ask", at=Phase.PENDING, choose=(x,),
        when=[several, modulo(h, x), any_of(keeps_rule(), keeps_list()), ~queried(h)],
        do=[queried(h).to(True)], send=[query(h)],
        why="decode's own setting says that every room is published")),
)

ONLY_CONFLICTS: Final = wrong(
    "only-conflicts-published",
    AddClause("serve_and_publish", ~modulo(h, x)),
    DropClause("serve_by_rule", any_of(alone, all_of(~publishes(x), modulo(h, x)))),
    AddClause("serve_by_rule", any_of(alone, modulo(h, x))),
)

FIRST_SPEAKS_FOR_ALL: Final = wrong(
    "first-rank-speaks-for-all",
    ReplaceRow("refuse_rule", Row("hear_rule_late", on=enroll_rule(x), at=Mode.PUBLISHED,
        when=~heard(x), do=[heard(x).to(True)], why="the first writer wins")),
    ReplaceRow("refuse_list", Row("hear_list_late", on=enroll_published(x), at=Mode.RULE,
        when=~heard(x), do=[heard(x).to(True)], why="the first writer wins")),
)

CONFLICT_UNSAID: Final = wrong(
    "conflict-unsaid", DropEffect("fail_conflict", each(y, disown(x, h, y), where=modulo(h, y)))
)

MISPLACED: Final = wrong(
    "misplaced-served", DropRow("fail_misplaced"), DropClause("serve_named", x.same(y))
)

_LEFT_OUT: Final = {"fail_unlisted": "only_an_unlisted_rank_fails_a_request",
                    "fail_answer_unlisted": "only_an_unlisted_rank_fails_an_answer",
                    "fail_named_unlisted": "only_an_unlisted_rank_fails_a_request_that_names_it"}

ADDRESSLESS: Final = wrong(
    "rank-without-address",
    DropClause("take_named", ~unlisted(h, y)),
    DropClause("resolve_by_rule", ~unlisted(h, x)),
    DropClause("resolve_by_query", ~unlisted(h, x)),
    *(edit for row, claim in _LEFT_OUT.items() for edit in (DropRow(row), DropProperty(claim))),
)

UNSAID: Final = wrong("no-address-unsaid", DropRow("fail_unlisted"),
                      DropProperty(_LEFT_OUT["fail_unlisted"]))

S9: Final = "S9_decode_addresses_the_rank_of_the_room"

BUGS: Final[tuple[Bug, ...]] = (
    Bug("B04", "sglang #22901", "A room that a router put on another rank times out on both sides.",
        GUESSED, NO_FAULTS, S9),
    Bug("B04-merged", "sglang #22901 as merged",
        "With forced queries rooms under the rule are never found: only conflicts are registered.",
        ONLY_CONFLICTS, NO_FAULTS, "M2_3_the_query_finds_the_room"),
    Bug("B04-decode-unset", "sglang 0.5.23, queries forced on prefill only",
        "Decode follows the rule although prefill does not.", QUERY_IGNORED, NO_FAULTS, S9),
    Bug("B04-prefill-unset", "sglang 0.5.23, queries forced on decode only",
        "Decode asks for rooms that are never published.", QUERY_IN_VAIN, NO_FAULTS,
        "M2_3_the_query_finds_the_room"),
    Bug("B04-first-writer", "sglang 0.5.23, the bootstrap server's topology fields",
        "The registry takes one rank's setting for that of all.", FIRST_SPEAKS_FOR_ALL, NO_FAULTS,
        "the_ranks_of_a_serving_server_agree"),
    Bug("B04-unsaid", "sglang #22901 as merged", "Prefill fails a conflict, and decode waits for "
        "its time-out.", CONFLICT_UNSAID, NO_FAULTS, "L2_a_conflict_reaches_decode"),
    Bug("B04-named", "sglang #22901", "A rank runs a room although the request names another.",
        MISPLACED, NO_FAULTS, S9),
    Bug("B37", "sglang #29725; dynamo #9248", "With plain DP every rank compares the rule with "
        "its attention rank, which is 0.", OTHER_NUMBER, NO_FAULTS, S9),
    Bug("rank-without-address", "no report; no other defect of the rank does this",
        "A request was tied to a rank that drains, of which decode has no address, and waited for "
        "nobody.", ADDRESSLESS, DRAINED, "an_unlisted_rank_is_not_asked"),
    Bug("no-address-unsaid", "no report; no other defect of the rank does this",
        "A request for a rank that drains waited for its clock instead of being sent again.",
        UNSAID, DRAINED, "L2_a_request_for_an_unlisted_rank_fails"),
)
