"""Why optimistic prefill ends every request, although each side may wait for the other's memory.

A request that waits for a running slot or a slot is helped by the one that is furthest. A request
with a running slot computes, sends, or is parked; then it yields to one that has its bootstrap, and
a running slot comes free. If no request has a running slot, one that has a slot may take one. If
none has a slot either, the next may take one. A sink waits for a page of a sink that has published:
its source has its bootstrap, or ends.

No request runs for ever. A request runs again once for each attempt, and once for the sample. It
falls back once while its bootstrap is missing, and after that runs when it is there.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.attempts import (
    BEFORE_SENDING,
    ENDED,
    FOR_A_RUNNING_SLOT,
    QUEUED,
    Forward,
    Receiving,
    RunningSlot,
    Stage,
    a,
    abort,
    failed,
    forward,
    g,
    h,
    k,
    m,
    other,
    page,
    publish,
    ready,
    receiving,
    retried,
    running_slot,
    s,
    sampled,
    slot,
    stage,
    tried,
)
from pdproto.spec.handoff.optimistic import TOLD
from pdproto.spec.handoff.roles import Attempt, Life, Page, Slot
from pdproto.spec.language import Always, Formula, Sort, all_of, any_of, exists, forall, implies
from pdproto.spec.language.ranking import FaultFree, Help, Monotone, Ranking, Witness

# A request without its bootstrap; one that waits for a running slot again, and one for the first
# time; one that has its bootstrap, and waits for a running slot or a slot.
unready, returning, starting, entitled = (
    Life("unready"), Life("returning"), Life("starting"), Life("entitled"))
# A request that can go on by itself, and its next attempt; one parked without its bootstrap, and
# its next.
moving, untried = Life("moving"), Attempt("untried")
parked, upcoming = Life("parked"), Attempt("upcoming")
# A running slot and a slot, free ones if there are any.
place, spot = RunningSlot("place"), Slot("spot")
# A sink that has published; a page that is taken if one is, and its owner.
published, tenant, room = Life("published"), Life("tenant"), Page("room")

AT_WORK: Final = (Stage.RUNNING, Stage.PARKED, Stage.SENDING)


def waits_parked(life: Life) -> Formula:
    """The pass has ended, the request has no bootstrap, and nothing makes it run again."""
    return all_of(stage(life) == Stage.PARKED, ~ready(life), any_of(~sampled(life), retried(life)))


LEMMAS: Final = (
    Always("a_waiting_request_has_computed_nothing",
           implies(~stage(h).among(*AT_WORK, Stage.SUCCESS, Stage.FAILED),
                   forward(h) == Forward.NONE),
           why=
           "a pass begins when it takes a running slot, and drops its KV when it gives the slot "
           "back"),
    Always("a_working_request_has_begun",
           implies(stage(h).among(*AT_WORK), forward(h) != Forward.NONE),
           why="a request takes a running slot when the first chunk is launched"),
    Always("a_parked_request_has_computed_all",
           implies(stage(h) == Stage.PARKED, forward(h) == Forward.WHOLE),
           why="a pass is parked when it has ended"),
    Always("a_running_slot_is_for_a_working_request",
           implies(running_slot(h, s), stage(h).among(*AT_WORK, Stage.FAILED)),
           why="the end of a pass gives the slot back, except for a failure during a computation"),
    Always("a_page_is_for_a_published_sink",
           implies(page(h, g), receiving(h).among(Receiving.PUBLISHED, Receiving.SUCCESS)),
           why=
           "a sink takes a page when it publishes the address, and a failure gives the page back"),
)

_DROPS_KV: Final = "KV is dropped for an attempt, for the sample, or to fall back"

# The order counts: only a step that makes an earlier predicate true may make a later one false.
MONOTONE: Final = (
    Monotone("source_over", stage(h).among(*ENDED), why="an end is final"),
    Monotone("runs_only_when_ready", any_of(stage(h).among(Stage.DEFERRED, *ENDED), ready(h)),
            why="a request that has fallen back is queued again when its bootstrap is there"),
    Monotone("submitted", stage(h) != Stage.NEW, why="the router sends a request once"),
    Monotone("taken_up", ~stage(h).among(Stage.NEW, *QUEUED),
            why="a request falls back because its bootstrap is missing, or for the sample"),
    Monotone("first_chunk_begun", forward(h) != Forward.NONE, why=_DROPS_KV),
    Monotone("first_chunk_computed", ~forward(h).among(Forward.NONE, Forward.FIRST),
            why=_DROPS_KV),
    Monotone("last_chunk_begun", forward(h).among(Forward.LAST, Forward.WHOLE), why=_DROPS_KV),
    Monotone("last_chunk_computed", forward(h) == Forward.WHOLE, why=_DROPS_KV),
    Monotone("parked", stage(h).among(Stage.PARKED, Stage.SENDING, *ENDED), why=_DROPS_KV),
    Monotone("sent", stage(h).among(Stage.SENDING, *ENDED),
             why="a request that is sent runs to its end"),
    Monotone("slot_given_back", (stage(h) == Stage.FAILED) & ~slot(h, m),
            why="a failed request takes no slot"),
    Monotone("running_slot_given_back", (stage(h) == Stage.FAILED) & ~running_slot(h, s),
            why="a failed request takes no running slot"),
    Monotone("page_given_back",
            receiving(h).among(Receiving.SUCCESS, Receiving.FAILED) & ~page(h, g),
            why="a sink takes a page once"),
)

_MOVING: Final[Mapping[Sort, Sort]] = {h: moving}
WITNESSES: Final = (
    Witness(unready, all_of(stage(unready).among(*BEFORE_SENDING), ~ready(unready))),
    Witness(moving, any_of(
        all_of(stage(moving).among(*AT_WORK), ~waits_parked(moving)),
        all_of(stage(moving) == Stage.FAILED,
               any_of(exists(m, slot(moving, m)), exists(s, running_slot(moving, s)))),
    )),
    Witness(untried, ~tried(moving, untried)),
    Witness(returning, stage(returning) == Stage.HEAD),
    Witness(starting, stage(starting) == Stage.WAITING),
    Witness(entitled, all_of(ready(entitled), stage(entitled).among(*QUEUED, *FOR_A_RUNNING_SLOT))),
    Witness(place, forall(other, ~running_slot(other, place))),
    Witness(spot, forall(other, ~slot(other, spot))),
)
# A pass goes on to its end, and an ended request gives everything back.
GOES_ON: Final = (
    *(Help(row, at=_MOVING) for row in (
        "finish_first", "finalize", "launch_last", "finish_last", "park", "send", "succeed",
        "release", "force_fall_back",
    )),
    Help("force_retry", at={**_MOVING, a: untried}),
    Help("start_again", at={h: returning, s: place}),
    Help("start", at={h: starting, s: place}),
)
RESERVE: Final = Help("reserve", at={h: entitled, m: spot})
# Without a clock, a request without its bootstrap makes room for one that has it.
YIELDS: Final = (
    Help("run_again", at={h: parked, k: entitled, a: upcoming}),
    Help("fall_back", at={h: parked, k: entitled}),
)
YIELDING: Final = (
    Witness(parked, waits_parked(parked)), Witness(upcoming, ~tried(parked, upcoming)))
PUBLISHED: Final[Mapping[Sort, Sort]] = {h: published}
TENANT: Final = Witness(tenant, page(tenant, room))
SINKS: Final = (Witness(published, receiving(published) == Receiving.PUBLISHED), TENANT)
FINISH: Final = Help("finish", at={h: tenant, g: room})
GRANT: Final = Help("grant", at={g: room})
# Each side learns of the other's end, and a source of its bootstrap.
_HEARS: Final = (
    FINISH, Help("submit", at=PUBLISHED), Help("learn", at=PUBLISHED),
    Help("take", at=PUBLISHED), Help("hear_failure", at=PUBLISHED),
)
# A request without its bootstrap gets it, or learns that it will not come.
_BOOTSTRAPS: Final = (
    Help("open", at={h: unready}), replace(GRANT, at={h: unready, g: room}),
    Help("stop", at={h: unready}),
)


def _prompt(leads_to: str, why: str, *helpers: Help) -> Ranking:
    return Ranking(
        leads_to, (*GOES_ON, RESERVE, *YIELDS, *_HEARS, *helpers), why=why,
        witnesses=(*WITNESSES, *SINKS, *YIELDING),
    )


RANKINGS: Final[tuple[Ranking, ...]] = ()
# These hold without a clock: nothing replaces a lost message.
FAULT_FREE: Final = FaultFree(
    ("lossy",),
    lemmas=(
        TOLD,
        Always("a_published_sink_says_so",
               implies(receiving(h).among(Receiving.PUBLISHED, Receiving.SUCCESS), publish(h)),
               why="a sink takes a page and publishes it at once"),
        Always("a_source_that_fails_is_heard",
               implies(stage(h) == Stage.FAILED,
                       any_of(failed(h), receiving(h) == Receiving.FAILED)),
               why="a source tells its sink, or the sink has told it"),
        Always("a_sink_that_fails_is_heard",
               implies(receiving(h) == Receiving.FAILED,
                       any_of(abort(h), stage(h) == Stage.FAILED)),
               why="a sink tells its source, or the source has told it"),
        Always("an_abort_is_of_a_failed_sink",
               implies(abort(h), receiving(h) == Receiving.FAILED),
               why="a sink sends an abort when it gives up"),
    ),
    rankings=(
        _prompt("L5_no_capacity_deadlock",
                "a request with its bootstrap goes on, and one without makes room for it",
                *_BOOTSTRAPS),
        _prompt("L1_a_sink_ends", "the sink gets a page, and its source ends", GRANT),
        _prompt("L4_slots_and_running_slots_come_back",
                "every request ends, and gives back all that it has", *_BOOTSTRAPS),
        _prompt("L4_pages_come_back", "every sink ends, and every answer ends"),
    ),
)
