"""Another algorithm, for comparison: a pipeline agrees by two passes of request lists. It fails.

A pipeline of prefill stages agreed in this way before there was a stream of decisions: sglang
#26912 is an orphan that it left, #27028 the merged fix, #31869 a later one.

Pass 1 (collect): The lists go down the pipeline. Each stage takes a request out of the good list
unless it is ready there too, and puts it into the bad list if it has failed there.
Pass 2 (decide): The lists go round again, and each stage checks its own requests again. It admits
ready ones, drains failed ones, leaves the rest, and hands on *the requests that it has removed*.

One machine plays all stages for one request, because the lists are in one place at a time and each
stage acts only on its own queue. The passes go on for ever. There are three forms:

TWO_PASS       the first: a stage leaves a request alone if it is not in the lists.
LOCAL_DRAIN    as merged: a stage drains a request that has failed there, in the lists or not.
NO_SECOND_LOOK the later one: besides, a stage obeys the lists without a second check.
"""

from typing import Final

from pdproto.spec.handoff.roles import Life
from pdproto.spec.language import (
    ANY,
    AddClause,
    AddRow,
    Always,
    Call,
    Configuration,
    Fairness,
    LeadsTo,
    Machine,
    ReplaceRow,
    Row,
    Sometimes,
    Sort,
    State,
    System,
    Table,
    all_of,
    any_of,
    auto,
    edited,
    exists,
    forall,
    implies,
)


class Place(Sort, ordered=True, prefix="s"):
    """A stage of the pipeline, in order."""


class Pass(State):
    BETWEEN = auto()
    COLLECT = auto()
    DECIDE = auto()


class Listed(State):
    """The list that the request is in, as the lists travel."""

    NOWHERE = auto()
    GOOD = auto()
    BAD = auto()


class Local(State):
    QUEUED = auto()
    READY = auto()
    FAILED = auto()
    ADMITTED = auto()
    DRAINED = auto()


h, here, there, other = Life("h"), Place("here"), Place("there"), Place("other")

pipeline = Machine("pipeline", h)
phase = pipeline.function("phase", Pass)
listed = pipeline.function("listed", Listed)
local = pipeline.function("local", Local, Place, edges={
    Local.QUEUED: (Local.READY, Local.FAILED, Local.ADMITTED, Local.DRAINED),
    Local.READY: (Local.FAILED, Local.ADMITTED, Local.DRAINED),
    Local.FAILED: (Local.DRAINED, Local.ADMITTED),
})
passed = pipeline.relation("passed", Place)

# The lists are at stage a: it has not seen them in this pass, and every stage before it has.
HERE: Final = (~passed(h, here), forall(there, implies(there.before(here), passed(h, there))))
REMOVED: Final = (Local.ADMITTED, Local.DRAINED)

COLLECT: Final = (
    Row("begin", at=Pass.BETWEEN, to=Pass.COLLECT, choose=(here,),
        when=[~exists(there, there.before(here)), local(h, here) == Local.READY],
        do=[listed(h).to(Listed.GOOD), passed(h, here).to(True)]),
    Row("begin_bad", at=Pass.BETWEEN, to=Pass.COLLECT, choose=(here,),
        when=[~exists(there, there.before(here)), local(h, here) == Local.FAILED],
        do=[listed(h).to(Listed.BAD), passed(h, here).to(True)]),
    Row("begin_empty", at=Pass.BETWEEN, to=Pass.COLLECT, choose=(here,),
        when=[~exists(there, there.before(here)), local(h, here).among(Local.QUEUED, *REMOVED)],
        do=[passed(h, here).to(True)],
        why="the lists travel because of other requests, whatever this one does"),
    Row("keep", at=Pass.COLLECT, choose=(here,), when=[*HERE, local(h, here) == Local.READY],
        do=[passed(h, here).to(True)]),
    Row("add_bad", at=Pass.COLLECT, choose=(here,), when=[*HERE, local(h, here) == Local.FAILED],
        do=[listed(h).to(Listed.BAD), passed(h, here).to(True)]),
    Row("keep_bad", at=Pass.COLLECT, choose=(here,),
        when=[*HERE, listed(h) == Listed.BAD, local(h, here).among(Local.QUEUED, *REMOVED)],
        do=[passed(h, here).to(True)]),
    Row("strike", at=Pass.COLLECT, choose=(here,),
        when=[*HERE, listed(h) != Listed.BAD, local(h, here).among(Local.QUEUED, *REMOVED)],
        do=[listed(h).to(Listed.NOWHERE), passed(h, here).to(True)]),
    Row("turn", at=Pass.COLLECT, to=Pass.DECIDE, when=forall(other, passed(h, other)),
        do=[passed(h, ANY).to(False)]),
)

IN_LIST: Final = listed(h) != Listed.NOWHERE

