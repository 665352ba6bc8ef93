"""Why a source of optimistic prefill sends only computed KV, which stays while the engine reads it,
for any number of requests, attempts, running slots, slots, sinks and chunks, of one source.

The lemmas of the transfer and of optimistic prefill hold here too, except those about the
stand-in for the other part. The pages of a transfer are those of a pass, taken when it is sent, and
a pass knows its sinks by its sender. The lemmas below relate the states of the two parts.

One source: one process computes and sends (end_to_end_attempts.py).
"""

from typing import Final

from pdproto.spec.handoff import optimistic
from pdproto.spec.handoff.attempts import Forward, Stage
from pdproto.spec.handoff.end_to_end_attempts import HAS_RUNNING_SLOT, PASS, forward, stage
from pdproto.spec.handoff.ends import Sending, Write, c, d, h, handed, kv, p, sending, write
from pdproto.spec.handoff.roles import Source
from pdproto.spec.language import Always, all_of, any_of, forall, implies
from pdproto.spec.lemmas import optimistic_lemmas, transfer_lemmas

q: Final = Source("q")
ASSUMED: Final = {"one_source": forall((p, q), p.same(q))}

BRIDGE: Final = (
    Always("a_transferring_source_holds_its_pages",
           implies(sending(p, h) == Sending.TRANSFERRING, kv(p, h)),
           why="a transfer takes over the pages of its pass"),
    Always("a_transferring_source_is_of_a_sent_pass",
           implies(sending(p, h) == Sending.TRANSFERRING, stage(h) == Stage.SENDING),
           why="a sender begins with a whole pass, and the end of the sender ends the request"),
    Always("a_handed_over_chunk_was_sent",
           implies(any_of(handed(p, h, c), write(p, h, d, c) != Write.NONE),
                   stage(h).among(Stage.SENDING, Stage.SUCCESS, Stage.FAILED)),
           why="chunks are handed over when a pass is sent, and then it runs no more"),
    Always("a_pass_being_read_stays",
           implies(all_of(write(p, h, d, c) == Write.POSTED, sending(p, h) != Sending.GONE),
                   all_of(forward(h) == Forward.WHOLE, HAS_RUNNING_SLOT)),
           why="a place is given back when the engine reads nothing from it"),
)
# Lemmas about the stand-in for the other part, where a part is alone.
NOT_OF_THE_TRANSFER: Final = ("a_running_source_holds_its_pages",)
_NOT_OF_A_PASS: Final = (
    "ready_is_published", "published_by_the_sink", "done_is_success", "failed_is_failure")
_PROMISED: Final = ("S6_slot_only_where_it_is_used",)
LEMMAS: Final = (
    *(one for one in transfer_lemmas.LEMMAS if one.name not in NOT_OF_THE_TRANSFER),
    *(PASS.claim(one) for one in optimistic_lemmas.LEMMAS if one.name not in _NOT_OF_A_PASS),
    *(PASS.claim(one) for one in optimistic.SAFETY if one.name in _PROMISED),
    *BRIDGE,
)
