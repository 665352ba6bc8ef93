"""Why bootstrap is safe, however many ranks, runs, sinks and hand-offs."""

from typing import Final

from pdproto.spec.handoff.bootstrap import (
    Entry,
    Link,
    Phase,
    Reason,
    Run,
    asked,
    d,
    e,
    entry,
    h,
    introduce,
    joined,
    link,
    p,
    phase,
    present,
    reason,
    recorded,
    register,
    run,
    welcome,
)
from pdproto.spec.language import Always, exists, implies

LEMMAS: Final = (
    Always("only_failures_have_a_reason",
           implies(~phase(d, h).among(Phase.FAILED, Phase.CLEARED),
                   reason(d, h) == Reason.NONE),
           why="the reason is written as the hand-off fails"),
    Always("joined_by_a_welcome",
           implies(joined(d, h, p), exists(e, link(d, h, p, e) == Link.WELCOMED)),
           why="a rank is joined as one of its runs welcomes the hand-off"),
    Always("present_by_an_entry", implies(present(p), exists(e, entry(p, e) == Entry.CURRENT)),
           why="a rank is present for as long as one of its runs is registered"),
    Always("who_asks_is_born", implies(asked(p, e), run(p, e) != Run.UNBORN),
           why="only a process that is up registers"),
    Always("registrations_are_asked_for", implies(register(p, e), asked(p, e)),
           why="a run notes that it has registered as it does"),
    Always("answers_are_asked_for", implies(recorded(p, e), asked(p, e)),
           why="the registry answers a registration"),
    Always("introductions_are_noted",
           implies(introduce(d, h, p, e), link(d, h, p, e) != Link.UNTOLD),
           why="a sink notes whom it has told"),
    Always("welcomes_are_answers", implies(welcome(d, h, p, e), link(d, h, p, e) != Link.UNTOLD),
           why="a source welcomes who has introduced itself"),
)
