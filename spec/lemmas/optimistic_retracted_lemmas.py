"""Why a retracted request waits for its bootstrap, for any number of requests and attempts."""

from typing import Final

from pdproto.spec.handoff.attempts import ENDED, Stage, h, ready, retried, stage
from pdproto.spec.handoff.optimistic_retracted import retracted
from pdproto.spec.language import Always, any_of, implies
from pdproto.spec.lemmas import optimistic_lemmas

LEMMAS: Final = (
    *optimistic_lemmas.LEMMAS,
    Always("a_retracted_request_is_not_forced", implies(retracted(h), retried(h)),
           why="it counts as one that has run"),
    Always("a_retracted_request_was_submitted", implies(retracted(h), stage(h) != Stage.NEW),
           why="the call that says so submits it"),
    Always("a_new_request_has_not_run", implies(stage(h) == Stage.NEW, ~retried(h)),
           why="a request runs when it is submitted"),
    Always("a_retracted_request_leaves_the_queue_with_its_bootstrap",
           implies(retracted(h), any_of(stage(h).among(Stage.QUEUED, *ENDED), ready(h))),
           why="only a request that may run early leaves the queue without it"),
)
