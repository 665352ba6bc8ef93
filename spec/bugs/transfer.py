"""Defects between real sources and sinks, as edits of the transfer's tables.

A property whose name begins with S is broken by one finite run. One that begins with L is broken by
a run that never reaches its goal. The sizes are the smallest at which the defect shows.
"""

from typing import Final

from pdproto.spec.bugs.bug import Bug
from pdproto.spec.bugs.restarts import RESTARTS
from pdproto.spec.bugs.silence import SILENCE
from pdproto.spec.bugs.transfer_sizes import (
    CRASHING,
    LOSSY,
    ONE,
    SINK_CRASHING,
    TWO_CHUNKS,
    TWO_LIVES,
    TWO_SINKS,
    TWO_SOURCES,
    WRITE,
)
from pdproto.spec.handoff.direct import FREE_PAGES, IN_PLACE
from pdproto.spec.handoff.ends import (
    Claim,
    Drain,
    Receiving,
    Sending,
    Write,
    abort,
    abort_ack,
    b,
    c,
    claim,
    d,
    done,
    drain,
    drained,
    engine,
    failed,
    feeds,
    h,
    has_met,
    introduce,
    k,
    known,
    kv,
    lease,
    p,
    page,
    publish,
    receiving,
    sink,
    sink_over,
    source,
    write,
)
from pdproto.spec.handoff.sink import (
    ABORTED_AGAIN,
    ALL_MET,
    NO_CLAIM,
    SOME_UNMET,
    STOP_ALL,
    UNANSWERED,
    UNAWARE,
    UNDER_WAY,
)
from pdproto.spec.handoff.source import (
    ALL_LANDED,
    ENDED,
    QUIET,
    RUNNING,
    UNMET,
    UNREAD,
    other,
    part,
)
from pdproto.spec.handoff.transfer import DIRECT, LOSS, NO_TIMEOUTS, NO_TIMERS, SYSTEM
from pdproto.spec.handoff.transfer_two import NO_MEMORY
from pdproto.spec.language import (
    ANY,
    AddClause,
    AddEffect,
    AddRow,
    DropClause,
    DropEffect,
    DropRow,
    Ignore,
    OnRow,
    ReplaceProperties,
    ReplaceRow,
    Retarget,
    Row,
    Timer,
    all_of,
    each,
    edited,
    exists,
    forall,
    implies,
)


def _missing(row: str) -> tuple[ReplaceProperties, DropRow]:
    """The system without this row, and without a property about it alone."""
    said = tuple(c for c in SYSTEM.properties if not isinstance(c, OnRow) or c.row != row)
    return ReplaceProperties(said), DropRow(row)


SINK_HEARS: Final = "L2_a_sink_hears_of_a_failure"
SOURCE_HEARS: Final = "L2_a_source_hears_of_a_failure"
CHUNK_BACK: Final = "L4_a_failed_sink_gets_its_chunk_back"
READ: Final = "S2_complete_while_the_memory_is_read"

FREE_AT_ONCE: Final = lease(d, h, ANY).to(False)

