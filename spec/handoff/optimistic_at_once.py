"""Optimistic prefill as SGLang #26780 has it: a pass without its bootstrap is released at once.

In optimistic.py a pass that ends before its bootstrap is parked, and yields only to a request that
could go on in its place. Here it drops its KV when it ends, and runs again from the head of the
queue, with its slot, until its attempts are used up. The rows are those of a forced retry, without
the sample. A process can run either table (`OptimisticPrefill`), and
`python -m lab cluster --study release-at-once` compares their times to the first token
(docs/optimistic.md).
"""

from typing import Final

from pdproto.spec.handoff.attempts import FORCED, h, prefill, ready
from pdproto.spec.handoff.optimistic import LIVENESS, SAFETY, SYSTEM
from pdproto.spec.language import (
    AddClause,
    DropClause,
    OnRow,
    ReplaceProperties,
    System,
    Table,
    any_of,
    edited,
)

_ROWS: Final = ("force_retry", "force_fall_back")
# It says that only a test forces a retry.
_OF_THE_TEST: Final = "M5_5_forced_on_the_first_pass_only"

AT_ONCE: Final[System] = edited(
    SYSTEM, "optimistic-at-once",
    *(edit for row in _ROWS
      for edit in (DropClause(row, FORCED), AddClause(row, any_of(~ready(h), FORCED)))),
    ReplaceProperties((
        *(claim for claim in (*SAFETY, *LIVENESS) if claim.name != _OF_THE_TEST),
        *(OnRow(f"M5_2_a_bootstrapped_pass_does_not_{row}", row, any_of(~ready(h), FORCED),
                why="the pass is finalized instead, and uses no attempt") for row in _ROWS),
    )),
    about="Optimistic prefill in which a pass without its bootstrap is released at once.",
    configurations={
        "default": SYSTEM.configurations["default"],
        "running-slots": SYSTEM.configurations["running-slots"],
    },
)

# The table of the source, for a process.
PREFILL_AT_ONCE: Final[Table] = next(
    table for table in AT_ONCE.tables if table.machine is prefill)
