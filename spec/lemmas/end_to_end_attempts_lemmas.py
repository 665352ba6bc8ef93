"""Why what is sent of optimistic prefill was computed, and stays where it is read, for any number
of requests, attempts, running slots, slots, sinks and chunks, of one source.

The lemmas of the transfer and of optimistic prefill hold here too, but for those that speak of what
the other part stood for: the pages of a transfer are those of a pass, taken as it is sent, and a
pass knows its sinks by its sender. What is added says how far each part is when the other is where
it is.

One source: what a rank computes and what it sends are of the same process (end_to_end_attempts.py).
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
           why="a sender begins with a pass that is whole, and what ends it ends the request"),
    Always("a_handed_over_chunk_was_sent",
           implies(any_of(handed(p, h, c), write(p, h, d, c) != Write.NONE),
                   stage(h).among(Stage.SENDING, Stage.SUCCESS, Stage.FAILED)),
           why="chunks are handed over as a pass is sent, and it runs no more"),
    Always("a_pass_being_read_stays",
           implies(all_of(write(p, h, d, c) == Write.POSTED, sending(p, h) != Sending.GONE),
                   all_of(forward(h) == Forward.WHOLE, HAS_RUNNING_SLOT)),
           why="a place is given back when the engine reads nothing from it"),
)
# What speaks of the other part as one makes do with it where it is alone.
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
