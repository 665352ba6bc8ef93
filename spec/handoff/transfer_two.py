"""The transfer with two elements of a sort under loss: one size larger.

For liveness the explorer tells apart elements that it could otherwise exchange. A message that is
delivered once is a different state from one that is not. Two of every sort are then too many. So
each system has two elements of one sort, and of the sorts that those elements share:

    transfer-two-sinks   one source writes to two sinks, each of which may fail or lose a message;
                         messages are delivered again and again, and also only once
    transfer-two-lives   two lives of one sink ask for its one staging buffer, and of one source;
                         messages are delivered again and again until they are lost
    transfer-two-sources two sources, of which each may die and come back, write to one sink, while
                         messages are lost: safety only, which merges states that liveness needs
    transfer-no-memory   two sources or two sinks, and no memory at all: a request that has reached
                         one server only ends all the same
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.ends import (
    RECEIVING_NOW,
    Memory,
    Receiving,
    Sending,
    d,
    feeds,
    h,
    has_met,
    introduce,
    k,
    known,
    memory,
    p,
    receiving,
    sending,
)
from pdproto.spec.handoff.roles import Buffer, Chunk, Life, Page, Sink, Slot, Source
from pdproto.spec.handoff.transfer import NO_TIMEOUTS, SYSTEM
from pdproto.spec.handoff.transfer_claims import (
    A_SINK_HEARS,
    A_SOURCE_HEARS,
    BOUNDED_IF_MET,
    ON_ONE_SIDE_ONLY,
)
from pdproto.spec.language import (
    Configuration,
    Fairness,
    Ignore,
    LeadsTo,
    ReplaceProperties,
    ReplaceRow,
    Sizes,
    Sometimes,
    all_of,
    edited,
    forall,
    implies,
)

_ONE: Final[Sizes] = {
    Source: 1, Sink: 1, Life: 1, Buffer: 1, Chunk: 1, Page: 1, Slot: 1,
}
other = Sink("other")
_FAILED: Final = receiving(d, k) == Receiving.FAILED

# No process dies here, so there is no crash to notice.
_CLAIMS: Final = tuple(
    claim for claim in NO_TIMEOUTS.properties
    if isinstance(claim, LeadsTo) and claim.name not in (
        "L7_a_sink_notices_a_crash", "L1_both_ends_meet")
)

# No end gives up here, so it does not matter whether both ends have met.
_UNANSWERED: Final = ReplaceRow("answer_meeting", Ignore(
    introduce(d, h, p), at=Sending.BOOTSTRAPPING, when=known(p, h, d),
        why="the source has met this sink already"))

TWO_SINKS: Final = edited(
    NO_TIMEOUTS, "transfer-two-sinks", _UNANSWERED, ReplaceProperties((
        *_CLAIMS,
        Sometimes("one_sink_fails_and_the_other_succeeds", all_of(
            receiving(d, h) == Receiving.SUCCESS, receiving(other, h) == Receiving.FAILED)),
    )),
    about="The transfer to two sinks where no end gives up and messages are lost.",
    configurations={
        "deep": Configuration({**_ONE, Sink: 2}, faults=("lossy",), dead_bits=True, symmetry=True),
    },
)

TWO_LIVES: Final = edited(
    NO_TIMEOUTS, "transfer-two-lives", _UNANSWERED,
    ReplaceProperties((
        *(replace(claim, under=(Fairness.TIMERS,)) for claim in _CLAIMS),
        Sometimes("one_life_waits_for_the_other", all_of(
            h.differs(k), memory(d, h) == Memory.ASKED, memory(d, k) == Memory.GIVEN)),
        Sometimes("a_chunk_passes_to_the_waiting_life", all_of(
            h.differs(k), _FAILED, receiving(d, h) == Receiving.SUCCESS)),
        LeadsTo("a_chunk_goes_from_life_to_life",
                all_of(h.differs(k), _FAILED, memory(d, h) == Memory.ASKED),
                memory(d, h) != Memory.ASKED, under=(Fairness.TIMERS,),
                why="the waiting life gets the chunk of the failed one"),
    )),
    about="The transfer of two lives with memory for one, where messages are lost.",
    configurations={
        "deep": Configuration({**_ONE, Life: 2}, faults=("lossy",), dead_bits=True, symmetry=True),
    },
)

TWO_SOURCES: Final = edited(
    SYSTEM, "transfer-two-sources",
    ReplaceProperties(tuple(
        claim for claim in SYSTEM.properties if not isinstance(claim, LeadsTo))),
    about="The transfer from two sources that die and come back, where messages are lost.",
    configurations={
        "deep": Configuration(
            {**_ONE, Source: 2}, faults=("lossy", "restart"), dead_bits=True, symmetry=True),
    },
)

# A request that has reached both servers waits for memory, as long as its server allows.
_WAITS: Final = all_of(receiving(d, h) == Receiving.BOOTSTRAPPING,
                       forall(p, implies(feeds(p, d), has_met(d, h, p))))
_EVERY_FAULT: Final = ("crash", "sink-crash")
NO_MEMORY: Final = edited(
    replace(SYSTEM, like=SYSTEM, final=all_of(
        forall((p, h), sending(p, h) != Sending.TRANSFERRING),
        forall((d, h), ~RECEIVING_NOW | _WAITS))), "transfer-no-memory",
    ReplaceProperties((
        *ON_ONE_SIDE_ONLY, A_SINK_HEARS, A_SOURCE_HEARS, BOUNDED_IF_MET,
        Sometimes("a_request_waits_for_memory_without_a_clock", all_of(
            _WAITS, sending(p, h) == Sending.BOOTSTRAPPING)),
    )),
    about="The transfer of two sources or to two sinks, where there is no memory.",
    configurations={
        "default": Configuration({**_ONE, Source: 2, Buffer: 0}, faults=_EVERY_FAULT,
                                 dead_bits=True, symmetry=True),
        "sinks": Configuration({**_ONE, Sink: 2, Buffer: 0}, faults=_EVERY_FAULT,
                               dead_bits=True, symmetry=True),
    },
)