RELEASE: Final = (
    Bug("B05", "sglang #27372, #24527",
        "After an abort, late chunks overwrote another request's KV.",
        edited(SYSTEM, "B05", DropEffect("abort_receive", STOP_ALL),
               DropClause("end_lease", NO_CLAIM)),
        ONE, WRITE, note="the sink sends no abort, and frees its memory"),
    Bug("B05-worker", "sglang #27372",
        "The transfer worker went on writing chunks of a request that had failed.",
        edited(SYSTEM, "B05-worker",
               Retarget("post", at=(Sending.TRANSFERRING, Sending.FAILED))),
        ONE, WRITE, note="the source does not test its state before each write, so DRAINED is "
                         "false"),
    Bug("B22", "sglang #32564, #35049, #35360",
        "With the light notification the next request silently held another's KV.",
        edited(SYSTEM, "B22", AddEffect("abort_receive", FREE_AT_ONCE)),
        ONE, WRITE, note="the sink frees the memory as soon as it has sent ABORT"),
    Bug("R1", "sglang #27372, as it was merged",
        "ABORT_ACK meant that the abort had arrived, and was taken for the end of writing.",
        edited(SYSTEM, "R1", ReplaceRow("note_stopping", Row(
            "note_stopping", on=abort_ack(p, h, d),
            at=Receiving.FAILED, when=claim(d, h, p) == Claim.OUT,
            do=[claim(d, h, p).to(Claim.DRAINED)]))),
        ONE, WRITE, note="the light notification with an answer"),
    Bug("R2", "sglang #38961, the 30 s of the deferred release",
        "A held page was given to the next request after a time-out, and written to later.",
        edited(SYSTEM, "R2", AddRow(sink, Row(
            "release_by_clock", on=Timer("held_too_long"), at=Receiving.FAILED, choose=(b,),
            when=lease(d, h, b), do=[lease(d, h, b).to(False)]))),
        ONE, WRITE, note="a time-out proves nothing"),
    Bug("B27", "sglang #38961 item 4",
        "When one prefill rank failed, memory was freed while its siblings were still writing.",
        edited(SYSTEM, "B27", AddEffect("hear_failure", FREE_AT_ONCE)),
        TWO_SOURCES, WRITE, note="the sink holds memory only after its own aborts"),
    Bug("B41", "vLLM #32255",
        "A request was aborted while its KV was loaded; the load ended in another request's "
        "blocks.",
        edited(SYSTEM, "B41", DropClause("end_lease", NO_CLAIM)),
        ONE, WRITE, note="the sink does not wait for the writers"),
    Bug("B54", "Mooncake #4247, #3508",
        "The transfer call returned a time-out while the adapter was still writing.",
        edited(SYSTEM, "B54", DropClause("say_drained", QUIET)),
        ONE, "S10_drained_means_quiescent", note="a failed write is taken for one that has ended"),
    Bug("B54-skipped", "sglang #36707 (2026, open), NIXL",
        "A chunk was skipped, and ABORT_ACK went out while a failed write could still land.",
        edited(SYSTEM, "B54-skipped", DropClause("say_drained", QUIET),
               AddClause("say_drained", QUIET | all_of(
                   forall(part, write(p, h, d, part) != Write.POSTED),
                   exists(part, write(p, h, d, part) == Write.SKIPPED)))),
        TWO_CHUNKS, "S10_drained_means_quiescent", note="a skipped chunk clears the count"),
    Bug("B74", "sglang 0.5.19 to 0.5.21, late ACKs",
        "An acknowledgement of an earlier life of the room counted for the present one.",
        edited(SYSTEM, "B74", AddRow(engine, Row(
            "drain_of_another_life", choose=(d, h, k, p),
            when=[h.differs(k), drained(p, k, d), claim(d, h, p) == Claim.STOPPING],
            do=[claim(d, h, p).to(Claim.DRAINED)]))),
        TWO_LIVES, WRITE, note="the message names the room and no life"),
    Bug("R19", "sglang, from the code of 0.5.23",
        "An abort of an unknown room was answered and forgotten; the request then came, and wrote.",
        edited(SYSTEM, "R19", Retarget("stop", at=RUNNING), AddRow(source, Row(
            "drain_unknown", on=abort(d, h, p), at=Sending.UNKNOWN, send=[drained(p, h, d)]))),
        ONE, WRITE, note="DRAINED must also cover writes that have not begun"),
    Bug("B23", "sglang #38961 item 1, #40645",
        "Every abort during a write took the full 30 s, and then memory was freed unsafely.",
        edited(NO_TIMERS, "B23", DropRow("say_drained")),
        ONE, CHUNK_BACK, note="the source drops the pending answer when it clears the request"),
    Bug("B23-fan-out", "sglang #38961 item 2",
        "Two decode ranks aborted one room, and only the second ever got an answer.",
        edited(NO_TIMERS, "B23-fan-out",
               AddClause("stop_late", forall(other, other.same(d) | (
                   drain(p, h, other) != Drain.ASKED))),
               AddRow(source, Row(
                   "stop_another", on=abort(d, h, p), at=ENDED, choose=(other,),
                   when=[drain(p, h, d) == Drain.UNASKED, other.differs(d),
                         drain(p, h, other) == Drain.ASKED],
                   do=[drain(p, h, d).to(Drain.ASKED), drain(p, h, other).to(Drain.SAID)],
                   send=[abort_ack(p, h, d)]))),
        TWO_SINKS, CHUNK_BACK, note="the source has one place for the address of an answer"),
    Bug("B23-cleared", "sglang #38961 item 3",
        "An abort of a room that was cleared while a chunk was outstanding never got an answer.",
        edited(NO_TIMERS, "B23-cleared", AddClause("stop_late", QUIET), AddRow(source, Ignore(
            abort(d, h, p), at=ENDED, when=[drain(p, h, d) == Drain.UNASKED, ~QUIET],
            name="ignore_abort_of_a_cleared_room", why="a chunk is outstanding"))),
        ONE, CHUNK_BACK, note="the source answers if no chunk is outstanding, and otherwise "
                              "forgets the abort"),
    Bug("B46", "LMCache #2786",
        "Pins on decode pages accumulated: only one of the ways to end released them.",
        edited(SYSTEM, "B46", DropEffect("hear_failure", page(d, h, ANY).to(False))),
        ONE, "L4_every_page_comes_back"),
    Bug("copy-runs-on", "pdproto itself, on devices that do their work late",
        "An abort freed pages while a device was still copying into them.",
        edited(IN_PLACE, "copy-runs-on", AddEffect("abort_receive", FREE_PAGES)),
        ONE, "S1_writes_stay_in_own_pages",
        note="a kernel that was started is a write until its event has happened"),
)

