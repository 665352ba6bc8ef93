"""Why optimistic prefill is safe, for any number of requests, slots, pages and attempts."""

from typing import Final

from pdproto.spec.handoff.attempts import (
    FINALIZED,
    FOR_A_RUNNING_SLOT,
    Forward,
    Receiving,
    Stage,
    a,
    again,
    done,
    failed,
    forward,
    h,
    m,
    publish,
    ready,
    receiving,
    retried,
    running_slot,
    s,
    slot,
    stage,
    tried,
)
from pdproto.spec.language import Always, all_of, exists, implies

SEATED: Final = (Stage.RUNNING, Stage.PARKED, Stage.SENDING)
UNPUBLISHED: Final = (Receiving.NEW, Receiving.ASKED)

LEMMAS: Final = (
    Always("a_pass_has_a_slot",
           implies(stage(h).among(*FOR_A_RUNNING_SLOT, *SEATED), exists(m, slot(h, m))),
           why="a request leaves the bootstrap queue with a slot, and gives it back at the end"),
    Always("a_pass_has_a_running_slot",
           implies(stage(h).among(*SEATED), exists(s, running_slot(h, s))),
           why=
           "a pass takes a running slot when it begins, and every end of it gives the slot back"),
    Always("the_device_writes_to_a_running_slot",
           implies(forward(h).among(Forward.FIRST, Forward.LAST), exists(s, running_slot(h, s))),
           why="a running slot is not given back while a launched batch writes the KV"),
    Always("finalized_when_ready", implies(FINALIZED, ready(h)),
           why="a pass is finalized by the bootstrap that it finds"),
    Always("sent_when_whole", implies(stage(h) == Stage.SENDING, forward(h) == Forward.WHOLE),
           why="a pass is sent when the source has computed all of it"),
    Always("nothing_tried_in_the_queue",
           implies(stage(h).among(Stage.NEW, Stage.QUEUED), ~tried(h, a)),
           why="the first attempt begins as the request leaves the queue"),
    Always("one_attempt_before_a_retry",
           implies(all_of(~retried(h), tried(h, again)), ~a.before(again)),
           why="a second attempt is a retry"),
    Always("ready_is_published", implies(ready(h), ~receiving(h).among(*UNPUBLISHED)),
           why="a source learns of the bootstrap from its sink"),
    Always("published_by_the_sink", implies(publish(h), ~receiving(h).among(*UNPUBLISHED)),
           why="a sink publishes as it takes a page"),
    Always("done_is_success",
           implies(done(h), all_of(stage(h) == Stage.SUCCESS,
                                   ~receiving(h).among(*UNPUBLISHED))),
           why="a source answers done when all parts have landed, and success is final"),
    Always("failed_is_failure", implies(failed(h), stage(h) == Stage.FAILED),
           why="a source answers failed when it has failed, and failure is final"),
)
