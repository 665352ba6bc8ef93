"""More properties of the transfer: those about its ranks, and those that need no clock.

A rank with the same KV as another rank feeds no sink, and still has every life.
"""

from typing import Final

from pdproto.spec.handoff.ends import (
    GIVEN_UP,
    RECEIVING_ENDED,
    RECEIVING_NOW,
    SENDING_ENDED,
    SENDING_NOW,
    Claim,
    Drain,
    Memory,
    Receiving,
    Sending,
    Write,
    abort,
    abort_ack,
    address,
    b,
    c,
    can_fence,
    claim,
    d,
    drain,
    drained,
    feeds,
    g,
    h,
    handed,
    has_met,
    introduce,
    k,
    known,
    kv,
    lease,
    m,
    memory,
    p,
    page,
    publish,
    receiving,
    sending,
    slot,
    target,
    write,
)
from pdproto.spec.handoff.sink import ABORTED_AGAIN, ALL_LANDED, SPOILT, UNANSWERED
from pdproto.spec.handoff.source import other, part, spot
from pdproto.spec.language import (
    Always,
    Drains,
    Fairness,
    LeadsTo,
    OnRow,
    Sometimes,
    all_of,
    any_of,
    exists,
    forall,
    implies,
)

# A living writer that the sink's engine cannot fence, and whose write does not end.
IN_QUARANTINE: Final = all_of(
    claim(d, h, p) == Claim.FENCING, ~can_fence(d), sending(p, h) != Sending.GONE
)
# A request waits for memory, while some is in quarantine. A server without any says so (L11).
SHORT_OF_MEMORY: Final = (memory(d, h) == Memory.ASKED) & exists((k, b, p), all_of(
    lease(d, k, b), claim(d, k, p) == Claim.FENCING, ~can_fence(d), sending(p, k) != Sending.GONE))
ITS_SINK_IS_SHORT: Final = exists(d, feeds(p, d) & SHORT_OF_MEMORY)
CHUNK_IS_BACK: Final = ~lease(d, h, b) | exists(p, IN_QUARANTINE)
KV_IS_BACK: Final = (
    ~kv(p, h) | (sending(p, h) == Sending.GONE) | exists(d, feeds(p, d) & IN_QUARANTINE)
)

WITHDRAWN: Final = Always(
    "a_failed_sink_asks_for_no_memory",
    implies(receiving(d, h) == Receiving.FAILED, memory(d, h) == Memory.UNASKED),
    why="a failure withdraws the request for memory, granted or not")

LOST_WHEN_OVER: Final = OnRow(
    "a_source_loses_a_sink_that_it_knows_and_that_is_over", "lose_sink",
    known(p, h, d) & ((receiving(d, h) == Receiving.GONE) | (claim(d, h, p) == Claim.FENCED)),
    why="it has no connection to one that it does not know, and one that waits for memory goes on")

HANDED_OVER: Final = (
    Always("chunks_are_handed_over_in_order",
           implies(handed(p, h, c) & part.before(c), handed(p, h, part)),
           why="chunks are sent in the order in which they are computed"),
    Always("a_transferring_source_has_a_chunk",
           implies(sending(p, h).among(Sending.TRANSFERRING, Sending.SUCCESS),
                   exists(c, handed(p, h, c))),
           why="a transfer begins with its first chunk"),
)

GRANTED_ONCE: Final = Always(
    "a_lease_was_granted", implies(lease(d, h, b), memory(d, h) != Memory.ASKED),
    why="memory is granted once: a life that has a lease waits for no more")

# These need only detectors; a system with a fairness of its own replaces it.
A_SINK_HEARS: Final = LeadsTo(
    "L2_a_sink_hears_of_a_failure",
    RECEIVING_NOW & feeds(p, d) & (sending(p, h) == Sending.FAILED), RECEIVING_ENDED,
    under=(Fairness.DETECTORS,), why="a message reports the failure, and no clock",
)
A_SOURCE_HEARS: Final = LeadsTo(
    "L2_a_source_hears_of_a_failure", GIVEN_UP & feeds(p, d) & SENDING_NOW, SENDING_ENDED,
    under=(Fairness.DETECTORS,), why="a message reports the failure, and no clock",
)

# In composed systems another row opens the receiver. A publication would hide that it tells nobody.
INTRODUCED_ITSELF: Final = Always(
    "a_sink_that_waits_for_memory_has_introduced_itself",
    implies((receiving(d, h) == Receiving.BOOTSTRAPPING) & feeds(p, d), introduce(d, h, p)),
    why="a source that meets no sink lets its clock run, and fails a request that only waits",
)

