"""Why a hand-over asks for memory, and why it comes back, for any number of sources and runs.

One run of each source is alive, and gives signs of life. Each source that has not been heard of is
heard of then. The last run of a source does not end; of those before it, each ends at most once.
After the hand-over has ended, each source answers, or the fence ends its writes.
"""

from typing import Final

from pdproto.spec.handoff.incarnations import (
    Asking,
    answered,
    asking,
    e,
    ended,
    f,
    feeds,
    fenced,
    greeting,
    h,
    p,
    unmet,
)
from pdproto.spec.handoff.roles import Incarnation, Source
from pdproto.spec.language import Always, all_of, exists, implies
from pdproto.spec.language.ranking import Help, Monotone, Ranking, Use, Witness

# A source that has not been heard of, its run that is alive, and a source that may still write.
silent, current, owing = Source("silent"), Incarnation("current"), Source("owing")

LEMMAS: Final = (
    Always("a_run_ends_after_those_before", implies(all_of(ended(p, e), f.before(e)), ended(p, f)),
           why="the next run begins when the one before it has ended"),
    Always("a_run_is_alive", exists(e, ~ended(p, e)), why="an ended process is started again"),
    Always("a_placed_hand_over_waits_for_a_source",
           implies(asking(h) == Asking.PLACED, exists(p, unmet(h, p))),
           why="it asks for memory when it has heard of the last one"),
)

MONOTONE: Final[tuple[Monotone, ...]] = ()

_OF_SILENT: Final = {p: silent, e: current}

RANKINGS: Final = (
    Ranking("a_request_asks_for_memory", (
        Help("place_and_ask"), Help("place"),
        Help("greet", ~greeting(p, e, h), _OF_SILENT),
        Help("meet", at=_OF_SILENT), Help("meet_last", at=_OF_SILENT),
    ), witnesses=(Witness(silent, unmet(h, silent)), Witness(current, ~ended(silent, current))),
        using=(Use("a_run_is_alive", {p: silent}),
               Use("a_placed_hand_over_waits_for_a_source", {h: h})),
        why="the run of each source that is alive is heard of"),
    Ranking("L4_the_memory_comes_back", (
        Help("give_up"), Help("fence", at={p: owing}), Help("release"),
    ), witnesses=(
        Witness(owing, all_of(feeds(h, owing), ~answered(h, owing), ~fenced(h, owing))),),
        why="the hand-over ends, and its sources answer or are fenced"),
)
