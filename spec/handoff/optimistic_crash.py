"""Optimistic prefill whose servers die: each side gets back the memory that it held for the other.

The tables are those of attempts.py, with crashes, and with the reaction of the other side. The rows
end one request each. A server that dies ends every request that it has, which is one of the runs
that the rows allow. The connection breaks, and the transport reports it to both ends. A later
message reaches the next server: it does not know the request, and answers that it has failed.

The memory of a dead source is free when its device has come to rest, as after any failure.

A source that sends has no clock of its own. If the sink may be dead, the bytes may never land. So
here the detector, or a sink that gives up, ends that wait.
"""

from dataclasses import replace
from typing import Final

from pdproto.spec.handoff.attempts import (
    ACTIVE,
    ENDED,
    FAIL,
    GIVE_UP,
    OPEN,
    PREFILL,
    Receiving,
    RunningSlot,
    Stage,
    decode,
    g,
    h,
    network,
    page,
    prefill,
    receiving,
    stage,
)
from pdproto.spec.handoff.optimistic import FORCED_BACK, LIVENESS, SAFETY, SYSTEM, TOLD
from pdproto.spec.handoff.roles import Attempt, Life, Page, Slot
from pdproto.spec.language import (
    AddRow,
    Configuration,
    Fairness,
    LeadsTo,
    Message,
    ReplaceProperties,
    ReplaceRow,
    Row,
    Sizes,
    Sometimes,
    System,
    Table,
    Timer,
    all_of,
    edited,
    exists,
)

source_gone = Message("source_gone", h, sender=prefill, receiver=decode, reliable=True)
sink_gone = Message("sink_gone", h, sender=decode, receiver=prefill, reliable=True)

CRASH: Final = Table(network, rows=(
    Row("crash_prefill", choose=(h,), when=stage(h).among(*ACTIVE),
        do=[*FAIL, source_gone(h).to(True)], fair=False,
        why="the process dies without a message"),
    Row("crash_decode", choose=(h,), when=receiving(h).among(*OPEN),
        do=[*GIVE_UP, sink_gone(h).to(True)], fair=False,
        why="the process dies, and its memory goes with it"),
))

_SUCCEED: Final = PREFILL.row("succeed")
_NEVER: Final = tuple(claim for claim in SAFETY if not isinstance(claim, Sometimes))
_BY_CLOCK: Final = tuple(replace(claim, under=(Fairness.TIMERS,)) for claim in LIVENESS)

NOTICED: Final = (
    LeadsTo("L7_a_sink_notices_a_crash", source_gone(h) & receiving(h).among(*OPEN),
            receiving(h).among(Receiving.SUCCESS, Receiving.FAILED), under=(Fairness.DETECTORS,),
            why="a sink without memory has published nothing, so it gets no answer"),
    LeadsTo("a_source_notices_a_crash", sink_gone(h) & stage(h).among(*ACTIVE),
            stage(h).among(*ENDED), under=(Fairness.DETECTORS,),
            why="in any state of its work for a dead sink"),
    Sometimes("a_sink_dies_while_it_is_sent_to", sink_gone(h) & (stage(h) == Stage.SENDING)),
    Sometimes("a_source_dies_while_a_page_waits_for_it",
              all_of(source_gone(h), exists(g, page(h, g)))),
)


def _sizes(lives: int, attempts: int) -> Sizes:
    return {Life: lives, Slot: 1, RunningSlot: 1, Page: 1, Attempt: attempts}


CRASHING: Final[System] = edited(
    replace(SYSTEM, faults={"crash": (CRASH,)}, like=SYSTEM), "optimistic-crash",
    ReplaceRow("succeed", replace(
        _SUCCEED, fair=False, why="bytes for a dead sink may never land")),
    AddRow(prefill, Row(
        "lose_sink", on=Timer("heartbeat", detector=True), choose=(h,),
        when=[sink_gone(h), stage(h).among(*ACTIVE)], do=FAIL,
        why="there is no sink to send to, and none to tell")),
    AddRow(decode, Row(
        "lose_source", on=Timer("heartbeat", detector=True), choose=(h,),
        when=[source_gone(h), receiving(h).among(*OPEN)], do=GIVE_UP,
        why="no source will send")),
    ReplaceProperties((*_NEVER, *FORCED_BACK, *_BY_CLOCK, *NOTICED, TOLD)),
    about="Optimistic prefill whose servers die at any point.",
    configurations={
        "default": Configuration(_sizes(1, 2), faults=("crash",), dead_bits=True),
        "lives": Configuration(_sizes(2, 1), faults=("crash",), symmetry=True, dead_bits=True),
        "deep": Configuration(_sizes(2, 2), faults=("crash",), symmetry=True, dead_bits=True),
    },
)