# These need no memory.
ON_ONE_SIDE_ONLY: Final = (
    LeadsTo("L1_a_request_that_a_source_lacks_ends",
            RECEIVING_NOW & feeds(p, d) & (sending(p, h) == Sending.UNKNOWN),
            RECEIVING_ENDED | (sending(p, h) != Sending.UNKNOWN), under=(Fairness.TIMERS,),
            why="decode waits for each of its sources with a clock, also while memory is short"),
    LeadsTo("L1_a_request_that_a_sink_lacks_ends",
            SENDING_NOW & feeds(p, d) & (receiving(d, h) == Receiving.UNKNOWN),
            SENDING_ENDED | (receiving(d, h) != Receiving.UNKNOWN), under=(Fairness.TIMERS,),
            why="prefill waits for each of its sinks with a clock"),
)
ONCE_TOO: Final = (Fairness.TIMERS, Fairness.CONSUMED)
GIVEN_BACK: Final = (
    LeadsTo("L4_a_failed_sink_gets_its_chunk_back", GIVEN_UP & lease(d, h, b), ~lease(d, h, b),
            under=ONCE_TOO, why="every source drains, or is gone and then fenced"),
    LeadsTo("L4_an_ended_source_gets_its_pages_back",
            kv(p, h) & sending(p, h).among(Sending.SUCCESS, Sending.FAILED), KV_IS_BACK,
            under=ONCE_TOO, why="the pages come back as soon as the last write has ended"),
)
BOTH_MEET: Final = LeadsTo(
    "L1_both_ends_meet",
    all_of(sending(p, h) == Sending.BOOTSTRAPPING, receiving(d, h) == Receiving.BOOTSTRAPPING,
           feeds(p, d)),
    any_of(known(p, h, d) & has_met(d, h, p), sending(p, h) != Sending.BOOTSTRAPPING,
           receiving(d, h) != Receiving.BOOTSTRAPPING),
    under=ONCE_TOO, why="then neither side has a time-out for the request before there is memory",
)

SPOILT_ONLY: Final = OnRow(
    "only_spoilt_parts_fail_by_the_digest", "find_spoilt", address(d, h, b) & SPOILT,
    why="a digest that agrees fails no hand-over, and neither does memory of another life",
)

BOUNDED_IF_MET: Final = OnRow(
    "decode_bounds_the_queue_of_a_request_that_prefill_has", "give_up_queue",
    forall(p, implies(feeds(p, d), has_met(d, h, p) & (sending(p, h) != Sending.UNKNOWN))),
    why="a request that a source lacks does not wait for memory: another clock ends it",
)