SOURCE_PAGES: Final = (
    Bug("B36", "sglang #36926, #34149",
        "An abort freed source pages while a launched chunk still referred to them.",
        edited(SYSTEM, "B36", AddEffect("abort_send", kv(p, h).to(False))),
        ONE, "S8_source_pages_are_held"),
    Bug("B43", "vLLM #21570",
        "The prefill server's time to live freed blocks that decode was reading.",
        edited(SYSTEM, "B43", AddRow(source, Row(
            "expire_kv", on=Timer("time_to_live"), at=RUNNING, when=kv(p, h),
            do=[kv(p, h).to(False)]))),
        ONE, "S8_source_pages_are_held"),
    Bug("B62", "sglang #38961 item 5",
        "Source pages were used again while the adapter was reading them.",
        edited(SYSTEM, "B62", DropClause("release_kv", UNREAD)),
        ONE, "S8_source_pages_are_held"),
    Bug("B49", "vLLM #46283, #41269",
        "Prefill blocks were held for ever for requests that decode had never admitted.",
        edited(SYSTEM, "B49", *_missing("give_up_waiting")),
        ONE, "L4_source_pages_come_back"),
)

COMPLETION: Final = (
    Bug("B09", "sglang #24522, #24539",
        "A failed room came back to life, and broke the next request of that number.",
        edited(SYSTEM, "B09", DropRow("ignore_open_sender_failed"),
               Retarget("begin_send", at=(Sending.UNKNOWN, Sending.FAILED))),
        ONE, "sending_edges", note="an entry is created from any state"),
    Bug("B10", "sglang #30352",
        "An aborted request turned to Success when its last chunk landed.",
        edited(SYSTEM, "B10", Retarget("succeed", at=(Sending.TRANSFERRING, Sending.FAILED))),
        ONE, "sending_edges", note="the status is the maximum of the old and the new"),
    Bug("B15", "sglang #15027",
        "With pipeline stages decode answered nonsense: the parts of two ranks counted as one.",
        edited(DIRECT, "B15", AddEffect("take_part", claim(d, h, ANY).to(Claim.LANDED))),
        TWO_SOURCES, READ, note="landed parts are counted without their rank"),
    Bug("B40", "LMCache #1350",
        "Decode read before the data was there: completion was signalled too early.",
        edited(DIRECT, "B40", ReplaceRow("succeed", Row(
            "succeed", at=Sending.TRANSFERRING, to=Sending.SUCCESS,
            when=forall((other, part), implies(
                feeds(p, other), write(p, h, other, part).among(Write.POSTED, Write.LANDED))),
            send=[each(d, done(p, h, d), where=feeds(p, d))]))),
        ONE, READ),
    Bug("R8a", "sglang, from the code of 0.5.23",
        "A late Success of an earlier life of the room completed the present one.",
        edited(DIRECT, "R8a", AddRow(engine, Row(
            "done_of_another_life", choose=(d, h, k, p),
            when=[h.differs(k), done(p, k, d), receiving(d, h) == Receiving.WAITING,
                  claim(d, h, p) == Claim.OUT],
            do=[receiving(d, h).to(Receiving.TRANSFERRING), claim(d, h, p).to(Claim.LANDED)]))),
        TWO_LIVES, READ, note="the status names the room and no life"),
    Bug("R25", "sglang, from the code of 0.5.23",
        "Decode answered Success for a request that prefill had reported as failed.",
        edited(SYSTEM, "R25", AddRow(source, Row(
            "report_anyway", at=Sending.FAILED, when=ALL_LANDED,
            send=[each(d, done(p, h, d), where=feeds(p, d))]))),
        ONE, "S14_no_success_after_a_failure",
        note="the source decides on the status message before the state"),
)