DECIDE: Final = (
    Row("admit",
        at=Pass.DECIDE, choose=(here,), when=[*HERE, IN_LIST, local(h, here) == Local.READY],
        do=[local(h, here).to(Local.ADMITTED), listed(h).to(Listed.GOOD), passed(h, here).to(True)],
        why="the stage trusts its own check, even if the lists say that the request has failed "
            "elsewhere"),
    Row("drain",
        at=Pass.DECIDE, choose=(here,), when=[*HERE, IN_LIST, local(h, here) == Local.FAILED],
        do=[local(h, here).to(Local.DRAINED), listed(h).to(Listed.BAD), passed(h, here).to(True)]),
    Row("leave", at=Pass.DECIDE, choose=(here,),
        when=[*HERE, IN_LIST, local(h, here).among(Local.QUEUED, *REMOVED)],
        do=[listed(h).to(Listed.NOWHERE), passed(h, here).to(True)],
        why="the request is not ready any more, or gone: this stage removes nothing, and reports "
            "that"),
    Row("skip", at=Pass.DECIDE, choose=(here,), when=[*HERE, ~IN_LIST],
        do=[passed(h, here).to(True)],
        why="this pass ignores a request in no list"),
    Row("finish", at=Pass.DECIDE, to=Pass.BETWEEN, when=forall(other, passed(h, other)),
        do=[passed(h, ANY).to(False), listed(h).to(Listed.NOWHERE)]),
)

REQUEST: Final = (
    Row("bootstrap", on=Call("bootstrapped", here), when=local(h, here) == Local.QUEUED,
        do=[local(h, here).to(Local.READY)]),
    Row("abort", on=Call("abort", here), when=local(h, here).among(Local.QUEUED, Local.READY),
        do=[local(h, here).to(Local.FAILED)],
        why="the abort comes down the pipeline too, and reaches each stage at another time"),
)

PROPERTIES: Final = (
    Always("S5_same_queue",
           implies(all_of(phase(h) == Pass.BETWEEN, local(h, here).among(*REMOVED)),
                   local(h, there).among(*REMOVED)),
           why="between the passes every stage has the same requests in its queue"),
    Sometimes("all_admit", forall(here, local(h, here) == Local.ADMITTED)),
    Always("S7_same_outcome",
           implies(local(h, here) == Local.ADMITTED, local(h, there) != Local.DRAINED),
           why="no stage runs a request that another has dropped"),
    Sometimes("all_drain", forall(here, local(h, here) == Local.DRAINED)),
    LeadsTo("L3_no_orphan",
            all_of(local(h, here) == Local.FAILED,
                   forall(there, any_of(here.same(there), local(h, there) == Local.DRAINED))),
            local(h, here) == Local.DRAINED,
            under=(Fairness.TIMERS,),
            why="a failed request that all other stages have dropped is dropped here too"),
)

TWO_PASS: Final = System(
    "two-pass",
    "Two passes of request lists down a pipeline, as in sglang before #27028.",
    tables=(Table(pipeline, state=phase, rows=(*COLLECT, *DECIDE, *REQUEST)),),
    properties=PROPERTIES,
    configurations={
        "default": Configuration({Life: 1, Place: 2}),
        "deep": Configuration({Life: 1, Place: 3}),
    },
)

DRAIN_UNLISTED: Final = (
    AddClause("skip", local(h, here) != Local.FAILED),
    AddRow(pipeline, Row(
        "drain_unlisted", at=Pass.DECIDE, choose=(here,),
        when=[*HERE, ~IN_LIST, local(h, here) == Local.FAILED],
        do=[local(h, here).to(Local.DRAINED), listed(h).to(Listed.BAD), passed(h, here).to(True)],
        why="the fix: a request that has failed here does not stay here",
    )),
)

LOCAL_DRAIN: Final = edited(
    TWO_PASS, "two-pass-local-drain", *DRAIN_UNLISTED,
    about="Two passes as merged in #27028: a failed request is drained in the list or not.",
)

NO_SECOND_LOOK: Final = edited(
    TWO_PASS, "two-pass-no-second-look", *DRAIN_UNLISTED,
    ReplaceRow("admit", Row(
        "admit", at=Pass.DECIDE, choose=(here,),
        when=[*HERE, listed(h) == Listed.GOOD, ~local(h, here).among(*REMOVED)],
        do=[local(h, here).to(Local.ADMITTED), passed(h, here).to(True)],
    )),
    ReplaceRow("drain", Row(
        "drain", at=Pass.DECIDE, choose=(here,),
        when=[*HERE, listed(h) == Listed.BAD, ~local(h, here).among(*REMOVED)],
        do=[local(h, here).to(Local.DRAINED), passed(h, here).to(True)],
    )),
    ReplaceRow("leave", Row(
        "leave", at=Pass.DECIDE, choose=(here,),
        when=[*HERE, IN_LIST, local(h, here).among(*REMOVED)], do=[passed(h, here).to(True)],
        why="this stage has removed it already",
    )),
    about="Two passes whose lists are obeyed without a second check, as in #31869, and #27028.",
)