PARTIES: Final = (
    Always("sinks_speak_only_to_their_sources",
           implies(any_of(introduce(d, h, p), publish(d, h, p), abort(d, h, p)), feeds(p, d)),
           why="a rank that takes no part does not fail with the others"),
    Always("sinks_wait_only_for_their_sources",
           implies(~claim(d, h, p).among(Claim.NONE, Claim.TOLD, Claim.OUT), feeds(p, d)),
           why="a sink neither stops nor fences a rank that cannot write, nor waits for it"),
    WITHDRAWN,
    SPOILT_ONLY,
    OnRow("a_source_that_is_met_has_the_request", "note_met",
          (sending(p, h) != Sending.UNKNOWN) & feeds(p, d),
          why="a source confirms a request that has reached it, and only to its own sinks"),
    OnRow("prefill_does_not_time_a_request_that_decode_has", "give_up_waiting",
          exists(other, feeds(p, other) & ~known(p, h, other)) | forall(other, ~feeds(p, other)),
          why="the request waits for memory on decode, and decode's server limits the wait"),
    OnRow("decode_does_not_time_a_request_that_prefill_has", "give_up_bootstrap",
          exists(p, feeds(p, d) & ~has_met(d, h, p)),
          why="the request waits for memory, as long as the bound of the queue allows, if there is "
              "one"),
    BOUNDED_IF_MET,
    LOST_WHEN_OVER,
    *HANDED_OVER,
    Always("an_aborting_sink_is_told_of_no_failure",
           implies(drain(p, h, d) != Drain.UNASKED, ~known(p, h, d)),
           why="the sink has ended the hand-over itself, and waits for another answer"),
    Always("a_drained_answer_is_noted",
           implies(drained(p, h, d), drain(p, h, d) == Drain.SAID),
           why="a repeated abort gets a second answer"),
    OnRow("the_dead_say_nothing_of_drains", "say_drained",
          sending(p, h).among(Sending.SUCCESS, Sending.FAILED),
          why="a successor cannot know which writes the process before it has under way"),
    Always("a_source_with_a_write_in_doubt_has_failed",
           implies(write(p, h, d, c) == Write.IN_DOUBT,
                   sending(p, h).among(Sending.FAILED, Sending.GONE)),
           why="the source does not wait for a write that the engine has given up"),
    Always("a_landed_claim_has_landed",
           implies(claim(d, h, p) == Claim.LANDED, write(p, h, d, c) == Write.LANDED),
           why="a sink counts a part as landed only when its source has seen it land"),
    Always("a_drained_claim_was_asked_for",
           implies(claim(d, h, p) == Claim.DRAINED, drain(p, h, d) != Drain.UNASKED),
           why="DRAINED answers an abort, and nothing else"),
    OnRow("a_write_has_a_destination", "post", feeds(p, d) & target(p, h, d, b),
          why="a write goes only where this life's sink has published"),
    OnRow("a_source_with_all_chunks_waits_for_its_writes", "give_up_sending",
          exists(part, ~handed(p, h, part)),
          why="a posted write lands or is refused, and then the source knows the result"),
    OnRow("a_failed_sink_publishes_no_more", "publish_again",
          receiving(d, h).among(Receiving.WAITING, Receiving.TRANSFERRING)
          & (claim(d, h, p) == Claim.OUT),
          why="the sink repeats its address only while it wants bytes of that source"),
    OnRow("L7_a_landed_source_is_not_missed", "lose_source", claim(d, h, p) != Claim.LANDED,
          why="all of its part has landed"),
    OnRow("L7_only_a_dead_source_is_lost", "lose_source", sending(p, h) == Sending.GONE,
          why="a source that stands still goes on, and its request with it"),
    OnRow("L7_only_a_source_of_this_sink_is_lost", "lose_source", feeds(p, d),
          why="a rank that takes no part does not fail with its process"),
    OnRow("L7_silence_fails_a_request_that_needs_the_source", "give_up_source",
          feeds(p, d) & (claim(d, h, p) != Claim.LANDED),
          why="a rank that takes no part, or whose part has landed, may stand still"),
    OnRow("L7_silence_fails_a_request_that_needs_the_sink", "give_up_sink",
          known(p, h, d) & feeds(p, d),
          why="a sink that has never come may stand still: another clock ends the request"),
    OnRow("an_answered_abort_is_not_repeated", "abort_again",
          ABORTED_AGAIN,
          why="the sink repeats an abort only until the answer has come"),
    LeadsTo("L1_a_sink_with_all_parts_ends",
            (receiving(d, h) == Receiving.TRANSFERRING) & ALL_LANDED,
            receiving(d, h).among(Receiving.SUCCESS, Receiving.FAILED, Receiving.GONE),
            under=(Fairness.DETECTORS,),
            why="the sink commits, or finds a part spoilt, and no clock has to run out for it"),
    Sometimes("a_source_is_stopping", claim(d, h, p) == Claim.STOPPING),
    Sometimes("a_source_without_an_address_need_not_drain",
              (claim(d, h, p) == Claim.DRAINED) & (drain(p, h, d) == Drain.ASKED)),
)

ALL_ADDRESSED: Final = OnRow(
    "a_sent_chunk_has_a_destination", "send",
    forall(other, implies(feeds(p, other), exists(spot, target(p, h, other, spot)))),
    why="prefill polls WaitingForInput when every sink has published where its part goes",
)

_CALLED_OFF_BY_SINK: Final = all_of(
    receiving(d, h) == Receiving.FAILED, sending(p, h) == Sending.BOOTSTRAPPING
)
_CALLED_OFF_BY_SOURCE: Final = all_of(
    sending(p, h) == Sending.FAILED, drain(p, h, d) == Drain.UNASKED
)

# Where nothing is lost, nothing is sent again, and no clock ends anything. A property of all
# staging buffers is true where there are none.
SKIPPED: Final = (
    Sometimes("S11_a_failure_skips_a_posted_chunk", all_of(
        sending(p, h) == Sending.FAILED, write(p, h, d, c) == Write.SKIPPED, ~kv(p, h))),
    Always("S11_only_a_failure_skips",
           implies(write(p, h, d, c) == Write.SKIPPED,
                   sending(p, h).among(Sending.FAILED, Sending.GONE)),
           why="a hand-over that succeeds has written every chunk"),
)

