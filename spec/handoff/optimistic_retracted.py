"""Optimistic prefill of requests that have run before, and were taken back for lack of memory.

SGLang retracts a running request when its server has no memory left, and submits it again later
(`is_retracted`). Such a request has used memory for nothing once already.

Rule 1: A retracted request does not run before its bootstrap.
Rule 2: A test does not force it to run again: rule 7 of attempts.py is about a first pass.

All else is as in attempts.py. A process runs either table: PREFILL_RETRACTING, or
PREFILL_AT_ONCE_RETRACTING where a pass without its bootstrap is released at once.
"""

from typing import Final

from pdproto.spec.handoff.attempts import (
    ADMITTED,
    Stage,
    a,
    h,
    prefill,
    ready,
    retried,
    stage,
    tried,
)
from pdproto.spec.handoff.optimistic import SYSTEM
from pdproto.spec.handoff.optimistic_at_once import AT_ONCE
from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import (
    AddClause,
    AddProperty,
    AddRow,
    Always,
    Call,
    Configuration,
    Ignore,
    OnRow,
    ReplaceProperties,
    Row,
    Sizes,
    Sometimes,
    Table,
    all_of,
    edited,
    implies,
)
from pdproto.spec.language.edit import Edit

_SIZES: Final[Sizes] = SYSTEM.configurations["default"].sizes

retracted = prefill.relation("retracted", Life)

EDITS: Final[tuple[Edit, ...]] = (
    AddRow(prefill, Row(
        "submit_retracted", on=Call("submit_retracted", h), when=stage(h) == Stage.NEW,
        do=[stage(h).to(Stage.QUEUED), retracted(h).to(True), retried(h).to(True)],
        why="the scheduler has taken the request back, and gives it to the queue again")),
    AddRow(prefill, Ignore(
        Call("submit_retracted", h), when=stage(h) == Stage.FAILED,
        why="the sink gave up first: the caller gets Failed, and does not run prefill")),
    AddClause("reserve_early", ~retracted(h)),
    AddProperty(Always(
        "M5_1_a_retracted_request_waits_for_its_bootstrap",
        implies(all_of(retracted(h), stage(h).among(*ADMITTED)), ready(h)),
        why="it would compute into memory of which its server has just had too little")),
    AddProperty(Always(
        "M5_1_a_retracted_request_runs_once",
        implies(retracted(h), ~stage(h).among(Stage.PARKED, Stage.HEAD, Stage.DEFERRED)),
        why="it finds its bootstrap between its chunks, and no test forces it")),
    AddProperty(Always(
        "M5_2_a_retracted_request_uses_no_attempt", implies(retracted(h), ~tried(h, a)),
        why="an attempt is a pass without its bootstrap")),
    AddProperty(OnRow(
        "M5_5_only_a_new_request_is_retracted", "submit_retracted", ~retried(h),
        why="a request is submitted once, by one of the two calls")),
    AddProperty(Sometimes(
        "M5_1_a_retracted_request_succeeds", all_of(retracted(h), stage(h) == Stage.SUCCESS))),
)

RETRACTED: Final = edited(
    SYSTEM, "optimistic-retracted", *EDITS,
    about="Optimistic prefill of requests that may have been taken back for lack of memory.",
    configurations={"default": SYSTEM.configurations["default"]},
)
# One request: the two rows that yield are those of RETRACTED.
AT_ONCE_RETRACTED: Final = edited(
    AT_ONCE, "optimistic-at-once-retracted", ReplaceProperties(tuple(
        claim for claim in AT_ONCE.properties if not isinstance(claim, Sometimes))), *EDITS,
    about="The same where a pass without its bootstrap is released at once.",
    configurations={"default": Configuration({**_SIZES, Life: 1}, dead_bits=True)},
)

# The tables of the source, for a process.
PREFILL_RETRACTING: Final[Table] = RETRACTED.table(prefill)
PREFILL_AT_ONCE_RETRACTING: Final[Table] = AT_ONCE_RETRACTED.table(prefill)
