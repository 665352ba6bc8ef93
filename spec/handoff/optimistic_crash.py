"""Optimistic prefill whose servers die: what one side holds for the other comes back all the same.

The tables are those of attempts.py, with crashes, and with what the other side does about them. The
rows end one request each: a server that dies does so for every request that it has, and what comes
of that is among what they allow. The connection breaks, and both ends of it are told. Whoever asks
later asks the server that came after: it knows no such request, and says so as of a failed one.

What a dead source held is free when its device has come to rest, as after any failure.

A source that sends has no clock of its own. Where the sink may be dead nobody can count on it that
the bytes land, so here it is the detector, or a sink that gives up, which ends that wait.
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
        why="the process dies, and says nothing"),
    Row("crash_decode", choose=(h,), when=receiving(h).among(*OPEN),
        do=[*GIVE_UP, sink_gone(h).to(True)], fair=False,
        why="the process dies, and its memory with it"),
))

_SUCCEED: Final = PREFILL.row("succeed")
_NEVER: Final = tuple(claim for claim in SAFETY if not isinstance(claim, Sometimes))
_BY_CLOCK: Final = tuple(replace(claim, under=(Fairness.TIMERS,)) for claim in LIVENESS)

NOTICED: Final = (
    LeadsTo("L7_a_sink_notices_a_crash", source_gone(h) & receiving(h).among(*OPEN),
            receiving(h).among(Receiving.SUCCESS, Receiving.FAILED), under=(Fairness.DETECTORS,),
            why="a sink without memory has published nothing, so that nobody answers it"),
    LeadsTo("a_source_notices_a_crash", sink_gone(h) & stage(h).among(*ACTIVE),
            stage(h).among(*ENDED), under=(Fairness.DETECTORS,),
            why="whatever it was doing for a sink that is no more"),
    Sometimes("a_sink_dies_while_it_is_sent_to", sink_gone(h) & (stage(h) == Stage.SENDING)),
    Sometimes("a_source_dies_while_a_page_waits_for_it",
              all_of(source_gone(h), exists(g, page(h, g)))),
)


def _sizes(lives: int, attempts: int) -> Sizes:
    return {Life: lives, Slot: 1, RunningSlot: 1, Page: 1, Attempt: attempts}


CRASHING: Final[System] = edited(
    replace(SYSTEM, faults={"crash": (CRASH,)}, like=SYSTEM), "optimistic-crash",
    ReplaceRow("succeed", replace(
        _SUCCEED, fair=False, why="what is sent to a sink that has died may never land")),
    AddRow(prefill, Row(
        "lose_sink", on=Timer("heartbeat", detector=True), choose=(h,),
        when=[sink_gone(h), stage(h).among(*ACTIVE)], do=FAIL,
        why="nobody is there to send to, and nobody to be told")),
    AddRow(decode, Row(
        "lose_source", on=Timer("heartbeat", detector=True), choose=(h,),
        when=[source_gone(h), receiving(h).among(*OPEN)], do=GIVE_UP,
        why="nobody will send")),
    ReplaceProperties((*_NEVER, *FORCED_BACK, *_BY_CLOCK, *NOTICED, TOLD)),
    about="Optimistic prefill whose servers die at any point.",
    configurations={
        "default": Configuration(_sizes(1, 2), faults=("crash",), dead_bits=True),
        "lives": Configuration(_sizes(2, 1), faults=("crash",), symmetry=True, dead_bits=True),
        "deep": Configuration(_sizes(2, 2), faults=("crash",), symmetry=True, dead_bits=True),
    },
)