PROPAGATION: Final = (
    Bug("B31", "sglang #28651, #36033, #36612",
        "Prefill aborted without a message; decode held memory for 300 s, and throughput fell.",
        edited(NO_TIMERS, "B31", DropRow("tell_failure")), ONE, SINK_HEARS),
    Bug("B51", "vLLM #52234",
        "The request that waited for a failed load did not learn of it.",
        edited(NO_TIMERS, "B51", ReplaceRow("hear_failure", Ignore(
            failed(p, h, d), at=UNDER_WAY, why="the sink leaves the failure to another part"))),
        ONE, SINK_HEARS),
    Bug("B52", "Dynamo #13703, #14507",
        "Cancelling on decode never reached the prefill worker.",
        edited(NO_TIMERS, "B52", DropEffect("abort_receive", STOP_ALL)), ONE, SOURCE_HEARS),
    Bug("B50", "mori #29133, #31876",
        "ABORT was dropped by a check in front of its handler.",
        edited(NO_TIMERS, "B50", Retarget("stop", at=(Sending.UNKNOWN, Sending.BOOTSTRAPPING)),
               AddRow(source, Ignore(abort(d, h, p), at=Sending.TRANSFERRING,
                                     when=drain(p, h, d) == Drain.UNASKED,
                                     why="the message looks malformed"))),
        ONE, CHUNK_BACK),
    Bug("R4", "sglang, from the code of 0.5.23",
        "An abort came before the request and was forgotten; the request then waited for 300 s.",
        edited(NO_TIMERS, "R4", Retarget("stop", at=RUNNING), AddRow(source, Ignore(
            abort(d, h, p), at=Sending.UNKNOWN, when=drain(p, h, d) == Drain.UNASKED,
            why="the source does not know this room"))),
        ONE, SOURCE_HEARS),
    Bug("R5", "sglang #9726, #30769; tokenspeed #1427",
        "Decode published its memory after prefill had given up, and waited for 300 s.",
        edited(NO_TIMERS, "R5",
               ReplaceRow("refuse_meeting", Ignore(
                   introduce(d, h, p), at=Sending.FAILED, why="the room is over")),
               ReplaceRow("refuse_address", Ignore(
                   publish(d, h, p), at=Sending.FAILED, why="the room is over"))),
        ONE, SINK_HEARS),
    Bug("R3", "sglang #27372",
        "ABORT was sent once, and lost when the connection broke.",
        edited(NO_TIMEOUTS, "R3", DropRow("abort_again")), LOSSY, SOURCE_HEARS),
    Bug("R22", "sglang, from the code of 0.5.23",
        "The last status was lost, and decode aborted a transfer that had succeeded.",
        edited(NO_TIMEOUTS, "R22", ReplaceRow("done_again", Ignore(
            publish(d, h, p), at=Sending.SUCCESS, why="the source has sent its answer already"))),
        LOSSY, "L1_a_sink_with_all_parts_commits"),
)

