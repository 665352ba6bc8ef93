"""Why a group of ranks runs the same passes while messages are lost.

The lemmas of optimistic_group_lemmas.py hold; only one speaks of a report that may be lost. The
entry repeats the decisions that it has logged, and a rank repeats the chunks that it has computed.
"""

from typing import Final

from pdproto.spec.handoff.attempts import Forward, a
from pdproto.spec.handoff.group import h, n, r
from pdproto.spec.handoff.group_attempts import forward
from pdproto.spec.handoff.optimistic_group_history import Verdict, completed, current, log, within
from pdproto.spec.handoff.optimistic_group_loss import Said, said, said_run
from pdproto.spec.language import Always, all_of, implies
from pdproto.spec.lemmas.optimistic_group_lemmas import LOSSY

# What the entry notes to repeat it, and its place in the log.
NOTED: Final = (
    (Said.RUN, Verdict.RUN), (Said.GO_ON, Verdict.GO_ON), (Said.FINALIZE, Verdict.FINALIZE),
    (Said.GIVE_WAY, Verdict.YIELD), (Said.ADMIT, Verdict.ADMIT), (Said.FAIL, Verdict.FAIL),
)

LEMMAS: Final = (
    *LOSSY,
    *(Always(f"a_noted_{noted.name.lower()}_is_logged",
             implies(said(n, h) == noted, log(n, h) == verdict),
             why="the entry notes what it decides")
      for noted, verdict in NOTED),
    Always("a_noted_pass_is_logged",
           implies(said_run(n, h, a), all_of(log(n, h) == Verdict.RUN, within(n, a))),
           why="the entry notes what it decides"),
    Always("a_pass_that_is_over_was_completed",
           implies(all_of(current(r, h) == a, forward(r, h) == Forward.WHOLE),
                   completed(r, h, a)),
           why="the rank notes a pass when it has computed it"),
)
