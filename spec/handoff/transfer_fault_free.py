"""The transfer in which no process dies and no message is lost: which answers end a lease, and
when.

    transfer-timeouts-only  no client leaves, and clocks run out: no end takes that for a death, and
                            a message reports a failure before a clock does
    transfer-landed         a source that has ended never says DRAINED, and no engine has a fence:
                            DONE settles a part that has landed, also when it crosses the abort
    transfer-drained        DONE counts for nothing once the sink has failed: DRAINED is enough
    transfer-silence        no client leaves, no write fails and no clock runs out: only the silence
                            of the other side ends a hand-over early

The second and the third leave out one of two answers to an abort. With both there, either makes up
for the other, and no property shows whether a row takes each of them.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.ends import (
    GIVEN_UP,
    RECEIVING_NOW,
    SENDING_NOW,
    Claim,
    Receiving,
    Sending,
    Write,
    address,
    b,
    c,
    can_fence,
    claim,
    d,
    done,
    feeds,
    h,
    handed,
    has_met,
    lease,
    p,
    receiving,
    sending,
    write,
)
from pdproto.spec.handoff.roles import Chunk, Source
from pdproto.spec.handoff.sink import THREATENS
from pdproto.spec.handoff.source import part
from pdproto.spec.handoff.transfer import NO_ERROR, NO_TIMERS, SYSTEM
from pdproto.spec.handoff.transfer_claims import (
    A_SINK_HEARS,
    A_SOURCE_HEARS,
    GIVEN_BACK,
    LIVENESS,
)
from pdproto.spec.language import (
    Always,
    Configuration,
    DropRow,
    Fairness,
    Ignore,
    LeadsTo,
    ReplaceProperties,
    ReplaceRow,
    Sometimes,
    System,
    all_of,
    edited,
    forall,
    implies,
)

_SIZES: Final = NO_TIMERS.configurations["default"].sizes
_ONE: Final = Configuration(_SIZES, dead_bits=True)
_UNFENCED: Final = replace(_ONE, given={can_fence: lambda _: ()})

TIMEOUTS_ONLY: Final[System] = edited(
    replace(SYSTEM, faults={}, configurations={}, like=SYSTEM), "transfer-timeouts-only",
    DropRow("abort_receive"),
    ReplaceProperties((
        Always("no_end_is_gone_without_a_death",
               (sending(p, h) != Sending.GONE) & (receiving(d, h) != Receiving.GONE),
               why="an end that gives up is Failed; only a dead process is gone"),
        Sometimes("a_source_gives_up", sending(p, h) == Sending.FAILED),
        Sometimes("chunks_are_written_side_by_side", all_of(
            c.before(part), write(p, h, d, c) == Write.POSTED,
            write(p, h, d, part) == Write.POSTED)),
        # No client leaves here, so only the clock of the queue ends such a request.
        Sometimes("decode_may_bound_the_queue_of_a_request", all_of(
            receiving(d, h) == Receiving.FAILED, forall(b, ~address(d, h, b)),
            feeds(p, d), has_met(d, h, p), sending(p, h) == Sending.BOOTSTRAPPING)),
        A_SINK_HEARS,
        A_SOURCE_HEARS,
        *LIVENESS,
    )),
    about="The transfer where no process dies and nothing is lost, and clocks may still run out.",
    configurations={
        "default": replace(_ONE, sizes={**_SIZES, Chunk: 2}),
        "dummy": replace(_ONE, sizes={**_SIZES, Source: 2, Chunk: 2},
                         given={feeds: lambda _: [(0, 0)]}),
    },
)

_ENDED: Final = all_of(forall((p, h), ~SENDING_NOW), forall((d, h), ~RECEIVING_NOW))

LANDED: Final[System] = edited(
    # A source that failed before its part landed sends nothing either, and the lease lasts.
    replace(NO_TIMERS, faults={}, configurations={}, final=_ENDED, like=NO_TIMERS),
    "transfer-landed",
    *map(DropRow, ("say_drained", "give_up_sink", "give_up_source")),
    ReplaceProperties((
        LeadsTo("L4_a_landed_part_needs_no_other_answer",
                all_of(GIVEN_UP, lease(d, h, b), forall(
                    p, implies(feeds(p, d), sending(p, h) == Sending.SUCCESS))),
                ~lease(d, h, b), under=(Fairness.TIMERS, Fairness.CONSUMED),
                why="DONE is enough, and may have crossed the abort"),
        Sometimes("all_have_landed_where_the_sink_has_failed",
                  all_of(GIVEN_UP, lease(d, h, b), sending(p, h) == Sending.SUCCESS,
                         claim(d, h, p) == Claim.OUT)),
        # No process dies or is given up here, so only a client that leaves ends such a request.
        Sometimes("a_client_may_leave_before_there_is_memory", all_of(
            GIVEN_UP, sending(p, h) != Sending.FAILED, forall(b, ~address(d, h, b)))),
        Sometimes("a_client_may_leave_prefill_before_it_sends", all_of(
            sending(p, h) == Sending.FAILED, receiving(d, h) == Receiving.BOOTSTRAPPING)),
        Sometimes("a_client_may_leave_prefill_while_it_sends", all_of(
            sending(p, h) == Sending.FAILED, receiving(d, h) == Receiving.WAITING,
            handed(p, h, c), write(p, h, d, c) == Write.NONE)),
    )),
    about="The transfer whose sources never say DRAINED, on engines without a fence.",
    configurations={"default": _UNFENCED},
)

_UNHEEDED: Final = Ignore(
    done(p, h, d), at=Receiving.FAILED, when=claim(d, h, p).among(*THREATENS),
    why="DRAINED follows",
)

DRAINED: Final[System] = edited(
    replace(NO_TIMERS, faults={}, configurations={}, like=NO_TIMERS), "transfer-drained",
    ReplaceRow("note_landed", _UNHEEDED),
    ReplaceProperties((
        *GIVEN_BACK,
        Sometimes("a_sink_may_call_off_while_parts_come",
                  GIVEN_UP & (claim(d, h, p) == Claim.LANDED),
                  why="a DONE after the failure does not count here, so the claim is older"),
    )),
    about="The transfer whose failed sinks wait for DRAINED, also from a source that has landed.",
    configurations={"default": _UNFENCED},
)

SILENCE: Final[System] = edited(
    # A DONE after the failure does not count here, so a part that has landed had before.
    replace(DRAINED, configurations={}), "transfer-silence",
    *map(DropRow, ("abort_send", "abort_receive", "meet_error")),
    ReplaceRow("ignore_error_transferring_failed", NO_ERROR),
    ReplaceProperties((
        Sometimes("silence_may_fail_a_source",
                  (sending(p, h) == Sending.FAILED) & (receiving(d, h) == Receiving.BOOTSTRAPPING)),
        *(Sometimes(f"silence_may_fail_a_sink_{when}", all_of(
            GIVEN_UP, forall(p, sending(p, h) != Sending.FAILED), state))
          for when, state in (
              ("before_there_is_memory", forall(b, ~address(d, h, b))),
              ("while_it_waits", forall((b, p), all_of(
                  address(d, h, b), sending(p, h) == Sending.BOOTSTRAPPING))),
              ("while_parts_come", claim(d, h, p) == Claim.LANDED))),
    )),
    about="The transfer in which only silence of the other side ends a hand-over early.",
    configurations={"default": replace(_UNFENCED, sizes={**_SIZES, Source: 2})},
)