TIMERS: Final = (
    Bug("B28", "sglang #34692, nixl #795",
        "A request hung after its prefill server had died: one backend had no heartbeat.",
        edited(NO_TIMERS, "B28", DropRow("lose_source")), CRASHING, "L7_a_sink_notices_a_crash"),
    Bug("B38", "sglang #28086, #28236",
        "Prefill kept requests whose decode server had died.",
        edited(SYSTEM, "B38", *_missing("lose_sink")),
        SINK_CRASHING, "L1_a_source_ends", note="the source gets no message"),
    Bug("B38-pages", "sglang #28086, #28236",
        "Prefill kept the pages of requests whose decode server had died.",
        edited(SYSTEM, "B38-pages", ReplaceRow("refuse", Row(
            "refuse", choose=(p, h, d, c),
            when=[write(p, h, d, c) == Write.POSTED, claim(d, h, p) == Claim.FENCED],
            do=[write(p, h, d, c).to(Write.REFUSED)]))),
        SINK_CRASHING, "L4_source_pages_come_back", note="a write to a dead sink never ends"),
    Bug("queue-timed", "sglang, from the code of 0.5.23",
        "Under load, requests that waited for memory of decode failed on prefill after 300 s.",
        edited(SYSTEM, "queue-timed", DropClause("give_up_waiting", UNMET)),
        ONE, "prefill_does_not_time_a_request_that_decode_has",
        note="the bootstrap time-out runs until decode has sent its addresses"),
    Bug("queue-timed-by-decode", "pdproto itself",
        "Under load, requests that waited for memory of decode failed on decode after 120 s.",
        edited(SYSTEM, "queue-timed-by-decode", DropClause("give_up_bootstrap", SOME_UNMET)),
        ONE, "decode_does_not_time_a_request_that_prefill_has",
        note="neither side learned that the request had reached both servers"),
    Bug("met-by-any", "pdproto itself, as an edit of its tables",
        "A request that only one of two prefill ranks had received waited for ever for memory.",
        edited(NO_MEMORY, "met-by-any",
               DropEffect("note_met", has_met(d, h, p).to(True)),
               AddEffect("note_met", has_met(d, h, ANY).to(True))),
        NO_MEMORY.configurations["default"], "L1_a_request_that_a_source_lacks_ends",
        note="the confirmation of one source counted for all sources"),
    Bug("queue-timeout-unmet", "pdproto itself, as an edit of its tables",
        "A request that prefill had not received failed as one for which decode has no memory.",
        edited(SYSTEM, "queue-timeout-unmet", DropClause("give_up_queue", ALL_MET)),
        ONE, "decode_bounds_the_queue_of_a_request_that_prefill_has",
        note="the bound of the queue ran from the beginning"),
    Bug("silence-as-abort", "pdproto itself, found by fuzzed nodes on a busy machine",
        "Prefill lost a decode server that stood still, and answered an abort that none had sent.",
        edited(SYSTEM, "silence-as-abort", AddRow(source, Row(
            "take_for_aborted", on=Timer("silence"), at=Sending.UNKNOWN, to=Sending.FAILED,
            choose=(d,), when=known(p, h, d),
            do=[drain(p, h, d).to(Drain.ASKED), known(p, h, d).to(False)],
            send=[abort_ack(p, h, d)]))),
        ONE, "no_peer_is_at_fault", note="its request had not come; `lose_sink` has no answer"),
    Bug("fence-untold", "pdproto itself, found by the explorer",
        "An abort was lost, its source was fenced, and waited for an address for ever.",
        edited(LOSS, "fence-untold", DropEffect("finish_fence", sink_over(d, h, p).to(True)),
               DropClause("abort_again", ABORTED_AGAIN),
               AddClause("abort_again", claim(d, h, p).among(*UNANSWERED))),
        LOSS.configurations["default"], "L1_a_source_ends",
        note="no clock runs once both ends have met"),
    Bug("B64", "sglang #31800",
        "Admission slots leaked: a transfer that stuck half-way had no timer.",
        edited(SYSTEM, "B64", Retarget("give_up_transfer", at=Receiving.WAITING)),
        TWO_SOURCES, "L1_a_sink_ends", note="the timer runs in WaitingForInput only"),
    Bug("R12", "sglang #31800",
        "Memory of a failed request was held for ever, because one source never answered.",
        edited(SYSTEM, "R12", DropRow("fence_silent")), ONE, "L4_every_chunk_comes_back",
        note="deferred release without its bound"),
)

QUARANTINE: Final = (
    Bug("abort-in-quarantine", "pdproto itself, found by the proof that every hand-over drains",
        "An abort was lost, its source counted as silent, and no engine could fence it: the source "
        "never learned of the failure, and sent for ever.",
        edited(LOSS, "abort-in-quarantine",
               DropClause("abort_again", ABORTED_AGAIN),
               AddClause("abort_again", claim(d, h, p).among(*UNANSWERED) | UNAWARE)),
        LOSS.configurations["no-fence"], "L1_a_source_ends",
        note="the sink no longer repeated the abort once it had asked for a fence"),
)

BUGS: Final[tuple[Bug, ...]] = (
    RELEASE + SOURCE_PAGES + COMPLETION + PROPAGATION + TIMERS + QUARANTINE + RESTARTS + SILENCE
)