PROMPTLY: Final = (
    LeadsTo(
        "L7_a_source_notices_a_crash",
        all_of(sending(p, h) == Sending.BOOTSTRAPPING, known(p, h, d),
               receiving(d, h) == Receiving.GONE),
        sending(p, h) != Sending.BOOTSTRAPPING,
        under=ONCE_TOO, why="a source without its sink waits no longer, although no clock runs",
    ),
    LeadsTo(
        "an_address_is_learnt",
        all_of(receiving(d, h) == Receiving.WAITING, feeds(p, d),
               sending(p, h) == Sending.BOOTSTRAPPING),
        any_of(exists(b, target(p, h, d, b)), sending(p, h) != Sending.BOOTSTRAPPING,
               receiving(d, h) != Receiving.WAITING),
        under=ONCE_TOO,
        why="the address arrives once, and that is enough",
    ),
    Always("M3_2_a_stopped_source_has_acknowledged",
           implies(drain(p, h, d) != Drain.UNASKED, abort_ack(p, h, d)),
           why="the source acknowledges before it drains, which may take as long as its writes"),
    Sometimes("a_sink_may_call_off_before_there_is_memory",
              _CALLED_OFF_BY_SINK & forall(b, ~address(d, h, b))),
    Sometimes("a_sink_may_call_off_while_it_waits",
              _CALLED_OFF_BY_SINK & forall(b, address(d, h, b))),
    Sometimes("a_source_may_call_off_before_it_sends",
              _CALLED_OFF_BY_SOURCE & forall(c, ~handed(p, h, c))),
    Sometimes("a_source_may_call_off_while_it_sends",
              _CALLED_OFF_BY_SOURCE & forall((b, c), all_of(
                  target(p, h, d, b), handed(p, h, c), write(p, h, d, c) == Write.NONE))),
)

SETTLED: Final = any_of(
    ~claim(d, h, p).among(*UNANSWERED, Claim.FENCING),
    IN_QUARANTINE,
    receiving(d, h) == Receiving.GONE,
)

LIVENESS: Final = (
    LeadsTo("L1_a_source_ends", SENDING_NOW, SENDING_ENDED | ITS_SINK_IS_SHORT,
            under=(Fairness.TIMERS,),
            why="every accepted request ends on the prefill server, if no memory is in quarantine"),
    LeadsTo("L1_a_sink_ends", RECEIVING_NOW, RECEIVING_ENDED | SHORT_OF_MEMORY,
            under=(Fairness.TIMERS,),
            why="every accepted request ends on the decode server, if no memory is in quarantine"),
    LeadsTo("L5_a_request_gets_memory_or_ends", memory(d, h) == Memory.ASKED,
            (memory(d, h) != Memory.ASKED) | SHORT_OF_MEMORY, under=(Fairness.TIMERS,),
            why="the life that has the memory ends, and then the next one gets it"),
    *ON_ONE_SIDE_ONLY,
    LeadsTo("a_failure_is_told_to_each_sink_once",
            known(p, h, d) & (sending(p, h) == Sending.FAILED),
            ~known(p, h, d) | (sending(p, h) == Sending.GONE), under=(Fairness.TIMERS,),
            why="the source tells each sink once, and then forgets it"),
    LeadsTo("L3_every_claim_is_settled", GIVEN_UP & feeds(p, d), SETTLED,
            under=(Fairness.TIMERS,),
            why="no sink asks a silent source for ever"),
    Drains("L4_every_chunk_comes_back", forall((d, h, b), CHUNK_IS_BACK), under=(Fairness.TIMERS,),
           why="under any loss and any death; or it is in quarantine while the writer lives"),
    Drains("L4_every_page_comes_back", forall((d, h, g), ~page(d, h, g)), under=(Fairness.TIMERS,),
           why="only its own life keeps a page"),
    Drains("L4_every_slot_comes_back", forall((d, h, m), ~slot(d, h, m)), under=(Fairness.TIMERS,),
           why="only its own life keeps a metadata slot"),
    LeadsTo("L4_source_pages_come_back", kv(p, h), KV_IS_BACK | ITS_SINK_IS_SHORT,
            under=(Fairness.TIMERS,),
            why="the last write of the life has ended, or has been refused"),
)
